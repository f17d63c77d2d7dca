"""A lean HTTP/1.1 client behind httpx's seam: httpx.Request in, httpx.Response out, httpx's errors.

`pool` keeps the books and does no I/O, `connection` does the I/O of one exchange, `http1` knows what the bytes mean. No
proxies, redirects, cookies or decompression: a gateway passes those on.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Self, TypeAlias

import httpx

from gateway.connection import READ_BYTES, Connection, Origin
from gateway.http1 import DONE, Outgoing, Tap, encode
from gateway.pool import Pool
from gateway.resolve import Resolver

Timeouts: TypeAlias = Mapping[str, float | None]
"""Seconds, by the names httpx has for them."""
_PORTS: Final = {b"http": 80, b"https": 443}


class Incoming(httpx.AsyncByteStream):
    """A response on its way: its head, and its body as it comes, which is what httpx calls a stream.

    The connection goes back exactly once: at the end, on an error or when closed.
    """

    def __init__(self, connection: Connection, release: Callable[[Connection], None]) -> None:
        """Take over a connection that holds a head."""
        self._connection: Connection | None = connection
        self._release = release
        response = connection.response
        self.status: int = response.status
        self.headers = response.headers
        """In order, names in lower case."""
        self.version, self.reason = response.version, response.reason
        self._whole: bytes | None = None
        if response.phase == DONE:
            self._whole = connection.take()
            self._end()

    @property
    def at_once(self) -> bytes | None:
        """The whole body where it came together with the head; None where some of it is still to come."""
        return self._whole

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            data, self._whole = self._whole or b"", b""
        else:
            try:
                data = await connection.read()
            except BaseException:
                self._end()
                raise
            if connection.response.phase == DONE:
                self._end()
        if not data:
            raise StopAsyncIteration
        return data

    async def flow(self, tap: Tap) -> None:
        """Hand what comes to the tap until that takes no more, or the next piece has to say what has happened."""
        if self._connection is not None:
            try:
                await self._connection.flow(tap)
            except BaseException:
                self._end()
                raise

    @property
    def arrived(self) -> bool:
        """All of the body is here: reads need no time."""
        return self._connection is None or self._connection.response.phase == DONE

    async def aclose(self) -> None:
        """Drop what is left. Idempotent."""
        self._whole = b""
        self._end()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._release(connection)


class LeanTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over kept connections, on one event loop.

    Limits of a request stand in `extensions["timeout"]`, as httpx has it; `first_byte` there is the silence allowed
    before the head where it differs from `read`.
    A request that finds its reused connection closed goes out once more, unless its body is a stream. A TLS failure is
    a ConnectError whose cause is an ssl.SSLError.
    """

    def __init__(
        self,
        *,
        max_connections: int = 1000,
        keepalive_expiry: float = 60.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Limits: connections over all origins, seconds one may be idle. TLS is verified unless told otherwise."""
        scratch = memoryview(bytearray(READ_BYTES))
        self._pool = Pool(max_connections, keepalive_expiry, lambda origin: Connection(origin, self._lost, scratch))
        self._keepalive_expiry = keepalive_expiry
        self._ssl_context = ssl_context
        self._resolver = Resolver()
        self._closed = False
        self._closing: set[Connection] = set()
        self._all_lost: asyncio.Future[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def open(self) -> int:
        """Connections that hold a slot: being opened, in an exchange, idle."""
        return self._pool.open

    @property
    def idle(self) -> int:
        """Connections between two exchanges."""
        return self._pool.idle

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the head of its response. Raises httpx's TransportErrors."""
        limits: Timeouts = request.extensions.get("timeout", {})
        outgoing = encode(request)
        incoming = await self.exchange(origin_of(request.url), outgoing, limits)
        extensions = {"http_version": incoming.version, "reason_phrase": incoming.reason}
        return httpx.Response(incoming.status, headers=incoming.headers, stream=incoming, extensions=extensions)

    async def exchange(self, origin: Origin, outgoing: Outgoing, limits: Timeouts) -> Incoming:
        """The same without httpx's objects."""
        if origin[0] == b"https":
            outgoing = outgoing.in_steps()
        connection, closing = self._pool.assign(origin, time.monotonic())
        if closing:
            self._close(closing)
        if connection is None:
            connection = await self._wait(origin, limits.get("pool"))
        try:
            while True:
                try:
                    if not connection.opened:
                        await self._connect(connection, limits.get("connect"))
                    await connection.exchange(outgoing, limits)
                    break
                except httpx.TransportError:
                    if not (connection.stale and outgoing.repeatable):
                        raise
                    self._close([connection])
                    connection = self._pool.replace(connection)
        except BaseException:
            self._release(connection)
            raise
        return Incoming(connection, self._release)

    async def aclose(self) -> None:
        """Close every connection, also those in use, and wait until the sockets are gone."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._close(self._pool.clear())
        if self._closing:
            self._all_lost = asyncio.get_running_loop().create_future()
            await self._all_lost

    async def _wait(self, origin: Origin, limit: float | None) -> Connection:
        waiter = self._pool.wait(origin)
        try:
            async with asyncio.timeout(limit):
                return await waiter
        except BaseException as error:
            self._pool.leave(waiter)
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            if isinstance(error, TimeoutError):
                raise httpx.PoolTimeout(f"no connection became free within {limit} s") from error
            raise

    async def _connect(self, connection: Connection, limit: float | None) -> None:
        scheme, host, port = connection.origin
        if self._closed:
            raise httpx.ConnectError("the transport is closed")
        if scheme == b"https" and self._ssl_context is None:
            self._ssl_context = httpx.create_ssl_context()
        context = self._ssl_context if scheme == b"https" else None
        try:
            async with asyncio.timeout(limit):
                try:
                    await self._open(connection, host.decode("ascii"), port, context)
                except BaseException:
                    connection.give_up()
                    raise
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {limit} s") from error
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error)) from error

    async def _open(self, connection: Connection, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Connect to the first address of the host that answers."""
        name = host if context is not None else None
        connect = asyncio.get_running_loop().create_connection
        *others, last = await self._resolver.addresses(host, port)
        for address in others:
            with suppress(OSError):
                await connect(lambda: connection, address, port, ssl=context, server_hostname=name)
                return
        await connect(lambda: connection, last, port, ssl=context, server_hostname=name)

    def _release(self, connection: Connection) -> None:
        closing = self._pool.release(connection, time.monotonic())
        if closing:
            self._close(closing)
        if self._sweeper is None and not self._closed:
            self._sweeper = asyncio.get_running_loop().call_later(self._keepalive_expiry, self._sweep)

    def _close(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            if connection.opened:
                self._closing.add(connection)
            connection.close()

    def _sweep(self) -> None:
        now = time.monotonic()
        closing, due = self._pool.expire(now)
        self._close(closing)
        self._sweeper = None if due is None else asyncio.get_running_loop().call_later(due - now, self._sweep)

    def _lost(self, connection: Connection) -> None:
        self._pool.forget(connection)
        self._closing.discard(connection)
        if not self._closing and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)


def origin_of(url: httpx.URL) -> Origin:
    """Where a URL leads. Raises UnsupportedProtocol."""
    scheme = url.raw_scheme
    if scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"not an http or https URL: {url.scheme}")
    return scheme, url.raw_host, url.port or _PORTS[scheme]
