"""A server that does over real sockets what a script says, connection by connection, and a loop to run a test on."""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

import httpx
import pytest
import uvloop

from gateway.transport import Incoming, LeanTransport

OK: Final = b"HTTP/1.1 200 OK\r\n"
HELLO: Final = OK + b"Content-Length: 5\r\n\r\nhello"
LIMIT_SECONDS: Final = 60.0

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Script = Callable[["Peer"], Awaitable[None]]
on_both_loops = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["on asyncio", "on uvloop"]
)


def run(loop: LoopFactory, main: Coroutine[Any, Any, None]) -> None:
    """Run a test on a loop, in bounded time; what it left open for the garbage collector is a warning, so an error."""
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(main, LIMIT_SECONDS))
    gc.collect()


class Peer:
    """One connection as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer
        self.sent = 0

    async def head(self) -> bytes:
        """The head of the next request."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """Write and wait until the socket took it."""
        self._writer.write(data)
        await self._writer.drain()
        self.sent += len(data)

    async def answer(self, *wires: bytes) -> None:
        """Read a request without a body for each of these, and send it."""
        for wire in wires:
            await self.head()
            await self.send(wire)

    async def closed(self) -> None:
        """Wait until the client closes."""
        while await self.reader.read(65536):
            pass

    def close(self) -> None:
        """Send what is left, then the end."""
        self._writer.close()

    def reset(self) -> None:
        """Break the connection off with an RST."""
        plug: socket.socket = self._writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class Served:
    """A running server: its address, and the peers in the order they connected."""

    def __init__(self) -> None:
        self.url = ""
        self.peers: list[Peer] = []
        self.ended = 0
        """Scripts that came to their end, their connection closed."""


@contextlib.asynccontextmanager
async def serve(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    """Serve: connection n runs script n, further ones the last. A script that fails makes the test fail."""
    served, running, errors = Served(), set[asyncio.Task[Any]](), list[BaseException]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        peer = Peer(reader, writer)
        served.peers.append(peer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await scripts[min(len(served.peers), len(scripts)) - 1](peer)
        except Exception as error:  # noqa: BLE001 - raised again where the test ends
            errors.append(error)
        finally:
            writer.transport.close() if tls is None else writer.transport.abort()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            running.discard(task)
            served.ended += 1

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    host, port = server.sockets[0].getsockname()
    served.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield served
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    if errors:
        raise errors[0]


async def always(peer: Peer) -> None:
    """Answer every request with a greeting."""
    while True:
        await peer.answer(HELLO)


async def send(transport: LeanTransport, url: str, method: str = "GET", **kwargs: Any) -> httpx.Response:
    """Send a request, with `timeout` as its limits, and wait for the head."""
    limits = kwargs.pop("timeout", {})
    request = httpx.Request(method, url, extensions={"timeout": limits}, **kwargs)
    return await transport.handle_async_request(request)


async def fetch(transport: LeanTransport, url: str, method: str = "GET", **kwargs: Any) -> bytes:
    """Send a request and read its whole body."""
    return await (await send(transport, url, method, **kwargs)).aread()


async def tapped(transport: LeanTransport, url: str, *, turns: int = 1000, **kwargs: Any) -> bytes:
    """The same with the body handed over as it comes, so many pieces at a time; the next one is read."""
    stream = (await send(transport, url, **kwargs)).stream
    assert isinstance(stream, Incoming)
    parts: list[bytes] = []

    def tap(data: bytes) -> bool:
        parts.append(data)
        return len(parts) % turns > 0

    try:
        while True:
            await stream.flow(tap)
            parts.append(await anext(stream))
    except StopAsyncIteration:
        return b"".join(parts)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true; `run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 - sockets and counters, which set no event
        await asyncio.sleep(0.001)
