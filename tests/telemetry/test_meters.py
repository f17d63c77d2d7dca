"""Our counters, gauges and histograms against the library's own: the same moves, the same bytes."""

import re
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
from telemetry.children import Children
from telemetry.exposition import Exposition

BOUNDS = (0.25, 1, 2, 10)
TRACES = st.none() | st.sampled_from([{"trace_id": "ab" * 16, "span_id": "ef" * 8}, {"trace_id": 'a "b" \\ c\n'}])
AMOUNTS = st.floats(0, 20) | st.floats(0, 1e300) | st.sampled_from([0, *BOUNDS])
LABELS = st.sampled_from(["up", 'a "strange" \\ one\n', "100 %s"])
Move = tuple[str, str, float, dict[str, str] | None]
MOVES = st.lists(st.tuples(st.sampled_from(["inc", "observe", "up", "down"]), LABELS, AMOUNTS, TRACES))


FORMATS = (
    "",
    "text/plain;version=0.0.4",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text",
    "application/openmetrics-text; version=1.0.0",
    "application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=dots",
    "application/openmetrics-text;version=1.0.0;escaping=values",
)
Pages = dict[str, tuple[bytes, str]]


def played(library: Any, moves: list[Move]) -> tuple[Pages, Pages]:
    """What the library exports after these moves in every format, and what is written of ours."""
    registry = CollectorRegistry()
    counter = library.Counter("turns_total", "Turns.", ["upstream"], registry=registry)
    gauge = library.Gauge("inflight", "Calls.", ["upstream"], registry=registry)
    histogram = library.Histogram("seconds", "Time.", ["upstream"], registry=registry, buckets=BOUNDS)
    kept: dict[Any, dict[tuple[str], None]] = {counter: {}, gauge: {}, histogram: {}}
    act: dict[str, Callable[[str, float, dict[str, str] | None], None]] = {
        "inc": lambda label, amount, trace: counter.labels(label).inc(amount, trace),
        "observe": lambda label, amount, trace: histogram.labels(label).observe(amount, trace),
        "up": lambda label, _amount, _trace: gauge.labels(label).inc(),
        "down": lambda label, _amount, _trace: gauge.labels(label).dec(),
    }
    of = {"inc": counter, "observe": histogram, "up": gauge, "down": gauge}
    for kind, label, amount, trace in moves:
        act[kind](label, amount, trace)
        kept[of[kind]][label,] = None
    chosen = {accept: choose_encoder(accept) for accept in FORMATS}
    families = [Children(family, ["upstream"], kept[family]) for family in (counter, gauge, histogram)]
    ours = Exposition(registry, families, CollectorRegistry())
    return (
        {accept: (encoder(registry), content_type) for accept, (encoder, content_type) in chosen.items()},
        {accept: ours.page(accept) for accept in FORMATS} if library is meters else {},
    )


@pytest.fixture(autouse=True, scope="module")
def still() -> Any:
    """Exemplars tell the time: it stands still, and no birthdays are told."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: 1_700_000_000.5)
        yield


@given(moves=MOVES)
def test_the_same_moves_are_exported_in_the_same_bytes(moves: list[Move]) -> None:
    """Text and OpenMetrics, exemplars and all: by the library as by ourselves."""
    theirs, _ = played(prometheus_client, moves)
    ours, written = played(meters, moves)
    assert ours == theirs
    assert written == theirs


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

    written = Exposition(registry, [Children(metric, ["upstream"], [("foreseen",), ("other",)])], CollectorRegistry())

    def exported() -> set[str]:
        found = {sample.labels["upstream"] for family in registry.collect() for sample in family.samples}
        assert found == set(re.findall(r'upstream="(\w+)"', written.page("")[0].decode()))
        return found

    assert exported() == {"foreseen"}
    move(child)
    assert exported() == {"foreseen", "other"}
