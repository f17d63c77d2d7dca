"""Which moments of a call count: the first attempt, the last close, and never those of the control call beside it."""

from gateway.events import AttemptEnded, AttemptStarted, CallFinished, CallReceived, Fact
from telemetry.observer import Telemetry
from tests.telemetry.plays import CLOSED, SENT, STARTED, Clock, call, routed

CONTROL = AttemptStarted(kind="control", number=1, method="POST", host="127.0.0.1", port=8000)
ENDED = AttemptEnded(kind="control", number=1, status=200)
AGAIN = AttemptStarted(kind="call", number=2, method="POST", host="127.0.0.1", port=8000)
CLOSED_AGAIN = AttemptEnded(kind="call", number=2, status=200)


def overhead(telemetry: Telemetry, clock: Clock, *facts: Fact) -> float | None:
    """What the gateway itself added to a whole call in which a second passes before each of these facts."""
    observer = telemetry.open(STARTED)
    for fact in (CallReceived(), routed(call(stream=False)), *facts, CallFinished(outcome="ok", status=200)):
        clock.now += 1.0
        observer.note(fact)
    return telemetry.registry.get_sample_value("thinkcap_overhead_seconds_sum", {"dialect": "chat"})


def test_a_second_attempt_starts_no_call_anew(telemetry: Telemetry, clock: Clock) -> None:
    """Overhead runs to the first attempt and from the last one's close."""
    assert overhead(telemetry, clock, SENT, CLOSED, AGAIN, CLOSED_AGAIN) == 2.0 + 1.0


def test_the_control_call_is_not_the_call(telemetry: Telemetry, clock: Clock) -> None:
    """Neither its start nor its end is one of the answer's."""
    assert overhead(telemetry, clock, CONTROL, SENT, CLOSED, ENDED) == 3.0 + 2.0
