"""Performs the relay's actions on a stream: reads the upstream, writes the caller, keeps the timers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

from msgspec import Struct

from gateway.actions import Action, EndReasoning, Forward, Refused
from gateway.errors import UpstreamBroken, UpstreamError
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.rules.thinking_cap import GiveUp
from gateway.sse import EventTooLarge, comment
from gateway.words import EndResult

LINGER: Final = 0.5
"""Seconds an upstream may take to end its body after the last event; then the turn is over without it."""
KEEP_ALIVE: Final = comment(b"keep-alive")

Stop = GiveUp | Refused | UpstreamError


async def pour(chunks: AsyncIterator[bytes], caller: "Sink") -> None:
    """A body that nobody looks at, piece by piece, each read once there is room for it."""
    while True:
        room = caller.room()
        if room is not None:
            await room
        try:
            await caller.write(await anext(chunks))
        except StopAsyncIteration:
            return


class Sink(Protocol):
    """Who the answer goes to: the caller, or whoever makes a whole body of it first."""

    status: int | None
    """None until the head has gone out."""

    def room(self) -> Awaitable[None] | None:
        """What to wait for before more is read; None: there is room."""

    @property
    def push(self) -> Callable[[bytes], bool] | None:
        """Takes a piece of the body at once, and tells whether there is room for more; None: `write` alone can."""

    def write(self, data: bytes, *, together: bool = False) -> Awaitable[None]:
        """Take a piece of the body. `together`: more comes in this turn of the loop, and may go out in one with it."""


class Terms(Struct, frozen=True, kw_only=True):
    """What the pump needs of the call. `start` sends the head of the answer; `end_reasoning` makes the control call."""

    start: Callable[[], Awaitable[None]]
    end_reasoning: Callable[[str], Awaitable[EndResult]]
    refused: Callable[[bytes], bool]
    """Told of an error that came before the first delta; True: stop, the call goes out again or ends elsewhere."""
    comments: Callable[[], bytes] | None = None
    """Facts stated since the last call, as whole comments, for a caller who asked for them."""
    hold_seconds: float = 2.0
    keepalive_seconds: float = 0.0
    name: str = ""
    """Of the upstream, for messages."""


class Pump:
    """One stream, from its first byte to its last."""

    __slots__ = (
        "_caller", "_control", "_hold_ends", "_left", "_linger_ends", "_may_flow", "_push", "_reads", "_relay",
        "_terms", "_time", "_wrote",
    )  # fmt: skip

    def __init__(self, relay: Relay, reads: Reads, caller: Sink, terms: Terms) -> None:
        """Bring together both ends and what passes between them."""
        self._relay, self._reads, self._caller, self._terms = relay, reads, caller, terms
        self._time = asyncio.get_running_loop().time
        self._push = caller.push
        self._may_flow = self._push is not None and terms.comments is None and not terms.keepalive_seconds
        self._left: list[Action] | Exception | None = None
        """What came out of the flow that bytes alone do not settle."""
        self._control: asyncio.Future[EndResult] | None = None
        self._hold_ends: float | None = None
        self._linger_ends: float | None = None
        self._wrote = self._time()

    async def run(self) -> Stop | None:
        """Pump until the body ends (None) or something stops it. What was to be sent has been sent."""
        try:
            return await self._run()
        except EventTooLarge:
            name = self._terms.name
            return await self._break(UpstreamBroken(f"upstream {name} sent an event that is too large", "protocol"))
        except UpstreamError as error:
            return await self._break(error)
        finally:
            if not self._reads.idle or self._control is not None:
                await asyncio.gather(self._reads.cancel(), self._hang_up())

    async def _break(self, error: UpstreamError) -> Stop | None:
        """Send what came whole before the transport broke. Behind the last event the break took nothing."""
        relay = self._relay
        stop = await self._perform(relay.broken())
        return stop or (None if relay.over else error)

    async def _run(self) -> Stop | None:
        caller = self._caller
        while True:
            room = caller.room()
            if room is not None:
                await room
            actions = await self._next()
            if actions is None:
                return await self._perform(self._overheard() + self._relay.close())
            if len(actions) == 1 and isinstance(actions[0], Forward) and self._terms.comments is None:  # nearly always
                await self._write(actions[0].data)
            elif (stop := await self._perform(actions)) is not None:
                return stop
            del actions  # nothing is held while there is no room for more

    async def _next(self) -> list[Action] | None:
        """What is to be done next; None at the end of the body."""
        relay, flow = self._relay, self._reads.flow
        if flow is not None and self._may_flow and self._flows():
            await flow(self._take)
            left, self._left = self._left, None
            if isinstance(left, Exception):
                try:
                    raise left
                finally:
                    del left  # it would hold this frame, which holds it
            if left is not None:
                return left
        data = await self._reads.next(self._patience(), self._control)
        if data:
            return relay.feed(data)
        return self._overtaken() if data is None and not self._lingered() else None

    def _flows(self) -> bool:
        """Whether nothing but the next bytes is waited for."""
        return self._caller.status is not None and self._control is None and self._relay.flowing

    def _take(self, data: bytes) -> bool:
        """Pass on what flows, while that is all there is to do: no task is woken for it, which is half of its price."""
        relay, push = self._relay, self._push
        try:
            actions = relay.feed(data)
            room = not actions
            if relay.flowing and push is not None and len(actions) == 1 and isinstance(actions[0], Forward):
                room = push(actions[0].data)
                actions.clear()
        except Exception as error:  # noqa: BLE001 - the task raises it, where it is known what to make of it
            self._left = error
            return False
        if room and relay.flowing:
            return True
        self._left = actions
        return False

    def _patience(self) -> float | None:
        """Seconds until something is due besides the next read; None: nothing is."""
        relay, keepalive = self._relay, self._terms.keepalive_seconds
        if not relay.holding:
            self._hold_ends = None
            if not relay.over and not keepalive:
                return None
        now = self._time()
        due = []
        if relay.over:
            self._linger_ends = self._linger_ends or now + LINGER
            due.append(self._linger_ends)
        elif relay.holding:
            self._hold_ends = self._hold_ends or now + self._terms.hold_seconds
            due.append(self._hold_ends)
        if keepalive:
            due.append(self._wrote + keepalive)
        return max(0.0, min(due) - now)

    def _lingered(self) -> bool:
        return self._linger_ends is not None and self._time() >= self._linger_ends

    def _overtaken(self) -> list[Action]:
        """A control call that came back, a hold whose time is over, or a silence to be filled."""
        if self._control is not None and self._control.done():
            return self._overheard()
        now = self._time()
        if self._hold_ends is not None and now >= self._hold_ends:
            return self._relay.release()
        if self._terms.keepalive_seconds and now >= self._wrote + self._terms.keepalive_seconds:
            self._wrote = now
            return [Forward(KEEP_ALIVE)] if self._caller.status is not None else []
        return []

    def _overheard(self) -> list[Action]:
        """What comes of the control call, if it has come back."""
        control = self._control
        if control is None or not control.done():
            return []
        self._control = None
        return self._relay.control_answered(control.result())

    async def _hang_up(self) -> None:
        """Give up a control call that is under way; its last fact is stated before the call's own."""
        control, self._control = self._control, None
        if control is not None:
            control.cancel()
            await asyncio.wait({control})
            if not control.cancelled():
                control.exception()  # seen: it came too late to matter

    async def _perform(self, actions: list[Action]) -> Stop | None:
        stop: Stop | None = None
        for action in actions:  # first of all: a caller who is slow to read must not keep the model thinking
            if isinstance(action, EndReasoning):
                self._control = asyncio.ensure_future(self._terms.end_reasoning(action.id))
        for action in actions:
            if isinstance(action, Forward):
                await self._write(action.data)
            elif isinstance(action, EndReasoning):
                continue
            elif not isinstance(action, Refused) or self._terms.refused(action.text):
                stop = action
            else:
                stop = await self._perform(self._relay.unguard())
        if self._terms.comments is not None and self._caller.status is not None:
            told = self._terms.comments()
            if told:
                await self._write(told)
        return stop

    async def _write(self, data: bytes) -> None:
        if self._caller.status is None:
            await self._terms.start()
        if self._terms.keepalive_seconds:
            self._wrote = self._time()
        await self._caller.write(data, together=self._control is None and self._reads.arrived)
