"""The hold: a finish frame waits until it is known whether rule 1 relabels it; what follows it waits behind it.

    OPEN -- a finish a usage could raise --> HOLDING -- usage, last frame, end of the body --> OPEN   relabelled or not
                                             HOLDING -- more of that choice -----------------> OPEN   unchanged
                                             HOLDING -- hold_seconds, or too many bytes -----> OPEN   unchanged

Where the word may stand on every frame (gemini) a frame is held only when its own usage would relabel it already, and
the time-out relabels it: nothing better is to be expected.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gateway.deltas import Finish
from gateway.sse import Frame

HOLD_BYTES: Final = 256 * 1024
"""More than this is never held: frames that follow a finish are small, or it was none."""


class Held(Struct, frozen=True):
    """What waits: the bytes as they would leave unchanged, and the frame with the finishes it says."""

    raw: bytes
    frame: Frame
    finishes: Sequence[Finish] = ()


class Hold:
    """Frames in order, and how many bytes they are."""

    __slots__ = ("_frames", "_size")

    def __init__(self) -> None:
        """Begin open."""
        self._frames: list[Held] = []
        self._size = 0

    def __bool__(self) -> bool:
        """HOLDING."""
        return bool(self._frames)

    @property
    def full(self) -> bool:
        """More is held than is sound."""
        return self._size > HOLD_BYTES

    def add(self, held: Held) -> None:
        """Hold a frame behind those that wait."""
        self._frames.append(held)
        self._size += len(held.raw)

    def release(self) -> list[Held]:
        """All that waits, in order; open again."""
        frames, self._frames, self._size = self._frames, [], 0
        return frames
