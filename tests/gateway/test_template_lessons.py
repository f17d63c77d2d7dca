"""What a stream teaches of its frames, what it does not, and how often it is asked."""

from typing import Final

import pytest

from gateway import template
from gateway.deltas import Content
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions
from gateway.sse import Frame
from gateway.template import WORTH, Template, Templates
from gateway.words import DialectName
from tests.gateway.alike import CHAT, frames, taught, undecoded
from tests.gateway.plays import chunk, sse, text, timed

NOTHING_TO_LEARN: Final = [
    pytest.param(CHAT, b"\xef\xbb\xbf" + text("a"), id="a byte order mark: it counts as nothing but once"),
    pytest.param(CHAT, text("a").replace(b"\n", b"\r"), id="lines that end in CR: half a CRLF may follow"),
    pytest.param(CHAT, text("a").replace(b',"choices"', b'\ndata: ,"choices"'), id="data in two lines"),
    pytest.param(CHAT, chunk({"reasoning": "a"}, x={"content": "a"}), id="a thought that stands in two places"),
    pytest.param(CHAT, text("a").replace(b'"a"', b'"\\u0041"'), id="text that a decoder has to look at"),
    pytest.param(
        CHAT, chunk({"content": "a"}, system_fingerprint="x" * 5000), id="a frame that is long besides its text"
    ),
    pytest.param(CHAT, chunk({"content": "a"}, x=[{"content": "a"}] * 20), id="a frame with text in many places"),
    pytest.param(
        CHAT,
        chunk({"reasoning": "a"}, timings={"predicted_n": 3}, x={"a": 1, "timings": {"predicted_n": 3}}),
        id="two counts",
    ),
    pytest.param(CHAT, chunk({"reasoning": "a"}, x={"a": 1, "timings": {"predicted_n": 3}}), id="a count that is none"),
    pytest.param("gemini", sse({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}), id="gemini counts in all"),
]


@pytest.mark.parametrize(("dialect", "first"), NOTHING_TO_LEARN)
def test_nothing_is_learned(dialect: DialectName, first: bytes) -> None:
    """Such a frame is no template."""
    assert taught(dialect, first) is None


@pytest.mark.parametrize(
    ("event", "learned"),
    [
        pytest.param(timed("a", 3), True, id="what is stripped is the count"),
        pytest.param(text("a"), True, id="nothing is stripped"),
        pytest.param(
            chunk({"content": "a"}, timings={"predicted_n": 3}, x=1), True, id="a count before another member"
        ),
        pytest.param(
            chunk({"content": "a"}, timings={"predicted_n": 3}, x={"a": 1, "timings": {"predicted_n": 3}}),
            False,
            id="a count of its own and one further in",
        ),
        pytest.param(chunk({"content": "a"}, timings={"predicted_n": 0}), False, id="a count of another form"),
        pytest.param(
            chunk({"content": "a"}, x={"a": 1, "timings": {"predicted_n": 3}}), False, id="a count further in"
        ),
    ],
)
def test_where_something_is_stripped_it_is_the_count(event: bytes, learned: bool) -> None:
    """A frame is no template where taking out the count does not leave what the dialect leaves of it."""
    way, (frame,) = DIALECTS[CHAT], frames(event)
    stream = Templates(way.differs, lambda frame: way.strip(frame, Additions(control=True)))
    assert (stream.of(type(way.read_frame(frame)[0]), frame, way.read_frame) is not None) is learned


def test_a_long_text_is_no_long_template() -> None:
    """What is kept of a frame is what stands around the text."""
    assert undecoded(CHAT, text("a" * 100_000), text("b"))[0] == len(text("b"))


def test_a_stream_that_changes_now_and_then_is_asked_again() -> None:
    """Where each second brings frames of another form, as with llama.cpp, what is learned for one is worth its while."""
    way = DIALECTS[CHAT]
    stream = Templates(way.differs)
    for second in range(100):
        event = chunk({"content": "a"}, created=second)
        (frame,) = frames(event)
        known = stream.of(Content, frame, way.read_frame)
        assert known is not None
        assert known.read(event, None) == len(event)
        known.reads += WORTH


def test_what_is_learned_for_less_is_not_worth_it() -> None:
    """A stream that changes with every few frames costs its lessons and no more."""
    way = DIALECTS[CHAT]
    stream = Templates(way.differs)
    last: Template | None = None
    for second in range(100):
        (frame,) = frames(chunk({"content": "a"}, created=second))
        known = stream.of(Content, frame, way.read_frame)
        assert known is not None
        assert (known is last) == (second >= template.LESSONS)
        known.reads, last = WORTH - 1, known


def test_a_stream_is_asked_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream whose frames all differ does not pay for learning with each."""
    lessons: list[Frame] = []
    monkeypatch.setattr(template, "learn", lambda frame, *_: lessons.append(frame))
    way = DIALECTS[CHAT]
    stream = Templates(way.differs)
    for number in range(100):
        (frame,) = frames(chunk({"content": "a"}, created=number))
        assert stream.of(Content, frame, way.read_frame) is None
    assert len(lessons) == template.LESSONS


def test_what_was_learned_last_counts() -> None:
    """The first of a run often has a role; those behind it teach anew."""
    way = DIALECTS[CHAT]
    stream = Templates(way.differs)
    first, later = frames(chunk({"role": "assistant", "content": "a"}) + text("b"))
    assert stream.of(Content, first, way.read_frame) is not None
    known = stream.of(Content, later, way.read_frame)
    assert known is not None
    assert stream.of(Content, later, way.read_frame) is known
    assert known.read(text("c"), None) == len(text("c"))
    assert stream.of(Content, first, way.read_frame) is not known
