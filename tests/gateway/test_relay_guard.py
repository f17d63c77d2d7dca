"""Plays of a guarded answer: nothing goes out before its first delta, for a level may still be refused."""

import pytest

from gateway.actions import Refused
from gateway.relay import GUARD_BYTES
from gateway.rules.output_cap import OutputCap
from tests.gateway.plays import Stage, chunk, sse, text

HELLO, STOP = text("Hello"), chunk(finish="stop")
ERROR = sse({"error": {"message": "Thinking level MINIMAL is not supported", "code": 400}})


def test_a_guarded_answer_waits_for_its_first_delta() -> None:
    """Role frames and comments wait; the first delta lets all go."""
    stage = Stage(guarded=True)
    role = chunk({"role": "assistant"})
    assert stage.feed(b": ping\n\n", role) == b""
    assert stage.feed(HELLO) == b": ping\n\n" + role + HELLO


def test_a_guarded_answer_may_be_refused() -> None:
    """An error before the first delta is handed over, and nothing of it goes out unless it is let go."""
    stage = Stage(guarded=True)
    assert stage.feed(ERROR) == b""
    assert stage.actions == [Refused(ERROR[6:-2])]
    assert stage.take(stage.relay.unguard()) == ERROR


def test_a_guard_is_bounded() -> None:
    """Frames without a delta wait for at most 64 KiB."""
    stage = Stage(guarded=True)
    big = sse({"choices": [], "junk": "x" * (GUARD_BYTES + 1)})
    assert stage.feed(big) == big


def test_an_error_behind_too_much_is_no_refusal() -> None:
    """What exceeds the bound goes out, also when the error comes in the same read; nothing is taken back then."""
    stage = Stage(guarded=True)
    big = b": " + b"x" * GUARD_BYTES + b"\n\n"
    assert stage.feed(big + ERROR) == big + ERROR
    assert stage.actions == []


@pytest.mark.parametrize(
    "behind",
    [
        pytest.param(sse({"choices": [], "junk": "x" * GUARD_BYTES}), id="more than may wait"),
        pytest.param(HELLO, id="visible text"),
    ],
)
def test_what_comes_behind_a_refusal_in_one_read_waits_with_it(behind: bytes) -> None:
    """The refusal is handed over first; only when nothing comes of it does all go out."""
    stage = Stage(guarded=True)
    assert stage.feed(ERROR + behind) == b""
    assert stage.actions == [Refused(ERROR[6:-2])]
    assert stage.take(stage.relay.unguard()) == ERROR + behind


@pytest.mark.parametrize("end", ["close", "broken"])
def test_a_refusal_may_be_the_last_line(end: str) -> None:
    """An error without the blank line behind it is a refusal as any other, however the body ends."""
    stage = Stage(guarded=True)
    assert stage.feed(ERROR[:-2]) == b""
    assert stage.take(getattr(stage.relay, end)()) == b""
    assert stage.actions == [Refused(ERROR[6:-2])]


def test_a_guarded_answer_may_be_nothing_but_a_finish() -> None:
    """An empty answer is no refusal."""
    assert Stage(guarded=True, output_cap=OutputCap()).feed(STOP) == STOP


def test_a_refusal_without_its_blank_line_is_one_before_a_break() -> None:
    """The event is whole, so it may be re-issued; nothing of it goes out before that is decided."""
    stage = Stage(guarded=True)
    error = sse({"error": {"message": "Thinking level MINIMAL is not supported", "code": 400}})
    assert stage.feed(error[:-2]) == b""
    assert stage.take(stage.relay.broken()) == b""
    assert stage.actions == [Refused(error[6:-2])]
    assert stage.take(stage.relay.unguard()) == error
