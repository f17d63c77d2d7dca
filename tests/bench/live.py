"""A system that runs: started on its core, asked until it answers, checked once, read."""

import re
import time
from http.client import HTTPException
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.figures import Counted
from tests.bench.loads import CAP, Job, Load
from tests.bench.processes import Pinned, ask
from tests.bench.systems import System, metrics_of

START_LIMIT: Final = 120.0
ACTED: Final = (
    "finish_upgrades",
    "output_overruns",
    "thinking_capped",
    "thinking_overruns",
    "level_refusals",
    "level_retries",
    "level_preempted",
)
"""Counters that stay at zero here; what moved one was other work than what is compared."""


class NotReady(Exception):
    """A system did not come up, or does not answer as it should."""


class Live:
    """One system under test. `process` is None for the load without a gateway."""

    def __init__(self, system: System, core: int, folder: Path) -> None:
        """Start it and wait until it answers. Raises NotReady."""
        self.system = system
        self.started = time.monotonic()
        self._url = system.url
        self.process = (
            Pinned(system.command, core, folder / f"{system.name}.log", system.env) if system.command else None
        )
        try:
            self._wait()
        except NotReady:
            self.stop()
            raise
        self.ready = time.monotonic()

    @property
    def url(self) -> str:
        """Where it takes calls."""
        assert self._url is not None
        return self._url

    def _wait(self) -> None:
        why = "it announced no address"
        while time.monotonic() < self.started + START_LIMIT:
            if self.process is not None and self.process.process.poll() is not None:
                raise NotReady(f"{self.system.name} ended: {self.process.said[-1500:]}")
            if self._url is None and self.system.announce and self.process is not None:
                found = re.search(self.system.announce, self.process.said)
                self._url = found[1] + self.system.path if found else None
            if self._url is not None:
                try:
                    self._ask(stream=False)
                except (OSError, HTTPException) as error:
                    why = repr(error)
                else:
                    return
            time.sleep(0.01)
        raise NotReady(f"{self.system.name} is not ready: {why}")

    def check(self) -> None:
        """It streams what the upstream streams. Raises NotReady."""
        try:
            stream = self._ask(stream=True)
        except (OSError, HTTPException) as error:
            raise NotReady(f"{self.system.name} does not stream: {error!r}") from error
        if not 5 <= stream.count(b"data: {") <= 9:
            raise NotReady(f"{self.system.name} does not stream as it should: {stream[:500]!r}")

    def _ask(self, *, stream: bool) -> bytes:
        messages = [{"role": "user", "content": "bench n=5 ms=0 hello"}]
        body = {"model": self.system.model, "stream": stream, "max_tokens": CAP, "messages": messages}
        headers = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
        return ask(self.url, msgspec.json.encode(body), headers | dict(self.system.headers))

    def job(self, load: Load) -> Job:
        """What the load generator is to do to it."""
        return Job(url=self.url, load=load, model=self.system.model, headers=self.system.headers)

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        return self.process.cpu if self.process is not None else 0.0

    @property
    def mb(self) -> float:
        """Resident memory."""
        return self.process.mb if self.process is not None else 0.0

    def wake(self) -> None:
        """Let it run."""
        if self.process is not None:
            self.process.wake()

    def rest(self) -> None:
        """Let it stand still."""
        if self.process is not None:
            self.process.rest()

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.stop()

    def counted(self) -> Counted | None:
        """Its own counters; None for a system that is not Thinkcap."""
        address = metrics_of(self.process.said) if self.process is not None else None
        return counters(ask(address).decode()) if address is not None else None


def counters(text: str) -> Counted:
    """What a page of metrics says about armed rules and rules that acted."""

    def total(name: str) -> float:
        found: list[str] = re.findall(rf"(?m)^thinkcap_{name}_total(?:{{.*?}})? (\S+)", text)
        return sum(map(float, found))

    return Counted(
        requests=total("requests"),
        armed=total("output_capped_requests"),
        spans_dropped=total("spans_dropped"),
        acted={name: moved for name in ACTED if (moved := total(name))},
    )
