"""Frames that are alike: what is read without being decoded says what it would say if it were."""

from contextlib import suppress
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway import template
from gateway.deltas import Reasoning
from gateway.dialects.base import Malformed
from gateway.words import DialectName
from tests.gateway.alike import CHAT, decoded, frames, piece, quoted, said, taught, undecoded
from tests.gateway.plays import DONE, chunk, text, thought, timed

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
    pytest.param(CHAT, timed("a", 3), timed("b", 14, predicted_ms=7.25), id="a thought and the running count"),
    pytest.param(CHAT, timed("a", 3), timed("b", 4) + timed("c", 5), id="two thoughts and their counts"),
    pytest.param(CHAT, timed("a", 3), timed("b", 4, cache_n=-1, x=0.5), id="a count among other numbers than before"),
    pytest.param(CHAT, timed("a", 3, field="content"), timed("b", 4, field="content"), id="text and a running count"),
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


UNCOUNTED: Final = [
    pytest.param(timed("a", 0), id="nothing was counted yet"),
    pytest.param(timed("a", None), id="no count"),
    pytest.param(timed("a", 1.5), id="a count that is no whole number"),
    pytest.param(timed("a", 3, cache_n="x"), id="a measurement that is no number"),
    pytest.param(timed("a", 3, cache_n=[1]), id="a measurement that is a list"),
    pytest.param(timed("a", 3).replace(b"0.434", b"4e999"), id="a measurement that no float holds"),
    pytest.param(timed("a", 3).replace(b"0.434", b"01"), id="a measurement that is not JSON"),
    pytest.param(timed("a", 3).replace(b'"cache_n":0', b'"predicted_n":9'), id="two counts"),
    pytest.param(timed("a", 3).replace(b'"cache_n":0', b'"cache_n":0 '), id="spaces"),
]


@pytest.mark.parametrize("data", UNCOUNTED)
def test_a_count_of_another_form(data: bytes) -> None:
    """The decoder reads it, or refuses it; in a run and as the first of one."""
    assert undecoded(CHAT, timed("b", 3), data) == (0, [])
    with suppress(Malformed):
        known = taught(CHAT, data)
        assert known is None or known.read(timed("b", 3), None) == 0


@pytest.mark.parametrize("data", UNLIKE)
def test_unlike(data: bytes) -> None:
    """It is not read, and neither is what stands behind it; what stands before it is."""
    assert undecoded(CHAT, text("a"), data + text("b"))[0] == 0
    assert undecoded(CHAT, text("a"), text("b") + data + text("b"))[0] == len(text("b"))


def test_more_than_an_event_may_be_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of frames has the limit, and raises where it is passed."""
    monkeypatch.setattr(template, "LIMIT", 1000)
    known = taught(CHAT, text("a"))
    assert known is not None
    assert known.read(text("b" * 1000), None) == 0


INSIDE: Final = st.one_of(
    st.text(max_size=6).map(lambda words: quoted(words)[1:-1].encode()),
    st.binary(max_size=6),
    st.sampled_from([b"\\", b'"', b"\\n", b"\\u00e9", b"\\ud83e", b"\n\n", b'","x":"', b'"},"finish_reason":"stop'])
)  # fmt: skip
COUNT: Final = st.one_of(
    st.integers().map(lambda number: b"%d" % number),
    st.floats(allow_nan=False).map(lambda number: repr(number).encode()),
    st.sampled_from([b"1e5", b"00", b"-", b"", b"1.", b"null", b'"1"', b"1,2", b'1,"predicted_n":7', b'1},"x":{"y":2']),
)
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


@given(COUNT, COUNT, st.sampled_from(["content", "reasoning_content"]))
def test_whatever_is_counted_is_what_is_counted(count: bytes, other: bytes, field: str) -> None:
    """Whatever stands in the place of the numbers: read, it is what the decoder makes of it."""
    data = timed("a", 3, field=field).replace(b'"predicted_n":3', b'"predicted_n":%b' % count)
    data = data.replace(b"104.291", other)
    end, deltas = undecoded(CHAT, timed("a", 3, field=field), data)
    assert end in {0, len(data)}
    assert deltas == decoded(CHAT, data[:end])


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
