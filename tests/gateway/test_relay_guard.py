"""Plays of a guarded answer: nothing goes out before its first delta, for a level may still be refused."""

from gateway.actions import Refused
from gateway.relay import GUARD_BYTES
from gateway.rules.output_cap import OutputCap
from tests.gateway.plays import Stage, chunk, sse, text

HELLO, STOP = text("Hello"), chunk(finish="stop")


def test_a_guarded_answer_waits_for_its_first_delta() -> None:
    """Role frames and comments wait; the first delta lets all go."""
    stage = Stage(guarded=True)
    role = chunk({"role": "assistant"})
    assert stage.feed(b": ping\n\n", role) == b""
    assert stage.feed(HELLO) == b": ping\n\n" + role + HELLO


def test_a_guarded_answer_may_be_refused() -> None:
    """An error before the first delta is handed over, and nothing of it goes out unless it is let go."""
    stage = Stage(guarded=True)
    error = sse({"error": {"message": "Thinking level MINIMAL is not supported", "code": 400}})
    assert stage.feed(error) == b""
    assert stage.actions == [Refused(error[6:-2])]
    assert stage.take(stage.relay.unguard()) == error


def test_a_guard_is_bounded() -> None:
    """Frames without a delta wait for at most 64 KiB."""
    stage = Stage(guarded=True)
    big = sse({"choices": [], "junk": "x" * (GUARD_BYTES + 1)})
    assert stage.feed(big) == big


def test_a_guarded_answer_may_be_nothing_but_a_finish() -> None:
    """An empty answer is no refusal."""
    assert Stage(guarded=True, output_cap=OutputCap()).feed(STOP) == STOP
