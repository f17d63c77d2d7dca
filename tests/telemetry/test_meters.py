"""Our counters, gauges and histograms against the library's own: the same moves, the same bytes."""

import time
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from telemetry import meters

BOUNDS = (0.25, 1, 2, 10)
TRACES = st.none() | st.sampled_from([{"trace_id": "ab" * 16}, {"trace_id": "cd" * 16}])
AMOUNTS = st.floats(0, 20) | st.sampled_from([0, *BOUNDS])
LABELS = st.sampled_from(["up", 'a "strange" \\ one\n'])
Move = tuple[str, str, float, dict[str, str] | None]
MOVES = st.lists(st.tuples(st.sampled_from(["inc", "observe", "up", "down"]), LABELS, AMOUNTS, TRACES))


def played(library: Any, moves: list[Move]) -> dict[str, bytes]:
    """What is exported after these moves, in both formats."""
    registry = CollectorRegistry()
    counter = library.Counter("turns_total", "Turns.", ["upstream"], registry=registry)
    gauge = library.Gauge("inflight", "Calls.", ["upstream"], registry=registry)
    histogram = library.Histogram("seconds", "Time.", ["upstream"], registry=registry, buckets=BOUNDS)
    act: dict[str, Callable[[str, float, dict[str, str] | None], None]] = {
        "inc": lambda label, amount, trace: counter.labels(label).inc(amount, trace),
        "observe": lambda label, amount, trace: histogram.labels(label).observe(amount, trace),
        "up": lambda label, _amount, _trace: gauge.labels(label).inc(),
        "down": lambda label, _amount, _trace: gauge.labels(label).dec(),
    }
    for kind, label, amount, trace in moves:
        act[kind](label, amount, trace)
    formats = ("text/plain", "application/openmetrics-text; version=1.0.0")
    return {accepted: choose_encoder(accepted)[0](registry) for accepted in formats}


@pytest.fixture(autouse=True, scope="module")
def still() -> Any:
    """Exemplars tell the time: it stands still, and no birthdays are told."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: 1_700_000_000.5)
        yield


@given(moves=MOVES)
def test_the_same_moves_are_exported_in_the_same_bytes(moves: list[Move]) -> None:
    """Text and OpenMetrics, exemplars and all."""
    assert played(meters, moves) == played(prometheus_client, moves)


@pytest.mark.parametrize(
    ("make", "move"),
    [
        pytest.param(meters.Counter, lambda child: child.inc(), id="a counter"),
        pytest.param(meters.Histogram, lambda child: child.observe(0), id="a histogram that saw a zero"),
    ],
)
def test_what_was_not_foreseen_is_exported_once_it_has_moved(make: Any, move: Callable[[Any], None]) -> None:
    """A series that is made ahead takes no room before there is something in it."""
    registry = CollectorRegistry()
    metric = make("it", "It.", ["upstream"], registry=registry)
    metric.labels("foreseen")
    child = metric.labels("other")
    child.foreseen = False

    def exported() -> set[str]:
        return {sample.labels["upstream"] for family in registry.collect() for sample in family.samples}

    assert exported() == {"foreseen"}
    move(child)
    assert exported() == {"foreseen", "other"}
