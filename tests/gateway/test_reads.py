"""Reads of a body that may be overtaken: nothing is lost, nothing is left running."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.http1 import Tap
from gateway.reads import Reads
from tests.gateway.door import run


async def body(*pieces: bytes | asyncio.Event | Exception) -> AsyncIterator[bytes]:
    """A body with pauses."""
    for piece in pieces:
        if isinstance(piece, asyncio.Event):
            await piece.wait()
        elif isinstance(piece, Exception):
            raise piece
        else:
            yield piece


def test_pieces_and_the_end() -> None:
    """Empty pieces are no end; the end is b"", again and again."""

    async def main() -> None:
        reads = Reads(body(b"a", b"", b"b"))
        assert [await reads.next() for _ in range(4)] == [b"a", b"b", b"", b""]
        await reads.cancel()

    run(main())


def test_a_read_that_is_overtaken() -> None:
    """Time passes, or something else is done first: the read goes on and its piece comes next."""

    async def main() -> None:
        gate, other = asyncio.Event(), asyncio.get_running_loop().create_future()
        reads = Reads(body(gate, b"a", b"b"))
        assert await reads.next(0.001) is None
        other.set_result(1)
        assert await reads.next(None, other) is None
        gate.set()
        assert await reads.next(5.0) == b"a"
        assert await reads.next(None, other) is None  # a body that never pauses must not drown it
        assert await reads.next() == b"b"

    run(main())


class Here:
    """A body of which all is here."""

    arrived = True

    async def flow(self, tap: Tap) -> None:
        """Nothing flows."""


def test_what_is_here_needs_no_task() -> None:
    """A time limit costs nothing then; what else is waited for is still first when it is done."""

    async def main() -> None:
        reads = Reads(body(b"a", b"b"), Here())
        assert await reads.next(0.0) == b"a"
        assert asyncio.all_tasks() == {asyncio.current_task()} or len(asyncio.all_tasks()) == 2  # wait_for's own
        other = asyncio.get_running_loop().create_future()
        other.set_result(1)
        assert await reads.next(0.0, other) is None
        assert [await reads.next(5.0), await reads.next(0.0)] == [b"b", b""]

    run(main())


def test_an_error_comes_where_the_read_ends() -> None:
    """What the body raises is raised to the reader, also through a read that was overtaken."""

    async def main() -> None:
        gate = asyncio.Event()
        reads = Reads(body(gate, ValueError("no")))
        assert await reads.next(0.001) is None
        gate.set()
        with pytest.raises(ValueError, match="no"):
            await reads.next(5.0)

    run(main())


@pytest.mark.parametrize("failing", [False, True], ids=["that waits", "that fails meanwhile"])
def test_a_read_is_given_up(failing: bool) -> None:
    """A read under way ends with it, and an error nobody can be told any more is no warning."""

    async def main() -> None:
        gate = asyncio.Event()
        reads = Reads(body(gate, ValueError("no")))
        assert await reads.next(0.001) is None
        if failing:
            gate.set()
            await asyncio.sleep(0.01)
        await reads.cancel()
        assert len(asyncio.all_tasks()) <= 2

    run(main())
