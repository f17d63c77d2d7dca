"""HTTP/1.1 as a client speaks it, without I/O: a request to bytes, bytes to one response after another.

A gateway must not pass on what can be read in two ways (RFC 9112, 6.3, 7.1 and 11). llhttp refuses bare LF, folded
lines, names that are no tokens, Content-Length twice or beside Transfer-Encoding; what it lets through is refused here.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Final, NamedTuple, TypeAlias

import httptools
import httpx

from gateway.bulk import LONG, Edited, Piece

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a head with the informational ones before it, of trailers, and of chunk framing that carries no data."""
CRUMBS: Final = 64
"""Pieces of a body that may wait to be taken: each costs forty bytes besides, which is much for chunks of two."""

HEAD: Final = 0
BODY: Final = 1
DONE: Final = 2
"""How far a response is. Plain integers, as the statuses below: members of an enum cost 0.2-0.7 us a look on 3.11."""

_CONTINUE, _SWITCHING_PROTOCOLS, _OK, _NO_CONTENT = 100, 101, 200, 204
_VERSIONS: Final = {"1.1": b"HTTP/1.1", "1.0": b"HTTP/1.0"}
_LENGTHS_DIFFER: Final = "the Content-Length of the request is not the length of its body"
_NUL, _SPACE = 0, ord(" ")
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


Content: TypeAlias = bytes | Edited | AsyncIterable[bytes]
Tap: TypeAlias = Callable[[bytes], bool]
"""Takes a piece of a body at once, and raises nothing. False: it takes no more for now."""


class Outgoing(NamedTuple):
    """A request ready for the wire."""

    wire: bytes
    """The head, and a body that is no longer than LONG with it."""
    stream: AsyncIterable[bytes] | None
    """The body where it comes bit by bit."""
    length: int | None
    """Bytes of the stream; None: it goes out in chunks."""
    bodiless: bool
    """The answer has no body whatever its head says (HEAD)."""
    behind: tuple[Piece, ...] = ()
    """A longer body, which is not copied to stand behind its head."""

    @property
    def repeatable(self) -> bool:
        """It can go out again; of a body that comes bit by bit from elsewhere the first bits are gone."""
        return self.stream is None or isinstance(self.stream, Steps)

    def in_steps(self) -> "Outgoing":
        """The same for TLS, which makes a copy at once of what it is given, and keeps room for as much from then on."""
        return self._replace(stream=Steps(self.behind), behind=()) if self.behind else self


class Steps:
    """A body that is all there, as one that comes bit by bit; from its beginning whenever it is asked for."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        """Take the body."""
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            for at in range(0, len(piece), LONG):
                yield bytes(piece[at : at + LONG])


def encode(request: httpx.Request) -> Outgoing:
    """Write a request of httpx's; its extension `target` stands for the path and query of its URL.

    Raises LocalProtocolError where its head is no HTTP or says something else than its body.
    """
    target: bytes = request.extensions.get("target") or request.url.raw_path
    headers, stream = request.headers.raw, request.stream
    if isinstance(stream, httpx.ByteStream):
        return write(request.method, target, headers, b"".join(stream))
    if not isinstance(stream, AsyncIterable):
        raise httpx.LocalProtocolError("the request body is no asynchronous stream")
    return write(request.method, target, headers, stream)


def write(method: str, target: bytes, headers: list[tuple[bytes, bytes]], content: Content) -> Outgoing:
    """Write a request. Raises LocalProtocolError where its head is no HTTP or says something else than its body."""
    verb, named = method.encode("ascii", "replace"), dict(headers)
    names = b"\n".join(named if len(named) == len(headers) else [name for name, _ in headers]).lower().split(b"\n")
    head = b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (verb, target, b"\r\n".join(map(b": ".join, headers)))
    ends = len(headers) + 2
    if head.count(b"\r") != ends or head.count(b"\n") != ends or _NUL in head:
        raise httpx.LocalProtocolError("a line of the request head holds CR, LF or NUL")
    tokens = verb + b"".join(names)
    if _SPACE in target or b"" in names or not verb or tokens.translate(None, _TOKEN) or verb == b"CONNECT":
        raise httpx.LocalProtocolError("the method, the target or a header name of the request is not allowed")
    length, chunked = _framing(headers, names)
    if names.count(b"host") != 1 or (chunked and length is not None):
        raise httpx.LocalProtocolError("a request has one Host, and Content-Length or Transfer-Encoding")
    bodiless = verb == b"HEAD"
    if isinstance(content, bytes):
        if chunked or len(content) != (length or 0):
            raise httpx.LocalProtocolError(_LENGTHS_DIFFER)
        if len(content) > LONG:
            return Outgoing(head, None, length, bodiless, (content,))
        return Outgoing(head + content, None, length, bodiless)
    if isinstance(content, Edited):
        if chunked or content.size != length:
            raise httpx.LocalProtocolError(_LENGTHS_DIFFER)
        return Outgoing(head, None, length, bodiless, content.pieces)
    if length is None and not chunked:
        raise httpx.LocalProtocolError("a streamed request needs Content-Length or Transfer-Encoding")
    return Outgoing(head, content, length, bodiless)


def _framing(headers: list[tuple[bytes, bytes]], names: list[bytes]) -> tuple[int | None, bool]:
    """What the head says of its body: a length, or that it comes in chunks."""
    length: int | None = None
    if b"content-length" in names:
        value = headers[names.index(b"content-length")][1]
        if names.count(b"content-length") > 1 or not value.isdigit():
            raise httpx.LocalProtocolError("the Content-Length of the request is no single number")
        length = int(value)
    if b"transfer-encoding" not in names:
        return length, False
    value = headers[names.index(b"transfer-encoding")][1]
    if names.count(b"transfer-encoding") > 1 or value.lower() != b"chunked":
        raise httpx.LocalProtocolError("the one transfer coding is chunked")
    return length, True


async def framed(stream: AsyncIterable[bytes], length: int | None) -> AsyncIterator[bytes]:
    """A body that comes bit by bit, as it goes out: so many bytes, or in chunks (None). Raises LocalProtocolError."""
    left = length or 0
    async for part in stream:
        if length is None:
            if part:
                yield b"%x\r\n%b\r\n" % (len(part), part)
            continue
        left -= len(part)
        if left < 0:
            raise httpx.LocalProtocolError("the request body is longer than its Content-Length")
        yield part
    if length is None:
        yield b"0\r\n\r\n"
    elif left:
        raise httpx.LocalProtocolError("the request body is shorter than its Content-Length")


class ResponseReader:
    """Bytes of one connection in, responses out. `begin` before each, then `feed` and, where the peer ends, `end`."""

    __slots__ = (
        "_bodiless", "_framed", "_framing_bytes", "_head_bytes", "_lines", "_parser", "headers", "heard",
        "keep_alive", "on_body", "phase", "pieces", "reason", "status", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        """Start with nothing asked, so that any byte is one too many."""
        self.phase = DONE
        self.heard = False
        """A byte of this response has come."""
        self.keep_alive = False
        """The connection may carry another exchange once this one is done."""
        self.status = 0
        self.version = b""
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        """In order, names in lower case; trailers and informational heads are dropped."""
        self.pieces: list[bytes] = []
        """What has come of the body and was not taken yet; never another list: the parser appends to it."""
        self.on_body = self.pieces.append
        self._bodiless = self._framed = False
        self._head_bytes = self._framing_bytes = 0
        self._lines: list[tuple[bytes, bytes]] = []
        self._parser: Any = httptools.HttpResponseParser(self)

    def begin(self, *, bodiless: bool) -> None:
        """A request goes out; `bodiless` when its answer has no body (HEAD)."""
        self.phase = HEAD
        self.heard = self.keep_alive = False
        self._bodiless = bodiless
        self._head_bytes = self._framing_bytes = 0
        self._start_head()

    def _start_head(self) -> None:
        self.headers, self.reason = [], b""
        self._lines = []
        self._framed = False

    def feed(self, data: bytes | memoryview) -> int:
        """Take bytes, say how far the response is. Raises RemoteProtocolError; bytes after the end only end reuse."""
        self.heard = True
        pieces = len(self.pieces)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.phase == DONE:
                self.keep_alive = False
                return self.phase
            ours = isinstance(error.__context__, httpx.RemoteProtocolError)
            raise httpx.RemoteProtocolError(str(error.__context__ if ours else error)) from error
        if len(self.pieces) > pieces:
            self._framing_bytes = 0
            if len(self.pieces) > CRUMBS:
                self.pieces[:] = [b"".join(self.pieces)]
        elif self.phase != DONE:
            self._framing_bytes += len(data)
            if self._framing_bytes > MAX_HEAD_BYTES:
                raise httpx.RemoteProtocolError("the head of the response is too large")
        return self.phase

    def end(self) -> None:
        """The peer sends no more, which is the end of a body without any framing and of nothing else."""
        self.keep_alive = False
        if self.phase == BODY and not self._framed:
            self.phase = DONE

    def release(self) -> None:
        """Nothing comes any more; what came can still be taken. The parser goes, since it holds this reader."""
        self._parser = None

    def take(self) -> bytes:
        """All there is of the body, in one piece; b"" for none."""
        pieces = self.pieces
        if len(pieces) == 1:
            return pieces.pop()
        data = b"".join(pieces)
        pieces.clear()
        return data

    # Called by the parser

    def on_message_begin(self) -> None:
        """A status line starts, which is one too many unless a response is due."""
        if self.phase != HEAD:
            raise httpx.RemoteProtocolError("bytes after the response")

    def on_status(self, reason: bytes) -> None:
        """A bit of the reason phrase."""
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or, once there is a body, a trailer."""
        self._lines.append((name, value))

    def _take_lines(self) -> list[tuple[bytes, bytes]]:
        lines, self._lines = self._lines, []
        self._head_bytes += sum(map(len, map(b"".join, lines)))
        if self._head_bytes > MAX_HEAD_BYTES:
            raise httpx.RemoteProtocolError("the head of the response is too large")
        return lines

    def on_headers_complete(self) -> None:
        """A head is whole: drop an informational one, judge the final one."""
        status, version = self._parser.get_status_code(), _VERSIONS.get(self._parser.get_http_version())
        self.headers = [(name.lower(), value.rstrip(b" \t")) for name, value in self._take_lines()]
        names = [name for name, _ in self.headers]
        chunked = b"transfer-encoding" in names
        if chunked and (
            b"content-length" in names
            or [value.lower() for name, value in self.headers if name == b"transfer-encoding"] != [b"chunked"]
        ):
            raise httpx.RemoteProtocolError("the one transfer coding is chunked")
        self._framed = chunked or b"content-length" in names
        if version is None or (version == b"HTTP/1.0" and chunked):
            raise httpx.RemoteProtocolError("neither HTTP/1.1 nor HTTP/1.0")
        if status < _CONTINUE or status == _SWITCHING_PROTOCOLS:
            raise httpx.RemoteProtocolError("a status that nobody asked for")
        if status < _OK:
            self._start_head()
            return
        self.status, self.version = status, version
        if self._bodiless:
            # The parser cannot be told that no body follows: leave it here, and the connection with it.
            self.phase = DONE
            raise httpx.RemoteProtocolError("no body is expected")
        self.phase = BODY

    def on_message_complete(self) -> None:
        """The response is whole."""
        if self._lines:
            self._take_lines()
        if self.phase == BODY:
            self.phase = DONE
            # A body where none may be would arrive later, as the answer to somebody else's request.
            misframed = self.status == _NO_CONTENT and self._framed
            self.keep_alive = self._parser.should_keep_alive() and not misframed
