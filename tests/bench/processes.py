"""Processes of the benchmark: pinned to a core, found with all their children, their CPU time and memory read (Linux)."""

import contextlib
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
FOREIGN: Final = re.compile(r"(?i)_proxy$|^OTEL_|^PYTHONDONTWRITEBYTECODE$")
"""Variables of whoever runs this that would change what is measured."""
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, *, seconds: float = 20) -> bytes:
    """GET, or POST of a body; the answer's body. Raises OSError (urllib's errors are some)."""
    request = urllib.request.Request(url, body, dict(headers or {}))  # noqa: S310 - addresses of our own processes
    with _DIRECT.open(request, timeout=seconds) as answer:
        content: bytes = answer.read()
    return content


def tree(pid: int) -> list[int]:
    """The process and everything below it."""
    found, todo = [], [pid]
    while todo:
        pid = todo.pop()
        found.append(pid)
        with contextlib.suppress(OSError):  # it has just ended
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended, to the nanosecond for its own part; 0 if it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ended = (int(fields[13]) + int(fields[14])) / TICKS
        return time.clock_gettime((~pid << 3) | 2) + ended  # the kernel's number for the CPU clock of that process
    return 0.0


def resident_mb(pids: Sequence[int]) -> float:
    """Resident memory of these processes together."""
    status = "".join(Path(f"/proc/{pid}/status").read_text() for pid in pids)
    return sum(map(int, re.findall(r"VmRSS:\s*(\d+)", status))) / 1024


def busy_seconds() -> dict[int, float]:
    """Since boot, by core; with what the hypervisor took away."""
    busy = {}
    for line in Path("/proc/stat").read_text().splitlines():
        if found := re.match(r"cpu(\d+) ", line):
            user, nice, system, _idle, _waiting, *rest = map(int, line.split()[1:9])
            busy[int(found[1])] = (user + nice + system + sum(rest)) / TICKS
    return busy


class Pinned:
    """A process and its children on one core, in a session of their own. What they write goes to `log`."""

    def __init__(self, command: Sequence[str], core: int, log: Path, env: Mapping[str, str] | None = None) -> None:
        """Start it in the folder of its log."""
        self.log = log
        inherited = {name: value for name, value in os.environ.items() if not FOREIGN.search(name)}
        here = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})  # a child starts where its parent is
        try:
            with log.open("w") as out:
                self.process = subprocess.Popen(  # noqa: S603 - the commands stand in systems.py and peers.py
                    command,
                    env=inherited | dict(env or {}),
                    cwd=log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
        finally:
            os.sched_setaffinity(0, here)

    @property
    def said(self) -> str:
        """All it wrote so far."""
        return self.log.read_text(errors="replace")

    @property
    def pids(self) -> list[int]:
        """Itself and its children; nothing once it has ended."""
        return tree(self.process.pid) if self.process.poll() is None else []

    @property
    def cpu(self) -> float:
        """CPU seconds of all of them so far."""
        return sum(map(cpu_seconds, self.pids))

    @property
    def mb(self) -> float:
        """Resident memory of all of them."""
        return resident_mb(self.pids)

    def signal(self, number: int) -> None:
        """Send a signal to all of them."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def rest(self) -> None:
        """Stand still, so that another one has the core."""
        self.signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Go on."""
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, and what is left of its session."""
        if self.process.poll() is not None:
            return
        self.wake()
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)
