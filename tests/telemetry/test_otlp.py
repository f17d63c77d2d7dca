"""Our encoder of spans against the general one: the same messages for the same spans."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from telemetry.otlp import encode

RESOURCE = Resource({"service.name": "thinkcap", "process.pid": 7, "flag": True, "ratio": 0.5, "list": ("a", "b")})
SCOPE = InstrumentationScope("thinkcap", "1.2.3")
VALUES = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
)
ATTRIBUTES = st.dictionaries(
    st.text("abc._", min_size=1, max_size=40), VALUES | st.lists(VALUES, max_size=3).map(tuple), max_size=6
)
TIMES = st.integers(0, 2**64 - 1)
CONTEXTS = st.builds(
    SpanContext,
    trace_id=st.integers(1, 2**128 - 1),
    span_id=st.integers(1, 2**64 - 1),
    is_remote=st.booleans(),
    trace_flags=st.just(TraceFlags(1)),
    trace_state=st.sampled_from([None, TraceState(), TraceState([("a", "1"), ("b", "2")])]),
)
SPANS = st.builds(
    ReadableSpan,
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=150),
    context=CONTEXTS,
    parent=st.none() | CONTEXTS,
    resource=st.just(RESOURCE),
    attributes=ATTRIBUTES,
    events=st.lists(
        st.builds(Event, name=st.text("xyz.", max_size=20), attributes=ATTRIBUTES, timestamp=TIMES), max_size=3
    ),
    kind=st.sampled_from(SpanKind),
    status=st.sampled_from([Status(code) for code in StatusCode]),
    start_time=TIMES,
    end_time=TIMES,
    instrumentation_scope=st.just(SCOPE),
)


@settings(deadline=None)
@given(spans=st.lists(SPANS, min_size=1, max_size=4))
def test_the_same_request(spans: list[ReadableSpan]) -> None:
    """Field for field what the general encoder says."""
    ours = ExportTraceServiceRequest.FromString(encode(spans))
    assert ours == encode_spans(spans)


def test_a_span_without_scope_or_version() -> None:
    """Both are optional."""
    for scope in (None, InstrumentationScope("x")):
        span = ReadableSpan(
            "s",
            SpanContext(1, 2, is_remote=False),
            resource=Resource({}, "https://schema"),
            instrumentation_scope=scope,
        )
        assert ExportTraceServiceRequest.FromString(encode([span])) == encode_spans([span])


def test_a_value_no_attribute_has() -> None:
    """A fault of ours shows in the sender's thread, and not on the wire."""
    odd: Any = {"a": object()}
    span = ReadableSpan("s", SpanContext(1, 2, is_remote=False), attributes=odd)
    with pytest.raises(TypeError, match="object"):
        encode([span])
