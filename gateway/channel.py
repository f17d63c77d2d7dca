"""One request and its answer over ASGI, on a connection of ours: what the caller sends, and what goes back.

A head waits for its body until the end of the event loop's turn: they leave in one write, since a system call is the
dearest thing an answer costs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

TOGETHER: Final = "thinkcap.together"
"""In the message of a head or of a piece: more follows at once, so nobody has to see to it that it leaves without."""
NUL: Final = 0
"""As a number: to look for bytes with `in` costs CPython an error that nobody sees, which is dearer than the search."""
NO_BODY: Final = frozenset({204, 304})
HIGH_WATER: Final = 64 * 1024
"""Bytes of a request's body that wait to be taken; above, reading stops."""
JOINED: Final = 64 * 1024
"""Bytes that are copied to leave together; longer ones leave apart."""
_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
STATUS_LINES: Final = {code: b"HTTP/1.1 %d %b\r\n" % (code, _PHRASES.get(code, b"")) for code in range(100, 600)}


class Wire(Protocol):
    """The connection a channel is on."""

    transport: asyncio.Transport
    body_timeout: float
    """Seconds a caller may be silent in the middle of a request."""
    drained: asyncio.Future[None] | None
    """There while the caller is slow to take what was written; done when it has."""

    def pause_reading(self) -> None:
        """Take nothing more from the caller for now."""

    def resume_reading(self) -> None:
        """Take more: else nobody sees the caller leave."""

    def answered(self) -> None:
        """The answer is out."""

    def close(self) -> None:
        """End the connection behind what is yet to be taken."""


class Channel:
    """ASGI's receive and send for one request; also tells, without a task that waits for it, when the caller leaves."""

    __slots__ = (
        "_ahead", "_body", "_chunked", "_expects", "_left", "_loop", "_more", "_silent", "_tell", "_told",
        "_waiter", "_wire", "complete", "gone", "keep_alive", "started", "task",
    )  # fmt: skip

    def __init__(
        self, wire: Wire, loop: asyncio.AbstractEventLoop, *, head: bool, keep_alive: bool, expects: bool
    ) -> None:
        """Begin with the head read. `head`: the method is HEAD; `expects`: the caller waits for `100 Continue`."""
        self._wire, self._loop, self._silent = wire, loop, head
        self.keep_alive, self._expects = keep_alive, expects
        self.started = self.complete = self.gone = False
        self._body: bytes | bytearray = b""
        self._more, self._told = True, False
        self._ahead = b""
        self._left = 0
        self._chunked = False
        self.task: asyncio.Task[None] | None = None
        """That answers; None before its turn has come, and at the end."""
        self._waiter: asyncio.Future[None] | None = None
        self._tell: Callable[[], None] | None = None

    # What the caller sends

    async def receive(self) -> dict[str, Any]:
        """A piece of the request as soon as there is one; then word that the caller left, or that all was sent.

        Raises TimeoutError when none comes in the connection's `body_timeout`.
        """
        if self._expects and not self._wire.transport.is_closing():
            self._wire.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects = False
        while not (self.gone or self.complete or self._body or not (self._more or self._told)):
            self._wire.resume_reading()
            await self._wait(self._wire.body_timeout if self._more else None)
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), b""
        self._told = not self._more
        return {"type": "http.request", "body": body, "more_body": self._more}

    async def _wait(self, seconds: float | None) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._starve, waiter) if seconds is not None else None
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()

    def _starve(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_exception(TimeoutError())

    def feed(self, body: bytes) -> None:
        """A piece of the body came."""
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):  # bytes are copied for each piece that is added
                self._body = bytearray(self._body)
            self._body += body
        if len(self._body) > HIGH_WATER:
            self._wire.pause_reading()
        self._wake()

    def end(self) -> None:
        """The request is whole."""
        self._more = False
        self._wake()

    def leave(self) -> None:
        """The caller has left."""
        self.gone = True
        self._wake()
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def watch(self, tell: Callable[[], None]) -> None:
        """Call this, once, when the caller leaves; at once when they have left."""
        if self.gone:
            tell()
        else:
            self._tell = tell
            self._wire.resume_reading()

    def room(self) -> Awaitable[None] | None:
        """What to wait for before more is made for this caller; None: there is room."""
        drained = self._wire.drained
        return None if drained is None or self.gone else asyncio.shield(drained)

    def unwatch(self) -> None:
        """Nobody needs to know any more."""
        self._tell = None

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # What goes back

    async def send(self, message: Mapping[str, Any]) -> None:
        """The head of the answer, then its body piece by piece; returns when there is room for more."""
        if self._wire.drained is not None and not self.gone:
            await asyncio.shield(self._wire.drained)
        if self.gone:
            return
        if not self.started:
            self._begin(message)
        elif not self.complete and message["type"] == "http.response.body":
            self._go_on(message.get("body", b""), more=message.get("more_body", False), together=TOGETHER in message)
        else:
            raise RuntimeError("an answer is a head, a body and no more")

    def push(self, body: bytes) -> bool:
        """A piece of the body, at once, behind its head; whether there is room for more."""
        if not self.gone:
            self._go_on(body, more=True)
        return self._wire.drained is None

    def _begin(self, message: Mapping[str, Any]) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError("an answer begins with its head")
        status, headers = message["status"], message["headers"]
        lines = b"".join([b"%b: %b\r\n" % (name, value) for name, value in headers])
        if lines.count(b"\r") != len(headers) or lines.count(b"\n") != len(headers) or NUL in lines:
            raise RuntimeError("a header of the answer holds CR, LF or NUL")
        named = dict(headers)
        self.started, self._expects = True, False
        length = named.get(b"content-length")
        if length is not None:
            self._left = 0 if self._silent else int(length)
        elif not self._silent and status not in NO_BODY:
            self._chunked = True
            lines += b"transfer-encoding: chunked\r\n"
        connection = named.get(b"connection")
        if connection is not None and b"close" in connection.lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines += b"connection: close\r\n"
        self._ahead = b"%b%b\r\n" % (STATUS_LINES[status], lines)
        if TOGETHER not in message:
            self._loop.call_soon(self._flush)

    def _go_on(self, body: bytes, *, more: bool, together: bool = False) -> None:
        if self._silent:
            body = b""
        before = behind = b""
        if self._chunked:
            if body:
                before, behind = b"%x\r\n" % len(body), b"\r\n"
            if not more:
                behind += b"0\r\n\r\n"
        else:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body of the answer is not as long as its head says")
        if together and len(body) <= JOINED:
            self._ahead += before + body + behind
            return
        self._write(before, body, behind)
        if not more:
            self.complete = True
            self._wake()
            if not self.keep_alive:
                self._wire.close()
            self._wire.answered()

    def _write(self, before: bytes, body: bytes, behind: bytes) -> None:
        """Write what is there; the head goes first, and a long body is not copied to go with it."""
        transport = self._wire.transport
        if transport.is_closing():  # the caller may have left within this turn
            return
        if self._ahead:
            before, self._ahead = self._ahead + before, b""
        if len(body) <= JOINED:
            if together := before + body + behind:
                transport.write(together)
            return
        for data in (before, body, behind):
            if data:
                transport.write(data)

    def _flush(self) -> None:
        if self._ahead:
            self._write(b"", b"", b"")

    def fail(self) -> None:
        """The application ended without an answer, or in the middle of it."""
        if self.gone or self.complete:
            return
        if self.started:  # nothing can be said any more
            self._flush()
            self._wire.close()
        else:
            self.keep_alive = False
            self._begin({"type": "http.response.start", "status": 500, "headers": [(b"content-length", b"0")]})
            self._go_on(b"", more=False)
