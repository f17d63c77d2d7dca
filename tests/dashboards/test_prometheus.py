"""Every panel against a real Prometheus: one that watched a gateway under demo traffic, and one that knows 26 hours."""

import os
import re
import sys
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

import pytest

from gateway.demo.upstream import running as scripted_upstream
from tests.dashboards import prometheus_process as processes
from tests.dashboards.prometheus_process import Prometheus, ended, eventually, filled
from tests.dashboards.test_grafana import ASKING

ROOT: Final = Path(__file__).resolve().parents[2]
RATE: Final = "30"
"""Calls a second: a minute is then worth four of the demo."""
WATCHED_SECONDS: Final = 120.0

QUIET: Final = {
    ("overview", "Largest drift"): "needs 6 h of traffic",
    ("overview", "Alerts"): "alerts wait for minutes; the number above it says 0",
    ("thinking", "Could not act"): "the demo's methods can all act; the number beside it says 0",
    ("gateway", "Malformed events"): "the scripted server breaks no framing",
    ("gateway", "Refused keys"): "the demo has no keys; the number beside it says 0",
    ("finish-reasons", "Largest drift"): "needs 6 h of traffic",
    ("finish-reasons", "Distance by model"): "needs 6 h of traffic",
    ("finish-reasons", "What grew and what shrank"): "needs 6 h of traffic",
    ("finish-reasons", "Distance, last 15 minutes"): "needs 6 h of traffic",
    ("finish-reasons", "Turns without a word"): "every turn of the demo says how it ended, or is no turn",
    ("finish-reasons", "New in a day"): "needs a day",
}
"""(dashboard, panel) that demo traffic leaves empty, with the reason."""
DRIFT: Final = [(name, panel) for name, panel in ASKING if QUIET.get((name, panel["title"])) == "needs 6 h of traffic"]

HOURS: Final = 26
MINUTE: Final = 60
BEFORE: Final = {"stop": 98, "length": 2}
"""Turns of ten minutes, by reason."""
AFTER: Final = {"stop": 60, "length": 40}
JUMP_MINUTES: Final = 50
"""Since when it is AFTER."""

pytestmark = pytest.mark.skipif(
    bool(processes.MISSING), reason=f"not installed: {processes.MISSING} (Debian: prometheus)"
)


def asked(expr: str, window: str, span: str) -> str:
    """A query as Grafana would send it, with everything chosen."""
    text = expr.replace("$__rate_interval", window).replace("$__range", span)
    return re.sub(r"\$(job|upstream|model|purpose)\b", ".*", text)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus, a gateway with the settings of compose.yaml, the scripted server and its callers."""
    folder = tmp_path_factory.mktemp("watched")
    text = (ROOT / "dashboards/compose/thinkcap.toml").read_text(encoding="utf-8")
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "false"}
    with scripted_upstream() as upstream:
        text = text.replace("http://upstream:9000", upstream).replace('"0.0.0.0"', '"127.0.0.1"')
        (folder / "thinkcap.toml").write_text(text)
        serve = ["-m", "gateway", "serve", "-c", str(folder / "thinkcap.toml"), "--port", "0", "--metrics-port", "0"]
        with ended([sys.executable, *serve], folder / "gateway.log", environment) as gateway:
            assert gateway.stdout is not None
            found = re.search(r"ready on (\S+) metrics on http://(\S+)/metrics", gateway.stdout.readline())
            assert found, (folder / "gateway.log").read_text()
            calling = [sys.executable, "-m", "gateway.demo.traffic", "--gateway", found[1], "--rate", RATE]
            with processes.running(folder, found[2]) as prometheus, ended(calling, folder / "traffic.log"):
                yield prometheus


@pytest.fixture(scope="module")
def long_watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus with 26 hours of one model's turns, of which more end as `length` since 50 minutes ago."""
    folder = tmp_path_factory.mktemp("filled")
    filled(folder, past(int(time.time())))
    with processes.running(folder) as prometheus:
        yield prometheus


def past(now: int) -> Iterator[str]:
    """The samples: counters by reason, and the recorded turns per hour, which rules would have left behind."""
    start = now - HOURS * 3600
    times = range(start, now + 1, MINUTE)
    labels = 'job="thinkcap",upstream="openai",model="gpt-5.2"'
    yield "# TYPE thinkcap_finish_reasons counter"
    for reason in BEFORE:
        steps = ((AFTER if at > now - JUMP_MINUTES * MINUTE else BEFORE)[reason] / 10 for at in times)
        for at, value in zip(times, accumulate(steps), strict=True):
            series = f'{{{labels},instance="a:9464",reported="{reason}",returned="{reason}"}}'
            yield f"thinkcap_finish_reasons_total{series} {value:.1f} {at}"
    turns = "job_model_upstream:thinkcap_finish_reasons:increase1h"
    yield f"# TYPE {turns} gauge"
    for at in times:
        if at > start + 3600:
            yield f"{turns}{{{labels}}} 600 {at}"


def test_every_panel_shows_what_the_demo_does(watched: Prometheus) -> None:
    """After a minute or two of traffic no panel is empty but those that say so, and why."""
    waiting = {
        (name, panel["title"], number): asked(target["expr"], "1m", "2m")
        for name, panel in ASKING
        for number, target in enumerate(panel["targets"])
        if (name, panel["title"]) not in QUIET
    }

    def all_have_data() -> bool:
        for key in [key for key, query in waiting.items() if watched.ask(query)]:
            del waiting[key]
        return not waiting

    assert eventually(all_have_data, WATCHED_SECONDS, 5), sorted(waiting)


@pytest.mark.parametrize("metric", ["thinkcap_output_overruns_total", "thinkcap_request_seconds_bucket"])
def test_dots_come_with_a_trace(watched: Prometheus, metric: str) -> None:
    """Counters and histograms carry the trace of a call, and Prometheus keeps it."""
    assert eventually(lambda: bool(watched.exemplars(metric)), 60)
    assert all(re.fullmatch(r"[0-9a-f]{32}", dot["labels"]["trace_id"]) for dot in watched.exemplars(metric))


def test_what_is_quiet_is_a_panel() -> None:
    """The list of empty panels names none that is gone."""
    assert set(QUIET) <= {(name, panel["title"]) for name, panel in ASKING}
    assert len(DRIFT) == 5


def test_drift_is_shown_where_there_is_a_past(long_watched: Prometheus) -> None:
    """With a day of traffic every panel on drift has data, and the distance is what the samples say."""
    queries = [asked(target["expr"], "1m", "3h") for _, panel in DRIFT for target in panel["targets"]]
    assert eventually(lambda: all(long_watched.ask(query) for query in queries), 60)
    (distance,) = long_watched.ask("job_model_upstream:thinkcap_finish_reasons:tvd1h")
    # fifty minutes of the hour at 40 per cent, ten at 2: a third of the turns changed sides, less a little for edges
    assert 0.27 < float(distance["value"][1]) < 0.36
