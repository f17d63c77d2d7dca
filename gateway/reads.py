"""Reads of one body, where a read that something else overtook goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from gateway.http1 import Tap


class Source(Protocol):
    """What a body comes from, where that can do more than be read."""

    def flow(self, tap: Tap) -> Awaitable[None]:
        """Hand pieces to a tap as they come, until that takes no more or a read has to tell what comes next."""

    @property
    def arrived(self) -> bool:
        """All of the body is here: reads need no time."""


class Reads:
    """The next piece of a body, or word that something else came first. A plain read costs no task."""

    __slots__ = ("_chunks", "_pending", "_source")

    def __init__(self, chunks: AsyncIterator[bytes], source: Source | None = None) -> None:
        """Read from these, which come from there as they are."""
        self._chunks, self._source = chunks, source
        self._pending: asyncio.Task[bytes] | None = None

    @property
    def flow(self) -> Callable[[Tap], Awaitable[None]] | None:
        """The same body for a tap; None where it cannot be tapped, and while a read of it goes on."""
        return self._source.flow if self._source is not None and self._pending is None else None

    @property
    def idle(self) -> bool:
        """No read is under way."""
        return self._pending is None

    @property
    def arrived(self) -> bool:
        """All of the body is here: reads need no time."""
        return self._source is not None and self._source.arrived

    def next(self, seconds: float | None = None, other: asyncio.Future[Any] | None = None) -> Awaitable[bytes | None]:
        """The next piece, b"" at the end; None when `seconds` passed or `other` was done first.

        Of two that are ready `other` is first: a body that never pauses must not drown it.
        """
        if self._pending is None and other is None and (seconds is None or self.arrived):
            return self._read()
        return self._race(seconds, other)

    async def _race(self, seconds: float | None, other: asyncio.Future[Any] | None) -> bytes | None:
        if other is not None and other.done():
            return None
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._read())
        waiting = {self._pending} if other is None else {self._pending, other}
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        return pending.result()

    async def cancel(self) -> None:
        """Give up a read that is under way."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()
            await asyncio.wait({pending})
            if not pending.cancelled():
                pending.exception()  # seen: it came too late to matter

    async def _read(self) -> bytes:
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return b""
