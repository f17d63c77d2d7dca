"""What a gateway process holds and how it answers under load, as figures with their bounds."""

import asyncio
from contextlib import AsyncExitStack

import httpx
from msgspec import Struct

from tests.faults.caller import ask
from tests.faults.scripts import LARGE
from tests.faults.streams import open_streams, unread
from tests.faults.upstream import scripted
from tests.faults.wires import post, request
from tests.running import running

STREAMS, DEAF = 1000, 64
AHEAD_KIB = 512.0
"""What a stream may take beyond its largest event, however slow its caller."""


class Figure(Struct, frozen=True):
    """One figure and the most it may be."""

    what: str
    measured: float
    most: float
    unit: str

    @property
    def holds(self) -> bool:
        """It is within its bound."""
        return self.measured <= self.most


def table(figures: list[Figure]) -> list[str]:
    """Lines, a header first."""
    head = f"{'figure':66} {'measured':>10} {'at most':>9}"
    rows = [
        f"{one.what:66} {one.measured:10.1f} {one.most:9.0f} {one.unit}{'' if one.holds else '  <-- too much'}"
        for one in figures
    ]
    return [head, *rows]


async def measure() -> list[Figure]:
    """All of them, each on a gateway of its own."""
    found = [await _many_streams()]
    for script, event_kib, what in (
        ("endless", 0.0, "a stream of small events"),
        ("endless_large", LARGE / 1024, "a stream of 1 MiB events"),
    ):
        found.append(await _deaf_callers(script, event_kib, what))
    return [*found, *await _overload()]


async def _many_streams() -> Figure:
    async with scripted() as upstream:
        with running(upstream.settings("stall_in_body", "[server]\nmax_inflight = 2000")) as gateway:
            ends = asyncio.Event()
            tasks = await open_streams(gateway.port, upstream, STREAMS, ends)
            held = gateway.rss_mb()
            ends.set()
            await asyncio.gather(*tasks)
    return Figure(f"RSS with {STREAMS} open streams", held, 150, "MB")


async def _deaf_callers(script: str, event_kib: float, what: str) -> Figure:
    """Callers who read nothing of a stream that comes as fast as it may; memory once it has come to a standstill."""
    async with scripted() as upstream:
        with running(upstream.settings(script)) as gateway:
            await ask(gateway.port, request("chat", "m", stream=True), leave=lambda answer: bool(answer.body))
            before = gateway.rss_mb()
            async with AsyncExitStack() as callers:
                for _ in range(DEAF):
                    callers.enter_context(await unread(gateway.port))
                await upstream.seen["all"].standstill(requests=1 + DEAF, seconds=0.5)
                held = (gateway.rss_mb() - before) * 1024 / DEAF
    return Figure(f"KiB held for {what} whose caller reads nothing", held, event_kib + AHEAD_KIB, "KiB")


async def _overload() -> list[Figure]:
    """With all places taken: every further call is told so at once, health and counters answer."""
    async with scripted() as upstream:
        with running(upstream.settings("stall_in_body", "[server]\nmax_inflight = 8")) as gateway:
            ends = asyncio.Event()
            tasks = await open_streams(gateway.port, upstream, 8, ends)
            refused = [await ask(gateway.port, request("chat", "m", stream=True)) for _ in range(50)]
            health = await ask(gateway.port, post("/health/live", b"", method="GET"))
            scrape = await asyncio.to_thread(httpx.get, gateway.metrics_url, trust_env=False)
            counted = await asyncio.to_thread(gateway.counted, "thinkcap_requests_total", outcome="overloaded")
            ends.set()
            await asyncio.gather(*tasks)
    told = sum(answer.status == 503 and answer.header(b"retry-after") == b"1" for answer in refused)
    return [
        Figure("calls beyond max_inflight that were not told 503 and Retry-After", len(refused) - told, 0, "of 50"),
        Figure("calls beyond max_inflight that were not counted as overloaded", len(refused) - counted, 0, "of 50"),
        Figure(
            "health and metrics that did not answer meanwhile",
            (health.status, scrape.status_code).count(200) * -1 + 2,
            0,
            "of 2",
        ),
    ]
