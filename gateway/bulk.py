"""Long bodies, held once: pieces become one body in place, and one with a few bytes changed shares all the others.

Pure: bytes in, bytes out.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Final, NamedTuple, TypeAlias

LONG: Final = 64 * 1024
"""Bytes above which a copy costs more than it saves."""
Piece: TypeAlias = bytes | memoryview


class Gathered:
    """A body that comes in pieces. One that comes in one piece is that piece.

    BytesIO writes into the very bytes that it gives in the end, so that the whole is never there beside its pieces; to
    grow, a large block is moved by the system and not copied.
    """

    __slots__ = ("_buffer", "_only", "size")

    def __init__(self, first: bytes = b"") -> None:
        """Begin with a piece."""
        self._only, self.size = first, len(first)
        self._buffer: BytesIO | None = None

    def add(self, piece: bytes) -> None:
        """The next piece."""
        if not self.size:
            self._only = piece
        else:
            if self._buffer is None:
                self._buffer = BytesIO()
                self._buffer.write(self._only)
                self._only = b""
            self._buffer.write(piece)
        self.size += len(piece)

    def take(self) -> bytes:
        """All of it; nothing of it stays here."""
        buffer, only = self._buffer, self._only
        self._buffer, self._only, self.size = None, b"", 0
        return only if buffer is None else buffer.getvalue()


class Edited(NamedTuple):
    """A body as pieces of the one it was made of, and what is new between them."""

    pieces: tuple[Piece, ...]
    size: int


def joined(body: bytes | Edited) -> bytes:
    """In one piece."""
    return body if isinstance(body, bytes) else b"".join(body.pieces)


def edited(original: bytes, changed: bytes) -> bytes | Edited:
    """A changed body without a second copy of what stayed; a short one, or one with much that is new, as it is."""
    size, old = len(changed), len(original)
    if size <= LONG or changed is original:
        return changed
    view, most = memoryview(changed), min(old, size)
    before = _longest(lambda low, high: original.startswith(view[low:high], low), most)
    behind = _longest(lambda low, high: original.startswith(view[size - high : size - low], old - high), most - before)
    if size - before - behind > LONG:
        return changed
    same = memoryview(original)
    pieces = (same[:before], changed[before : size - behind], same[old - behind :])
    return Edited(tuple(piece for piece in pieces if piece), size)


def _longest(same: Callable[[int, int], bool], most: int) -> int:
    """How many bytes are the same; each is compared about once, for `same` is asked of those between two numbers."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low
