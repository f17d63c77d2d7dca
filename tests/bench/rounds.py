"""Measures: interleaved rounds of loads, memory with open streams, starts. Fills a Kept and lets it be saved.

One core has the upstream, the receiver and the load generator, the other one system under test at a time, while the
others stand still. Rounds go A B C, B C A, ..., so that a slow minute hits everybody; ratios are taken within a round.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import structs

from tests.bench.figures import Figure, Kept, Opening, Standing, Start
from tests.bench.live import Live, NotReady
from tests.bench.loads import DEAR, LOADS, Opened, Result
from tests.bench.processes import Pinned, ask, busy_seconds, cpu_seconds
from tests.bench.receiver import Seen
from tests.bench.systems import ROOT, Ports, System

SETTLE: Final = 0.6
"""Seconds after a load that still count, so that work put off until after the answer is charged as well."""
TRIES: Final = 2
WARM: Final = ("plain16", "burst32")
"""Loads that each system has a second of before anything counts."""
LIMIT_SECONDS: Final = 120.0
OPEN_SECONDS: Final = 2.5
"""How long open streams settle, and then how long their CPU time is taken."""
BROKEN: Final = (OSError, RuntimeError, NotReady, subprocess.TimeoutExpired, msgspec.DecodeError)

Save = Callable[[], None]


def say(*words: object) -> None:
    """Progress, on stderr."""
    sys.stderr.write(" ".join(map(str, words)) + "\n")
    sys.stderr.flush()


class Bench:
    """The upstream and the receiver, and what is measured against them. `cores`: of the load, of the system."""

    def __init__(self, folder: Path, ports: Ports, cores: tuple[int, int]) -> None:
        """Write logs and settings to this folder."""
        self._folder, self._ports = folder, ports
        self._load_core, self._core = cores
        self._beside: list[Pinned] = []
        self._live: list[Live] = []

    def __enter__(self) -> Self:
        """Start upstream and receiver, and go to the core of the load."""
        os.sched_setaffinity(0, {self._load_core})  # the load generator inherits it
        for name, port in (("upstream", self._ports.upstream), ("receiver", self._ports.receiver)):
            command = (sys.executable, "-m", f"tests.bench.{name}", str(port))
            log = self._folder / f"{name}.log"
            self._beside.append(Pinned(command, self._load_core, log, {"PYTHONPATH": str(ROOT)}))
        self._wait_for(f"http://127.0.0.1:{self._ports.upstream}/", b"{}")
        self._wait_for(f"http://127.0.0.1:{self._ports.receiver}/", None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything that was started."""
        for live in self._live:
            live.stop()
        for process in self._beside:
            process.stop()

    def _wait_for(self, url: str, body: bytes | None) -> None:
        ends = time.monotonic() + LIMIT_SECONDS / 4
        while True:
            try:
                ask(url, body)
            except OSError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)
            else:
                return

    def start(self, system: System) -> Live:
        """Start a system and check that it streams. Raises NotReady."""
        live = Live(system, self._core, self._folder)
        self._live.append(live)
        live.check()
        return live

    def starts(self, systems: Sequence[System], times: int, kept: Kept) -> None:
        """Start each so many times, in turns."""
        for number in range(times):
            for system in systems:
                if not system.command:
                    continue
                try:
                    live = Live(system, self._core, self._folder)
                except BROKEN as error:
                    say("FAILED start", system.name, error)
                    continue
                start = Start(seconds=live.ready - live.started, cpu=live.cpu)
                kept.starts.setdefault(system.name, []).append(start)
                say(number, "start", system.name, f"{start.seconds:.2f} s, {start.cpu:.2f} s of CPU")
                live.stop()

    def memory(self, systems: Sequence[System], loads: Sequence[str], kept: Kept) -> None:
        """Memory of each alone: fresh and idle after a few calls, then with open streams."""
        for system in systems:
            if not system.command:
                continue
            try:
                live = self.start(system)
                self._load(live, "plain16", seconds=0.3)
                time.sleep(1)
                kept.standing[system.name] = standing = Standing(idle_mb=live.mb, openings=[])
                for name in loads:
                    if (system.name, name) not in DEAR:
                        standing.openings.append(self._opening(live, name))
                        say(name, system.name, standing.openings[-1])
            except BROKEN as error:
                say("FAILED", system.name, error)
            for started in self._live:
                started.stop()

    def _opening(self, live: Live, name: str) -> Opening:
        with self._generator(live, name, LOADS[name].seconds) as generator:
            assert generator.stdin is not None
            assert generator.stdout is not None
            try:
                opened = msgspec.json.decode(generator.stdout.readline(), type=Opened)
                time.sleep(OPEN_SECONDS)
                used, since = live.cpu, time.monotonic()
                time.sleep(OPEN_SECONDS)
                used = (live.cpu - used) / (time.monotonic() - since)
                return Opening(load=name, opened=opened.opened, mb=live.mb, core_used=used)
            finally:
                generator.stdin.close()

    def rounds(self, systems: Sequence[System], loads: Sequence[str], rounds: int, kept: Kept, save: Save) -> None:
        """Every load on every system, round after round."""
        ready = list(self._warm(systems))
        for number in range(rounds):
            for name in loads:
                turn = number % len(ready) if ready else 0
                for live in ready[turn:] + ready[:turn]:
                    if (live.system.name, name) not in DEAR:
                        self._one(live, name, number, kept)
            save()
        for live in ready:
            live.wake()
            counted = live.counted()
            if counted is not None:
                kept.counted[live.system.name] = counted
        save()

    def _warm(self, systems: Sequence[System]) -> Iterator[Live]:
        for system in systems:
            try:
                live = self.start(system)
                for name in WARM:
                    self._load(live, name, seconds=1.0)
            except BROKEN as error:
                say("LEFT OUT", system.name, error)
            else:
                live.rest()
                yield live

    def _one(self, live: Live, name: str, number: int, kept: Kept) -> None:
        live.wake()
        time.sleep(0.05)
        try:
            figure = self._quietest(live, name, number)
        except BROKEN as error:
            say("FAILED", name, live.system.name, repr(error)[:300])
        else:
            kept.figures.setdefault(name, {}).setdefault(live.system.name, []).append(figure)
            unit = f"{figure.result.rate:.0f}/s {figure.cpu_us or 0:.1f} us"
            said = f"{unit} strangers {figure.foreign:.2f}, {figure.foreign_load:.2f}"
            trouble = f"BAD {figure.result.bad}, last status {figure.result.last_status}" if figure.result.bad else ""
            say(number, name, live.system.name, said, trouble)
        live.rest()

    def _quietest(self, live: Live, name: str, number: int) -> Figure:
        """Measured once more where strangers used the cores; the quieter of the two."""
        best: Figure | None = None
        for _ in range(TRIES):
            figure = self._measure(live, name, number)
            if best is None or figure.foreign < best.foreign:
                best = figure
            if not figure.noisy:
                break
        assert best is not None
        return best

    def _measure(self, live: Live, name: str, number: int) -> Figure:
        spans, before, busy, since = self._spans(), (live.cpu, self._own()), busy_seconds(), time.monotonic()
        result = self._load(live, name, LOADS[name].seconds)
        time.sleep(SETTLE)
        took = time.monotonic() - since
        used, own = live.cpu - before[0], self._own() - before[1]
        after = busy_seconds()
        units = result.chunks or result.done
        return Figure(
            round=number,
            result=result,
            cpu_us=used / units * 1e6 if units and live.process is not None else None,
            core_used=used / result.wall,
            spans=(self._spans() - spans) / max(1, result.done),
            foreign=max(0.0, (after[self._core] - busy[self._core] - used) / took),
            foreign_load=max(0.0, (after[self._load_core] - busy[self._load_core] - own) / took),
        )

    def _spans(self) -> int:
        return msgspec.json.decode(ask(f"http://127.0.0.1:{self._ports.receiver}/"), type=Seen).spans

    def _own(self) -> float:
        """CPU seconds of the load core's own people."""
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return sum(u.ru_utime + u.ru_stime for u in usage) + sum(cpu_seconds(p.process.pid) for p in self._beside)

    def _load(self, live: Live, name: str, seconds: float) -> Result:
        with self._generator(live, name, seconds) as generator:
            try:
                out, _ = generator.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                generator.kill()
                raise
        return msgspec.json.decode(out, type=Result)

    def _generator(self, live: Live, name: str, seconds: float) -> subprocess.Popen[bytes]:
        job = live.job(structs.replace(LOADS[name], seconds=seconds))
        command = [sys.executable, "-m", "tests.bench.callers", msgspec.json.encode(job).decode()]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe)  # noqa: S603 - our own module
