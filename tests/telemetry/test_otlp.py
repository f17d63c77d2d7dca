"""Our encoder of records against the general one: the same messages for the same spans, in the SDK's view of them."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, defstruct, field
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState

from telemetry.otlp import encode
from telemetry.records import Record, Tracing

RESOURCE = Resource({"service.name": "thinkcap", "process.pid": 7, "flag": True, "ratio": 0.5, "list": ("a", "b")})
SCOPE = InstrumentationScope("thinkcap", "1.2.3")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
NAMES = st.text("abc._", min_size=1, max_size=40)
ATTRIBUTES = st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=3).map(tuple), max_size=6)
TIMES = st.integers(0, 2**64 - 1)
EVENTS = st.builds(Event, name=st.text("xyz.", max_size=20), attributes=ATTRIBUTES, timestamp=TIMES)
STATES = st.sampled_from([None, TraceState(), TraceState([("a", "1"), ("b", "2")])])
CALLERS = st.builds(
    SpanContext,
    trace_id=st.integers(1, 2**128 - 1),
    span_id=st.integers(1, 2**64 - 1),
    is_remote=st.booleans(),
    trace_flags=st.just(TraceFlags(1)),
    trace_state=STATES,
)


class Ids(IdGenerator):
    """One after the other: chance is the strategies' business."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def generate_span_id(self) -> int:
        return next(self._ids)

    def generate_trace_id(self) -> int:
        return next(self._ids)


def tracing(resource: Resource = RESOURCE, scope: InstrumentationScope = SCOPE) -> Tracing:
    """Makes records that go nowhere."""
    provider = TracerProvider(resource=resource, id_generator=Ids(), shutdown_on_exit=False)
    return Tracing(provider, scope, lambda _record: None)


TRACING = tracing()


def part(said: dict[str, Any], *, common: bool = False, prefix: str = "") -> Struct:
    """These attributes as a part of what a record says, one of them not known."""
    fields = [(f"f{n}", Any, field(name=prefix + name)) for n, name in enumerate((*said, "!unknown"))]
    made: Struct = defstruct("Said", fields, frozen=common)(*said.values(), None)
    return made


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record, of any place in a trace."""
    caller = draw(st.none() | CALLERS)
    kind = draw(st.sampled_from(SpanKind)).value
    record = Record(TRACING, draw(TEXTS), kind, draw(st.binary(min_size=16, max_size=16).filter(any)), caller)
    record.state = draw(STATES)
    if draw(st.booleans()):
        record = record.child(draw(TEXTS))
    record.events = draw(st.lists(EVENTS, max_size=3))
    said = [part(draw(ATTRIBUTES), common=draw(st.booleans()), prefix=prefix) for prefix in ("one.", "two.")]
    record.end(*said[: draw(st.integers(0, 2))], failed=draw(st.booleans()))
    record.start_time, record.end_time = draw(TIMES), draw(TIMES)
    return record


@settings(deadline=None)
@given(some=st.lists(records(), min_size=1, max_size=4))
def test_the_same_request(some: list[Record]) -> None:
    """Field for field what the general encoder says, and the same once more from what was kept."""
    general = encode_spans([record.readable() for record in some])
    assert ExportTraceServiceRequest.FromString(encode(some)) == general
    assert ExportTraceServiceRequest.FromString(encode(some)) == general


@pytest.mark.parametrize(
    "scope", [pytest.param(SCOPE, id="with a version"), pytest.param(InstrumentationScope("x"), id="without one")]
)
def test_schema_and_scope_are_said(scope: InstrumentationScope) -> None:
    """The resource's schema, and the scope with or without its version."""
    record = Record(tracing(Resource({}, "https://schema"), scope), "s", 0, b"\1" * 16, None)
    record.end(failed=False)
    assert ExportTraceServiceRequest.FromString(encode([record])) == encode_spans([record.readable()])


def test_a_large_batch_is_put_together_whole() -> None:
    """Lengths of one, two and three bytes all the way out."""
    some = [Record(TRACING, "n" * size, 1, b"\1" * 16, None) for size in (1, 100, 120, 130, 16_000, 17_000)] * 20
    for record in some:
        record.end(failed=False)
    assert ExportTraceServiceRequest.FromString(encode(some)) == encode_spans([record.readable() for record in some])


def test_a_value_no_attribute_has() -> None:
    """A fault of ours shows in the sender's thread, and not on the wire."""
    record = Record(TRACING, "s", 0, b"\1" * 16, None)
    record.end(part({"a": object()}), failed=False)
    with pytest.raises(TypeError, match="object"):
        encode([record])
