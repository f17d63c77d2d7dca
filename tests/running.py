"""A gateway as a process of its own, as its users run it: started, asked, scraped, stopped, in bounded time."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

ROOT: Final = Path(__file__).parents[1]
LIMIT_SECONDS: Final = 60.0
READY: Final = re.compile(r"thinkcap ready on (http://\S+) metrics on (http://\S+/metrics)\n")
Sample = tuple[str, frozenset[tuple[str, str]]]


class Running:
    """One gateway process. `stdout` has the lines it wrote there; `log` what it wrote to stderr."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.url = self.metrics_url = ""
        self.stdout: list[str] = []
        self.log: list[str] = []
        self.ready = threading.Event()
        self._readers = [threading.Thread(target=reader, daemon=True) for reader in (self._read_stdout, self._read_log)]
        for reader in self._readers:
            reader.start()

    def _read_stdout(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.stdout.append(line)
            if found := READY.fullmatch(line):
                self.url, self.metrics_url = found[1], found[2]
                self.ready.set()
        self.ready.set()  # it ended without having been ready

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    @property
    def port(self) -> int:
        """Where it listens for callers."""
        return int(self.url.rpartition(":")[2])

    def rss_mb(self) -> float:
        """What the process holds now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def metrics(self) -> dict[Sample, float]:
        """Every sample of /metrics, by name and labels."""
        text = httpx.get(self.metrics_url, timeout=LIMIT_SECONDS, trust_env=False).text
        families = text_string_to_metric_families(text)
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    def counted(self, name: str, **labels: str) -> float:
        """The sum of all samples of a name that have these labels."""
        wanted = labels.items()
        return sum(value for (found, has), value in self.metrics().items() if found == name and wanted <= has)

    def wait(self) -> int:
        """Wait for the end; the exit status, once everything it wrote was read."""
        status = self.process.wait(LIMIT_SECONDS)
        for reader in self._readers:
            reader.join(LIMIT_SECONDS)
        return status


@contextmanager
def running(settings: str, **environ: str) -> Iterator[Running]:
    """Serve with these settings on free ports until the block ends; it is ready, or has ended, when this yields."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_") and not k.lower().endswith("_proxy")}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "thinkcap.toml"
        file.write_text(settings, encoding="utf-8")
        argv = [sys.executable, "-m", "gateway", "serve", "-c", str(file), "--port", "0", "--metrics-port", "0"]
        process = subprocess.Popen(  # noqa: S603 - it is the gateway under test
            argv, cwd=ROOT, env=inherited | environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        gateway = Running(process)
        try:
            assert gateway.ready.wait(LIMIT_SECONDS)
            yield gateway
        finally:
            for end in (process.terminate, process.kill):
                if process.poll() is None:
                    end()
                    try:
                        process.wait(LIMIT_SECONDS / 3)
                    except subprocess.TimeoutExpired:
                        continue
            gateway.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


def until(condition: Callable[[], bool], seconds: float = LIMIT_SECONDS) -> None:
    """Wait for something to become true; fails when it does not in time."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not become true in time"
        time.sleep(0.01)
