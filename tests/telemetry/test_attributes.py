"""What spans say in the less ordinary cases."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.events import (
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFinished,
    CallReceived,
    FirstToken,
    Turn,
)
from telemetry.observer import Telemetry
from tests.telemetry.plays import SENT, STARTED, Clock, call, named, ordinary, play, routed, said

CONTROL = AttemptStarted(kind="control", number=1, method="POST", host="127.0.0.1", port=8000)


def test_a_head_is_that_of_the_call_and_not_of_the_control_call(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """An attempt that broke off keeps the status it had; a control call that got none has none."""
    broken = [AttemptEnded(kind=kind, number=1, status=None, fault="reset") for kind in ("control", "call")]
    play(traced, (routed(call()), SENT, CONTROL, AttemptAnswered(200), *broken, CallAbandoned(status=200)))
    posts = [said(span) for span in kept.get_finished_spans() if span.name == "POST"]
    told = [(post["thinkcap.attempt"], post.get("http.response.status_code")) for post in posts]
    assert told == [("control", None), ("call", 200)]


def test_the_method_that_acted_is_told_rather_than_the_one_meant(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """An upstream without control may be given up or watched instead."""
    play(traced, (routed(call()), CallFinished(outcome="ok", status=200, turn=Turn(thinking_method="watch"))))
    assert said(named(kept, "chat m-think"))["thinkcap.thinking_cap.method"] == "watch"


def test_a_raised_turn_says_so(traced: Telemetry, kept: InMemorySpanExporter) -> None:
    """What the provider said, what the caller got, and that they differ."""
    raised = Turn(raw_reasons=("stop",), reported="stop", returned="length", verdict="upgraded")
    play(traced, (routed(call()), CallFinished(outcome="ok", status=200, turn=raised)))
    told = said(named(kept, "chat m-think"))
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert (told["thinkcap.finish_reason.returned"], told["thinkcap.finish_reason.upgraded"]) == ("length", True)


def test_the_first_chunk_is_that_of_a_stream(traced: Telemetry, kept: InMemorySpanExporter, clock: Clock) -> None:
    """A whole body has none; a stream whose caller left before there was a turn has one all the same."""
    play(traced, ordinary(stream=False))
    assert "gen_ai.response.time_to_first_chunk" not in said(named(kept, "chat m-think"))
    kept.clear()
    observer = traced.open(STARTED)
    for fact in (CallReceived(), routed(call()), SENT, FirstToken(), CallAbandoned(status=200)):
        observer.note(fact)
        clock.now += 0.5
    assert said(named(kept, "chat m-think"))["gen_ai.response.time_to_first_chunk"] == 1.5
