"""Surgery on JSON text: the one change, and every other byte as it was."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import splice
from gateway.splice import Path

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are busy at times

KEYS = st.sampled_from(
    ["a", "b", "model", "m/x", 'q"', "back\\slash", "\u00e4", "\u2028", "\U0001f600", "", "a.b", "\n"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
MEMBERS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=7)
SPACES = st.sampled_from(["", " ", "\n  ", "\t", "\r\n"])


@st.composite
def texts(draw: st.DrawFn, value: Any) -> str:
    """JSON of a value with arbitrary white space, and keys and strings escaped or not."""
    space = draw(SPACES)
    if isinstance(value, dict):
        members = [f"{draw(strings(key))}{space}:{space}{draw(texts(child))}" for key, child in value.items()]
        return "{" + space + f"{space},{space}".join(members) + space + "}"
    if isinstance(value, list):
        return "[" + space + f"{space},{space}".join(draw(texts(child)) for child in value) + space + "]"
    return draw(strings(value)) if isinstance(value, str) else json.dumps(value)


@st.composite
def strings(draw: st.DrawFn, value: str) -> str:
    """A JSON string: as it is, in ASCII, or with every character escaped."""
    style = draw(st.integers(0, 2))
    if style == 2:
        units = value.encode("utf-16-be").hex()
        return '"' + "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4)) + '"'
    return json.dumps(value, ensure_ascii=style == 1)


@st.composite
def documents(draw: st.DrawFn) -> tuple[bytes, Any, Path]:
    """A JSON text, its value, and a path in it that exists."""
    value = draw(VALUES)
    text = draw(SPACES) + draw(texts(value)) + draw(SPACES)
    path: list[str | int] = []
    here: Any = value
    while isinstance(here, (dict, list)) and here and draw(st.integers(0, 4)):
        path.append(draw(st.sampled_from(sorted(here) if isinstance(here, dict) else [*range(len(here))])))
        here = at(value, tuple(path))
    return text.encode(), value, tuple(path)


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for step in path:
        value = value[step]
    return value


def changed(value: Any, path: Path, new: Any) -> Any:
    """A value like this one, with another one at the path; objects missing on the way are made."""
    if not path:
        return new
    step = path[0]
    if isinstance(value, list):
        assert isinstance(step, int)
        return [*value[:step], changed(value[step], path[1:], new), *value[step + 1 :]]
    value = value or {}
    return {**value, step: changed(value.get(step), path[1:], new)}


@PATIENT
@given(document=documents())
def test_find_gives_the_bytes_of_the_value(document: tuple[bytes, Any, Path]) -> None:
    """Whatever the white space and the escapes, the span holds the value and no space around it."""
    text, value, path = document
    span = splice.find(text, path)
    assert span is not None
    found = text[span[0] : span[1]]
    assert json.loads(found) == at(value, path)
    assert found == found.strip()


@PATIENT
@given(document=documents(), new=VALUES)
def test_replace_changes_one_value(document: tuple[bytes, Any, Path], new: Any) -> None:
    """The text reads as before but for the value at the path; all bytes before and after it are the same."""
    text, value, path = document
    span = splice.find(text, path)
    assert span is not None
    written = json.dumps(new).encode()
    result = splice.replace(text, path, written)
    assert json.loads(result) == changed(value, path, new)
    assert result == splice.put(text, path, written)
    assert result == text[: span[0]] + written + text[span[1] :]


@PATIENT
@given(document=documents(), more=st.lists(KEYS, min_size=1, max_size=3).map(tuple), new=VALUES)
def test_put_adds_what_is_missing(document: tuple[bytes, Any, Path], more: tuple[str, ...], new: Any) -> None:
    """Where the path leads on from an object or a null, members are added last; elsewhere it is a KeyError."""
    text, value, path = document
    here = at(value, path)
    if not (here is None or (isinstance(here, dict) and more[0] not in here)):
        return
    result = splice.put(text, (*path, *more), json.dumps(new).encode())
    assert json.loads(result) == changed(value, (*path, *more), new)
    if isinstance(here, dict):
        assert list(at(json.loads(result), path)) == [*here, more[0]]
        span = splice.find(text, path)
        assert span is not None
        kept = text[: span[1] - 1].rstrip()
        assert result.startswith(kept)
        assert result.endswith(text[len(kept) :])


@PATIENT
@given(document=documents())
def test_remove_takes_one_child(document: tuple[bytes, Any, Path]) -> None:
    """The text stays JSON and lacks what stood at the path; what is left has the bytes it had."""
    text, value, path = document
    if not path:
        return
    result = splice.remove(text, path)
    parent = at(value, path[:-1])
    if isinstance(parent, dict):
        rest: Any = {key: child for key, child in parent.items() if key != path[-1]}
    else:
        rest = [child for number, child in enumerate(parent) if number != path[-1]]
    assert json.loads(result) == changed(value, path[:-1], rest)
    assert splice.find(text, (*path[:-1], "absent")) is None
    for step in rest if isinstance(rest, dict) else ():
        before, after = splice.find(text, (*path[:-1], step)), splice.find(result, (*path[:-1], step))
        assert text[slice(*before or ())] == result[slice(*after or ())]


@PATIENT
@given(members=MEMBERS, space=SPACES, escaped=st.booleans())
def test_duplicates(members: list[tuple[str, int]], space: str, *, escaped: bool) -> None:
    """Of a key that occurs several times the last value counts and is changed; removed, they all go."""
    spelt = {"a": '"\\u0061"' if escaped else '"a"', "b": '"b"'}
    text = (
        "{" + space + f",{space}".join(f"{spelt[key]}:{space}{value}" for key, value in members) + space + "}"
    ).encode()
    last = max((number for number, (key, _) in enumerate(members) if key == "a"), default=None)
    span = splice.find(text, ("a",))
    assert (span is None) == (last is None)
    if span is not None and last is not None:
        assert text[slice(*span)] == str(members[last][1]).encode()
        expected = [("a", "new") if number == last else member for number, member in enumerate(members)]
        assert json.loads(splice.put(text, ("a",), b'"new"'), object_pairs_hook=list) == expected
    rest = [member for member in members if member[0] != "a"]
    assert json.loads(splice.remove(text, ("a",)), object_pairs_hook=list) == rest


ADDED: dict[str, tuple[bytes, Path, bytes]] = {
    "behind the last member": (b'{"a": 1}', ("b",), b'{"a": 1,"b":0}'),
    "before the white space at the end": (b'{\n  "a": 1\n}\n', ("b",), b'{\n  "a": 1,"b":0\n}\n'),
    "into an empty object": (b"{}", ("b",), b'{"b":0}'),
    "into an empty object with white space": (b"{ }", ("b",), b'{"b":0 }'),
    "with the objects on the way": (b'{"a":1}', ("b", "c", "d"), b'{"a":1,"b":{"c":{"d":0}}}'),
    "into an object that is there": (b'{"b":{"x":1} ,"a":1}', ("b", "c"), b'{"b":{"x":1,"c":0} ,"a":1}'),
    "in place of a null parent": (b'{"b": null}', ("b", "c"), b'{"b": {"c":0}}'),
    "in place of a null": (b"null", ("b",), b'{"b":0}'),
    "into the last of two parents": (b'{"b":{},"b":{}}', ("b", "c"), b'{"b":{},"b":{"c":0}}'),
    "into an element of an array": (b'{"b":[1, {}]}', ("b", 1, "c"), b'{"b":[1, {"c":0}]}'),
    "over a value, which keeps its place": (b'{"b": 1 , "a":2}', ("b",), b'{"b": 0 , "a":2}'),
    "over an escaped key": (b'{"mod\\u0065l":"x"}', ("model",), b'{"mod\\u0065l":0}'),
    "where the key stands as a value": (b'{"a":"b"}', ("b",), b'{"a":"b","b":0}'),
    "where the key stands deeper": (b'{"a":{"b":1}}', ("b",), b'{"a":{"b":1},"b":0}'),
    "where the key stands in a string": (b'{"a":"\\"b\\":1"}', ("b",), b'{"a":"\\"b\\":1","b":0}'),
    "under a key that needs escapes": (b"{}", ('"\\',), b'{"\\"\\\\":0}'),
    "beside a key that looks alike": (b'{"a\\b":1}', ("a\\b",), b'{"a\\b":1,"a\\\\b":0}'),
    "beside a long number": (b'{"n":1.00e+400,"m":12345678901234567890123}', ("b",), b'{"n":1.00e+400,"m":12345678901234567890123,"b":0}'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path", "expected"), ADDED.values(), ids=ADDED)
def test_put_to_the_byte(text: bytes, path: Path, expected: bytes) -> None:
    """Where a value goes, and that nothing else moves."""
    assert splice.put(text, path, b"0") == expected


REMOVED: dict[str, tuple[bytes, Path, bytes]] = {
    "the first member": (b'{"a":1, "b":2}', ("a",), b'{"b":2}'),
    "a member in the middle": (b'{"a":1, "b":2, "c":3}', ("b",), b'{"a":1, "c":3}'),
    "the last member": (b'{"a":1 , "b":2 }', ("b",), b'{"a":1  }'),
    "the only member": (b'{ "a":1 }', ("a",), b"{ }"),
    "a member of a pretty text": (b'{\n  "a": 1,\n  "b": 2\n}', ("b",), b'{\n  "a": 1\n}'),
    "an element": (b"[1, 2, 3]", (1,), b"[1, 3]"),
    "the last element": (b"[1, 2]", (1,), b"[1]"),
    "a member inside": (b'{"a":{"b":[{"c":1,"d":2}]}}', ("a", "b", 0, "d"), b'{"a":{"b":[{"c":1}]}}'),
    "every duplicate": (b'{"a":1,"b":2,"a":3,"\\u0061":4}', ("a",), b'{"b":2}'),
    "a string that ends in a comma stays": (b'{"b":",","a":1}', ("a",), b'{"b":","}'),
    "nothing, when it is absent": (b'{"a":1}', ("b",), b'{"a":1}'),
    "nothing, when its parent is absent": (b'{"a":1}', ("b", "c"), b'{"a":1}'),
    "nothing from a scalar": (b'{"a":1}', ("a", "b"), b'{"a":1}'),
    "nothing beyond an array": (b"[1]", (1,), b"[1]"),
}


@pytest.mark.parametrize(("text", "path", "expected"), REMOVED.values(), ids=REMOVED)
def test_remove_to_the_byte(text: bytes, path: Path, expected: bytes) -> None:
    """Which comma and which white space go with a member."""
    assert splice.remove(text, path) == expected


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param(b'{"a":1}', ("a", "b"), id="through a number"),
        pytest.param(b'{"a":"s"}', ("a", "b"), id="through a string"),
        pytest.param(b"[]", ("a",), id="a key of an array"),
        pytest.param(b"[1]", (1,), id="beyond an array"),
        pytest.param(b"[1]", (-1,), id="before an array"),
        pytest.param(b"{}", (0,), id="an index of an object"),
        pytest.param(b"{}", ("a", 0), id="an array that is missing"),
    ],
)
def test_a_path_that_cannot_be(text: bytes, path: Path) -> None:
    """A path that cannot be made is a KeyError, and nothing is found there."""
    assert splice.find(text, path) is None
    with pytest.raises(KeyError):
        splice.put(text, path, b"0")
    with pytest.raises(KeyError):
        splice.replace(text, path, b"0")


BROKEN = (
    b"", b" ", b"{", b'{"a"', b'{"a":', b'{"a":}', b'{"a":1', b'{"a":1,', b'{"a":1,}', b'{"a":"', b'{"a":"\\', b'{"a":[', b"{a:1}",
    b'{"a":{"b":"c', b'{"a":1 "b":2}', b'{"\\q":1}', b'{"\\u00":1}', b'{"a":[[[[[[[[[[[[[[[[[[[[[[[[', b"[1,", b"[,", b'{"a":1]', b"{,}",
)  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("path", [("a",), ("b",), ("a", "b"), (1,), ("a", 0)])
def test_what_is_no_json(text: bytes, path: Path) -> None:
    """Broken text may be seen as such or not, but never ends in anything but a ValueError or a KeyError."""
    _survives(text, path)


def test_the_whole_text_is_not_removed() -> None:
    """There is no text without its only value."""
    with pytest.raises(ValueError, match="whole text"):
        splice.remove(b"{}", ())


@PATIENT
@given(
    text=st.text('{}[]",:\\u0061ab \n', max_size=40).map(str.encode) | st.binary(max_size=40),
    path=st.lists(KEYS | st.integers(0, 2), max_size=3),
)
def test_any_bytes(text: bytes, path: list[str | int]) -> None:
    """Bytes that were never JSON do no harm either."""
    _survives(text, tuple(path))


def _survives(text: bytes, path: Path) -> None:
    for act in (
        lambda: splice.find(text, path),
        lambda: splice.replace(text, path, b"0"),
        lambda: splice.put(text, path, b"0"),
        lambda: splice.remove(text, path),
    ):
        with suppress(ValueError, KeyError):
            act()


@pytest.mark.parametrize("depth", [15, 16, 17, 18, 33, 20_000])
def test_deep_nesting(depth: int) -> None:
    """No depth of brackets is too deep to step over, with what stands between them."""
    inner = b'[{"k":"]}", "l":' * depth + b'"[{"' + b"},1]" * depth
    text = b'{"a":' + inner + b',"n":1,"b":[' + inner + b", 2]}"
    span = splice.find(text, ("a",))
    assert span is not None
    assert text[slice(*span)] == inner
    assert splice.put(text, ("n",), b"7") == text.replace(b'"n":1', b'"n":7')
    assert splice.replace(text, ("b", 1), b"7").endswith(b", 7]}")


def test_large_bodies() -> None:
    """Megabytes of one string, of escapes, of members and of elements are stepped over, not walked through."""
    for filler in (b'"' + b"A" * 4_000_000 + b'"', b'"' + b'\\"' * 500_000 + b'"', b"[" + b"{}," * 100_000 + b"0]"):
        text = b'{"x":"\\u00e4","big":' + filler + b',"n":1}'
        assert splice.put(text, ("new",), b"2") == text[:-1] + b',"new":2}'
        assert splice.replace(text, ("n",), b"2") == text[:-2] + b"2}"
        assert splice.remove(text, ("big",)) == b'{"x":"\\u00e4","n":1}'
    many = b"{" + b'"k":[0],' * 100_000 + b'"n":1}'
    assert splice.replace(many, ("n",), b"2") == many[:-2] + b"2}"
    assert splice.remove(many, ("k",)) == b'{"n":1}'
