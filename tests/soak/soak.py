"""`make soak`: mixed traffic with random faults against a gateway process, for 10 minutes or as long as it is told.

Prints the fault matrix, figures with their bounds, and the soak as tables. Ends with 1 when one of these does not hold,
when memory grew, or when the counters are not, outcome by outcome, exactly what the callers saw.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from typing import Final

from gateway.words import DIALECTS
from tests.faults.caller import Answer, ask
from tests.faults.living import run
from tests.faults.matrix import lines, run_all
from tests.faults.upstream import scripted
from tests.faults.wires import request
from tests.running import Running, running
from tests.soak.figures import measure, table

SECONDS: Final = 600.0
WARM: Final = 0.5
"""Part of the time after which memory is expected to stay as it is."""
JUDGED_FROM: Final = 300.0
"""Seconds: the allocator has not settled earlier, so the slope of a shorter run is held to BYTES_PER_CALL alone."""
SLOPE_MB_PER_HOUR: Final = 60.0
BYTES_PER_CALL: Final = 400.0
"""Less than any object a call could leave behind with what hangs on it: a task alone has a hundred more."""
RSS_LIMIT_MB: Final = 256.0
"""Idle, and half a megabyte for each of the calls that may run at once on a machine that has no time for them."""
SHARE: Final = 0.7
"""Of the rate that one burst of plain calls reaches."""
CALLERS: Final = 32
SCRIPTS: Final[dict[str, tuple[int, frozenset[str]]]] = {
    "well": (60, frozenset({"ok"})),
    "slow_headers": (3, frozenset({"ok"})),
    "gzip_whole": (5, frozenset({"ok"})),
    "gzip_truncated": (3, frozenset({"upstream_error", "stream_error"})),
    "reset_before_headers": (3, frozenset({"upstream_error"})),
    "reset_inside_event": (3, frozenset({"upstream_error", "stream_error"})),
    "end_inside_chunk": (3, frozenset({"upstream_error", "stream_error"})),
    "length_long": (3, frozenset({"upstream_error", "stream_error"})),
    "strange_status": (2, frozenset({"upstream_error"})),
    "redirect": (2, frozenset({"upstream_error"})),
    "no_headers": (5, frozenset({"client_gone"})),
    "stall_in_body": (5, frozenset({"client_gone"})),
    "endless": (3, frozenset({"client_gone"})),
}
"""What the upstream does: how often, and which outcomes it may have. Callers of those that never end leave."""
LEAVES: Final = frozenset({"no_headers", "stall_in_body", "endless"})


def settings(port: int) -> str:
    """An upstream and a model for each script."""
    dialects = ", ".join(f'"{dialect}"' for dialect in DIALECTS)
    return "\n".join(
        f'[upstreams.{name}]\nurl = "http://127.0.0.1:{port}/{name}.{name}"\ndialects = [{dialects}]\n[models.{name}]\nupstream = "{name}"'
        for name in SCRIPTS
    )


def outcome_of(answer: Answer, *, stream: bool) -> str:
    """How a call ended, as its caller saw it."""
    if answer.left_at:
        return "client_gone"
    if answer.status != 200:
        return "upstream_error"
    return "stream_error" if stream and b"upstream_protocol_error" in answer.body else "ok"


class Soak:
    """One run: what was sent, what came of it by the callers' own account, and what memory was."""

    def __init__(self, gateway: Running, seconds: float) -> None:
        self.gateway, self.seconds = gateway, seconds
        self.told: Counter[tuple[str, str]] = Counter()
        self.memory: list[tuple[float, int, float]] = []
        """Seconds, calls that had ended, MB."""
        self.wrong: list[str] = []
        self._dice = random.Random(7)  # noqa: S311 - traffic, not secrets

    async def call(self, script: str) -> None:
        """One call, of any dialect, streamed or not."""
        dialect, stream = self._dice.choice(DIALECTS), self._dice.random() < 0.7
        gone = asyncio.Event()
        if script in LEAVES:
            asyncio.get_running_loop().call_later(0.05 + self._dice.random() / 10, gone.set)
        sent = request(dialect, script, stream=stream)
        try:
            answer = await ask(self.gateway.port, sent, on=gone if script in LEAVES else None)
        except TimeoutError:
            self.wrong.append(f"{script} in {dialect}, {'streamed' if stream else 'whole'}: no end")
            return
        outcome = outcome_of(answer, stream=stream)
        if outcome not in SCRIPTS[script][1]:
            self.wrong.append(f"{script} in {dialect}: {outcome}")
        self.told[script, outcome] += 1

    async def capacity(self) -> float:
        """Calls a second when callers do not wait."""
        began, calls = time.monotonic(), 400

        async def some() -> None:
            for _ in range(calls // 8):
                await self.call("well")

        await asyncio.gather(*(some() for _ in range(8)))
        return calls / (time.monotonic() - began)

    async def traffic(self, rate: float) -> None:
        """Calls at this rate until the time is over, a sample of memory each second."""
        names, weights = list(SCRIPTS), [weight for weight, _ in SCRIPTS.values()]
        running_calls: set[asyncio.Task[None]] = set()
        began = time.monotonic()
        due = sampled = 0.0
        while (now := time.monotonic() - began) < self.seconds:
            if now >= sampled:
                sampled = now + 1
                self.memory.append((now, self.told.total(), self.gateway.rss_mb()))
            while due <= now and len(running_calls) < 8 * CALLERS:
                due += 1 / rate
                task = asyncio.ensure_future(self.call(self._dice.choices(names, weights)[0]))
                running_calls.add(task)
                task.add_done_callback(running_calls.discard)
            due = max(due, now - 1)
            await asyncio.sleep(0.005)
        await asyncio.gather(*running_calls)

    def counted(self) -> Counter[tuple[str, str]]:
        """The same by the gateway's account, once it has seen every end."""
        for _ in range(200):
            if self.gateway.counted("thinkcap_requests_total") >= self.told.total():
                break
            time.sleep(0.05)
        found: Counter[tuple[str, str]] = Counter()
        for (name, labels), value in self.gateway.metrics().items():
            if name == "thinkcap_requests_total" and value:
                has = dict(labels)
                found[has["model"], has["outcome"]] += int(value)
        return found


def slope(points: list[tuple[float, float]]) -> float:
    """How much the second grows with the first, by least squares."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


async def soak(seconds: float) -> bool:
    """Run and report; whether all is well."""
    async with scripted() as upstream:
        with running(settings(upstream.port)) as gateway:
            run_ = Soak(gateway, seconds)
            rate = SHARE * await run_.capacity()
            await run_.traffic(rate)
            found = await asyncio.to_thread(run_.counted)
            inflight = gateway.counted("thinkcap_inflight_requests")
            errors = [line for line in gateway.log if "unexpected" in line or "Traceback" in line]
    return report(run_, rate, found, errors + [f"{inflight:.0f} calls still counted as running"] * bool(inflight))


def report(soaked: Soak, rate: float, found: Counter[tuple[str, str]], errors: list[str]) -> bool:
    """Print the table; whether it is what it should be."""
    out = [f"\n{'upstream does':22} {'outcome':16} {'callers saw':>12} {'counted':>9}"]
    for key in sorted(soaked.told.keys() | found.keys()):
        told, count = soaked.told[key], found[key]
        out += [f"{key[0]:22} {key[1]:16} {told:12} {count:9}{'' if told == count else '  <-- differs'}"]
    settled = [sample for sample in soaked.memory if sample[0] >= WARM * soaked.seconds]
    hourly = 3600 * slope([(seconds, mb) for seconds, _, mb in settled])
    each = 2**20 * slope([(calls, mb) for _, calls, mb in settled])
    out.append(
        f"{soaked.told.total()} calls sent, {found.total()} counted, at up to {rate:.0f} a second for {soaked.seconds:.0f} s"
    )
    out.append(
        f"RSS {settled[0][2]:.1f} -> {settled[-1][2]:.1f} MB after warming up: {each:+.0f} bytes a call, {hourly:+.1f} MB/h"
    )
    long = soaked.seconds >= JUDGED_FROM
    below = max(mb for *_, mb in soaked.memory) < RSS_LIMIT_MB
    flat = below and each < BYTES_PER_CALL and (hourly < SLOPE_MB_PER_HOUR or not long)
    out.append(f"memory {'stays' if flat else 'GREW'}{'' if long else '; too short a run for its slope by the hour'}")
    print(*out, *soaked.wrong[:20], *errors[:20], sep="\n", flush=True)  # noqa: T201 - it is a report
    return soaked.told == found and flat and not soaked.wrong and not errors


def main() -> int:
    """The matrix, the figures, then the soak; the first argument is the seconds."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    print(*lines(run(run_all())), sep="\n", flush=True)  # noqa: T201 - it is a report
    figures = asyncio.run(measure())
    print("", *table(figures), sep="\n", flush=True)  # noqa: T201 - it is a report
    well = asyncio.run(soak(seconds))
    return 0 if well and all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
