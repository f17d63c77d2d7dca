"""One connection to an upstream: sockets, waiting and limits around the reader of http1. One exchange at a time.

opening -> exchange -> resting -> exchange ...      closed from anywhere, for good

Bytes nobody asked for close it: what one answer leaves behind must never be taken for the next one.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Final, cast

import httpx

from gateway.deadline import Deadline
from gateway.http1 import BODY, DONE, HEAD, Outgoing, ResponseReader, Tap, framed

READ_BYTES: Final = 64 * 1024
"""The most that is read at once; without a buffer of our own the loop reads four times as much."""
MAX_BUFFERED_BYTES: Final = 64 * 1024
"""Reading stops above: a slow caller slows its upstream, and holds no more than this and one read."""

Origin = tuple[bytes, bytes, int]
"""Scheme, host in ASCII, port."""


class Connection(asyncio.BufferedProtocol):
    """One connection, and one slot of the pool from the moment it is made until it is given up."""

    __slots__ = (
        "_buffered", "_closed", "_deadline", "_drained", "_error", "_loop", "_lost_by_peer", "_on_lost",
        "_read_limit", "_reading_paused", "_scratch", "_tap", "_transport", "_unsent", "_upload",
        "_waiter", "_write_limit", "_writing_paused", "idle_since", "origin", "response", "reused",
    )  # fmt: skip

    def __init__(self, origin: Origin, on_lost: Callable[["Connection"], None], scratch: memoryview) -> None:
        """Take where it leads to, who is told when it is lost, and room to read into, which others share."""
        self.origin, self._scratch = origin, scratch
        self.response, self.idle_since, self.reused = ResponseReader(), 0.0, False
        self._on_lost, self._loop = on_lost, asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = self._lost_by_peer = self._reading_paused = self._writing_paused = False
        self._buffered = self._unsent = 0
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self._tap: Tap | None = None
        self._deadline = Deadline(self._loop, self._late)
        self._read_limit = self._write_limit = cast("float | None", None)

    @property
    def opened(self) -> bool:
        """There is a socket, or was."""
        return self._transport is not None

    @property
    def closed(self) -> bool:
        """It carries nothing more."""
        return self._closed

    @property
    def reusable(self) -> bool:
        """The answer came to its end and the connection may carry another exchange."""
        return self.response.phase == DONE and self.response.keep_alive and not self._closed

    @property
    def stale(self) -> bool:
        """The peer closed a reused connection before a byte of the answer came: the request may go out once more."""
        return self.reused and self._lost_by_peer and not self.response.heard

    async def exchange(self, outgoing: Outgoing, limits: Mapping[str, float | None]) -> None:
        """Send a request and wait until `response` holds the final head.

        Limits in seconds, None or absent for none: `write` without progress in sending, then `first_byte` (absent:
        `read`) until the head, `read` of silence in the body. Raises httpx's ReadError, WriteError, their timeouts and
        protocol errors, and what the body's stream raises.
        """
        if self._closed or self._transport is None:
            raise self._failure()
        self.response.begin(bodiless=outgoing.bodiless)
        self._write_limit, read_limit = limits.get("write"), limits.get("read")
        self._read_limit = limits.get("first_byte", read_limit)
        self._transport.write(outgoing.wire)
        for piece in outgoing.behind:  # asyncio's own `writelines` pauses nobody on CPython 3.13.0
            self._transport.write(piece)
        if outgoing.stream is not None:
            self._upload = self._loop.create_task(self._send(outgoing.stream, outgoing.length))
            self._upload.add_done_callback(self._sent)
        while self.response.phase == HEAD:
            await self._wait()
        self._read_limit = read_limit

    async def read(self) -> bytes:
        """What has come of the body, in one piece, as soon as there is any; b"" at its end."""
        while not self.response.pieces:
            if self.response.phase == DONE:
                return b""
            await self._wait()
        return self.take()

    async def flow(self, tap: Tap) -> None:
        """Hand what comes of the body to the tap, waking no task, until that takes no more or the body ends."""
        while True:
            if self.response.pieces:
                if not tap(self.take()):
                    return
            elif self.response.phase == DONE:
                return
            else:
                self._tap = tap
                try:
                    await self._wait()
                finally:
                    closed, self._tap = self._tap is None, None
                if closed:
                    return

    def take(self) -> bytes:
        """What has come of the body, b"" for nothing."""
        self._buffered = 0
        if self._reading_paused:
            self._reading_paused = False
            if self._transport is not None and not self._closed:
                self._transport.resume_reading()
        return self.response.take()

    def rest(self, now: float) -> None:
        """Between two exchanges. What was not read of the complete answer is dropped."""
        self.take()
        self.response.heard = False
        self.idle_since, self.reused = now, True

    def close(self, error: BaseException | None = None) -> None:
        """Close at once, also in the middle of an answer; whoever waits on it gets the error, the first one given."""
        if not self._closed:
            self._closed, self._error = True, error
            self.response.release()
        self._deadline.end()
        if self._upload is not None:
            self._upload.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def give_up(self) -> None:
        """It was not opened to the end: the loop closes what there is of a socket, and uvloop never says so."""
        self._transport = None
        self.close()

    def _failure(self) -> BaseException:
        """Why it was closed, told once: an error that is kept by what it was raised in keeps both, and the call."""
        error, self._error = self._error, None
        return error or httpx.ReadError("the connection was closed")

    # A body that is sent as it comes

    async def _send(self, stream: AsyncIterable[bytes], length: int | None) -> None:
        async for data in framed(stream, length):
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        # A transport that failed says so only later, and takes what is written until then without ever pausing.
        if self._closed or self._transport is None or self._transport.is_closing():
            self._lost_by_peer = self._lost_by_peer or not self._closed
            raise httpx.WriteError("the connection was closed while the request was being sent")
        self._transport.write(data)
        if self._writing_paused:
            self._drained = self._loop.create_future()
            await self._drained

    def _sent(self, upload: asyncio.Task[None]) -> None:
        self._upload = None
        error = None if upload.cancelled() else upload.exception()
        if error is not None and self.response.phase != DONE:
            self.close(error)
        elif self._waiter is not None:
            self._arm()

    # Waiting: one future a wait, none for what flows

    async def _wait(self) -> None:
        if self._closed:
            raise self._failure()
        self._waiter = self._loop.create_future()
        self._arm()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _arm(self) -> None:
        silence = None if self._upload is not None else self._read_limit
        self._deadline.put_off(self._write_limit if self._writing_paused else silence)

    def _late(self) -> None:
        if self._waiter is None or self._transport is None:
            return
        if not self._writing_paused:
            self.close(httpx.ReadTimeout(f"nothing came for {self._read_limit} s"))
        elif (unsent := self._transport.get_write_buffer_size()) < self._unsent:
            self._unsent = unsent
            self._arm()
        else:
            self.close(httpx.WriteTimeout(f"nothing could be sent for {self._write_limit} s"))

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there, and TLS with it."""
        self._transport = cast(asyncio.Transport, transport)
        if self._closed:
            self._transport.abort()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the loop puts what it reads: one place for all, since each read is taken before the next."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: read them, stop reading when nobody takes them, wake whoever waits."""
        response = self.response
        if response.phase == DONE:
            self.close(httpx.RemoteProtocolError("bytes that nobody asked for"))
            return
        try:
            phase = response.feed(self._scratch[:nbytes])
        except httpx.RemoteProtocolError as error:
            self.close(error)
            return
        if phase == DONE:
            self._answered()
        elif phase == BODY and self._tap is not None and response.pieces:
            if self._tap(response.take()):
                self._arm()
                return
            self._tap = None
        self._buffered += nbytes
        if self._buffered > MAX_BUFFERED_BYTES and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        if phase != HEAD:
            self._wake()

    def _answered(self) -> None:
        # A peer that answers before it has read everything does not want the rest, which dies with the connection.
        if self._upload is not None or (self._transport is not None and self._transport.get_write_buffer_size()):
            self.response.keep_alive = False

    def eof_received(self) -> None:
        """The peer sends no more: a good end of a body without framing, else `connection_lost` says what it means."""
        self._lost_by_peer = True
        if self._ended_on_purpose():
            self.response.end()
        if self.response.phase == DONE:
            self.close()

    def _ended_on_purpose(self) -> bool:
        # Under TLS anybody on the way can end the connection; only the peer can say so inside of it (close_notify).
        tls: ssl.SSLObject | None = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        try:
            return tls is None or tls.read(1) == b""
        except ssl.SSLError:
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        self._lost_by_peer = self._lost_by_peer or not self._closed
        error: httpx.TransportError
        if self._upload is not None:
            error = httpx.WriteError("the connection was lost while the request was being sent")
        elif exc is not None:
            error = httpx.ReadError("the connection was lost")
        elif self.response.heard:
            error = httpx.RemoteProtocolError("the peer closed the connection in the middle of the response")
        else:
            error = httpx.RemoteProtocolError("the peer closed the connection without a response")
        error.__cause__ = exc
        self.close(error)
        self._transport = None
        self._on_lost(self)

    def pause_writing(self) -> None:
        """More was written than the socket takes."""
        self._writing_paused = True
        self._unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self._waiter is not None:
            self._arm()

    def resume_writing(self) -> None:
        """The socket took it."""
        self._writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._waiter is not None:
            self._arm()
