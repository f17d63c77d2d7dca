"""The framer: byte-exact over every cut into reads, and the same reading as a parser written line by line."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import sse
from gateway.sse import EventTooLarge, Frame, FrameReader, comment, event, rewrite

BOM = b"\xef\xbb\xbf"
MARKS = st.sampled_from([b"", BOM])
PATIENT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # busy machines
Reading = list[tuple[bytes | None, bytes | None]]

LINES = (
    b"data: {}", b'data: {"a":1}', b"data:x", b"data", b"data: ", b"data:  two", b"event: ping", b"event:e", b"event: ",
    b"event", b"id: 7", b"retry: 3000", b": keep-alive", b":", b"unknown: f", b"data : no", b"Data: no", b"{", b"",
    b"data: \xe2\x80\xa8 \xe2\x80\xa9 \xc2\x85 \x0b \x0c \x1c", b"data: a:b", b"data: \x00\xff", BOM, BOM + b"data: x",
)  # fmt: skip
STREAMS = (
    b"data: a\n\ndata: b\n\n",
    b"event: x\r\ndata: a\r\n\r\nevent: y\r\ndata: b\r\n\r\n",
    b"data: a\r\rdata: b\r\r",
    BOM + b": hello\n\n\n\ndata: a\ndata: b\r\n\r\nid: 1\n\nevent: e\n\ndata: torn",
    b"data: a\r\r\ndata: b\n\r\ndata: c\r\n\ndata: d\n\rdata: e\r\n\r",
    BOM + b"\r\n\r\n" + BOM + b"data: a\n\n",
    b": c\r\n\r\ndata: a\rdata: b\r\n\r\nevent: a\rdata: b\r\ndata: c\r\n\r\nevent: a\ndata: b\r\n\r\n",
    b"event: a\rdata: b\n\nevent: \n\ndata: a\rdata: b\n\nevent: e\ndata: c\n\n",
)


def texts() -> st.SearchStrategy[bytes]:
    """Streams of lines, well formed and odd, with mixed line ends."""
    line = st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"\r\r"]))
    whole = st.lists(line, max_size=12).map(lambda lines: b"".join(text + end for text, end in lines))
    return st.builds(
        lambda bom, text, tail: bom + text + tail, st.sampled_from([b"", BOM]), whole, st.sampled_from(LINES)
    )


def cut(text: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """The text in pieces, cut at the places that lie in it."""
    begin = 0
    for place in sorted(place for place in places if place <= len(text)):
        yield text[begin:place]
        begin = place
    yield text[begin:]


def frames_of(pieces: Iterable[bytes]) -> list[Frame]:
    """All frames of a body that came in these reads."""
    reader = FrameReader()
    return [frame for piece in pieces for frame in reader.feed(piece)] + reader.close()


def said(frames: Iterable[Frame]) -> Reading:
    """What the frames say, without those that say nothing."""
    return [(f.event, f.data) for f in frames if f.event is not None or f.data is not None]


def reference(text: bytes) -> Reading:
    """The stream as the standard reads it, byte by byte and line by line; an unfinished last event is taken too."""
    text = text.removeprefix(BOM)
    lines, line, before = [], b"", b""
    for byte in (text[i : i + 1] for i in range(len(text))):
        if byte == b"\n" and before == b"\r":
            before = byte
            continue
        before = byte
        if byte in (b"\r", b"\n"):
            lines.append(line)
            line = b""
        else:
            line += byte
    events: Reading = []
    name: bytes | None = None
    data: bytes | None = None
    for each in [*lines, line, b""]:
        if not each:
            if name or data is not None:
                events.append((name or None, data))
            name = data = None
            continue
        field, _, value = each.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data = value if data is None else data + b"\n" + value
        if field == b"event":
            name = value
    return events


ANY = st.binary(max_size=60) | st.text(":\r\n dataevent", max_size=60).map(str.encode)


@PATIENT
@given(text=texts() | ANY, places=st.lists(st.integers(0, 200)))
def test_any_bytes_in_any_reads(text: bytes, places: list[int]) -> None:
    """Not a byte is lost or moved, the reading is the standard's, and only the last frame may be unfinished."""
    frames = frames_of(cut(text, places))
    assert b"".join(frame.raw for frame in frames) == text
    assert said(frames) == reference(text)
    assert all(frame.whole for frame in frames[:-1])
    assert all(frame.raw for frame in frames)


@pytest.mark.parametrize("text", STREAMS)
def test_every_cut_of_a_stream(text: bytes) -> None:
    """Cut at each byte, at each pair of bytes, and into single bytes, a stream reads the same."""
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            frames = frames_of(cut(text, (first, second)))
            assert b"".join(frame.raw for frame in frames) == text
            assert said(frames) == reference(text)
    frames = frames_of(cut(text, range(1, len(text))))
    assert b"".join(frame.raw for frame in frames) == text
    assert said(frames) == reference(text)


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        pytest.param(b"data: a\n\n", [Frame(b"data: a\n\n", None, b"a")], id="one event"),
        pytest.param(b"data: a\ndata:b\n\n", [Frame(b"data: a\ndata:b\n\n", None, b"a\nb")], id="data lines join"),
        pytest.param(b"event: e\ndata: a\n\n", [Frame(b"event: e\ndata: a\n\n", b"e", b"a")], id="a name and data"),
        pytest.param(b"event: e\n\n", [Frame(b"event: e\n\n", b"e", None)], id="a name without data"),
        pytest.param(b": c\n: d\n\n", [Frame(b": c\n: d\n\n", None, None)], id="comments alone are a frame"),
        pytest.param(b"\n\r\n", [Frame(b"\n", None, None), Frame(b"\r\n", None, None)], id="blank lines are frames"),
        pytest.param(BOM + b"data: a\n\n", [Frame(BOM + b"data: a\n\n", None, b"a")], id="a mark stays in raw"),
        pytest.param(b"data: a\r\r", [Frame(b"data: a\r\r", None, b"a")], id="the last CR ends the event at once"),
        pytest.param(b"data: a", [Frame(b"data: a", None, b"a", whole=False)], id="an unfinished line is read"),
        pytest.param(b"data: a\n", [Frame(b"data: a\n", None, b"a", whole=False)], id="no blank line, not whole"),
        pytest.param(BOM, [Frame(BOM, None, None)], id="a byte order mark alone is no half event"),
        pytest.param(b"", [], id="nothing is nothing"),
    ],
)  # fmt: skip
def test_frames_of_one_read(text: bytes, frames: list[Frame]) -> None:
    """Each form of event gives its frame."""
    assert frames_of([text]) == frames


def test_an_event_goes_at_once() -> None:
    """A frame leaves with the read that ends it, also where the LF of its last CRLF is still to come."""
    reader = FrameReader()
    assert [f.data for f in reader.feed(b"data: a\r\n\r")] == [b"a"]
    assert not reader.pending
    assert [(f.raw, f.data) for f in reader.feed(b"\ndata: b\r\n\r\n")] == [(b"\ndata: b\r\n\r\n", b"b")]


def test_a_line_feed_that_came_late_is_no_half_event() -> None:
    """The rest of the last CRLF leaves at the end, and nobody has to mend a torn event for it."""
    reader = FrameReader()
    reader.feed(b"data: a\r\r")
    assert reader.feed(b"\n") == []
    assert not reader.pending
    assert reader.close() == [Frame(b"\n", None, None)]


@pytest.mark.parametrize("text", [b"d", b"data: a", b"data: a\n", b": c\n", BOM + b"x", BOM[:2]])
def test_pending_while_an_event_is_open(text: bytes) -> None:
    """Whoever wants to write between events can ask whether one is open."""
    reader = FrameReader()
    seen = [reader.pending]
    reader.feed(text)
    seen.append(reader.pending)
    reader.close()
    seen.append(reader.pending)
    assert seen == [False, True, False]


def test_the_limit_holds_for_an_event_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event of LIMIT bytes passes; the first byte more raises, before the event is over."""
    monkeypatch.setattr(sse, "LIMIT", 64)
    reader = FrameReader()
    assert reader.feed(b"data: " + b"a" * 58) == []
    with pytest.raises(EventTooLarge):
        reader.feed(b"a")
    assert reader.close() == []


@pytest.mark.parametrize("size", [64, 65])
@pytest.mark.parametrize("before", [b"", b"data: ", b": c\n\n"])
def test_the_limit_holds_for_an_event_that_ends(monkeypatch: pytest.MonkeyPatch, size: int, before: bytes) -> None:
    """LIMIT is the longest event, whether it came in one read, in two, or after others."""
    monkeypatch.setattr(sse, "LIMIT", 64)
    reader, text = FrameReader(), b"data: ".ljust(size - 2, b"a") + b"\n\n"
    pieces = [before, text.removeprefix(before)] if text.startswith(before) else [before + text]
    if size > 64:
        with pytest.raises(EventTooLarge):
            [reader.feed(piece) for piece in pieces]
    else:
        assert b"".join(f.raw for piece in pieces for f in reader.feed(piece)).endswith(text)


def test_a_huge_event_in_small_reads_is_searched_once() -> None:
    """8 MiB in reads of 64 bytes: with a search from the start at every read this would be 500 GB of searching."""
    piece, reader = b"a" * 64, FrameReader()
    reader.feed(b"data: ")
    for _ in range(8 * 1024 * 1024 // 64):
        assert reader.feed(piece) == []
    (frame,) = reader.feed(b"\n\n")
    assert frame.data is not None
    assert len(frame.data) == 8 * 1024 * 1024


def unbroken(text: bytes, by: bytes) -> bytes:
    """The text with each line break replaced."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", by)


def others(raw: bytes) -> list[bytes]:
    """The lines that are neither data nor event names nor blank."""
    lines = [line for line in raw.removeprefix(BOM).splitlines(keepends=True) if line.strip(b"\r\n")]
    return [line for line in lines if line.strip(b"\r\n").partition(b":")[0] not in (b"data", b"event")]


DATA = st.text("a \r\n:{}\u2028", max_size=12).map(str.encode)
NAMES = st.none() | st.text("ab :\n\r", max_size=5).map(str.encode)


@PATIENT
@given(text=texts(), places=st.lists(st.integers(0, 200), max_size=4), data=DATA, name=NAMES)
def test_rewrite_changes_data_and_name_only(text: bytes, places: list[int], data: bytes, name: bytes | None) -> None:
    """The rewritten event reads as its new data under its name, and all other lines are as they were."""
    for number, frame in enumerate(frames_of(cut(text, places))):
        if frame.data is None:
            continue
        raw = rewrite(frame, data, name)
        before = b"id: 1\n\n" if number else b""  # why: a mark counts at the start of a stream only
        new_name = frame.event if name is None else unbroken(name, b" ") or None
        assert said(frames_of([before + raw])) == [(new_name, unbroken(data, b"\n"))]
        assert others(raw) == others(frame.raw)


@pytest.mark.parametrize(
    ("raw", "data", "name", "expected"),
    [
        pytest.param(b"data: a\n\n", b"b", None, b"data: b\n\n", id="the data is replaced"),
        pytest.param(b"data:a\r\n\r\n", b"b", None, b"data:b\r\n\r\n", id="spelling stays"),
        pytest.param(b"data:a\n\n", b" b", None, b"data:  b\n\n", id="a first space survives"),
        pytest.param(b"data\r\r", b"b", None, b"data: b\r\r", id="a bare name gets a colon"),
        pytest.param(b"data: a\n: c\ndata: b\nid:1\n\n", b"x", None, b"data: x\n: c\nid:1\n\n", id="further lines go"),
        pytest.param(b"data: a\rdata: b\n\n", b"x", None, b"data: x\r\r\n", id="mixed line ends never merge"),
        pytest.param(b"data: a\r\r", b"x\ny", None, b"data: x\rdata: y\r\r", id="a line feed makes two data lines"),
        pytest.param(b"data: a", b"x\ny", None, b"data: x\ndata: y", id="an unfinished line stays unfinished"),
        pytest.param(b"event:e\r\ndata: a\n\n", b"b", b"f", b"event:f\r\ndata: b\n\n", id="the name is replaced"),
        pytest.param(b"id: 1\ndata: a\n\n", b"b", b"f", b"id: 1\nevent: f\ndata: b\n\n", id="a missing name is added"),
        pytest.param(BOM + b"data: a\n\n", b"b", None, BOM + b"data: b\n\n", id="a byte order mark stays"),
        pytest.param(b"data: a\n\n", b"b", b"e\n\nid: 1", b"event: e  id: 1\ndata: b\n\n", id="one line a name"),
    ],
)  # fmt: skip
def test_rewritten_bytes(raw: bytes, data: bytes, name: bytes | None, expected: bytes) -> None:
    """What the change leaves on the wire, to the byte."""
    (frame,) = frames_of([raw])
    assert rewrite(frame, data, name) == expected


def test_a_frame_without_data_is_not_rewritten() -> None:
    """Comments have no data to replace: asking for it is a fault of the caller's."""
    with pytest.raises(ValueError, match="without data"):
        rewrite(Frame(b": c\n\n", None, None), b"{}")


@PATIENT
@given(data=DATA, name=NAMES)
def test_an_event_is_one_event(data: bytes, name: bytes | None) -> None:
    """No line break in data or name tears the stream."""
    frames = frames_of([event(data, name)])
    assert said(frames) == [(unbroken(name, b" ") or None if name is not None else None, unbroken(data, b"\n"))]
    assert [frame.whole for frame in frames] == [True]


@PATIENT
@given(text=DATA)
def test_a_comment_is_no_event(text: bytes) -> None:
    """Whatever it holds, a comment is one frame that says nothing."""
    assert [(f.event, f.data, f.whole) for f in frames_of([comment(text)])] == [(None, None, True)]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(event(b"{}"), b"data: {}\n\n", id="data alone"),
        pytest.param(event(b"{}", b"error"), b"event: error\ndata: {}\n\n", id="with a name"),
        pytest.param(comment(b"thinkcap {}"), b": thinkcap {}\n\n", id="a comment"),
        pytest.param(comment(b"a\r\nb"), b": a\n: b\n\n", id="a comment of two lines"),
    ],
)
def test_written_bytes(written: bytes, expected: bytes) -> None:
    """What is written of our own is in the form every reader takes."""
    assert written == expected
