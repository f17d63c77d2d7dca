"""Frames that differ in their text alone: one was decoded, and those like it need not be.

In a long run of text nearly every event is the last one again with another word in it. Bytes that are the same but for
the inside of a JSON string, and put nothing into it but characters that such a string may hold, say the same about
another text: to know that takes three comparisons and a third of the time that framing and decoding take.
"""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from gateway.deltas import Delta, Reasoning
from gateway.sse import LIMIT, Frame

LESSONS: Final = 8
"""Frames a stream is asked to learn from: the first of a run often says more than the rest."""
LONGEST: Final = 4096
"""Bytes of a frame besides its text: what a stream keeps of one."""
BLANKS: Final = 8
"""Places that differ in a frame: one that has more is no token."""

# One or more characters inside a JSON string: ASCII, the short escapes, UTF-8 (RFC 3629, 4). Other escapes may be
# surrogates, which a decoder looks at in pairs.
_TEXT: Final = (
    rb'(?:[ !#-\[\]-\x7f]++|\\["\\/bfnrt]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]'
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})++"
)
_NUMBER: Final = rb"[1-9][0-9]{0,15}+"
_STARTS: Final = (b"data:", b"event:")
"""Not a byte order mark, which counts as nothing once and is a part of a name later."""
_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_string = msgspec.json.Decoder(str).decode

Blank: TypeAlias = Callable[[bytes, int], "re.Match[bytes] | None"]
_text: Final[Blank] = re.compile(_TEXT).match
_number: Final[Blank] = re.compile(_NUMBER).match


def blanks(texts: str, numbers: str = "") -> re.Pattern[bytes]:
    """What differs between the frames of a dialect: strings and positive numbers under these keys, `|` between them."""
    found = rb'"(?:%b)"\s*:\s*"(%b)(?=")' % (texts.encode(), _TEXT)
    return re.compile(found + (rb'|"(?:%b)"\s*:\s*(%b)\b' % (numbers.encode(), _NUMBER) if numbers else b""))


class Template(Struct):
    """Reads frames that are alike."""

    _like: Delta
    _steps: tuple[tuple[bytes, int, Blank, bool], ...]
    """Bytes that stay and how many, what stands behind them, whether that is the reasoning."""
    _tail: bytes
    _width: int
    """Of the tail."""

    def read(self, data: bytes, tell: Callable[[Delta], bool] | None) -> int:
        """How far the frames go that are alike, from the beginning. `tell` gets what each says; False: that is enough.

        One loop and no calls: this runs for nearly every event of every stream.
        """
        end, size = 0, len(data)
        if size > LIMIT:
            return 0
        spoken: re.Match[bytes] | None = None
        while end < size:
            at = end
            for part, width, blank, speaks in self._steps:
                if not data.startswith(part, at):
                    return end
                found = blank(data, at + width)
                if found is None:
                    return end
                at = found.end()
                if speaks:
                    spoken = found
            if not data.startswith(self._tail, at):
                return end
            end = at + self._width
            if tell is not None and not tell(self._said(spoken)):
                break
        return end

    def _said(self, spoken: "re.Match[bytes] | None") -> Delta:
        like = self._like
        if spoken is None or not isinstance(like, Reasoning):
            return like
        return Reasoning(_meant(spoken[0]), like.running, like.choice, summary=like.summary, block=like.block)


def _meant(inside: bytes) -> str:
    return _string(b'"%b"' % inside)


class Templates:
    """What one stream has taught so far, for each kind of run."""

    __slots__ = ("_differs", "_known", "_lessons")

    def __init__(self, differs: re.Pattern[bytes] | None) -> None:
        """Take the dialect's blanks; None: nothing is learned."""
        self._differs = differs
        self._known: dict[type[Delta], Template] = {}
        self._lessons = LESSONS

    def of(self, kind: type[Delta], frame: Frame, read: Callable[[Frame], Sequence[Delta]]) -> Template | None:
        """How to read on in a run of this kind, behind this frame; by it, where the others have not taught it."""
        known, differs = self._known.get(kind), self._differs
        if differs is None or not self._lessons or frame.data is None:
            return known
        if known is None or not known.read(frame.raw, None):
            self._lessons -= 1
            deltas = read(frame)
            taught = learn(frame, deltas[0], differs) if len(deltas) == 1 else None
            if taught is not None:
                known = self._known[kind] = taught
        return known


def learn(frame: Frame, delta: Delta, differs: re.Pattern[bytes]) -> Template | None:
    """The template of a frame that says this and no more; None for one that is not of the usual form.

    Reasoning is taken from the bytes, so it must stand in one place there.
    """
    raw, data = frame.raw, frame.data or b""
    start = raw.find(data)
    if not raw.startswith(_STARTS) or not raw.endswith(_ENDS) or start < 0:
        return None
    places = list(islice(differs.finditer(raw, start, start + len(data)), BLANKS + 1))
    if len(places) > BLANKS:
        return None
    texts = [place for place in places if place.lastindex == 1]
    spoken = [place for place in texts if isinstance(delta, Reasoning) and _meant(place[1]) == delta.text]
    if not texts or (isinstance(delta, Reasoning) and len(spoken) != 1):
        return None
    steps, at = [], 0
    for place in places:
        begin, end = place.span(place.lastindex or 0)
        blank = _text if place.lastindex == 1 else _number
        steps.append((raw[at:begin], begin - at, blank, place in spoken))
        at = end
    tail = raw[at:]
    kept = sum(width for _, width, _, _ in steps) + len(tail)
    return Template(delta, tuple(steps), tail, len(tail)) if kept <= LONGEST else None
