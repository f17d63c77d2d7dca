"""Callers: a mix of calls to the scripted models in all dialects, at a steady rate, always in the same order.

By itself, until a signal comes: `python -m gateway.demo.traffic --gateway http://127.0.0.1:8080 --rate 8`.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count, cycle
from random import Random
from typing import Final

import httpx
from msgspec import Struct

from gateway.demo.asked import Wish
from gateway.demo.scripts import SCRIPTS
from gateway.words import DialectName, Level

RATE: Final = 8.0
"""Calls a second."""
SEED: Final = 1
CAPS: Final = (48, 64, 64, 96, 128, 200)
"""Output caps that callers ask for; an overrun uses 105 tokens, so some of the caps hold them."""
ROOM: Final = 600
"""A cap that leaves room for any answer."""
READ_SECONDS: Final = 30.0
"""How long a caller waits for bytes."""
PATIENCE: Final = 10.0
"""Seconds that calls under way get to end when no new ones are made."""
MOST_AT_ONCE: Final = 200
"""Calls under way; above it callers stay at home, so that a gateway that is stuck is not buried."""
BRIEF: Final = 3.0
"""The same where somebody waits for the process to end."""
LEAVES_AFTER: Final = 4
"""Reads of a stream, for a caller who leaves midway."""
REPORT_SECONDS: Final = 60.0


class Habit(Struct, frozen=True, kw_only=True):
    """What calls to a model are like. `weight`: how many of them there are in a hand of cards."""

    weight: int
    capped: bool = True
    roomy: bool = False
    """The cap leaves room for a whole answer."""
    levels: tuple[Level | None, ...] = (None,)
    purposes: tuple[str | None, ...] = (None,)
    choices: int = 1
    stop: str | None = None
    tools: bool = False
    leaves: bool = False
    whole: bool = True
    """Every third call wants a whole body instead of a stream."""


_MAINTENANCE: Final = ("compaction", "session-title", None)
"""Two purposes in the scope of the level fallback, then a plain conversation, which is not."""


def _refused(*levels: Level | None, weight: int = 3) -> Habit:
    return Habit(weight=weight, levels=levels, purposes=_MAINTENANCE, roomy=True)


MIX: Final[dict[str, Habit]] = {
    "demo-honest": Habit(weight=24, roomy=True),
    "demo-honest-length": Habit(weight=4),
    "demo-at-cap": Habit(weight=2),
    "demo-overrun": Habit(weight=12),
    "demo-overrun-tool": Habit(weight=2, tools=True),
    "demo-overrun-stop-string": Habit(weight=2, stop="END"),
    "demo-overrun-unproven": Habit(weight=1, stop="END"),
    "demo-overrun-choices": Habit(weight=2, choices=2),
    "demo-overrun-filter": Habit(weight=1),
    "demo-overrun-mapped": Habit(weight=1),
    "demo-usage-late": Habit(weight=2, whole=False),
    "demo-usage-never": Habit(weight=1),
    "demo-reasoning-only": Habit(weight=1, roomy=True),
    "demo-odd-word": Habit(weight=1, capped=False),
    "demo-thinker": Habit(weight=5, roomy=True),
    "demo-thinker-brief": Habit(weight=2, roomy=True),
    "demo-stubborn": Habit(weight=2, capped=False),
    "demo-defiant": Habit(weight=1, capped=False),
    "demo-deaf": Habit(weight=1, capped=False),
    "demo-moot": Habit(weight=1, capped=False, whole=False),
    "demo-watched": Habit(weight=2, roomy=True),
    "demo-dropped": Habit(weight=2, capped=False, whole=False),
    "demo-level": _refused("minimal"),
    "demo-level-vertex": _refused("minimal"),
    "demo-level-adapter": _refused(None),
    "demo-level-openai": _refused("minimal", "off"),
    "demo-level-anthropic": _refused("xhigh"),
    "demo-level-vllm": _refused("high", weight=2),
    "demo-level-stuck": _refused("minimal", weight=1),
    "demo-busy": Habit(weight=1),
    "demo-down": Habit(weight=1),
    "demo-error-in-200": Habit(weight=1),
    "demo-cut": Habit(weight=1),
    "demo-usage-too-late": Habit(weight=1, leaves=True, whole=False),
}
"""Who calls what, and how often."""


class Card(Struct, frozen=True, kw_only=True):
    """One call to come."""

    wish: Wish
    purpose: str | None = None
    leaves: bool = False


def hand(random: Random) -> list[Card]:
    """One call of every kind, as often as the mix says, shuffled: whoever plays a hand has met everything."""
    cards = [card for model, habit in MIX.items() for card in _cards(model, habit, random)]
    random.shuffle(cards)
    return cards


def _cards(model: str, habit: Habit, random: Random) -> Iterator[Card]:
    script = SCRIPTS[model]
    dialects: list[DialectName] = list(script.dialects)
    random.shuffle(dialects)
    levels, purposes = cycle(habit.levels), cycle(habit.purposes)
    for number, dialect in zip(range(habit.weight), cycle(dialects), strict=False):
        cap = random.choice(CAPS) if habit.capped and not habit.roomy else ROOM
        wish = Wish(
            dialect=dialect,
            model=model,
            stream=not habit.whole or (number + len(model)) % 3 != 0,
            cap=cap if habit.capped or dialect == "messages" else None,
            level=next(levels),
            choices=habit.choices,
            stop=habit.stop,
            tools=habit.tools,
        )
        yield Card(wish=wish, purpose=next(purposes), leaves=habit.leaves)


def cards(seed: int = SEED, extra: Sequence[Card] = ()) -> Iterator[Card]:
    """Calls without end; the same seed gives the same ones. `extra` ones are shuffled into every hand."""
    random = Random(seed)  # noqa: S311 - calls that can be repeated, no secret
    while True:
        dealt = [*hand(random), *extra]
        if extra:
            random.shuffle(dealt)
        yield from dealt


class Callers:
    """Plays cards against a gateway. `calls`: made; `unanswered`: those that got no answer at all."""

    def __init__(
        self, gateway: str, *, seed: int = SEED, extra: Sequence[Card] = (), patience: float = PATIENCE
    ) -> None:
        """Take the gateway's address. `patience`: seconds that calls under way get when no new one is made."""
        self._gateway, self._cards, self._patience = gateway, cards(seed, extra), patience
        self._under_way: set[asyncio.Task[None]] = set()
        self.calls, self.unanswered = 0, 0

    async def call_until(self, stop: asyncio.Event, rate: float = RATE, most: int | None = None) -> None:
        """Call at `rate` calls a second until told to stop, or `most` times; then wait for what is under way."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        async with httpx.AsyncClient(
            base_url=self._gateway, timeout=READ_SECONDS, limits=limits, trust_env=False
        ) as client:
            try:
                await self._make_calls(client, stop, rate, most)
                if self._under_way:
                    await asyncio.wait(self._under_way, timeout=self._patience)
            finally:
                for task in self._under_way:
                    task.cancel()
                await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _make_calls(self, client: httpx.AsyncClient, stop: asyncio.Event, rate: float, most: int | None) -> None:
        began = asyncio.get_running_loop().time()
        for number in count() if most is None else range(most):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(began + number / rate):
                    await stop.wait()
            if stop.is_set():
                return
            if len(self._under_way) < MOST_AT_ONCE:
                task = asyncio.create_task(self._call(client, next(self._cards)))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _call(self, client: httpx.AsyncClient, card: Card) -> None:
        self.calls += 1
        headers = {"x-thinkcap-purpose": card.purpose} if card.purpose else {}
        request = client.build_request("POST", card.wish.path(), json=card.wish.body(), headers=headers)
        try:
            answer = await client.send(request, stream=True)
        except httpx.HTTPError:
            self.unanswered += 1
            return
        try:
            await _read(answer, LEAVES_AFTER if card.leaves else None)
        except httpx.HTTPError:
            return  # an answer that breaks off is one of the things to be seen here
        finally:
            await answer.aclose()


async def _read(answer: httpx.Response, reads: int | None) -> None:
    """Read an answer to its end, or the first few pieces of it."""
    pieces = answer.aiter_raw()
    if reads is None:
        async for _ in pieces:
            pass
    else:
        for _ in range(reads):
            await anext(pieces, None)


async def _forever(gateway: str, rate: float, seed: int) -> None:
    stop, callers = asyncio.Event(), Callers(gateway, seed=seed, patience=BRIEF)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    calling = asyncio.ensure_future(callers.call_until(stop, rate))
    while not calling.done():
        await asyncio.wait({calling}, timeout=REPORT_SECONDS)
        sys.stdout.write(f"{callers.calls} calls, {callers.unanswered} without any answer\n")
        sys.stdout.flush()
    await calling


def main(argv: Sequence[str] | None = None) -> int:
    """Call until a signal comes; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gateway.demo.traffic", description=__doc__)
    parser.add_argument("--gateway", default="http://127.0.0.1:8080", help="the gateway's address")
    parser.add_argument("--rate", type=float, default=RATE, help="calls a second")
    parser.add_argument("--seed", type=int, default=SEED, help="another order of the same calls")
    options = parser.parse_args(argv)
    if options.rate <= 0:
        parser.error("--rate must be above 0")
    asyncio.run(_forever(options.gateway, options.rate, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
