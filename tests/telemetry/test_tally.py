"""Which fact moves which series, to the number, with every duration from a clock that moves only when told to."""

import pytest

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
    EndReasoningAnswered,
    Fact,
    FinishRaised,
    FirstToken,
    KeyRefused,
    LevelAnswered,
    LevelPreempted,
    LevelRefused,
    LevelRetried,
    OutputOverran,
    ThinkingCapped,
    ThinkingOverran,
    ThinkingRefused,
    Turn,
)
from gateway.words import Outcome, Reason
from telemetry.observer import Telemetry
from tests.telemetry.plays import CLOSED, SENT, STARTED, Clock, call, moved, ordinary, play, routed, samples, turn

UP = {"upstream": "up", "model": "m-think"}
WHERE = "model=m-think,"
CHAT = {"dialect": "chat"}


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    """One sample."""
    return telemetry.registry.get_sample_value(f"thinkcap_{name}", labels)


def counted(telemetry: Telemetry, *facts: Fact) -> dict[str, float]:
    """What a call with these facts moved, histograms and overhead aside."""
    before = samples(telemetry.registry)
    play(telemetry, facts)
    return {k: v for k, v in moved(before, samples(telemetry.registry)).items() if "_count{" not in k}


def test_an_ordinary_turn_moves_exactly_the_named_series(telemetry: Telemetry) -> None:
    """One request, one finish reason, the tokens, the denominator; nothing else, and the gauge is back at zero."""
    assert counted(telemetry, *ordinary()) == {
        "thinkcap_requests_total{dialect=chat,model=m-think,outcome=ok,upstream=up}": 1,
        "thinkcap_finish_reasons_total{model=m-think,reported=stop,returned=stop,upstream=up}": 1,
        "thinkcap_output_capped_requests_total{model=m-think,upstream=up}": 1,
        "thinkcap_tokens_total{kind=input,model=m-think,upstream=up}": 9,
        "thinkcap_tokens_total{kind=output,model=m-think,upstream=up}": 12,
        "thinkcap_reasoning_tokens_total{model=m-think,source=upstream,upstream=up}": 5,
    }
    assert telemetry.failures == 0


def test_durations_run_from_the_whole_request(telemetry: Telemetry, clock: Clock) -> None:
    """A slow upload is not the model's; first token, request and overhead are told apart."""
    observer = telemetry.open(STARTED)
    moments: tuple[tuple[float, Fact], ...] = (
        (60.0, CallReceived()),
        (0.25, routed(call())),
        (0.25, SENT),
        (1.0, AttemptAnswered(200)),
        (2.0, FirstToken()),
        (4.0, CLOSED),
        (8.0, CallFinished(outcome="ok", status=200, turn=turn())),
    )
    for seconds, fact in moments:
        clock.now += seconds
        observer.note(fact)
    assert value(telemetry, "request_seconds_sum", **CHAT, **UP) == 15.5
    assert value(telemetry, "first_token_seconds_sum", **CHAT, **UP) == 3.5
    assert value(telemetry, "overhead_seconds_sum", **CHAT) == 0.5
    assert value(telemetry, "output_cap_used_ratio_sum", **UP) == 12 / 64
    assert value(telemetry, "thinking_tokens_sum", **UP) == 5


def test_a_whole_body_also_counts_the_time_after_its_last_byte(telemetry: Telemetry, clock: Clock) -> None:
    """Judging and sending a whole answer is the gateway's time; its first token is no first token."""
    observer = telemetry.open(STARTED)
    for fact in ordinary(stream=False):
        observer.note(fact)
        clock.now += 0.125 if fact in (CLOSED, CallReceived()) else 1.0
    # received -> routed 0.125, routed -> sent 1.0, closed -> finished 0.125
    assert value(telemetry, "overhead_seconds_sum", **CHAT) == 1.25
    assert value(telemetry, "first_token_seconds_count", **CHAT, **UP) == 0


@pytest.mark.parametrize(
    ("outcome", "reported", "counts"),
    [
        pytest.param("ok", "stop", 1, id="a good end"),
        pytest.param("incomplete", "missing", 1, id="a clean end without a word is missing"),
        pytest.param("stream_error", "error", 1, id="an error in band that says its word"),
        pytest.param("stream_error", "missing", 0, id="an error event that says none"),
        pytest.param("upstream_error", "missing", 0, id="a whole body that is an error"),
        pytest.param("timeout", "stop", 1, id="silence after the word"),
        pytest.param("thinking_overrun", "missing", 0, id="given up by the gateway"),
    ],
)
def test_a_finish_reason_counts_when_the_turn_came_to_an_end(
    telemetry: Telemetry, outcome: Outcome, reported: Reason, counts: int
) -> None:
    """A turn that was broken off without a word has no finish reason, not a missing one; both endings agree."""
    judged = Turn(reported=reported, returned=reported)
    endings: tuple[Ending, ...] = (
        CallFinished(outcome=outcome, status=200, turn=judged),
        CallFailed(outcome=outcome, status=200, code="upstream_protocol_error", turn=judged),
    )
    for ending in endings:
        play(telemetry, (CallReceived(), routed(call()), ending))
    assert value(telemetry, "finish_reasons_total", **UP, reported=reported, returned=reported) == 2 * counts


def test_a_caller_who_leaves_has_no_finish_reason_but_its_tokens_count(telemetry: Telemetry) -> None:
    """What was used was used; how it would have ended nobody knows."""
    left = CallAbandoned(status=200, turn=Turn(reported="stop", returned="stop", usage=Usage(output=3, input=9)))
    assert counted(telemetry, CallReceived(), routed(call()), SENT, left) == {
        "thinkcap_requests_total{dialect=chat,model=m-think,outcome=client_gone,upstream=up}": 1,
        "thinkcap_tokens_total{kind=input,model=m-think,upstream=up}": 9,
        "thinkcap_tokens_total{kind=output,model=m-think,upstream=up}": 3,
    }


def test_an_overrun_of_two_choices_counts_what_is_past_both_caps(telemetry: Telemetry) -> None:
    """The cap holds per choice; the verdict is the rule's."""
    overrun = Turn(
        reported="stop", returned="stop", verdict="choices", output_cap=64, choices=2, usage=Usage(output=210)
    )
    facts = (
        CallReceived(),
        routed(call(choices=2)),
        OutputOverran(64, 210, "choices"),
        CallFinished(outcome="ok", status=200, turn=overrun),
    )
    moves = counted(telemetry, *facts)
    assert moves["thinkcap_output_overruns_total{model=m-think,upstream=up,verdict=choices}"] == 1
    assert moves["thinkcap_output_overrun_tokens_total{model=m-think,upstream=up}"] == 82
    assert value(telemetry, "output_cap_used_ratio_sum", **UP) == 210 / 128


def test_a_raised_finish_counts_by_kind(telemetry: Telemetry) -> None:
    """Landing on the cap and going past it are two kinds."""
    play(telemetry, (routed(call()), FinishRaised("stop", "length", "at"), FinishRaised("stop", "length", "over")))
    assert [value(telemetry, "finish_upgrades_total", **UP, kind=kind) for kind in ("at", "over")] == [1, 1]


def test_a_thinking_cap_that_was_refused_counts_everywhere_it_should(telemetry: Telemetry) -> None:
    """Fired, asked, refused, given up: one of each, and the control call's trouble is no upstream error."""
    given_up = Turn(
        reasoning_tokens=70, reasoning_source="counted", thinking_outcome="refused", thinking_method="control"
    )
    given_up.fired_at, given_up.past_cap = 50, 20
    facts = (
        CallReceived(),
        routed(call()),
        SENT,
        ThinkingCapped(50, 50),
        AttemptStarted(kind="control", number=1, method="POST", host="127.0.0.1", port=8000),
        EndReasoningAnswered("refused", 0.25),
        AttemptEnded(kind="control", number=1, status=400, fault="http_4xx"),
        ThinkingRefused("refused"),
        ThinkingOverran("refused", 70),
        CLOSED,
        CallFailed(outcome="thinking_overrun", status=502, code="thinking_overrun", turn=given_up),
    )
    assert counted(telemetry, *facts) == {
        "thinkcap_requests_total{dialect=chat,model=m-think,outcome=thinking_overrun,upstream=up}": 1,
        "thinkcap_thinking_capped_total{method=control,model=m-think,outcome=refused,upstream=up}": 1,
        "thinkcap_thinking_overruns_total{cause=refused,model=m-think,upstream=up}": 1,
        "thinkcap_reasoning_tokens_total{model=m-think,source=counted,upstream=up}": 70,
    }
    assert value(telemetry, "end_reasoning_seconds_sum", upstream="up", result="refused") == 0.25
    assert value(telemetry, "thinking_tokens_past_cap_sum", **UP) == 20


def test_a_level_story_counts_refusal_retry_and_memory(telemetry: Telemetry) -> None:
    """Each attempt's refusal, how the re-issue went, and what was sent from memory."""
    flash = {"upstream": "google", "model": "m-flash", "purpose": "session-title"}
    facts = (
        routed(call("m-flash"), upstream="google", model="m-flash", purpose="session-title"),
        LevelRefused("minimal"),
        LevelRetried("minimal", "low"),
        LevelAnswered("minimal", "low", "ok"),
        LevelPreempted("minimal", "low"),
        LevelRefused("gigantic"),
        CallFinished(outcome="ok", status=200),
    )
    play(telemetry, facts)
    assert value(telemetry, "level_refusals_total", **flash, level="minimal") == 1
    assert value(telemetry, "level_refusals_total", **flash, level="other") == 1
    assert value(telemetry, "level_retries_total", **flash, refused="minimal", sent="low", outcome="ok") == 1
    assert value(telemetry, "level_preempted_total", **flash, refused="minimal", sent="low") == 1


def test_upstream_errors_count_per_attempt(telemetry: Telemetry) -> None:
    """A call that was re-issued may count two errors and still be one request."""
    again = AttemptStarted(kind="call", number=2, method="POST", host="127.0.0.1", port=8000)
    facts = (
        routed(call()),
        SENT,
        AttemptEnded(kind="call", number=1, status=400, fault="http_4xx"),
        again,
        AttemptEnded(kind="call", number=2, status=None, fault="reset"),
        CallFailed(outcome="upstream_error", status=502, code="upstream_protocol_error"),
    )
    assert counted(telemetry, *facts) == {
        "thinkcap_requests_total{dialect=chat,model=m-think,outcome=upstream_error,upstream=up}": 1,
        "thinkcap_upstream_errors_total{kind=http_4xx,upstream=up}": 1,
        "thinkcap_upstream_errors_total{kind=reset,upstream=up}": 1,
    }


def test_a_call_refused_before_routing_is_other(telemetry: Telemetry) -> None:
    """No upstream and no model is known; the dialect is, from the path."""
    refused = CallFailed(outcome="refused", status=401, code="unauthorized")
    assert counted(telemetry, KeyRefused("unknown"), refused) == {
        "thinkcap_requests_total{dialect=chat,model=other,outcome=refused,upstream=other}": 1,
        "thinkcap_key_refusals_total{reason=unknown}": 1,
    }


def test_junk_never_becomes_a_label(telemetry: Telemetry) -> None:
    """Names nobody configured count as `other`, whatever the gateway hands over, and nothing fails."""
    before = samples(telemetry.registry)
    junk = routed(call("../../etc"), upstream="evil", model="evil-model", purpose="evil-purpose")
    started = CallStarted(dialect="gopher", method="BREW", route="/pot")
    play(telemetry, (junk, LevelRefused("evil-level"), CallFinished(outcome="ok", status=200, turn=turn())), started)
    after = samples(telemetry.registry)
    values = {label for _, labels in after for _, label in labels}
    assert not [label for label in values if "evil" in label or label in ("gopher", "BREW", "/pot")]
    assert "thinkcap_requests_total{dialect=other,model=other,outcome=ok,upstream=other}" in moved(before, after)
    assert telemetry.failures == 0


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(CallFinished(outcome="ok", status=200, turn=turn()), id="finished"),
        pytest.param(CallFailed(outcome="timeout", status=504, code="upstream_timeout"), id="failed"),
        pytest.param(CallAbandoned(), id="abandoned"),
    ],
)
def test_the_gauge_goes_up_with_the_route_and_down_with_every_ending(telemetry: Telemetry, ending: Ending) -> None:
    """Inflight is one between CallRouted and the ending, whichever it is, and a second ending changes nothing."""
    observer = telemetry.open(STARTED)
    assert value(telemetry, "inflight_requests", upstream="up") == 0
    observer.note(routed(call()))
    observer.note(routed(call()))
    assert value(telemetry, "inflight_requests", upstream="up") == 1
    before = samples(telemetry.registry)
    observer.note(ending)
    observer.note(ending)
    assert value(telemetry, "inflight_requests", upstream="up") == 0
    moves = moved(before, samples(telemetry.registry))
    assert [n for name, n in moves.items() if "requests_total" in name and "capped" not in name] == [1]


def test_unusable_numbers_count_for_nothing(telemetry: Telemetry) -> None:
    """Negative, missing and monstrous counts move no counter and break none."""
    odd = Turn(
        reported="stop",
        returned="stop",
        output_cap=64,
        usage=Usage(output=None, input=-4, reasoning=-1, cached=10**30),
        usage_missing=True,
        reasoning_tokens=-1,
        reasoning_source="upstream",
        malformed=2,
        reasoning_only=True,
        past_cap=-3,
    )
    assert counted(telemetry, routed(call()), CallFinished(outcome="ok", status=200, turn=odd)) == {
        "thinkcap_requests_total{dialect=chat,model=m-think,outcome=ok,upstream=up}": 1,
        "thinkcap_finish_reasons_total{model=m-think,reported=stop,returned=stop,upstream=up}": 1,
        "thinkcap_usage_missing_total{model=m-think,upstream=up}": 1,
        "thinkcap_reasoning_only_total{model=m-think,upstream=up}": 1,
        "thinkcap_malformed_events_total{model=m-think,upstream=up}": 2,
    }
    assert telemetry.failures == 0


def test_a_clock_that_runs_backwards_breaks_nothing(telemetry: Telemetry, clock: Clock) -> None:
    """No negative duration is ever observed."""
    observer = telemetry.open(STARTED)
    for fact in ordinary(stream=False):
        clock.now -= 1.0
        observer.note(fact)
    assert value(telemetry, "request_seconds_sum", **CHAT, **UP) == 0
    assert value(telemetry, "overhead_seconds_sum", **CHAT) == 0
