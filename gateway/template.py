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
"""Frames in a row that a stream is asked to learn from in vain: the first of a run often says more than the rest."""
WORTH: Final = 4
"""Reads that a template has to be good for: the frames of llama.cpp, for one, tell the second they were made in."""
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
_MEASURED: Final = rb"-?+(?:0|[1-9][0-9]{0,15}+)(?:\.[0-9]{1,32}+)?+"
_STARTS: Final = (b"data:", b"event:")
"""Not a byte order mark, which counts as nothing once and is a part of a name later."""
_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_string = msgspec.json.Decoder(str).decode

Blank: TypeAlias = Callable[[bytes, int], "re.Match[bytes] | None"]
Strip: TypeAlias = Callable[[Frame], bytes | None]


class Blanks(Struct, frozen=True):
    """What differs between the frames of a dialect: groups `text`, `number`, `count` of a pattern, and each alone."""

    pattern: re.Pattern[bytes]
    kinds: dict[str, Blank]
    cut: Callable[[bytes, bytes], bytes] | None
    """Puts something else in the place of each count."""


def blanks(texts: str, numbers: str = "", counts: tuple[str, str] | None = None) -> Blanks:
    """Strings and positive numbers under these keys, `|` between them, whatever a frame says else.

    `counts`: the key of an object of numbers behind other members, and in it that of the running count of tokens.
    """
    found = [rb'"(?:%b)"\s*:\s*"(?P<text>%b)(?=")' % (texts.encode(), _TEXT)]
    kinds: dict[str, Blank] = {"text": re.compile(_TEXT).match, "number": re.compile(_NUMBER).match}
    count = _counted(*counts) if counts is not None else None
    if numbers:
        found.append(rb'"(?:%b)"\s*:\s*(?P<number>%b)\b' % (numbers.encode(), _NUMBER))
    if count is not None:
        found.append(count.pattern)
        kinds["count"] = count.match
    return Blanks(re.compile(b"|".join(found)), kinds, count.sub if count is not None else None)


def _counted(key: str, count: str) -> re.Pattern[bytes]:
    other = rb'"(?!%b")\w++":%b' % (count.encode(), _MEASURED)
    inside = rb'(?:%b,)*+"%b":(?P<running>%b)(?:,%b)*+' % (other, count.encode(), _NUMBER, other)
    return re.compile(rb'(?P<count>,"%b":\{%b\})' % (key.encode(), inside))


class Template(Struct):
    """Reads frames that are alike."""

    _like: Delta
    _steps: tuple[tuple[bytes, int, Blank, str], ...]
    """Bytes that stay and how many, what stands behind them, and whether that is the `text` or the `count` of it."""
    _tail: bytes
    _width: int
    """Of the tail."""
    reads: int = 0
    """That it was good for, as its user counts them."""

    def read(self, data: bytes, tell: Callable[[Delta], bool] | None) -> int:
        """How far the frames go that are alike, from the beginning. `tell` gets what each says; False: that is enough.

        One loop and no calls: this runs for nearly every event of every stream.
        """
        end, size = 0, len(data)
        if size > LIMIT:
            return 0
        spoken: re.Match[bytes] | None = None
        counted: re.Match[bytes] | None = None
        while end < size:
            at = end
            for part, width, blank, role in self._steps:
                if not data.startswith(part, at):
                    return end
                found = blank(data, at + width)
                if found is None:
                    return end
                at = found.end()
                if role:
                    if role == "text":
                        spoken = found
                    else:
                        counted = found
            if not data.startswith(self._tail, at):
                return end
            end = at + self._width
            if tell is not None and not tell(self._said(spoken, counted)):
                break
        return end

    def _said(self, spoken: "re.Match[bytes] | None", counted: "re.Match[bytes] | None") -> Delta:
        like = self._like
        if spoken is None or not isinstance(like, Reasoning):
            return like
        running = like.running if counted is None else int(counted["running"])
        return Reasoning(_meant(spoken[0]), running, like.choice, summary=like.summary, block=like.block)


def _meant(inside: bytes) -> str:
    return _string(b'"%b"' % inside)


class Templates:
    """What one stream has taught so far, for each kind of run."""

    __slots__ = ("_blanks", "_known", "_lessons", "_strip")

    def __init__(self, blanks: Blanks | None, strip: Strip | None = None) -> None:
        """Take the dialect's blanks; None: nothing is learned. `strip`: what goes out of a frame, if not all does."""
        self._blanks, self._strip = blanks, strip
        self._known: dict[type[Delta], Template] = {}
        self._lessons = LESSONS

    def of(self, kind: type[Delta], frame: Frame, read: Callable[[Frame], Sequence[Delta]]) -> Template | None:
        """How to read on in a run of this kind, behind this frame; by it, where the others have not taught it."""
        known, blanks = self._known.get(kind), self._blanks
        if known is not None and known.reads >= WORTH:
            self._lessons, known.reads = LESSONS, 0
        if blanks is None or not self._lessons or frame.data is None:
            return known
        if known is None or not known.read(frame.raw, None):
            self._lessons -= 1
            deltas = read(frame)
            taught = learn(frame, deltas[0], blanks, self._strip) if len(deltas) == 1 else None
            if taught is not None:
                known = self._known[kind] = taught
        return known


def learn(frame: Frame, delta: Delta, blanks: Blanks, strip: Strip | None) -> Template | None:
    """The template of a frame that says this and no more; None for one that is not of the usual form.

    Reasoning and its running count are taken from the bytes, so each must stand in one place there; what is stripped
    must be the count.
    """
    raw, data = frame.raw, frame.data or b""
    start = raw.find(data)
    if not raw.startswith(_STARTS) or not raw.endswith(_ENDS) or start < 0:
        return None
    places = list(islice(blanks.pattern.finditer(raw, start, start + len(data)), BLANKS + 1))
    if len(places) > BLANKS:
        return None
    told = delta if isinstance(delta, Reasoning) else None
    spoken = [p for p in places if p.lastgroup == "text" and told is not None and _meant(p["text"]) == told.text]
    counts = [p for p in places if p.lastgroup == "count"]
    if not any(p.lastgroup == "text" for p in places) or len(counts) > 1 or (told is not None and len(spoken) != 1):
        return None
    if counts and told is not None and told.running != int(counts[0]["running"]):
        return None
    if strip is not None and strip(frame) != (blanks.cut(b"", raw) if blanks.cut is not None else raw):
        return None
    steps, at = [], 0
    for place in places:
        kind = place.lastgroup or ""
        begin, end = place.span(kind)
        role = kind if place in spoken or place in counts else ""
        steps.append((raw[at:begin], begin - at, blanks.kinds[kind], role))
        at = end
    tail = raw[at:]
    kept = sum(width for _, width, _, _ in steps) + len(tail)
    return Template(delta, tuple(steps), tail, len(tail)) if kept <= LONGEST else None
