"""HTTP/1.1 as callers speak it, read strictly: uvicorn's protocol without what could be understood in two ways.

llhttp refuses Content-Length twice or beside Transfer-Encoding, folded lines, bare LF or CR, bad chunk sizes. What it
lets through is dealt with here: Host missing or twice, codings besides chunked, heads without end, trailers that would
pass for headers, and `Upgrade`, behind which httptools takes the body of a request for the next request.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.caller import DEPARTURE

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a request's head, and of chunk framing and trailers in a row."""
MAX_PIPELINED: Final = 16
"""Requests read ahead while an answer is under way: who does not read does not see the caller leave."""
REFUSAL: Final = "the request cannot be read in one way only"


class Ambiguous(Exception):
    """The head of a request is too long, or not plain HTTP/1.1."""


class Departure:
    """Tells one request that its caller has left, without a task that waits for it."""

    __slots__ = ("_flow", "_tell", "left")

    def __init__(self, flow: FlowControl) -> None:
        """`flow` has to read for a departure to be seen."""
        self._flow = flow
        self._tell: Callable[[], None] | None = None
        self.left = False

    def watch(self, tell: Callable[[], None]) -> None:
        """Call this, once, when the caller leaves; at once when they have left."""
        self._tell = tell
        if self.left:
            tell()
        else:
            self._flow.resume_reading()

    def unwatch(self) -> None:
        """Nobody needs to know any more."""
        self._tell = None

    def leave(self) -> None:
        """The caller has left."""
        self.left = True
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()


class StrictProtocol(HttpToolsProtocol):
    """One connection of a caller. At its start and after each answer a head must be whole in `timeout_keep_alive`."""

    _framing = 0
    """Bytes that have come since the last head, piece of a body or end of one."""
    _running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn says the same
        """Wait for the first head."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; uvicorn tells the one read last, which need not be the same."""
        self._unset_keepalive_if_required()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
            running.scope[DEPARTURE].leave()  # type: ignore[typeddict-item]  # a key of ours
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read; what has no single meaning ends the connection."""
        self._framing += len(data)
        try:
            while data:
                data = self._feed(data)
        except httptools.HttpParserError:
            self._refuse()
        else:
            if self._framing > MAX_HEAD_BYTES:
                self._refuse()

    def _feed(self, data: bytes) -> bytes:
        """Parse; gives what has to be parsed once more: the offer to leave HTTP/1.1 is not taken (RFC 9110, 7.8)."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            method = self.parser.get_method()
            if method == b"CONNECT":
                raise httptools.HttpParserError(REFUSAL) from None
            lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
            lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            return b"\r\n".join(lines) + b"\r\n\r\n" + data[upgrade.args[0] :]
        return b""

    def on_headers_complete(self) -> None:
        """Judge the head, then begin to answer. Trailers come later and are no headers: the scope keeps a copy."""
        self._framing = 0
        if self.parser.should_upgrade():  # `_feed` has it read again
            return
        self._judge()
        self._unset_keepalive_if_required()
        super().on_headers_complete()
        self.scope["headers"] = list(self.headers)
        self.scope[DEPARTURE] = Departure(self.flow)  # type: ignore[typeddict-unknown-key]  # a key of ours
        if 0 < len(self.pipeline) < MAX_PIPELINED:
            self.flow.resume_reading()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self.parser.should_upgrade():
            self._framing = 0
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _judge(self) -> None:
        version, names = self.parser.get_http_version(), [name for name, _ in self.headers]
        hosts, size = names.count(b"host"), len(self.url) + sum(map(len, map(b"".join, self.headers)))
        if version not in ("1.1", "1.0") or hosts > 1 or (version == "1.1" and not hosts) or size > MAX_HEAD_BYTES:
            raise Ambiguous
        if b"transfer-encoding" in names:
            codings = {value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"}
            if version == "1.0" or codings != {b"chunked"}:
                raise Ambiguous

    def _refuse(self) -> None:
        self._unset_keepalive_if_required()
        if self._running is None or self._running.response_complete:
            self.send_400_response(REFUSAL)
        else:  # an answer is under way: nothing can be said in the middle of it
            self.transport.close()
