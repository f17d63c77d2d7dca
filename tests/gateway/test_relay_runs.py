"""Streams whose runs are not decoded: what goes out, what is counted and what is done is what it would be if they were."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import template
from gateway.actions import EndReasoning
from gateway.deltas import Delta
from gateway.dialects.base import Additions
from gateway.rules.thinking_cap import ThinkingCap
from gateway.sse import Frame, FrameReader
from tests.gateway.plays import DONE, Stage, chunk, cut, text, thought, timed, usage

EVENTS: Final = (
    text("a"), text("b\n"), text("\u00e9"), text(""), thought("b"), thought("c"), thought("\u00e9\ud7ff"),
    chunk({"role": "assistant", "content": "a"}), chunk({"content": "a", "reasoning": "b"}), chunk(finish="stop"),
    chunk(finish="length"), usage(3), usage(99), DONE, b": comment\n\n", b"data: {\n\n", b"\r\n\r\n", b"\r",
    b": half", b"event: x\n",
    timed("a", 1), timed("b", 2), timed("c,", 3), timed(',"timings":{"predicted_n":4}', 4), timed("d", 5, field="content"),
    timed("e", 6, field="content"), timed("", 7), timed("f", 8, cache_n=None), timed("g", 9, created=8),
    chunk({"content": "h"}, timings={}), chunk(finish="stop", timings={"predicted_n": 9}),
    b'data: {"error":{"message":"no"}}\n\n', text("d").replace(b"\n", b"\r"), text("e").replace(b"\n", b"\r\n"),
)  # fmt: skip
PLANS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "promote": {"promote": True},
    "guarded": {"guarded": True},
    "frames are tokens": {"per_frame": True, "thinking": ThinkingCap(2, 3, "give_up")},
    "estimated": {"thinking": ThinkingCap(1, 1, "give_up")},
    "asked": {"per_frame": True, "thinking": ThinkingCap(2, 3, "control")},
    "ended": {"thinking": ThinkingCap(2, 3, "control"), "added": Additions(control=True, usage=True)},
    "watched": {"per_frame": True, "thinking": ThinkingCap(2, 3, "watch")},
}


def told(reads: Sequence[bytes], plan: dict[str, Any], *, learns: bool) -> tuple[Any, ...]:
    """What a relay makes of these reads."""
    with pytest.MonkeyPatch.context() as patch:
        if not learns:
            patch.setattr(template, "LESSONS", 0)
        thinking = plan.get("thinking")
        stage = Stage(**plan | ({"thinking": msgspec.structs.replace(thinking)} if thinking else {}))
    out = [stage.feed(data) for data in reads]
    turn = stage.close()
    return out, stage.out, stage.actions, [repr(fact) for fact in stage.facts], turn


@given(
    st.lists(st.sampled_from(EVENTS), max_size=20).map(b"".join),
    st.lists(st.integers(1, 200), max_size=20),
    st.sampled_from(sorted(PLANS)),
)
def test_a_stream_comes_to_the_same_with_and_without_templates(stream: bytes, cuts: list[int], plan: str) -> None:
    """After every read the same bytes and actions, at the end the same facts and totals."""
    reads = cut(stream, cuts)
    assert told(reads, PLANS[plan], learns=True) == told(reads, PLANS[plan], learns=False)


@given(st.lists(st.sampled_from(EVENTS), max_size=20), st.sampled_from(sorted(PLANS)))
def test_the_same_an_event_a_read(events: list[bytes], plan: str) -> None:
    """As nearly all streams come."""
    assert told(events, PLANS[plan], learns=True) == told(events, PLANS[plan], learns=False)


def decoded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The frames that are decoded from now on."""
    found: list[bytes] = []
    way = stage.relay._read

    def read(frame: Frame) -> Sequence[Delta]:
        found.append(frame.raw)
        return way(frame)

    monkeypatch.setattr(stage.relay, "_read", read)
    return found


def test_a_run_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second frame of a run teaches, and from the third on none is framed or decoded; the first behind it is."""
    stage = Stage(per_frame=True)
    read = decoded(stage, monkeypatch)
    stage.feed(*[thought("a")] * 9, *[text("b")] * 9, chunk(finish="stop"))
    assert len(read) < 3 * 3
    assert stage.close().reasoning_tokens == 9


def test_a_stream_that_tells_the_second_is_decoded_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many seconds it takes: llama.cpp writes the time into each event."""
    stage = Stage(per_frame=True)
    read = decoded(stage, monkeypatch)
    for second in range(50):
        stage.feed(*[chunk({"content": "a"}, created=second)] * 30)
    assert len(read) < 50 * 3 + 3
    stage.close()


def test_the_id_may_come_late() -> None:
    """What names a completion stands in the first event, or in one of the next."""
    stage = Stage(thinking=ThinkingCap(2, 3, "control"), added=Additions(control=True))
    nameless = timed("a", 1).replace(b'"id":"c1",', b"")
    stage.feed(nameless, timed("b", 2), timed("c", 3))
    assert [action for action in stage.actions if isinstance(action, EndReasoning)] == [EndReasoning("c1")]


def test_what_our_asking_caused_goes_out_of_each_frame_of_a_run() -> None:
    """Undecoded; the same text inside of a thought stays."""
    words = ["a", "b", ',"timings":{"predicted_n":4}', "d,", "e"]
    stage = Stage(thinking=ThinkingCap(50, 3, "control"), added=Additions(control=True))
    for number, word in enumerate(words * 3):
        stage.feed(timed(word, number + 1))
    assert stage.out == b"".join(thought(word, created=7) for word in words * 3)
    assert stage.close().reasoning_tokens == len(words) * 3


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([thought("a")] * 5, id="an event a read"),
        pytest.param([thought("a")] * 2 + [thought("a") * 9], id="behind others, undecoded"),
        pytest.param([thought("a") * 9], id="all in one, decoded"),
    ],
)
def test_the_last_thought_of_a_call_that_is_given_up(reads: list[bytes]) -> None:
    """What comes behind the thought that was one too many does not go out, in that read or later."""
    stage = Stage(per_frame=True, thinking=ThinkingCap(3, 2, "give_up"))
    stage.feed(*reads, thought("a"), text("e"))
    assert stage.out == thought("a") * 5


def test_what_is_open_goes_first() -> None:
    """With an event half here the next read is its other half, whatever it looks like."""
    for reads in ([text("a") + b": half", text("b")], [text("a"), text("b") + b": half", text("c")]):
        stage = Stage()
        stage.feed(*reads)
        stage.close()
        assert stage.out == b"".join(reads)


def test_a_first_token_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for it; the second of a run is the first to teach."""
    lessons: list[bytes] = []
    monkeypatch.setattr(template, "learn", lambda frame, *_: lessons.append(frame.raw))
    stage = Stage()
    stage.feed(thought("a"), text("b"))
    assert lessons == []
    stage.feed(text("c"))
    assert lessons == [text("c")]


@pytest.mark.parametrize(
    ("data", "idle"),
    [
        pytest.param(b"data: a\n\n", True, id="behind an event"),
        pytest.param(b"data: a\n\n: half", False, id="in a comment"),
        pytest.param(b"data: a\r\r", False, id="where the LF of a CRLF may follow"),
        pytest.param(b"", False, id="where a byte order mark may follow"),
    ],
)
def test_idle_where_an_event_begins(data: bytes, *, idle: bool) -> None:
    """Whatever comes next is the beginning of an event, and counts."""
    reader = FrameReader()
    reader.feed(data)
    assert reader.idle == idle
