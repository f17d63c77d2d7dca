"""The wire files: answers as servers send them, a folder per dialect, `.sse` a stream and `.json` a whole body."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct

from gateway.dialects import DIALECTS
from gateway.dialects.base import Dialect
from gateway.events import Fact, Turn
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame, FrameReader
from gateway.words import CountSource, DialectName, Outcome, Reason
from tests.gateway.plays import Stage

FOLDER: Final = Path(__file__).parents[2] / "wire"


class Wire(Struct, frozen=True):
    """One file."""

    dialect: Dialect
    name: str
    streamed: bool
    data: bytes

    @property
    def frames(self) -> list[Frame]:
        """The events of a stream."""
        return frames(self.data)


class Outcomes(Struct, frozen=True):
    """All that is known of an answer when it is over, and the bytes that went out."""

    out: bytes
    facts: list[Fact]
    turn: Turn
    outcome: Outcome


def wires(*names: DialectName, streamed: bool | None = None) -> list[Any]:
    """The files of these dialects, all without a name, as pytest's parameters."""
    found = [wire for name in names or tuple(DIALECTS) for wire in _of(name) if streamed in {None, wire.streamed}]
    return [pytest.param(wire, id=f"{wire.dialect.name} {wire.name}") for wire in found]


def wire(dialect: DialectName, name: str) -> Wire:
    """The file with this name, extension and all."""
    path = FOLDER / dialect / name
    return Wire(DIALECTS[dialect], path.name, path.suffix == ".sse", path.read_bytes())


def play(answer: Wire, *pieces: bytes, cap: OutputCap | None = None, **plan: Any) -> Outcomes:
    """Pass an answer through, whole or in these pieces, without a cap unless one is given."""
    stage = Stage(answer.dialect, output_cap=cap or OutputCap(), **plan)
    if answer.streamed:
        stage.feed(*(pieces or (answer.data,)))
        turn = stage.close()
        return Outcomes(stage.out, stage.facts, turn, stage.relay.outcome)
    body = stage.whole.body(answer.data)
    return Outcomes(body, stage.facts, stage.whole.end(by_itself=True), stage.whole.outcome)


def frames(data: bytes) -> list[Frame]:
    """The events of these bytes."""
    reader = FrameReader()
    return [frame for frame in [*reader.feed(data), *reader.close()] if frame.data is not None]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a JSON text that holds no other, by its path."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [leaf for key, child in children for leaf in leaves(child, f"{path}.{key}")]
    yield from inner or [(path, value)]


def changes(before: bytes, after: bytes) -> set[str]:
    """The paths at which two JSON texts differ."""
    old, new = (dict(leaves(msgspec.json.decode(data))) for data in (before, after))
    return {path.lstrip(".") for path in old.keys() | new.keys() if old.get(path, ...) != new.get(path, ...)}


def _of(name: DialectName) -> list[Wire]:
    return [wire(name, path.name) for path in sorted((FOLDER / name).iterdir())]


class Told(Struct, frozen=True, kw_only=True):
    """What a wire file comes to when no rule acts. Tokens are (output, input, reasoning, cached)."""

    said: str = ""
    """The raw words, in the order of their choices."""
    reason: Reason = "stop"
    outcome: Outcome = "ok"
    tokens: tuple[int | None, int | None, int | None, int | None] | None = None
    thought: tuple[int, CountSource] | None = None
    only_thought: bool = False
    malformed: int = 0


def told(answer: Wire) -> Told:
    """The same, read from a play."""
    played = play(answer)
    turn, usage = played.turn, played.turn.usage
    return Told(
        said=" ".join(turn.raw_reasons),
        reason=turn.reported,
        outcome=played.outcome,
        tokens=(usage.output, usage.input, usage.reasoning, usage.cached) if usage is not None else None,
        thought=(turn.reasoning_tokens, turn.reasoning_source)
        if turn.reasoning_tokens is not None and turn.reasoning_source is not None
        else None,
        only_thought=turn.reasoning_only,
        malformed=turn.malformed,
    )


def unlisted(dialect: DialectName, table: Iterable[str]) -> set[str]:
    """Files that a dialect's table does not know, and rows without a file."""
    return {answer.name for answer in _of(dialect)} ^ set(table)
