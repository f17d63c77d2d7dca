"""A pump on a stage: a scripted body on one side, a caller who keeps what comes on the other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

from gateway.answer import Plan
from gateway.events import Fact
from gateway.http1 import Tap
from gateway.pump import Pump, Stop, Terms
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.rules.output_cap import OutputCap
from gateway.words import EndResult
from tests.gateway.door import Step, body_of, run
from tests.gateway.plays import CHAT


class Sink:
    """A caller: the pieces that came, and when asked to be slow an event each of them waits for."""

    def __init__(self, *, pushes: bool) -> None:
        self.status: int | None = None
        self.push = self._push if pushes else None
        self.pieces: list[bytes] = []
        self.slow: asyncio.Event | None = None

    async def start(self) -> None:
        """The head."""
        self.status = 200

    def room(self) -> Awaitable[None] | None:
        """What comes by `write` waits there, what is pushed is waited for here."""
        if self.push is None or self.slow is None or not self.pieces:
            return None
        return self._wait(self.slow)

    async def _wait(self, slow: asyncio.Event) -> None:
        await slow.wait()

    def _push(self, data: bytes) -> bool:
        self.pieces.append(data)
        return self.slow is None

    async def write(self, data: bytes, *, together: bool = False) -> None:  # noqa: ARG002 - all pieces are kept apart
        """A piece."""
        if self.slow is not None:
            await self.slow.wait()
        self.pieces.append(data)

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces)


class Tapped:
    """A body that flows; nobody knows that it has ended before it says so."""

    arrived = False

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    async def flow(self, tap: Tap) -> None:
        """Hand over pieces until no more are taken."""
        async for data in self._chunks:
            if not tap(data):
                return


class Stage:
    """A pump between a scripted body and a sink; `flows`: the body can be tapped, and the sink takes pieces at once."""

    flows = False

    def __init__(self, *steps: Step, **plan: Any) -> None:
        self.steps, self.plan = steps, {"output_cap": OutputCap(cap=4)} | plan
        self.facts: list[Fact] = []
        self.sink = Sink(pushes=self.flows)
        self.terms: dict[str, Any] = {"name": "up"}
        self.asked: list[str] = []
        self.reply: EndResult | BaseException | asyncio.Event = "ended"
        self.ended = asyncio.Event()
        """The control call is over, however it ended."""

    async def _end_reasoning(self, completion: str) -> EndResult:
        self.asked.append(completion)
        try:
            if isinstance(self.reply, asyncio.Event):
                await self.reply.wait()
                return "ended"
            if isinstance(self.reply, BaseException):
                raise self.reply
            return self.reply
        finally:
            self.ended.set()

    async def pump(self) -> Stop | None:
        """Run it to its end."""
        terms = {
            "start": self.sink.start,
            "end_reasoning": self._end_reasoning,
            "refused": lambda _: False,
        } | self.terms
        relay = Relay(CHAT, Plan(**self.plan), self.facts.append)
        chunks = body_of(self.steps)

        source = Tapped(chunks) if self.flows else None
        return await Pump(relay, Reads(chunks, source), self.sink, Terms(**terms)).run()

    def run(self) -> Stop | None:
        """The same on a loop of its own, where no task may be left behind."""

        async def main() -> Stop | None:
            stop = await self.pump()
            assert asyncio.all_tasks() == {asyncio.current_task()} or len(asyncio.all_tasks()) == 2  # wait_for's own
            return stop

        return run(main())
