"""What holds for every dialect whatever comes: a wrong type is malformed at worst, and a bad call a bad request."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.calls import Call
from gateway.deltas import Delta, Finish
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions, Dialect, Malformed
from gateway.errors import BadRequest
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from tests.gateway.dialects.wires import Wire, play, wires

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
SHAPES: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, "", "x", [], ["x"], [[]], [None], {}, {"x": 1}, {"type": []})
SOME_WIRES = st.sampled_from([parameter.values[0] for parameter in wires()])


@pytest.mark.parametrize("wire", wires())
def test_a_value_of_any_shape_is_malformed_at_worst(wire: Wire) -> None:
    """Each value in turn takes each shape: nothing else is raised, and what can be read can be changed."""
    dialect = wire.dialect
    for data in _shapes(wire):
        frame = Frame(b"data: " + data + b"\n\n", None, data)
        dialect.identity(data)
        dialect.strip(frame, Additions(usage=True, control=True))
        _change(dialect, data, _read(dialect, frame))
        with suppress(Malformed):
            _change(dialect, data, dialect.read_body(data))


@st.composite
def bent(draw: st.DrawFn) -> tuple[Wire, bytes]:
    """A JSON text of a wire file with one value in it replaced by another."""
    wire = draw(SOME_WIRES)
    value = draw(st.sampled_from(_texts(wire)))
    path = draw(st.sampled_from(list(_paths(value))))
    return wire, msgspec.json.encode(_with(value, path, draw(JSON)))


@given(bent(), st.integers(0, 40))
def test_no_event_breaks_the_relay(case: tuple[Wire, bytes], place: int) -> None:
    """Whatever comes between two events of a stream, every rule at work, nothing is raised and the rest goes out."""
    wire, data = case
    if not wire.streamed:
        play(Wire(wire.dialect, wire.name, streamed=False, data=data), cap=OutputCap(cap=1), promote=True)
        return
    raws = [frame.raw for frame in wire.frames]
    raws.insert(place % (len(raws) + 1), b"data: " + data + b"\n\n")
    for added in (Additions(), Additions(usage=True, control=True)):
        play(wire, *raws, cap=OutputCap(cap=1), promote=True, added=added)


@every_dialect
@given(body=st.one_of(st.binary(), JSON.map(msgspec.json.encode)))
@example(body=b"[" * 100_000)
@example(body=b'{"model":"\xff"}')
@example(body=b'{"a":' * 5_000)
def test_any_body_is_a_call_or_a_bad_request(dialect: Dialect, body: bytes) -> None:
    """And what is a call goes out as it came, where no rule adds to it."""
    try:
        call = dialect.read_call("/v1beta/models/m:generateContent", b"", (), body)
    except BadRequest:
        return
    assert dialect.upstream_body(call, Additions()) == body


FIELDS = [
    "model",
    "stream",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n_predict",
    "n",
    "stop",
    "stop_sequences",
    "stream_options",
    "timings_per_token",
    "generationConfig",
    "generation_config",
    "reasoning",
    "thinking",
    "output_config",
    "messages",
    "input",
]


@every_dialect
@given(fields=st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_value_of_a_field_is_a_call_or_a_bad_request(dialect: Dialect, fields: dict[str, Any]) -> None:
    """What a rule cannot use is no reason to refuse: the upstream judges its own fields."""
    try:
        call = dialect.read_call("/v1beta/models/m:generateContent", b"", (), msgspec.json.encode(fields))
    except BadRequest:
        assert not isinstance(fields.get("model"), str | None)
        return
    assert isinstance(call, Call)
    assert call.output_cap is None or call.output_cap >= 0
    assert call.choices >= 1


def _texts(wire: Wire) -> list[Any]:
    """One JSON value of each form there is in a file."""
    found = [frame.data or b"" for frame in wire.frames] if wire.streamed else [wire.data]
    forms = {}
    for text in found:
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(text)
            forms[tuple(_paths(value)), isinstance(value, dict) and str(value.get("type"))] = value
    return list(forms.values())


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value in a JSON value, its own first."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _paths(child, (*path, key))


def _with(value: Any, path: tuple[str | int, ...], other: Any) -> Any:
    """The JSON value with another value at a path."""
    if not path:
        return other
    changed = value.copy()
    changed[path[0]] = _with(value[path[0]], path[1:], other)
    return changed


def _shapes(wire: Wire) -> Iterator[bytes]:
    for value in _texts(wire):
        for path in _paths(value):
            for other in SHAPES:
                yield msgspec.json.encode(_with(value, path, other))


def _change(dialect: Dialect, data: bytes, deltas: Sequence[Delta]) -> None:
    """Every word can be written where a finish was read."""
    for delta in deltas:
        if isinstance(delta, Finish):
            for reason in dialect.said:
                msgspec.json.decode(dialect.relabel(data, delta.choice, reason).data)
            dialect.promote(data)
            dialect.promoted_event(data, "x", 0)


def _read(dialect: Dialect, frame: Frame) -> list[Delta]:
    try:
        return list(dialect.read_frame(frame))
    except Malformed:
        return []
