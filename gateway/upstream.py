"""One upstream: its terms, and the lines that lead to it. The HTTP client's errors end here and go on as ours."""

import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

import httpx
from msgspec import Struct

from gateway.calls import HeaderList
from gateway.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from gateway.headers import RawHeaders
from gateway.http1 import Content, Tap
from gateway.line import Incoming, LeanLine, Line, SeamLine
from gateway.mask import mask_of
from gateway.transport import LeanTransport, Timeouts

LAST_STATUS: Final = 599
"""A server could not pass a higher one on."""
BESIDE: Final = 64
"""Connections of the pool for control calls."""


class UpstreamAnswer:
    """The answer of one attempt: its head, then its body as it comes. Close it in every path."""

    __slots__ = ("_incoming", "_mask", "done", "headers", "name", "secret", "status")

    def __init__(self, incoming: Incoming, name: str, secret: bytes | None = None) -> None:
        """Take the head. `secret`: what the body is not to repeat."""
        self._incoming, self.name, self.secret = incoming, name, secret
        self._mask = mask_of(secret)
        self.done = False
        """The body has come to its end: there is nothing left to drop."""
        self.status: int = incoming.status
        self.headers: HeaderList = tuple(incoming.headers)

    def at_once(self) -> bytes | None:
        """The whole body, coded as it came, where it is all here; None where it has to be waited for."""
        data = self._incoming.at_once
        if data is None:
            return None
        self.done = True
        return data if self._mask is None else self._mask.feed(data) + self._mask.close()

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, coded as it came. Raises UpstreamBroken and UpstreamTimeout."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._incoming.__anext__()
        except StopAsyncIteration:
            self.done = True
            held = self._mask.close() if self._mask is not None else b""
            if held:
                return held
            raise
        except httpx.HTTPError as error:
            raise of_ours(error, self.name) from error
        return data if self._mask is None else self._mask.feed(data)

    async def flow(self, tap: Tap) -> None:
        """Hand pieces of the body to the tap as they come, until that takes no more or a read has to tell the rest."""
        mask = self._mask
        try:
            await self._incoming.flow(tap if mask is None else lambda data: tap(mask.feed(data)))
        except httpx.HTTPError as error:
            raise of_ours(error, self.name) from error

    @property
    def arrived(self) -> bool:
        """All of the body is here: reads need no time. False also where nobody knows."""
        return self._incoming.arrived

    async def aclose(self) -> None:
        """Drop what is left. Idempotent."""
        await self._incoming.aclose()


class Terms(Struct, frozen=True, kw_only=True):
    """What is set about one upstream, as far as its client cares. Times in seconds."""

    name: str
    url: str
    secret: bytes | None = None
    """Its own key; None: the caller's credentials are passed on."""
    version_path: str | None = None
    forward_trace: bool = False
    connect_timeout: float = 5.0
    first_byte_timeout: float = 600.0
    idle_timeout: float = 300.0
    control_timeout: float = 2.0
    max_connections: int = 1000


class Upstream:
    """The client of one upstream: an address, a pool, time limits."""

    def __init__(self, terms: Terms, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """The default transport is the one that measures best behind httpx's interface."""
        self.terms = terms
        url = httpx.URL(terms.url)
        limits: Timeouts = {
            "connect": terms.connect_timeout,
            "pool": terms.connect_timeout,
            "write": terms.idle_timeout,
            "first_byte": terms.first_byte_timeout,
            "read": terms.idle_timeout,
        }
        self._line: Line
        self._beside: Line
        if transport is not None:
            self._line = self._beside = SeamLine(url, limits, transport)
        else:
            self._line = LeanLine(url, limits, LeanTransport(max_connections=terms.max_connections))
            # Calls that have to get through beside a thousand streams wait in no queue of theirs.
            self._beside = LeanLine(url, limits, LeanTransport(max_connections=BESIDE))
        self.host: Final = url.host
        self.port: Final = url.port or (443 if url.scheme == "https" else 80)

    async def send(
        self, method: str, target: bytes, headers: RawHeaders, content: Content, *, beside: bool = False
    ) -> UpstreamAnswer:
        """Send a request; the answer once its head is here. `target`: path and query as they go behind the address.

        `beside`: on the small pool of its own that control calls have. Raises UpstreamUnreachable, UpstreamBroken,
        UpstreamTimeout.
        """
        line, name = self._beside if beside else self._line, self.terms.name
        try:
            answer = UpstreamAnswer(await line.send(method, target, headers, content), name, self.terms.secret)
        except httpx.HTTPError as error:
            raise of_ours(error, name) from error
        except httpx.InvalidURL as error:
            raise UpstreamBroken(f"upstream {name}: the path makes no address", "protocol") from error
        if answer.status > LAST_STATUS:
            await answer.aclose()
            raise UpstreamBroken(f"upstream {name} answered with a status there is none of", "protocol")
        return answer

    async def aclose(self) -> None:
        """Close the pools."""
        await self._line.aclose()
        await self._beside.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def of_ours(error: httpx.HTTPError, name: str) -> UpstreamError:
    """The error of ours that stands for one of the client's."""
    if isinstance(error, httpx.TimeoutException):
        what = {httpx.ConnectTimeout: "no connection", httpx.PoolTimeout: "no free connection"}.get(
            type(error), "no answer"
        )
        return UpstreamTimeout(f"upstream {name}: {what} within the time limit", "timeout")
    if isinstance(error, httpx.ConnectError):
        if isinstance(error.__cause__, ssl.SSLError):
            return UpstreamUnreachable(f"upstream {name}: no TLS connection", "tls")
        return UpstreamUnreachable(f"upstream {name} cannot be reached", "connect")
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return UpstreamBroken(f"upstream {name} broke the connection", "reset")
    return UpstreamBroken(f"upstream {name} did not speak HTTP to the end", "protocol")
