"""HTTP/1.1 as callers speak it, read strictly: one connection of a caller, in the place of uvicorn's own protocol.

llhttp refuses Content-Length twice or beside Transfer-Encoding, folded lines, bare LF or CR, bad chunk sizes. What it
lets through is dealt with in `heads` and here: heads without end, trailers that would pass for headers, and `Upgrade`,
behind which httptools takes the body of a request for the next request.

uvicorn listens, starts, stops and loads the application; what it does for each request costs twice as much as this.
"""

import asyncio
import logging
import socket
from collections import deque
from functools import partial
from typing import Any, Final, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from gateway.caller import DEPARTURE
from gateway.channel import STATUS_LINES, Channel
from gateway.deadline import Deadline
from gateway.heads import MAX_HEAD_BYTES, Scope, scope_of
from gateway.send_timeout import SendTimeout

LOG: Final = logging.getLogger("thinkcap")
MAX_PIPELINED: Final = 16
"""Requests read ahead while an answer is under way: who does not read does not see the caller leave."""
LOOK_SECONDS: Final = 0.05
"""Between two looks after a caller who is not read from."""
TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)
ESTABLISHED: Final = 1
"""The first byte of what TCP_INFO tells of a connection whose peer has neither ended nor reset it (linux/tcp.h)."""
REFUSAL: Final = "the request cannot be read in one way only"
REFUSED: Final = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
    len(REFUSAL),
    REFUSAL.encode(),
)


class CallerProtocol(asyncio.Protocol):
    """One connection. At its start and after each answer a head must be whole within uvicorn's `timeout_keep_alive`."""

    __slots__ = (
        "_app", "_app_state", "_client", "_framing", "_headers", "_loop", "_parser", "_patience", "_queue", "_reading",
        "_reading_paused", "_rest", "_running", "_scheme", "_send_seconds", "_send_timeout", "_server", "_state",
        "_url", "_watch", "body_timeout", "drained", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        body_timeout: float = 60.0,
        send_timeout: float = 300.0,
    ) -> None:
        """As uvicorn makes it, and seconds: a caller may be silent in the middle of a request, or take nothing."""
        if not config.loaded:
            config.load()
        self._app, self._app_state, self._state = config.loaded_app, app_state, server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._patience: float = config.timeout_keep_alive
        self.body_timeout, self._send_seconds = body_timeout, send_timeout
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # answered first, then dropped
        self._url, self._framing = b"", 0
        """`_framing`: bytes that have come since the last head, piece of a body or end of one."""
        self._headers: list[tuple[bytes, bytes]] = []
        self._running: Channel | None = None
        """The request that is being answered; None between two."""
        self._reading: Channel | None = None
        """The request whose body comes; it may have to wait for its turn."""
        self._queue: deque[tuple[Channel, Scope]] = deque()
        self._reading_paused = False
        self.drained: asyncio.Future[None] | None = None
        """There while the caller is slow to take what was written."""
        self._rest = Deadline(self._loop, self.close)
        """Runs between two requests, until the head of the next is whole."""
        self._watch: asyncio.TimerHandle | None = None

    # Called by the event loop and by uvicorn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        self.transport = cast("asyncio.Transport", transport)
        self._send_timeout = SendTimeout(self.transport, self._loop, self._send_seconds)
        self._state.connections.add(cast("Any", self))
        self._server, self._client = get_local_addr(self.transport), get_remote_addr(self.transport)
        self._scheme = "https" if is_ssl(self.transport) else "http"
        self._rest.put_off(self._patience)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; those behind it are never begun."""
        self._state.connections.discard(cast("Any", self))
        self._queue.clear()
        self._rest.end()
        self._stop_looking()
        self.resume_writing()
        running, self._running, self._reading, self._parser = self._running, None, None, None  # they hold this protocol
        if running is not None:
            running.leave()
        if exc is None:
            self.transport.close()

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

    def pause_writing(self) -> None:
        """More was written than the caller takes."""
        if self.drained is None:
            self.drained = self._loop.create_future()
            self._send_timeout.start()

    def resume_writing(self) -> None:
        """The caller took it."""
        self._send_timeout.stop()
        drained, self.drained = self.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def shutdown(self) -> None:
        """The server stops: close now, or behind the answer that is under way."""
        if self._running is None:
            self.close()
        else:
            self._running.keep_alive = False

    # Called by the channels

    def close(self) -> None:
        """End the connection behind what is yet to be taken."""
        self.transport.close()
        self._send_timeout.start()

    def pause_reading(self) -> None:
        """Take nothing more from the caller for now."""
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()
            self._look()

    def resume_reading(self) -> None:
        """Take more."""
        if self._reading_paused:
            self._reading_paused = False
            self._stop_looking()
            self.transport.resume_reading()

    def _look(self) -> None:
        """Who is not read from cannot be heard leaving: ask the kernel, where it can be asked, every LOOK_SECONDS."""
        plug = self.transport.get_extra_info("socket")
        if (
            plug is not None
            and TCP_INFO is not None
            and plug.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0] != ESTABLISHED
        ):
            self.transport.abort()
        else:
            self._watch = self._loop.call_later(LOOK_SECONDS, self._look)

    def _stop_looking(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()

    def answered(self) -> None:
        """The answer is out: the next request that waits, or rest."""
        self._state.total_requests += 1
        self._running = None
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._queue:
            self._start(*self._queue.popleft())
        else:
            self._rest.put_off(self._patience)

    # Called by the parser

    def on_message_begin(self) -> None:
        """A request starts."""
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """A bit of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or, behind a body in chunks, a trailer, which nobody gets to see."""
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Judge the head, then begin to answer, or wait for the answers before it."""
        self._framing = 0
        if self._parser.should_upgrade():  # `_feed` has it read again
            return
        parser, headers = self._parser, self._headers
        scope = scope_of(parser.get_method(), self._url, parser.get_http_version(), headers)
        scope.update(server=self._server, client=self._client, scheme=self._scheme, state=self._app_state.copy())
        self._headers = []
        keep_alive = scope["http_version"] != "1.0" and parser.should_keep_alive()
        expects = dict(headers).get(b"expect", b"").lower() == b"100-continue"
        channel = Channel(self, self._loop, head=scope["method"] == "HEAD", keep_alive=keep_alive, expects=expects)
        self._reading = channel
        self._rest.put_off(None)
        if self._running is None:
            self._start(channel, scope)
        else:
            self._queue.append((channel, scope))
            if len(self._queue) >= MAX_PIPELINED:
                self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """A piece of a body; what comes of it behind its answer is dropped."""
        self._framing = 0
        if self._reading is not None and not self._reading.complete:
            self._reading.feed(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self._parser.should_upgrade():
            self._framing = 0
            if self._reading is not None:
                self._reading.end()

    def _feed(self, data: bytes) -> bytes:
        """Parse; gives what has to be parsed once more: the offer to leave HTTP/1.1 is not taken (RFC 9110, 7.8)."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            method = self._parser.get_method()
            if method == b"CONNECT":
                raise httptools.HttpParserError(REFUSAL) from None
            lines = [b"%b %b HTTP/%b" % (method, self._url, self._parser.get_http_version().encode())]
            lines += [b"%b: %b" % pair for pair in self._headers if pair[0] != b"upgrade"]
            self._parser = httptools.HttpRequestParser(self)
            return b"\r\n".join(lines) + b"\r\n\r\n" + data[upgrade.args[0] :]
        return b""

    def _start(self, channel: Channel, scope: Scope) -> None:
        self._running = channel
        scope[DEPARTURE] = channel
        application: Any = self._app
        task: asyncio.Task[None] = self._loop.create_task(application(scope, channel.receive, channel.send))
        channel.task = task
        self._state.tasks.add(task)
        task.add_done_callback(partial(self._ended, channel))

    def _ended(self, channel: Channel, task: asyncio.Task[None]) -> None:
        """The application is done with a request. An answer it left unfinished is cut."""
        self._state.tasks.discard(task)
        channel.task = None  # it holds the channel
        error = None if task.cancelled() else task.exception()
        if error is not None:
            LOG.error("unexpected %s in the application", type(error).__name__)
        channel.fail()

    def _refuse(self) -> None:
        if self._running is None:
            self.transport.write(STATUS_LINES[400] + REFUSED)
        self.close()  # in the middle of an answer nothing can be said
