"""What holds for every dialect, over all wire files: bytes that stay, words that change alone, words read as written."""

import re
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.deltas import Content, Delta, Failure, Finish, Reasoning, Usage
from gateway.dialects import DIALECTS
from gateway.dialects.base import Dialect, Malformed
from gateway.errors import (
    BadRequest,
    CallError,
    Overloaded,
    ThinkingOverrun,
    Unauthorized,
    UnsupportedLevel,
    UpstreamTimeout,
)
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from gateway.words import REASONS, MappedReason, Reason
from tests.gateway.dialects.wires import Wire, changes, frames, leaves, play, wires
from tests.gateway.plays import Stage

CHANGED: Final = {
    "chat": r"choices\.\d+\.finish_reason",
    "messages": r"(delta\.)?stop_reason",
    "gemini": r"candidates\.\d+\.finishReason",
    "responses": r"type|(response\.)?(status|incomplete_details(\.reason)?)",
}
"""Where a relabelled answer may differ."""
UNSAYABLE: Final = {("gemini", "error")}
"""What Gemini has no word for: OTHER stands for it, and is read as `other`."""
ENDINGS: Final = {
    "chat": b'{"choices":[{"index":0,"delta":{},"finish_reason":%s}]}',
    "messages": b'{"type":"message_delta","delta":{"stop_reason":%s}}',
    "gemini": b'{"candidates":[{"index":0,"finishReason":%s}]}',
    "responses": b'{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":%s}}}',
}
STOPS: Final = frozenset(
    ["stop", "end_turn", "stop_sequence", "STOP", "completed", "eos", "eos_token", "end", "COMPLETE"]
)
ERRORS: Final[list[CallError]] = [
    BadRequest("field model must be a string"),
    UnsupportedLevel("no"),
    Unauthorized("no"),
    Overloaded("no"),
    ThinkingOverrun("the model was still thinking\nafter 90 tokens"),
    UpstreamTimeout("no", "timeout"),
]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


@pytest.mark.parametrize("wire", wires(streamed=True))
def test_bytes_and_facts_are_the_same_however_the_stream_is_cut(wire: Wire) -> None:
    """Two reads, cut at any byte, and one read per byte: the same bytes go out and the same is known at the end."""
    whole = play(wire)
    assert whole.out == wire.data
    for at in _cuts(wire):
        assert play(wire, wire.data[:at], wire.data[at:]) == whole
    assert play(wire, *(wire.data[at : at + 1] for at in range(len(wire.data)))) == whole


@pytest.mark.parametrize("wire", wires(streamed=False))
def test_a_whole_answer_stays(wire: Wire) -> None:
    """Where no rule acts every byte stays."""
    assert play(wire).out == wire.data


@pytest.mark.parametrize("wire", wires(streamed=True))
def test_a_stream_that_ends_anywhere_invents_nothing(wire: Wire) -> None:
    """Whatever is missing, what came goes out, and what is said of the turn was said in it."""
    whole = play(wire)
    said = [delta for frame in wire.frames for delta in _read(wire.dialect, frame)]
    words = {delta.raw for delta in said if isinstance(delta, Finish)}
    most = max((delta.output or 0 for delta in said if isinstance(delta, Usage)), default=0)
    for at in _cuts(wire):
        cut = play(wire, wire.data[:at])
        assert cut.out == wire.data[:at]
        assert words.issuperset(cut.turn.raw_reasons)
        assert cut.turn.malformed <= whole.turn.malformed + 1
        assert cut.turn.usage is None or (cut.turn.usage.output or 0) <= max(
            most, (whole.turn.usage or Usage(0)).output or 0
        )
        assert cut.outcome in {"ok", "incomplete", "stream_error"}


@pytest.mark.parametrize("wire", wires(streamed=True))
def test_a_stream_that_breaks_anywhere_ends_in_whole_events(wire: Wire) -> None:
    """A torn event is dropped, so that the error behind it can be read."""
    for at in range(0, len(wire.data), 7):
        stage = Stage(wire.dialect, output_cap=OutputCap())
        stage.feed(wire.data[:at])
        stage.take(stage.relay.broken())
        assert (wire.data[:at] + b"\n\n").startswith(stage.out)
        behind = frames(stage.out + wire.dialect.error_event(ERRORS[0]))[-1]
        assert any(isinstance(delta, Failure) for delta in _read(wire.dialect, behind))


@pytest.mark.parametrize("wire", wires())
def test_relabelling_changes_nothing_but_the_finish(wire: Wire) -> None:
    """Past a cap of one token a stop becomes length in its own place; every other answer stays as it came."""
    judged = play(wire, cap=OutputCap(cap=1))
    _compare(wire, judged.out, changed=judged.turn.verdict == "upgraded")
    assert _reported(wire, judged.out) == judged.turn.returned


@pytest.mark.parametrize("wire", wires())
def test_what_an_operator_maps_is_read_as_written(wire: Wire) -> None:
    """A word of the dialect is written in its own place and read back as the reason that was meant."""
    raws = [raw for raw in play(wire).turn.raw_reasons if not raw.startswith("blockReason:")]
    calls_tools = wire.dialect.name == "responses" and play(wire).turn.reported == "tool_calls"
    for reason, word in wire.dialect.said.items():
        mapped = play(wire, cap=OutputCap(overrides=dict.fromkeys(raws, _mapped(reason))))
        _compare(wire, mapped.out, changed=any(raw != word for raw in raws))
        if raws and (wire.dialect.name, reason) not in UNSAYABLE and not (calls_tools and reason == "stop"):
            assert _reported(wire, mapped.out) == reason


@every_dialect
@pytest.mark.parametrize("error", ERRORS, ids=[error.code for error in ERRORS])
def test_an_error_of_our_own_is_read_as_one(dialect: Dialect, error: CallError) -> None:
    """As a whole body and as an event; the code and the message stand in it."""
    body, events = dialect.error_body(error), frames(dialect.error_event(error))
    assert len(events) == 1
    for told in (list(dialect.read_body(body)), list(_read(dialect, events[0]))):
        assert [type(delta) for delta in told] == [Failure]
    for text in (body, events[0].data or b""):
        strings = {value for _, value in leaves(msgspec.json.decode(text))}
        assert {error.code, error.message} <= strings


@pytest.mark.parametrize("wire", wires(streamed=True))
def test_promoted_text_is_read_as_text(wire: Wire) -> None:
    """It stands before the event it is made like, and ends no turn."""
    for frame in wire.frames:
        if any(isinstance(delta, Finish) for delta in _read(wire.dialect, frame)):
            promoted = frames(wire.dialect.promoted_event(frame.data or b"", "It is blue.", 0))
            told = [delta for event in promoted for delta in _read(wire.dialect, event)]
            assert told == ([] if wire.dialect.name == "responses" else [Content()])


@pytest.mark.parametrize("wire", wires(streamed=False))
def test_promoted_reasoning_is_moved(wire: Wire) -> None:
    """An answer of nothing but reasoning becomes one of nothing but text; every other one stays."""
    before = play(wire)
    after = play(wire, promote=True)
    assert (after.out != wire.data) == before.turn.reasoning_only
    if before.turn.reasoning_only:
        deltas = list(wire.dialect.read_body(after.out))
        assert not [delta for delta in deltas if isinstance(delta, Reasoning) and delta.text]
        assert any(isinstance(delta, Content) for delta in deltas)


@every_dialect
@given(word=st.one_of(st.text(), st.sampled_from(["null", "", "FINISH_REASON_UNSPECIFIED", *STOPS])))
def test_folding_is_total(dialect: Dialect, word: str) -> None:
    """Any word folds to one reason, and to `stop` only those that mean it."""
    data = ENDINGS[dialect.name] % msgspec.json.encode(word)
    finishes = [delta for delta in _read(dialect, Frame(data, None, data)) if isinstance(delta, Finish)]
    assert all(finish.reason in REASONS for finish in finishes)
    assert [finish.reason == "stop" for finish in finishes] in ([], [word in STOPS])


def _cuts(wire: Wire) -> range:
    """Every byte of a file; of a long recording, whose events repeat, every third or so."""
    return range(1, len(wire.data), 1 + len(wire.data) // 3000)


def _read(dialect: Dialect, frame: Frame) -> list[Delta]:
    try:
        return list(dialect.read_frame(frame))
    except Malformed:
        return []


def _mapped(reason: Reason) -> MappedReason:
    assert reason not in {"missing", "other"}
    return reason  # type: ignore[return-value]


def _reported(wire: Wire, data: bytes) -> Reason:
    return play(Wire(wire.dialect, wire.name, wire.streamed, data)).turn.reported


def _compare(wire: Wire, out: bytes, *, changed: bool) -> None:
    """Nothing differs but finish words, and something does exactly when it should."""
    assert (out != wire.data) == changed
    if not wire.streamed:
        pairs = [(wire.data, out)] if changed else []
    else:
        before, after = wire.frames, frames(out)
        assert len(before) == len(after)
        pairs = [(old.data or b"", new.data or b"") for old, new in zip(before, after, strict=True) if old != new]
        assert all(
            old.event == new.event or wire.dialect.name == "responses" for old, new in zip(before, after, strict=True)
        )
    for old_text, new_text in pairs:
        differing = changes(old_text, new_text)
        assert differing
        assert all(re.fullmatch(CHANGED[wire.dialect.name], path) for path in differing), differing
