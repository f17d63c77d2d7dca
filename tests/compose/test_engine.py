"""The whole of compose.yaml on a Docker engine: up with two gateways, looked at from outside, drained, down.

Runs where `docker compose` reaches an engine that has or can fetch the images; DOCKER_HOST says which. Some six minutes,
most of them for the alert.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = ("-f", "compose.yaml", "-f", "tests/compose/compose.ci.yaml")
PORTS: Final = ("THINKCAP_PORT", "GRAFANA_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT", "JAEGER_PORT")
GATEWAYS: Final = 2

T = TypeVar("T")


def why_not() -> str | None:
    """What is missing for these tests."""
    if shutil.which("docker") is None:
        return "no docker command"
    for command in (["docker", "compose", "version"], ["docker", "info"]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - fixed
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)} does not answer"
        if done.returncode:
            return f"{' '.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
    return None


MISSING: Final = why_not()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"no Docker engine: {MISSING}")


class Stack:
    """A project of its own, on free ports."""

    def __init__(self) -> None:
        """Choose name and ports."""
        self.name = f"thinkcap-test-{os.getpid()}"
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))

    def compose(self, *arguments: str, seconds: float = 120, check: bool = True) -> str:
        """Run docker compose; its output."""
        environment = os.environ | {name: str(port) for name, port in self.ports.items()}
        done = subprocess.run(  # noqa: S603 - fixed words and our own arguments
            ["docker", "compose", "-p", self.name, *FILES, "--profile", "demo", *arguments],  # noqa: S607 - the one there is
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    def get(self, port: str, path: str, **options: Any) -> httpx.Response:
        """One GET to a published port."""
        return httpx.get(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=60, trust_env=False, **options)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What Prometheus answers now."""
        found: list[dict[str, Any]] = self.get("PROMETHEUS_PORT", "/api/v1/query", params={"query": expr}).json()[
            "data"
        ]["result"]
        return found


def free_ports(count: int) -> Sequence[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for sock in sockets:
        sock.bind(("127.0.0.1", 0))
    numbers = [int(sock.getsockname()[1]) for sock in sockets]
    for sock in sockets:
        sock.close()
    return numbers


def eventually(what: Callable[[], T], seconds: float) -> T:
    """The first true answer, asked every two seconds; the last one when time is over is a failure."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(2)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The demo profile with two gateways, healthy; taken down with its volumes."""
    stack = Stack()
    try:
        stack.compose("build", seconds=600)
        stack.compose("up", "-d", "--wait", "--wait-timeout", "180", "--scale", f"gateway={GATEWAYS}", seconds=400)
        yield stack
    finally:
        stack.compose("down", "-v", "--remove-orphans", "-t", "10", seconds=180, check=False)


def test_overruns_are_seen_within_two_minutes(stack: Stack) -> None:
    """The first thing people come for: the demo's overruns on the panel, without a key, an account or a file."""
    ratio = "sum(rate(thinkcap_output_overruns_total[1m])) / sum(rate(thinkcap_output_capped_requests_total[1m])) > 0"
    eventually(lambda: stack.query(ratio), 100)


def test_calls_are_shared_by_the_gateways(stack: Stack) -> None:
    """Prometheus finds every replica by itself, and each of them gets calls."""
    eventually(lambda: len(stack.query('up{job="thinkcap"} == 1')) == GATEWAYS, 60)
    eventually(lambda: len(stack.query("sum by (instance) (thinkcap_requests_total) > 5")) == GATEWAYS, 90)


def test_a_dot_on_a_graph_leads_to_its_trace(stack: Stack) -> None:
    """The exemplar of an overrun is a trace that Jaeger has, with the turn of the overrun in it."""
    now = time.time()

    def trace_ids() -> list[str]:
        asked = {"query": "thinkcap_output_overruns_total", "start": str(now - 300), "end": str(time.time() + 60)}
        found = stack.get("PROMETHEUS_PORT", "/api/v1/query_exemplars", params=asked).json()["data"]
        return [dot["labels"]["trace_id"] for series in found for dot in series["exemplars"]]

    number = eventually(trace_ids, 60)[0]
    spans = eventually(lambda: stack.get("JAEGER_PORT", f"/api/traces/{number}").json().get("data"), 60)[0]["spans"]
    names = {span["operationName"].split()[0] for span in spans}
    assert "POST" in names
    assert names & {"chat", "generate_content"}


def test_the_dashboards_are_there_to_look_at(stack: Stack) -> None:
    """Six dashboards without signing in; data sources are for the admin, whose password is in a file of the volume."""
    found = stack.get("GRAFANA_PORT", "/api/search", params={"type": "dash-db"}).json()
    assert {board["uid"] for board in found} == {
        f"thinkcap-{path.stem}" for path in (ROOT / "dashboards" / "grafana").glob("*.json")
    }
    assert stack.get("GRAFANA_PORT", "/api/datasources").status_code in (401, 403)
    password = stack.compose("exec", "-T", "grafana", "cat", "/var/lib/grafana/admin_password").strip()
    assert len(password) >= 30
    sources = stack.get("GRAFANA_PORT", "/api/datasources", auth=("admin", password)).json()
    assert {source["uid"] for source in sources} == {"prometheus", "jaeger"}
    faults = stack.get("GRAFANA_PORT", "/api/standin/problems")  # where Grafana is a stand-in for tests
    assert faults.status_code != 200 or faults.json() == []


def test_the_demo_raises_its_alert(stack: Stack) -> None:
    """Within six minutes of the start somebody would have been told that a model overruns."""

    def raised() -> bool:
        alerts = stack.get("ALERTMANAGER_PORT", "/api/v2/alerts").json()
        return any(alert["labels"]["alertname"] == "OutputCapOverrunFastBurn" for alert in alerts)

    eventually(raised, 360)


def test_a_stream_outlives_the_order_to_stop(stack: Stack) -> None:
    """A gateway told to stop finishes the stream under way, then ends with status 0."""
    body = {
        "model": "demo-honest-length",
        "stream": True,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "x"}],
    }
    url = f"http://127.0.0.1:{stack.ports['THINKCAP_PORT']}/v1/chat/completions"
    stack.compose("stop", "traffic")
    with httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as answer:
        assert answer.status_code == 200
        pieces = answer.iter_text()
        told = next(pieces)
        stopping = subprocess.Popen(  # noqa: S603 - fixed words
            ["docker", "compose", "-p", stack.name, *FILES, "stop", "gateway"],  # noqa: S607 - the one there is
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told += "".join(pieces)
    assert stopping.wait(60) == 0
    assert told.rstrip().endswith("data: [DONE]")
    states = [json.loads(line) for line in stack.compose("ps", "-a", "--format", "json", "gateway").splitlines()]
    assert [state["ExitCode"] for state in states] == [0] * GATEWAYS, stack.compose("logs", "--tail", "20", "gateway")
