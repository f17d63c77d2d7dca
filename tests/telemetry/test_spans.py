"""Spans: their shape, names and attributes, events at their moment, and that they end in every path."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateway.deltas import Usage
from gateway.events import (
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFailed,
    CallFinished,
    CallReceived,
    CallStarted,
    Ending,
    Fact,
    FinishRaised,
    LevelRetried,
    ThinkingCapped,
    Turn,
)
from telemetry.observer import Telemetry
from tests.telemetry.plays import (
    CLOSED,
    SENT,
    STARTED,
    Clock,
    call,
    id_of,
    named,
    ordinary,
    parent_of,
    play,
    routed,
    said,
    turn,
)

CONTROL = AttemptStarted(kind="control", number=1, method="POST", host="127.0.0.1", port=8000)
Facts = tuple[Fact, ...]
AGAIN = AttemptStarted(kind="call", number=2, method="POST", host="127.0.0.1", port=8000)


def test_a_judged_call_is_server_turn_and_attempt(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """Three spans in a line, each the parent of the next, of the kinds the conventions want."""
    play(traced, ordinary())
    server, chat, post = (named(kept, n) for n in ("POST /v1/chat/completions", "chat m-think", "POST"))
    assert (parent_of(server), parent_of(chat), parent_of(post)) == (None, id_of(server), id_of(chat))
    assert [span.kind for span in (server, chat, post)] == [SpanKind.SERVER, SpanKind.CLIENT, SpanKind.CLIENT]
    assert {span.status.status_code for span in (server, chat, post)} == {StatusCode.UNSET}


def test_the_turn_span_says_what_the_contract_lists(
    traced: Telemetry, kept: InMemorySpanExporter, clock: Clock
) -> None:
    """Asked and answered, by the names of the conventions and our own, and nothing beside them."""
    observer = traced.open(STARTED)
    for fact in ordinary():
        clock.now += 0.5
        observer.note(fact)
    assert said(named(kept, "chat m-think")) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "llama.cpp",
        "gen_ai.request.model": "m-think",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.stream": True,
        "gen_ai.request.reasoning.level": "minimal",
        "gen_ai.response.id": "c1",
        "gen_ai.response.model": "m-think-0525",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 2.0,
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "thinkcap.finish_reason.returned": "stop",
        "thinkcap.finish_reason.upgraded": False,
        "thinkcap.finish_reason.verdict": "under",
        "thinkcap.output_cap.limit": 64,
        "thinkcap.output_cap.overrun_tokens": 0,
        "thinkcap.thinking_cap.limit": 50,
        "thinkcap.thinking_cap.method": "control",
        "thinkcap.reasoning.level.requested": "minimal",
        "thinkcap.upstream": "up",
        "thinkcap.purpose": "conversation",
        "thinkcap.outcome": "ok",
    }


def test_server_and_attempt_say_what_http_spans_say(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """Method, route template and status; server and port of the upstream; never a full URL."""
    play(traced, ordinary())
    assert said(named(kept, "POST /v1/chat/completions")) == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "thinkcap.purpose": "conversation",
        "thinkcap.outcome": "ok",
    }
    assert said(named(kept, "POST")) == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "http.response.status_code": 200,
        "thinkcap.attempt": "call",
    }


def test_a_second_attempt_and_a_control_call_can_be_told_apart(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """A re-issue counts its resends, the level sent is the later one, and the control call says what it is."""
    refused = AttemptEnded(kind="call", number=1, status=400, fault="http_4xx")
    answered = AttemptEnded(kind="control", number=1, status=200)
    second = AttemptEnded(kind="call", number=2, status=200)
    retried = LevelRetried("minimal", "low")
    end = CallFinished(outcome="ok", status=200, turn=turn())
    play(traced, (routed(call()), SENT, refused, retried, AGAIN, AttemptAnswered(200), CONTROL, answered, second, end))
    posts = [said(span) for span in kept.get_finished_spans() if span.name == "POST"]
    told = [(p["thinkcap.attempt"], p.get("http.request.resend_count"), p.get("error.type")) for p in posts]
    assert told == [("call", None, "http_4xx"), ("control", None, None), ("call", 1, None)]
    turn_span = said(named(kept, "chat m-think"))
    assert turn_span["gen_ai.request.reasoning.level"] == "low"
    assert turn_span["thinkcap.reasoning.level.requested"] == "minimal"


def test_events_stand_on_the_turn_by_the_names_of_the_contract(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """One event per named fact, at its own moment, with plain attribute names."""
    fired, raised = ThinkingCapped(50, 53), FinishRaised("stop", "length", "over")
    play(traced, (routed(call()), fired, raised, CallFinished(outcome="ok", status=200, turn=turn())))
    events = named(kept, "chat m-think").events
    assert [(event.name, dict(event.attributes or {})) for event in events] == [
        ("thinkcap.thinking_cap.fired", {"cap": 50, "tokens": 53}),
        ("thinkcap.finish_reason.upgraded", {"from": "stop", "to": "length", "kind": "over"}),
    ]
    assert events[0].timestamp <= events[1].timestamp


def test_a_forwarded_path_has_no_turn(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """Embeddings and the like: the attempt hangs from the server span."""
    play(traced, (CallReceived(), routed(None, model="other"), SENT, CLOSED, CallFinished(outcome="ok", status=200)))
    server, post = named(kept, "POST /v1/chat/completions"), named(kept, "POST")
    assert len(kept.get_finished_spans()) == 2
    assert parent_of(post) == id_of(server)


def test_gemini_is_named_by_its_own_operation(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """Its operation is generate_content."""
    asked = call("m-flash", dialect="gemini")
    play(traced, (routed(asked, upstream="google", model="m-flash"), CallAbandoned()))
    assert said(named(kept, "generate_content m-flash"))["gen_ai.operation.name"] == "generate_content"


@pytest.mark.parametrize(
    ("facts", "spans"),
    [
        pytest.param((), 1, id="at the head of the request"),
        pytest.param((CallReceived(),), 1, id="before it is routed"),
        pytest.param((CallReceived(), routed(call())), 2, id="before any attempt"),
        pytest.param((CallReceived(), routed(call()), SENT), 3, id="before any byte of the answer"),
        pytest.param(
            (CallReceived(), routed(call()), SENT, AttemptAnswered(200), CONTROL), 4, id="beside a control call"
        ),
        pytest.param((CallReceived(), routed(call()), SENT, AttemptAnswered(200), CLOSED), 3, id="after the last byte"),
    ],
)
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        pytest.param(CallFinished(outcome="ok", status=200), StatusCode.UNSET, id="finished"),
        pytest.param(CallFailed(outcome="timeout", status=504, code="upstream_timeout"), StatusCode.ERROR, id="failed"),
        pytest.param(CallAbandoned(), StatusCode.UNSET, id="abandoned"),
    ],
)
def test_spans_end_wherever_a_call_ends(
    traced: Telemetry, kept: InMemorySpanExporter, facts: Facts, spans: int, ending: Ending, status: StatusCode
) -> None:
    """Every span that was started has ended, and only a failure is an error."""
    play(traced, (*facts, ending))
    finished = kept.get_finished_spans()
    assert len(finished) == spans
    assert named(kept, "POST /v1/chat/completions").status.status_code is status
    assert traced.failures == 0


@pytest.mark.parametrize(
    ("ending", "error", "server", "client"),
    [
        pytest.param(
            CallFailed(outcome="refused", status=400, code="unsupported_reasoning_effort"),
            "unsupported_reasoning_effort", StatusCode.UNSET, StatusCode.ERROR, id="the caller's error",
        ),
        pytest.param(
            CallFailed(outcome="thinking_overrun", status=200, code="thinking_overrun"),
            "thinking_overrun", StatusCode.ERROR, StatusCode.ERROR, id="given up inside a stream",
        ),
        pytest.param(
            CallFinished(outcome="upstream_error", status=429),
            "429", StatusCode.UNSET, StatusCode.ERROR, id="an upstream's own 4xx",
        ),
        pytest.param(
            CallFinished(outcome="upstream_error", status=503),
            "503", StatusCode.ERROR, StatusCode.ERROR, id="an upstream's own 5xx",
        ),
        pytest.param(
            CallFinished(outcome="incomplete", status=200),
            "incomplete", StatusCode.ERROR, StatusCode.ERROR, id="no finish word",
        ),
    ],
)  # fmt: skip
def test_a_failure_says_its_type(
    traced: Telemetry, kept: InMemorySpanExporter, ending: Ending, error: str, server: StatusCode, client: StatusCode
) -> None:  # fmt: skip
    """error.type is our code, the upstream's status or the outcome; a 4xx is no error of the server."""
    play(traced, (routed(call()), ending))
    outer, inner = named(kept, "POST /v1/chat/completions"), named(kept, "chat m-think")
    assert said(outer)["error.type"] == said(inner)["error.type"] == error
    assert (outer.status.status_code, inner.status.status_code) == (server, client)


def test_a_caller_who_leaves_is_no_error(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """The outcome says it, the status stays unset."""
    play(traced, (routed(call()), SENT, CallAbandoned(status=200, turn=turn())))
    spans = kept.get_finished_spans()
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert not [span for span in spans if "error.type" in said(span)]
    assert said(named(kept, "chat m-think"))["thinkcap.outcome"] == "client_gone"


def test_the_trace_comes_in_and_goes_out(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """The caller's context is the parent; the running attempt, or the control call, is handed to the upstream."""
    trace, parent = "ab" * 16, "cd" * 8
    started = CallStarted(
        dialect="chat", method="POST", route="/x", traceparent=f"00-{trace}-{parent}-01", tracestate="vendor=1"
    )
    observer = traced.open(started)
    observer.note(routed(call()))
    assert observer.trace_headers() == ()
    observer.note(SENT)
    sent = dict(observer.trace_headers())
    observer.note(CONTROL)
    control = dict(observer.trace_headers())
    for fact in (AttemptEnded(kind="control", number=1, status=200), CLOSED):
        observer.note(fact)
    assert observer.trace_headers() == ()
    observer.note(CallFinished(outcome="ok", status=200))
    assert observer.trace_headers() == ()
    server = named(kept, "POST /x")
    assert server.parent is not None
    assert (f"{server.parent.trace_id:032x}", f"{server.parent.span_id:016x}") == (trace, parent)
    ids = [f"{id_of(span):016x}" for span in kept.get_finished_spans() if span.name == "POST"]
    assert control[b"traceparent"].decode() == f"00-{trace}-{ids[0]}-01"
    assert sent == {b"traceparent": f"00-{trace}-{ids[1]}-01".encode(), b"tracestate": b"vendor=1"}


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("junk", id="no header at all"),
        pytest.param(f"00-{'0' * 32}-{'cd' * 8}-01", id="an all-zero trace"),
        pytest.param("00-" + "a" * 9000, id="a very long one"),
    ],
)
def test_a_broken_traceparent_starts_a_trace_of_its_own(
    traced: Telemetry, kept: InMemorySpanExporter, header: str
) -> None:
    """Nonsense is ignored, the call is traced."""
    play(traced, (CallAbandoned(),), CallStarted(dialect="chat", method="POST", route="/x", traceparent=header))
    assert named(kept, "POST /x").parent is None


def test_no_span_holds_content_keys_or_the_query(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """What the call's body, headers and query hold is in no name, attribute or event."""
    play(traced, ordinary())
    assert "SECRET" not in "".join(span.to_json() for span in kept.get_finished_spans())


def test_strange_values_are_bounded_and_exportable(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """Broken text and monstrous numbers would cost a whole batch at the encoder; they cost themselves only."""
    odd = Turn(
        response_id="\ud800" + "i" * 500,
        raw_reasons=("\udfff",) * 40,
        usage=Usage(output=2**64, input=-1),
        reasoning_tokens=10**30,
    )
    started = CallStarted(dialect="chat", method="BREW", route="/x")
    play(traced, (routed(call("m" * 500), model="other"), CallFinished(outcome="ok", status=200, turn=odd)), started)
    attributes = said(named(kept, "chat " + "m" * 128))
    assert attributes["gen_ai.response.id"] == "?" + "i" * 127
    assert attributes["gen_ai.response.finish_reasons"] == ("?",) * 16
    assert not [key for key in attributes if key.startswith("gen_ai.usage")]
    assert said(named(kept, "_OTHER /x"))["http.request.method"] == "_OTHER"
