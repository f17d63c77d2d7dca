"""What the four wire formats of the scripted server have in common: a turn goes in, events or one body come out."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec

from gateway import sse
from gateway.demo.scripts import Fault
from gateway.demo.turn import Piece, Turn

Step = bytes | float
"""A part of a stream: bytes, or seconds of silence."""
Json = dict[str, Any]
NOW: Final = 1_790_000_000
"""The time in every answer: the same call gets the same bytes, save for its id."""
STATUS_WORDS: Final = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


def dump(value: object) -> bytes:
    """JSON."""
    return msgspec.json.encode(value)


class Wire(ABC):
    """One turn in one dialect. Use either `stream`, or `whole` once all pieces of the turn were taken."""

    media: ClassVar[str] = "text/event-stream"

    def __init__(self, turn: Turn) -> None:
        """Take the turn; it is told by taking its pieces."""
        self.turn = turn

    def stream(self, pace: float) -> Iterator[Step]:
        """All of it at `pace` seconds a token; an error in a 200 and a cut end it in the middle."""
        fault = self.turn.script.fault
        left = fault.after if fault else None
        yield b"".join(self.opening())
        for piece in self.turn.pieces():
            if piece.kind != "silence":
                yield b"".join(self.piece(piece))
                left = left and left - 1
            if left == 0:
                break
            yield pace * piece.tokens
        if fault is None:
            yield from self.closing()
        elif fault.said == "in_200":
            yield self.error_event(fault)

    @abstractmethod
    def opening(self) -> Iterator[bytes]:
        """What comes before the first token."""

    @abstractmethod
    def piece(self, piece: Piece) -> Iterator[bytes]:
        """One token, or a tool call."""

    @abstractmethod
    def closing(self) -> Iterator[Step]:
        """The finish word, the usage and whatever ends a stream."""

    @abstractmethod
    def whole(self) -> Json:
        """The body of a call that is not streamed."""

    @staticmethod
    @abstractmethod
    def error(fault: Fault) -> Json:
        """An error in the dialect's shape."""

    @classmethod
    def error_event(cls, fault: Fault) -> bytes:
        """The same as an event of a stream."""
        return sse.event(dump(cls.error(fault)))
