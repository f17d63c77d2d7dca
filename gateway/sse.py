"""Server-sent events: bytes <-> frames, byte-exact; the only framer.

The raw bytes of all frames, put together, are exactly what was fed, however it was cut into reads. Lines end in CR, LF
or CRLF and in nothing else (WHATWG HTML, "Parsing an event stream"): U+2028 and its like stand unescaped in JSON, and a
reader that ends lines there loses events.
"""

import re
from typing import Final

from msgspec import Struct

LIMIT: Final = 32 * 1024 * 1024
"""Bytes of one event."""

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = ord("\r")
_LINE_END: Final = re.compile(rb"\r\n?|\n")
_BLANK_LINE: Final = re.compile(rb"(?:\n|\r(?!\n))(?:\r\n?|\n)")  # why (?!): the CR of a CRLF is no line end by itself


class EventTooLarge(ValueError):
    """An event is longer than LIMIT. The reader is of no use any more."""


class Frame(Struct, frozen=True, gc=False):
    """One event, or a run of comments, or a blank line that ends nothing."""

    raw: bytes
    """The very bytes: comments, unknown fields, the blank line at the end, a BOM at the start of the stream."""
    event: bytes | None
    """The event name; None when none, or an empty one, was given."""
    data: bytes | None
    """The data lines, joined by LF; None when there is no data line."""
    whole: bool = True
    """Ended by a blank line; False for what is left when the body ends first."""


class FrameReader:
    """Cuts the body of one answer into frames. It keeps the bytes of the unfinished event and no others."""

    __slots__ = ("_held", "_lead", "_searched", "_skip")

    def __init__(self) -> None:
        """Begin at the start of a body."""
        self._held = bytearray()
        self._lead = _BOM  # bytes that count as nothing if the next event begins with them
        self._skip = 0  # how many of the held bytes are such
        self._searched = 0  # up to here the held bytes end no event: a long event in small reads costs linear time

    @property
    def pending(self) -> bool:
        """Bytes of an unfinished event are held."""
        return len(self._held) > self._skip

    @property
    def idle(self) -> bool:
        """The next byte begins an event, whatever it is."""
        return not (self._held or self._lead)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames this read ends, in order. Raises EventTooLarge; only a read above LIMIT loses frames by it."""
        frames: list[Frame] = []
        size = len(data)
        returns = _CR in data
        at = self._resume(data, frames) if self._held or (self._lead and self._led(data)) else 0
        while at < size:
            if size <= LIMIT:
                at = _usual(data, at, frames, b"\r\n" if returns else b"\n")
                if at == size:
                    break
            end = _event_end(data, at, at)
            if not end:
                self._held += data[at:]
                self._keep()
                break
            frames.append(_frame(data[at:end], 0))
            at = end
        if returns and not self._held and data.endswith(b"\r"):
            # why: the event goes at once, though the LF of a CRLF may still come with the next read
            self._lead = b"\n"
        return frames

    def close(self) -> list[Frame]:
        """What is left at the end of the body: nothing, or one frame, not whole if it holds bytes of an event."""
        raw, skip, whole = bytes(self._held), self._skip, not self.pending
        self._held.clear()
        self._skip = self._searched = 0
        return [Frame(raw, *_fields(raw[skip:]), whole)] if raw else []

    def _led(self, data: bytes) -> bool:
        """Whether the lead may be there. Nearly always another byte comes in its place: the event's own first one."""
        if data and data[0] != self._lead[0]:
            self._lead = b""
        return bool(self._lead)

    def _resume(self, data: bytes, frames: list[Frame]) -> int:
        """Go on with the event that is held. Gives how much of the read it took."""
        held = self._held
        before = len(held)
        held += data
        if self._lead:
            if len(held) < len(self._lead) and self._lead.startswith(held):
                return len(data)
            self._skip = len(self._lead) if held.startswith(self._lead) else 0
            self._lead = b""
        end = _event_end(held, self._skip, self._searched)
        if not end:
            self._keep()
            return len(data)
        with memoryview(held) as view:
            raw = view[:end].tobytes()
        frames.append(_frame(raw, self._skip))
        held.clear()
        self._skip = self._searched = 0
        return end - before

    def _keep(self) -> None:
        """The held bytes end no event yet."""
        if len(self._held) > LIMIT:
            self._held.clear()
            raise EventTooLarge(f"an event of more than {LIMIT} bytes")
        # why - 1: a line end there may be the first half of the end
        self._searched = max(len(self._held) - 1, 0)


def _usual(data: bytes, at: int, frames: list[Frame], line_end: bytes) -> int:
    """Take events of the form nearly all have: one data line, at most an event name before it.

    Gives where the first other one begins. The bytes hold no CR unless `line_end` is CRLF. No loop over lines and no
    regular expression here: this runs for every event of every stream.
    """
    width = len(line_end)
    blank = line_end + line_end
    while True:
        name, text = None, at
        if data.startswith(b"event: ", at):
            text = data.find(b"\n", at) + 1
            stop = text - width
            if not text or not data.startswith(line_end, stop):
                return at
            name = data[at + 7 : stop] or None
            if name and width > 1 and _CR in name:
                return at
        if not data.startswith(b"data: ", text):
            return at
        stop = data.find(b"\n", text) + 1 - width
        if stop < text or not data.startswith(blank, stop):
            return at
        value = data[text + 6 : stop]
        if width > 1 and _CR in value:
            return at
        end = stop + 2 * width
        frames.append(Frame(data[at:end], name, value))
        at = end


def _event_end(data: bytes | bytearray, start: int, searched: int) -> int:
    """Where the event that begins at `start` is over; 0 when its end is not here yet."""
    found = _LINE_END.match(data, start) or _BLANK_LINE.search(data, max(start, searched))
    return found.end() if found else 0


def _frame(raw: bytes, skip: int) -> Frame:
    if len(raw) > LIMIT:
        raise EventTooLarge(f"an event of more than {LIMIT} bytes")
    return Frame(raw, *_fields(raw[skip:]))


def _fields(text: bytes) -> tuple[bytes | None, bytes | None]:
    """Event name and data of the lines of one event."""
    event, data = None, []
    for line in text.splitlines():  # of bytes: CR, LF, CRLF only
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            event = value.removeprefix(b" ")
    return event or None, b"\n".join(data) if data else None


def rewrite(frame: Frame, data: bytes, event: bytes | None = None) -> bytes:
    """The raw bytes of a frame with its data, and its event name if one is given, replaced.

    The first data line keeps its place, spelling and line end, further ones go; an event line that is missing is put
    before it. Everything else stays as it was. A line break in `data` makes two data lines of it, one in `event`
    becomes a space. Raises ValueError for a frame without data.
    """
    if frame.data is None:
        raise ValueError("a frame without data has none to replace")
    bom = frame.raw.startswith(_BOM) and _fields(frame.raw[len(_BOM) :]) == (frame.event, frame.data)
    lead = len(_BOM) if bom else 0
    lines = frame.raw[lead:].splitlines(keepends=True)
    names = [_LINE_END.sub(b"", line).partition(b":")[0] for line in lines]
    first = names.index(b"data")
    out = [frame.raw[:lead]]
    for number, (line, name) in enumerate(zip(lines, names, strict=True)):
        if name == b"event" and event is not None:
            out.append(_respelt(line, event, b" "))
        elif number == first:
            if event is not None and b"event" not in names:
                out.append(_respelt(b"event: " + (_line_end(line) or b"\n"), event, b" "))
            out.append(_respelt(line, data))
        elif name != b"data":
            # why: where lines end in both CR and LF, a data line that went may have stood between the two
            out.append(b"\r\n" if line == b"\n" and out[-1].endswith(b"\r") else line)
    return b"".join(out)


def _respelt(line: bytes, value: bytes, line_break: bytes | None = None) -> bytes:
    """A field's line with another value; a line break in it is replaced, or begins the field's next line."""
    end = _line_end(line)
    name, colon, old = line.removesuffix(end).partition(b":")
    values = _LINE_END.split(value)
    if line_break is not None:
        values = [line_break.join(values)]
    # why the second half: after a bare colon a reader would take the first space of the value for the optional one
    space = b" " if not colon or old.startswith(b" ") or any(part.startswith(b" ") for part in values) else b""
    return (end or b"\n").join(name + b":" + space + part for part in values) + end


def _line_end(line: bytes) -> bytes:
    found = _LINE_END.search(line)
    return found[0] if found else b""


def event(data: bytes, name: bytes | None = None) -> bytes:
    """One whole event. Line breaks in `data` make several data lines, those in `name` become spaces."""
    head = b"" if name is None else _respelt(b"event: \n", name, b" ")
    return head + _respelt(b"data: \n", data) + b"\n"


def comment(text: bytes) -> bytes:
    """One comment, whole: readers skip it. Line breaks in `text` make several comment lines."""
    return b"".join(b": " + line + b"\n" for line in _LINE_END.split(text)) + b"\n"
