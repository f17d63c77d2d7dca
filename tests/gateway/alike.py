"""Events that are alike, and what is made of them with and without decoding."""

from typing import Final

import msgspec

from gateway.deltas import Delta
from gateway.dialects import DIALECTS
from gateway.sse import Frame, FrameReader
from gateway.template import Template, Templates
from gateway.words import DialectName

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
