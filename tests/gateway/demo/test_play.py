"""`thinkcap demo` as people run it: what it says is what was counted, and nothing is left behind."""

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from gateway.demo import play
from gateway.demo.counters import Counters
from gateway.demo.llama import real
from gateway.demo.play import Options, demo
from gateway.demo.upstream import listening
from tests.cases.telemetry_text import Series, read_metrics

DEMO = (sys.executable, "-m", "gateway", "demo", "--seconds")
PATIENCE = 60.0


def processes_of(session: int) -> list[int]:
    """Ids of the processes of a session that still run; Linux tells."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts demos in sessions of their own, and kills by id what a failing test leaves of them."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **how: Any) -> subprocess.Popen[str]:
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | how
        running.append(subprocess.Popen([*DEMO, *arguments], start_new_session=True, **how))  # noqa: S603 - our own demo
        return running[-1]

    yield start
    for process in running:
        for pid in processes_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait(PATIENCE)
        if process.stdout is not None:
            process.stdout.close()


def metrics_address(process: subprocess.Popen[str]) -> str:
    """The address of /metrics, which is the first thing a demo says."""
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


def number(pattern: str, text: str) -> int:
    """The number in a line of the summary; 0 where there is no such line."""
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else 0


def test_it_ends_well_and_leaves_nothing_behind(started: Any) -> None:
    """Three seconds without a terminal: status 0, lines, a summary that adds up, no process left."""
    process = started("3")
    metrics, polled = metrics_address(process), 0
    while process.poll() is None:
        with suppress(httpx.HTTPError):  # it goes away while it is asked
            polled = Counters(httpx.get(metrics, trust_env=False).text).total("thinkcap_requests_total")
        time.sleep(0.2)
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    assert processes_of(process.pid) == []
    calls = number(r"CALLS: ([\d,]+)", text)
    outcomes = re.search(r"CALLS.*\n((?: +\d.*\n)+)", text)
    assert outcomes is not None
    assert calls == sum(int(row.split()[0]) for row in outcomes[1].splitlines())
    assert 0 <= polled <= calls
    assert calls > 0
    assert "Traceback" not in text
    assert "\x1b" not in text


def test_the_summary_says_what_the_counters_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure is that of the last scrape, as another reader of Prometheus' text finds it."""
    scrapes: list[str] = []

    class Kept(Counters):
        def __init__(self, text: str) -> None:
            scrapes.append(text)
            super().__init__(text)

    monkeypatch.setattr(play, "Counters", Kept)
    out = io.StringIO()
    assert demo(Options(seconds=4.0), Console(file=out, width=100)) == 0
    samples, text = read_metrics(scrapes[-1]), out.getvalue()

    def total(name: str, **labels: str) -> int:
        wanted = Series(name, frozenset(labels.items()))
        return round(sum(value for series, value in samples.items() if wanted.covers(series)))

    overruns = total("thinkcap_output_overruns_total")
    upgraded = total("thinkcap_output_overruns_total", verdict="upgraded")
    assert upgraded > 0
    assert number(r"CALLS: ([\d,]+)", text) == total("thinkcap_requests_total")
    assert number(r"OUTPUT CAP: ([\d,]+)", text) == overruns
    assert number(r"of ([\d,]+) turns? under a cap", text) == total("thinkcap_output_capped_requests_total")
    assert number(r"([\d,]+) tokens? past the caps", text) == total("thinkcap_output_overrun_tokens_total")
    assert number(r"([\d,]+)  said `stop`", text) == upgraded == total("thinkcap_finish_upgrades_total", kind="over")
    assert number(r"([\d,]+)  left as", text) == overruns - upgraded
    assert number(r"THINKING CAP: ([\d,]+)", text) == total("thinkcap_thinking_capped_total")
    assert number(r"([\d,]+)  told to answer, and", text) == total("thinkcap_thinking_capped_total", outcome="ended")
    assert number(r"refused ([\d,]+) attempts?", text) == total("thinkcap_level_refusals_total")
    assert total("thinkcap_inflight_requests") == 0


def test_a_terminal_gets_a_live_table(started: Any) -> None:
    """Under a pty the table is drawn again and again, then gives way to the summary."""
    main, side = pty.openpty()
    process = started(
        "3", stdin=side, stdout=side, stderr=side, text=False, env=os.environ | {"TERM": "xterm-256color"}
    )
    os.close(side)
    drawn = b""
    while True:
        try:
            drawn += (part := os.read(main, 65536))
        except OSError:  # the other side is closed
            break
        if not part:
            break
    os.close(main)
    assert process.wait(PATIENCE) == 0
    assert drawn.count(b"thinkcap demo") > 1
    assert drawn.rindex(b"THINKING LEVELS: upstreams") > drawn.rindex(b"thinkcap demo")
    assert b"Traceback" not in drawn
    assert processes_of(process.pid) == []


def test_an_interrupt_ends_it_early_with_a_summary(started: Any) -> None:
    """Ctrl-C, which reaches the whole group: the callers stop, what was counted is told, and the status is 0."""
    process = started("600")
    metrics_address(process)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text
    assert "CALLS: " in text
    assert processes_of(process.pid) == []


def test_a_demo_that_is_killed_takes_its_gateway_with_it(started: Any) -> None:
    """The gateway hears no Ctrl-C, and yet not even SIGKILL leaves it behind: it ends with who holds its input."""
    process = started("600")
    metrics_address(process)
    assert len({os.getpgid(pid) for pid in processes_of(process.pid)}) == 2
    process.kill()
    deadline = time.monotonic() + PATIENCE
    while processes_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(process.pid) == []


def test_a_port_that_is_taken_is_said_in_one_line(started: Any) -> None:
    """Status 2, and the gateway's own words."""
    with listening() as taken:
        port = taken.getsockname()[1]
        text, _ = started("3", "--port", str(port)).communicate(timeout=PATIENCE)
    assert text.count("\n") == 1
    assert f"server.port: 127.0.0.1:{port} cannot be listened on" in text


def test_without_the_extra_live_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 2 and one line that names the command to type."""
    reason = "the extra `live` is not installed (pip install 'thinkcap[live]')"
    monkeypatch.setattr(real, "missing", lambda: reason)
    out = io.StringIO()
    assert demo(Options(live=True), Console(file=out, width=40)) == 2
    assert out.getvalue() == f"thinkcap demo: --live needs a real llama.cpp server: {reason}\n"
