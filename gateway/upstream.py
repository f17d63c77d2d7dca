"""One upstream, and the only file that knows the HTTP client. Its errors end here and go on as ours."""

import ssl
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

import httpx
from msgspec import Struct

from gateway.calls import HeaderList
from gateway.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from gateway.headers import RawHeaders
from gateway.mask import mask_of
from gateway.transport import LeanTransport

MOST_URLS: Final = 256
"""Addresses kept ready; targets come from callers, so there is an end to it."""
BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "DELETE"})
"""Methods that say nothing of a length when they have no body."""
LAST_STATUS: Final = 599
"""A server could not pass a higher one on."""
BESIDE: Final = 64
"""Connections of the pool for control calls."""


class UpstreamAnswer:
    """The answer of one attempt: its head, then its body as it comes. Close it in every path."""

    __slots__ = ("_chunks", "_mask", "_response", "done", "headers", "name", "secret", "status")

    def __init__(self, response: httpx.Response, name: str, secret: bytes | None = None) -> None:
        """Take the head. `secret`: what the body is not to repeat."""
        self._response, self.name, self.secret = response, name, secret
        self._mask = mask_of(secret)
        self._chunks = aiter(response.stream)  # type: ignore[arg-type]  # from an asynchronous transport
        self.done = False
        """The body has come to its end: there is nothing left to drop."""
        self.status: int = response.status_code
        self.headers: HeaderList = tuple((key.lower(), value) for key, value in response.headers.raw)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, coded as it came. Raises UpstreamBroken and UpstreamTimeout."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await anext(self._chunks)
        except StopAsyncIteration:
            self.done = True
            held = self._mask.close() if self._mask is not None else b""
            if held:
                return held
            raise
        except httpx.HTTPError as error:
            raise of_ours(error, self.name) from error
        return data if self._mask is None else self._mask.feed(data)

    async def aclose(self) -> None:
        """Drop what is left. Idempotent."""
        await self._response.aclose()


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
        self._transport = transport or LeanTransport(max_connections=terms.max_connections)
        # Calls that have to get through beside a thousand streams wait in no queue of theirs.
        self._beside = transport or LeanTransport(max_connections=BESIDE)
        self._url = httpx.URL(terms.url)
        self._base = self._url.raw_path.rstrip(b"/")
        self._urls: dict[bytes, httpx.URL] = {}
        self._limits = {
            "connect": terms.connect_timeout,
            "pool": terms.connect_timeout,
            "write": terms.idle_timeout,
            "first_byte": terms.first_byte_timeout,
            "read": terms.idle_timeout,
        }
        self.host: Final = self._url.host
        self.port: Final = self._url.port or (443 if self._url.scheme == "https" else 80)

    async def send(
        self,
        method: str,
        target: bytes,
        headers: RawHeaders,
        content: bytes | AsyncIterator[bytes],
        *,
        beside: bool = False,
    ) -> UpstreamAnswer:
        """Send a request; the answer once its head is here. `target`: path and query as they go behind the address.

        `beside`: on the small pool of its own that control calls have. Raises UpstreamUnreachable, UpstreamBroken,
        UpstreamTimeout.
        """
        transport = self._beside if beside else self._transport
        try:
            request = self._request(method, target, headers, content)
            answer = UpstreamAnswer(await transport.handle_async_request(request), self.terms.name, self.terms.secret)
        except httpx.HTTPError as error:
            raise of_ours(error, self.terms.name) from error
        except httpx.InvalidURL as error:
            raise UpstreamBroken(f"upstream {self.terms.name}: the path makes no address", "protocol") from error
        if answer.status > LAST_STATUS:
            await answer.aclose()
            raise UpstreamBroken(f"upstream {self.terms.name} answered with a status there is none of", "protocol")
        return answer

    def _request(
        self, method: str, target: bytes, headers: RawHeaders, content: bytes | AsyncIterator[bytes]
    ) -> httpx.Request:
        """With the stream and all headers given, httpx has nothing to work out: that alone costs 20 microseconds."""
        url = self._urls.get(target) or self._address(target)
        extensions = {"timeout": self._limits}
        if not isinstance(content, bytes):
            return httpx.Request(method, url, headers=headers, content=content, extensions=extensions)
        ours = [(b"host", url.netloc)]
        if content or method not in BODILESS:
            ours.append((b"content-length", b"%d" % len(content)))
        body = httpx.ByteStream(content)
        return httpx.Request(method, url, headers=ours + headers, stream=body, extensions=extensions)

    def _address(self, target: bytes) -> httpx.URL:
        """Where a target is, kept for the next call to it: making one costs 20 microseconds."""
        if len(self._urls) >= MOST_URLS:
            self._urls.clear()
        url = self._urls[target] = self._url.copy_with(raw_path=self._base + target)
        return url

    async def aclose(self) -> None:
        """Close the pools."""
        await self._transport.aclose()
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
