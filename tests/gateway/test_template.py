"""Frames that are alike: what is read without being decoded says what it would say if it were."""

from typing import Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway import template
from gateway.deltas import Content, Delta, Reasoning
from gateway.dialects import DIALECTS
from gateway.dialects.base import Malformed
from gateway.sse import Frame, FrameReader
from gateway.template import Template, Templates
from gateway.words import DialectName
from tests.gateway.plays import DONE, chunk, sse, text, thought

CHAT: Final[DialectName] = "chat"


def named(data: str) -> bytes:
    """An event with the name that stands in it as its type."""
    kind = msgspec.json.decode(data)["type"]
    return f"event: {kind}\ndata: {data}\n\n".encode()


def piece(kind: str, field: str, words: str, index: int = 0) -> bytes:
    """A delta of messages."""
    return named(
        f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":{quoted(words)}}}}}'
    )


def said(number: int, words: str, kind: str = "response.output_text.delta", pad: str = "ab") -> bytes:
    """A delta of responses."""
    return named(
        f'{{"type":"{kind}","sequence_number":{number},"item_id":"m","delta":{quoted(words)},"obfuscation":"{pad}"}}'
    )


def quoted(words: str) -> str:
    """As a JSON string."""
    return msgspec.json.encode(words).decode()


def frames(data: bytes) -> list[Frame]:
    """The events of these bytes."""
    return FrameReader().feed(data)


def taught(dialect: DialectName, first: bytes) -> Template | None:
    """What is learned from one event."""
    way = DIALECTS[dialect]
    (frame,) = frames(first)
    return Templates(way.differs).of(type(way.read_frame(frame)[0]), frame, way.read_frame)


def undecoded(dialect: DialectName, first: bytes, data: bytes) -> tuple[int, list[Delta]]:
    """How far the first event's template reads these bytes, and what they say by it."""
    known = taught(dialect, first)
    assert known is not None
    deltas: list[Delta] = []

    def tell(delta: Delta) -> bool:
        deltas.append(delta)
        return True

    return known.read(data, tell), deltas


def decoded(dialect: DialectName, data: bytes) -> list[Delta]:
    """What these bytes say."""
    found: list[Delta] = []
    for frame in frames(data):
        found += DIALECTS[dialect].read_frame(frame)
    return found


PADDED: Final = chunk({"content": "a"}, obfuscation="qX")
SUMMARY: Final = "response.reasoning_summary_text.delta"
ALIKE: Final = [
    pytest.param(CHAT, text("a"), text(" Fox, and 12!"), id="another word"),
    pytest.param(CHAT, text("a"), text('"\n\t\\/'), id="a word with short escapes"),
    pytest.param(CHAT, text("a"), text("\u00e9 \u4e2d \U0001f984 \u2028 \x7f"), id="a word outside of ASCII"),
    pytest.param(CHAT, text("a"), text("a") + text("b") + text("c"), id="several events in one read"),
    pytest.param(CHAT, PADDED, chunk({"content": "b"}, obfuscation="7y9"), id="padding of another length"),
    pytest.param(CHAT, thought("a"), thought("hm, \u00e9\n"), id="another thought"),
    pytest.param(CHAT, chunk({"reasoning": "a"}), chunk({"reasoning": "bc"}), id="reasoning as vLLM spells it"),
    pytest.param(CHAT, text("a").replace(b"\n", b"\r\n"), text("b").replace(b"\n", b"\r\n"), id="lines that end in CRLF"),
    pytest.param(CHAT, text("a").replace(b'":"', b'": "'), text("b").replace(b'":"', b'": "'), id="spaces in the JSON"),
    pytest.param("messages", piece("text_delta", "text", "a"), piece("text_delta", "text", "b"), id="messages text"),
    pytest.param(
        "messages", piece("thinking_delta", "thinking", "a", 3), piece("thinking_delta", "thinking", "b", 3),
        id="messages thinking, in its block",
    ),
    pytest.param("responses", said(9, "a"), said(10, "b", pad="xyz"), id="responses text under the next number"),
    pytest.param("responses", said(9, "a", SUMMARY), said(123, "bc", SUMMARY), id="a summary in responses"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "first", "data"), ALIKE)
def test_alike(dialect: DialectName, first: bytes, data: bytes) -> None:
    """All of it is read, and says what it says when it is decoded."""
    assert undecoded(dialect, first, data) == (len(data), decoded(dialect, data))


UNLIKE: Final = [
    pytest.param(text(""), id="no text"),
    pytest.param(text("a")[:-1], id="an event that is not over"),
    pytest.param(text("a")[:-1] + b"x\n\n", id="a further line"),
    pytest.param(text("a").replace(b'"a"', b'"\\u0041"'), id="an escape that a decoder has to look at"),
    pytest.param(text("a").replace(b'"a"', b'"\xff"'), id="no UTF-8"),
    pytest.param(text("a").replace(b'"a"', b'"\xed\xa0\x80"'), id="a surrogate in UTF-8"),
    pytest.param(text("a").replace(b'"a"', b'"\x01"'), id="a control character"),
    pytest.param(text("a").replace(b'"a"', b'"\\x"'), id="an escape that JSON has not"),
    pytest.param(text("a").replace(b'"a"', b'"a","role":"assistant"'), id="a field more"),
    pytest.param(text("a").replace(b'"a"', b"null"), id="no string"),
    pytest.param(text("a").replace(b'"c1"', b'"c2"'), id="another id"),
    pytest.param(chunk({"content": "a"}, finish="stop"), id="a finish word"),
    pytest.param(thought("a"), id="a thought in a run of text"),
    pytest.param(DONE, id="the end"),
    pytest.param(b": comment\n\n", id="a comment"),
    pytest.param(b"\n" + text("a"), id="a line end left over from the event before"),
]


@pytest.mark.parametrize("data", UNLIKE)
def test_unlike(data: bytes) -> None:
    """It is not read, and neither is what stands behind it; what stands before it is."""
    assert undecoded(CHAT, text("a"), data + text("b"))[0] == 0
    assert undecoded(CHAT, text("a"), text("b") + data + text("b"))[0] == len(text("b"))


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
    pytest.param("gemini", sse({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}), id="gemini counts in all"),
]


@pytest.mark.parametrize(("dialect", "first"), NOTHING_TO_LEARN)
def test_nothing_is_learned(dialect: DialectName, first: bytes) -> None:
    """Such a frame is no template."""
    assert taught(dialect, first) is None


def test_a_long_text_is_no_long_template() -> None:
    """What is kept of a frame is what stands around the text."""
    assert undecoded(CHAT, text("a" * 100_000), text("b"))[0] == len(text("b"))


def test_more_than_an_event_may_be_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of frames has the limit, and raises where it is passed."""
    monkeypatch.setattr(template, "LIMIT", 1000)
    known = taught(CHAT, text("a"))
    assert known is not None
    assert known.read(text("b" * 1000), None) == 0


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


INSIDE: Final = st.one_of(
    st.text(max_size=6).map(lambda words: quoted(words)[1:-1].encode()),
    st.binary(max_size=6),
    st.sampled_from([b"\\", b'"', b"\\n", b"\\u00e9", b"\\ud83e", b"\n\n", b'","x":"', b'"},"finish_reason":"stop'])
)  # fmt: skip
FIRSTS: Final = st.sampled_from([(row.values[0], row.values[1]) for row in ALIKE])


@example((CHAT, text("a")), b"\\ud83e", [])
@given(FIRSTS, INSIDE, st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=2)), max_size=2))
def test_whatever_is_read_says_what_it_says(
    first: tuple[DialectName, bytes], inside: bytes, edits: list[tuple[int, bytes]]
) -> None:
    """Whatever stands where the text stood, and whatever happens to the rest: read, it is what the decoder makes of it."""
    dialect, event = first
    data = event.replace(b'"a"', b'"%b"' % inside)
    for at, other in edits:
        data = data[:at] + other + data[at + len(other) :]
    end, deltas = undecoded(dialect, event, data)
    read = frames(data[:end])
    assert b"".join(frame.raw for frame in read) == data[:end]
    assert len(read) == len(deltas)
    assert decoded(dialect, data[:end]) == deltas


def test_a_malformed_frame_is_never_read() -> None:
    """Bytes that the decoder refuses are no template."""
    with pytest.raises(Malformed):
        taught(CHAT, b'data: {"content":"a"\n\n')


def test_reasoning_keeps_what_the_frame_says_besides() -> None:
    """Its block, its choice, and that it is a retelling."""
    _, deltas = undecoded(
        "messages", piece("thinking_delta", "thinking", "a", 3), piece("thinking_delta", "thinking", "b", 3)
    )
    assert deltas == [Reasoning("b", block=3)]
    _, deltas = undecoded("responses", said(1, "a", SUMMARY), said(2, "b", SUMMARY))
    assert deltas == [Reasoning("b", summary=True)]
