"""The ways to one upstream: our own transport without detours, and any other one behind httpx's interface.

On our own nothing is made of httpx's but its errors: a Request and a Response cost a seventh of a whole call.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable
from typing import Final, Protocol, Self, cast

import httpx

from gateway.bulk import Edited, joined
from gateway.headers import RawHeaders
from gateway.http1 import Content, Tap, write
from gateway.transport import LeanTransport, Timeouts, origin_of

BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})
"""Methods that say nothing of a length when they have no body."""


class Incoming(Protocol):
    """An answer on its way. Raises httpx's errors."""

    @property
    def status(self) -> int:
        """As it came."""

    @property
    def headers(self) -> RawHeaders:
        """Names in lower case, in the order they came."""

    @property
    def at_once(self) -> bytes | None:
        """The whole body where it came together with the head; None where some of it is still to come."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    async def flow(self, tap: Tap) -> None:
        """Hand pieces to the tap, if this can, until that takes no more or a read has to tell what comes next."""

    @property
    def arrived(self) -> bool:
        """All of the body is here: reads need no time. False also where nobody knows."""

    async def aclose(self) -> None:
        """Drop what is left. Idempotent."""


class Line(Protocol):
    """Carries requests to one upstream."""

    def send(self, method: str, target: bytes, headers: RawHeaders, content: Content) -> Awaitable[Incoming]:
        """Send a request; the answer once its head is here. `target` goes behind the address. Raises httpx's errors."""

    async def aclose(self) -> None:
        """Close the connections."""


class LeanLine:
    """Our own transport."""

    __slots__ = ("_base", "_host", "_limits", "_origin", "_transport")

    def __init__(self, url: httpx.URL, limits: Timeouts, transport: LeanTransport) -> None:
        """Work out once what is the same for every request to this address."""
        self._origin, self._host = origin_of(url), (b"host", url.netloc)
        self._base = base_of(url)
        self._limits, self._transport = limits, transport

    def send(self, method: str, target: bytes, headers: RawHeaders, content: Content) -> Awaitable[Incoming]:
        """Send."""
        headers = [self._host, *framing_of(method, headers, content), *headers]
        outgoing = write(method, self._base + target, headers, content)
        return self._transport.exchange(self._origin, outgoing, self._limits)

    async def aclose(self) -> None:
        """Close the pool."""
        await self._transport.aclose()


class SeamLine:
    """Any transport that httpx knows."""

    def __init__(self, url: httpx.URL, limits: Timeouts, transport: httpx.AsyncBaseTransport) -> None:
        """Take the address, the limits as httpx has them, and the transport."""
        self._url, self._limits, self._transport = url, limits, transport
        self._base = base_of(url)

    async def send(self, method: str, target: bytes, headers: RawHeaders, content: Content) -> Incoming:
        """Send."""
        url = self._url.copy_with(raw_path=self._base + target)
        if isinstance(content, Edited):
            content = joined(content)
        headers = [(b"host", url.netloc), *framing_of(method, headers, content), *headers]
        request = httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": self._limits})
        return _Answer(await self._transport.handle_async_request(request))

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()


class _Answer:
    """An httpx.Response as an answer on its way."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks = aiter(cast("AsyncIterable[bytes]", response.stream))
        self.status: int = response.status_code
        self.headers = [(name.lower(), value) for name, value in response.headers.raw]
        self.at_once = None
        self.arrived = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def flow(self, tap: Tap) -> None:
        """Nothing flows: httpx gives what is asked for."""

    async def aclose(self) -> None:
        await self._response.aclose()


def framing_of(method: str, headers: RawHeaders, content: Content) -> RawHeaders:
    """What the head says of where the body ends; a stream whose length the caller told keeps that."""
    if isinstance(content, bytes):
        return [(b"content-length", b"%d" % len(content))] if content or method not in BODILESS else []
    if isinstance(content, Edited):
        return [(b"content-length", b"%d" % content.size)]
    told = any(name == b"content-length" for name, _ in headers)
    return [] if told else [(b"transfer-encoding", b"chunked")]


def base_of(url: httpx.URL) -> bytes:
    """The path that every target goes behind."""
    return url.raw_path.rstrip(b"/")
