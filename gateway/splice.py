"""Surgery on JSON text: one value changes, every other byte stays: spaces, order of keys, spelling of numbers, escapes.

Nothing is decoded: compiled patterns step over strings and whole values, so time is linear in the text, no depth of
nesting is too deep, and a long string costs a pass in C. The text is taken to be JSON; where it turns out not to be, a
ValueError says so. A key that occurs twice is its last occurrence, as it is to parsers.
"""

import json
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and indices of arrays, from the outside in."""

_BACKSLASH: Final = ord("\\")
_WHITE: Final = b" \t\n\r"
_NULL: Final = b"null"
_SPACE: Final = rb"[ \t\n\r]*+"
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT: Final = rb'[^"\[\]{}]++|' + _STRING
_DEPTH: Final = 16  # brackets in brackets that one pattern steps over; a value that goes deeper takes a loop


def _inside() -> bytes:
    inside = _FLAT
    for _ in range(_DEPTH):
        inside = _FLAT + rb"|[\[{](?:" + inside + rb")*+[\]}]"
    return rb"(?:" + inside + rb")*+"


_VALUE: Final = rb"(?:" + _STRING + rb"|[-+.0-9A-Za-z]++|[\[{]" + _inside() + rb"[\]}])"

_BLANK: Final = re.compile(_SPACE)
_COMMA: Final = re.compile(_SPACE + rb"," + _SPACE)
_KEY: Final = re.compile(rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_ONE: Final = re.compile(_VALUE, re.DOTALL)
_BRACKETS: Final = re.compile(rb"(?:" + _FLAT + rb")*+([\[{]++|[\]}]++)", re.DOTALL)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")


def find(text: bytes, path: Path) -> tuple[int, int] | None:
    """Where the value at a path begins and ends; None when there is none. Raises ValueError."""
    depth, start, end = _walk(text, path)
    return (start, end) if depth == len(path) else None


def replace(text: bytes, path: Path, value: bytes) -> bytes:
    """The text with the JSON `value` in place of the one at a path. Raises KeyError where there is none, ValueError."""
    span = find(text, path)
    if span is None:
        raise KeyError(path)
    return _with(text, span[0], value, span[1])


def put(text: bytes, path: Path, value: bytes) -> bytes:
    """The text with the JSON `value` at the path: replaced, or added as the last member of its object.

    Objects missing on the way are added, also where there is a null. Raises KeyError where the path leads through any
    other value or to an element an array does not have, ValueError.
    """
    depth, start, end = _walk(text, path)
    rest = path[depth:]
    if not rest or (end - start == len(_NULL) and text.startswith(_NULL, start)):
        return _with(text, start, _nested(rest, value), end)
    if text[start : start + 1] != b"{":
        raise KeyError(path)
    if text[end - 1 : end] != b"}":
        raise ValueError("not JSON")
    at = end - 1
    while text[at - 1] in _WHITE:
        at -= 1
    comma = b"" if at == start + 1 else b","
    return _with(text, at, comma + _nested(rest, value)[1:-1], at)


def remove(text: bytes, path: Path) -> bytes:
    """The text without the member or element at the path, and without its comma; as it is when there is none.

    All members of that name go. Raises ValueError, also for the empty path.
    """
    if not path:
        raise ValueError("the whole text cannot be removed from itself")
    depth, start, _ = _walk(text, path[:-1])
    if depth < len(path) - 1:
        return text
    kept, at, comma = [], 0, True
    for begin, _, end in _children(text, start, path[-1]):
        behind = _COMMA.match(text, end)
        kept.append(text[at:begin])
        at, comma = (behind.end(), True) if behind else (end, False)
    before = b"".join(kept)
    if not comma:  # the last member went: it is the comma before it that has to go with it
        before = before.rstrip(_WHITE).removesuffix(b",")
    return before + text[at:]


def _with(text: bytes, start: int, value: bytes, end: int) -> bytes:
    """The text with something else in place of a part of it: of a long text there is never a third copy."""
    view = memoryview(text)
    return b"".join((view[:start], value, view[end:]))


def _nested(path: Path, value: bytes) -> bytes:
    """The value inside the objects that lead to it."""
    for step in reversed(path):
        if not isinstance(step, str):
            raise KeyError(path)
        value = b"{" + json.dumps(step).encode() + b":" + value + b"}"
    return value


def _walk(text: bytes, path: Path) -> tuple[int, int, int]:
    """How many steps of the path there are in the text, and the span of the value they lead to."""
    start, end = _after_space(text, 0), len(text.rstrip(_WHITE))
    if start >= end:
        raise ValueError("not JSON")
    for depth, step in enumerate(path):
        if not depth and _absent(text, step):
            return depth, start, end
        children = deque(_children(text, start, step), maxlen=1)
        if not children:
            return depth, start, end
        _, start, end = children[0]
    return len(path), start, end


def _absent(text: bytes, key: str | int) -> bool:
    """Whether it is certain, without reading the text as JSON, that no object in it has this key."""
    if not isinstance(key, str) or not _PLAIN_KEY.fullmatch(key):
        return False
    return text.find(_quoted(key)) < 0 and text.find(b"\\u") < 0  # such a key can be spelt otherwise by \u only


def _children(text: bytes, at: int, step: str | int) -> Iterator[tuple[int, int, int]]:
    """Each child a step leads to from the value at `at`: where it begins, where its value begins, where it ends."""
    if isinstance(step, str):
        return _members(text, at, step) if text.startswith(b"{", at) else iter(())
    return _element(text, at, step) if text.startswith(b"[", at) else iter(())


def _members(text: bytes, at: int, key: str) -> Iterator[tuple[int, int, int]]:
    others = _others(key)
    at = _after_space(text, at + 1)
    if text.startswith(b"}", at):
        return
    while True:
        skipped = others.match(text, at)
        at = skipped.end() if skipped else at
        head = _KEY.match(text, at)
        if head is None:
            raise ValueError("not JSON: no key where one must stand")
        end = _value_end(text, head.end())
        if _means(head[1], key):
            yield at, head.end(), end
        comma = _COMMA.match(text, end)
        if comma is None:
            if not text.startswith(b"}", _after_space(text, end)):
                raise ValueError("not JSON: an object does not end")
            return
        at = comma.end()


def _element(text: bytes, at: int, index: int) -> Iterator[tuple[int, int, int]]:
    at = _after_space(text, at + 1)
    if text.startswith(b"]", at):
        return
    while True:
        end = _value_end(text, at)
        if index == 0:
            yield at, at, end
            return
        comma = _COMMA.match(text, end)
        if comma is None:
            return
        at, index = comma.end(), index - 1


def _value_end(text: bytes, at: int) -> int:
    """Where the value that begins at `at` ends."""
    one = _ONE.match(text, at)
    if one:
        return one.end()
    if text[at : at + 1] not in {b"{", b"["}:
        raise ValueError("not JSON: no value where one must stand")
    depth = 0
    while brackets := _BRACKETS.match(text, at):
        at = brackets.end()
        size = at - brackets.start(1)
        if text[at - 1] in b"[{":
            depth += size
        elif size < depth:
            depth -= size
        else:
            return at - (size - depth)
    raise ValueError("not JSON: a value does not end")


def _after_space(text: bytes, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _quoted(key: str) -> bytes:
    return b'"' + key.encode("utf-8", "surrogatepass") + b'"'


def _means(quoted: bytes, key: str) -> bool:
    """Whether a key as it stands in the text is this one."""
    if _BACKSLASH not in quoted:
        return quoted == _quoted(key)
    return bool(json.loads(quoted.decode("utf-8", "surrogatepass"), strict=False) == key)


@lru_cache(maxsize=256)
def _others(key: str) -> re.Pattern[bytes]:
    """Matches members that are certainly not of this key, comma included: all in one go."""
    other = rb"(?!" + re.escape(_quoted(key)) + rb')"[^"\\]*+"' + _SPACE + rb":" + _SPACE + _VALUE
    return re.compile(rb"(?:" + other + _SPACE + rb"," + _SPACE + rb")*+", re.DOTALL)
