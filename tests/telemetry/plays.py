"""What the tests of telemetry are played with: settings, a clock that stands still, and the facts of ordinary calls."""

from collections.abc import Iterable

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from gateway.calls import Call
from gateway.deltas import Usage
from gateway.events import (
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallFinished,
    CallReceived,
    CallRouted,
    CallStarted,
    Fact,
    FirstToken,
    Turn,
)
from gateway.words import DialectName
from telemetry.labels import ModelSeries, Retry, Series, UpstreamSeries
from telemetry.observer import CallObserver, Telemetry

SERIES = Series(
    upstreams=(
        UpstreamSeries(name="up", dialects=("chat",), methods=("control", "budget", "watch")),
        UpstreamSeries(name="google", dialects=("gemini",), methods=("watch",), mapped=(("stop", "error"),)),
    ),
    models=(
        ModelSeries(upstream="up", model="m-think", dialects=("chat",), methods=("control", "budget", "watch")),
        ModelSeries(
            upstream="google",
            model="m-flash",
            dialects=("gemini",),
            methods=("watch",),
            levels=("low", "medium", "high"),
            retries=(Retry("session-title", "minimal", "low"), Retry("session-title", "max", "high")),
        ),
    ),
    purposes=("session-title", "nightly"),
    purposes_in_scope=("session-title",),
    version="1.2.3",
    settings_sha256="ab12",
)
STARTED = CallStarted(dialect="chat", method="POST", route="/v1/chat/completions")
SENT = AttemptStarted(kind="call", number=1, method="POST", host="127.0.0.1", port=8000)
CLOSED = AttemptEnded(kind="call", number=1, status=200)

Moves = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def call(model: str = "m-think", *, dialect: DialectName = "chat", stream: bool = True, choices: int = 1) -> Call:
    """A call whose body and headers hold what no record may hold."""
    return Call(
        dialect=dialect,
        model=model,
        stream=stream,
        body=b'{"messages":[{"content":"SECRET-PROMPT"}]}',
        path="/v1/chat/completions",
        query=b"key=SECRET-KEY",
        headers=((b"authorization", b"Bearer SECRET-KEY"),),
        output_cap=64,
        level="minimal",
        choices=choices,
    )


def routed(
    asked: Call | None, *, upstream: str = "up", model: str = "m-think", purpose: str = "conversation"
) -> CallRouted:
    """The call goes to an upstream of the settings."""
    return CallRouted(
        upstream=upstream,
        provider="llama.cpp",
        model=model,
        purpose=purpose,
        call=asked,
        output_cap=64 if asked else None,
        thinking_cap=50,
        thinking_method="control",
    )


def turn() -> Turn:
    """An ordinary answer: a clean stop under its cap, with some reasoning."""
    return Turn(
        response_id="c1",
        response_model="m-think-0525",
        raw_reasons=("stop",),
        reported="stop",
        returned="stop",
        verdict="under",
        output_cap=64,
        usage=Usage(output=12, input=9, reasoning=5, cached=0),
        reasoning_tokens=5,
        reasoning_source="upstream",
    )


def ordinary(*, stream: bool = True) -> tuple[Fact, ...]:
    """The facts of a call that goes well, after CallStarted."""
    return (
        CallReceived(),
        routed(call(stream=stream)),
        SENT,
        AttemptAnswered(200),
        FirstToken(),
        CLOSED,
        CallFinished(outcome="ok", status=200, turn=turn()),
    )


def play(telemetry: Telemetry, facts: Iterable[Fact], started: CallStarted = STARTED) -> CallObserver:
    """One call from its start to whatever the facts end with."""
    observer = telemetry.open(started)
    for fact in facts:
        observer.note(fact)
    return observer


def samples(registry: CollectorRegistry) -> Moves:
    """Every sample of Thinkcap's own metrics."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.startswith("thinkcap_")
    }


def moved(before: Moves, after: Moves) -> dict[str, float]:
    """The counters and gauges that moved, as `name{label="value",...}`; of histograms the counts."""
    return {
        name + "{" + ",".join(f"{key}={value}" for key, value in sorted(labels)) + "}": value
        - before.get((name, labels), 0)
        for (name, labels), value in after.items()
        if value != before.get((name, labels), 0) and not name.endswith(("_bucket", "_sum"))
    }


def named(kept: InMemorySpanExporter, name: str) -> ReadableSpan:
    """The one span of this name."""
    (span,) = [span for span in kept.get_finished_spans() if span.name == name]
    return span


def said(span: ReadableSpan) -> dict[str, object]:
    """Its attributes."""
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int | None:
    """The id of its parent."""
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    """Its own id."""
    context = span.get_span_context()
    assert context is not None
    return context.span_id
