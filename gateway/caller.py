"""The one who called, over ASGI: reads the request, sends the answer, notices when they leave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import partial
from random import getrandbits
from typing import Any, Final, Protocol

from msgspec import Struct

from gateway.bulk import Gathered
from gateway.channel import TOGETHER
from gateway.errors import BodyTooLarge, RequestTimeout
from gateway.headers import RawHeaders

DEPARTURE: Final = "thinkcap.departure"
"""Where a server puts what it has of `Watched` for a request into the ASGI scope."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def new_id() -> bytes:
    """An id for an answer that came without one; no secret, so a quick one will do."""
    return b"%032x" % getrandbits(128)


class CallerGone(Exception):
    """The caller left before the request was whole."""


class Watched(Protocol):
    """What a server gives a request that can tell when its caller leaves (`channel.Channel`)."""

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """That answers the request."""

    def watch(self, tell: Callable[[], None]) -> None:
        """Call this when the caller leaves."""

    def unwatch(self) -> None:
        """Nobody needs to know any more."""

    def room(self) -> Awaitable[None] | None:
        """What to wait for before more is made for this caller; None: there is room."""

    def push(self, body: bytes) -> bool:
        """A piece of the body, at once, behind its head; whether there is room for more."""


class Caller(Struct):
    """One request's ASGI channel. `watch` cancels the running task when the caller leaves; `gone` says so."""

    _receive: Receive
    _send: Send
    _departure: Watched | None = None
    """None: a task waits for the caller to leave."""
    _watcher: asyncio.Task[None] | None = None
    status: int | None = None
    """Of the answer; None until its head has gone out."""
    gone: bool = False
    ended: bool = False

    async def body(self, limit: int) -> bytes:
        """The whole request body. Raises BodyTooLarge above `limit` bytes, RequestTimeout, and CallerGone."""
        part, more = await self._part()
        if not more and len(part) <= limit:  # nearly always
            return part
        gathered = Gathered(part)
        while gathered.size <= limit:
            if not more:
                return gathered.take()
            part = b""  # it may be long, and so may the wait for the next one
            part, more = await self._part()
            gathered.add(part)
        raise BodyTooLarge(f"the request body is larger than {limit} bytes (server.max_body_bytes)")

    async def parts(self, task: asyncio.Task[Any] | None = None) -> AsyncIterator[bytes]:
        """The request body as it comes. Raises RequestTimeout and CallerGone.

        Where the server can tell, a caller who leaves also cancels the task while nobody asks for the next part.
        """
        if self._departure is not None:
            self.watch(task)
        more = True
        while more:
            part, more = await self._part()
            if part:
                yield part

    async def _part(self) -> tuple[bytes, bool]:
        """A piece of the request body, and whether more comes."""
        try:
            message = await self._receive()
        except TimeoutError:
            raise RequestTimeout("the request body did not go on (server.body_timeout)") from None
        if message["type"] == "http.disconnect":
            self.gone = True
            raise CallerGone
        return message.get("body", b""), message.get("more_body", False)

    def watch(self, task: asyncio.Task[Any] | None = None) -> None:
        """From now on, with the request read, cancel the task (the request's own) when the caller leaves."""
        departure = self._departure
        if task is None:
            task = departure.task if departure is not None else asyncio.current_task()
        if task is None:
            return
        if departure is not None:
            departure.watch(partial(self._left, task))
        else:
            self._watcher = asyncio.ensure_future(self._wait_for_leave(task))

    async def _wait_for_leave(self, task: asyncio.Task[Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left(task)

    def _left(self, task: asyncio.Task[Any]) -> None:
        if not self.ended:
            self.gone = True
            task.cancel()

    def unwatch(self) -> None:
        """The answer is out: nobody needs to know any more."""
        self.ended = True
        if self._departure is not None:
            self._departure.unwatch()
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def start(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        """Send the head."""
        self.status = status
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send an answer that is all there."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers, TOGETHER: True})
        self.ended = True
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    @property
    def push(self) -> Callable[[bytes], bool] | None:
        """Sends a piece of the body at once, and tells whether there is room for more; None: `write` alone can."""
        return self._departure.push if self._departure is not None else None

    def write(self, data: bytes, *, together: bool = False) -> Awaitable[None]:
        """Send a piece of the body; done when there is room for more. `together`: it may wait for what comes next."""
        if together:
            return self._send({"type": "http.response.body", "body": data, "more_body": True, TOGETHER: True})
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def room(self) -> Awaitable[None] | None:
        """What to wait for before the next piece is read, so that a caller who is slow to take one holds just that.

        None: there is room, or the server waits in `write` instead.
        """
        return self._departure.room() if self._departure is not None else None

    def end(self, data: bytes = b"") -> Awaitable[None]:
        """Send the last piece; from now on the caller may leave."""
        self.ended = True
        return self._send({"type": "http.response.body", "body": data, "more_body": False})
