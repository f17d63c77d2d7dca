"""A real Prometheus for tests, on a free port of 127.0.0.1, with the rules of this repository at a quick pace."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

RULES: Final = Path(__file__).resolve().parents[2] / "dashboards" / "prometheus"
SECONDS: Final = 2
"""Between two scrapes, and between two evaluations of a rule."""
START_SECONDS: Final = 120.0
MISSING: Final = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        """Take its address."""
        self.url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        """What an instant query answers."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=60, trust_env=False)
        assert answer.status_code == 200, f"{answer.text}\n{query}"
        result = answer.json()["data"]["result"]
        return result if isinstance(result, list) else [result]

    def exemplars(self, query: str) -> list[dict[str, Any]]:
        """The exemplars of the last ten minutes."""
        now = time.time()
        asked = {"query": query, "start": str(now - 600), "end": str(now + 60)}
        answer = httpx.get(f"{self.url}/api/v1/query_exemplars", params=asked, timeout=60, trust_env=False)
        return [dot for series in answer.json()["data"] for dot in series["exemplars"]]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def eventually(holds: Callable[[], bool], seconds: float, every: float = 1.0) -> bool:
    """Whether it holds before time is over."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True


@contextmanager
def ended(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that is told to end, and waited for."""
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603 - programs of the test's own choice
            command, stdout=subprocess.PIPE, stderr=output, text=True, env=environment
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def running(folder: Path, *targets: str) -> Iterator[Prometheus]:
    """Prometheus on the data in `folder`, scraping the targets as job `thinkcap`."""
    names = []
    for name in ("recording.rules.yml", "alerts.rules.yml"):
        text = (RULES / name).read_text(encoding="utf-8")
        (folder / name).write_text(
            re.sub(r"^    interval: \w+$", f"    interval: {SECONDS}s", text, flags=re.MULTILINE)
        )
        names.append(name)
    settings = [
        f"global: {{scrape_interval: {SECONDS}s, scrape_timeout: {SECONDS}s, evaluation_interval: {SECONDS}s}}",
        f"rule_files: [{', '.join(names)}]",
        *(
            ["scrape_configs:", "  - job_name: thinkcap", f"    static_configs: [{{targets: {list(targets)}}}]"]
            if targets
            else []
        ),
    ]
    (folder / "prometheus.yml").write_text("\n".join(settings) + "\n")
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--enable-feature=exemplar-storage",
    ]
    with ended(command, folder / "prometheus.log"):

        def ready() -> bool:
            try:
                return httpx.get(f"{url}/-/ready", timeout=10, trust_env=False).status_code == 200
            except httpx.HTTPError:
                return False

        assert eventually(ready, START_SECONDS, 0.2), (folder / "prometheus.log").read_text()
        yield Prometheus(url)


def filled(folder: Path, lines: Iterator[str]) -> None:
    """Put samples of the past into `folder`: text of OpenMetrics, without its last line."""
    path = folder / "past.om"
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(path), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own file
    assert done.returncode == 0, done.stdout + done.stderr
    path.unlink()
