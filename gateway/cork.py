"""One write for what is written at once: head and body of an answer leave in one system call instead of two.

A system call is the dearest thing an answer costs; uvicorn writes a head and a body apart.
"""

import asyncio
from typing import Any, cast

from gateway.strict import StrictProtocol


class Corked:
    """A transport that writes at the end of the event loop's turn. All else is the inner transport's."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Stand before a transport."""
        self._inner, self._loop = transport, loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """What is not corked is the inner transport's own."""
        return getattr(self._inner, name)

    def write(self, data: Any) -> None:
        """Write, at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        """Close behind what was written."""
        self._flush()
        self._inner.close()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self._inner.is_closing():  # the caller may have left within this turn
            self._inner.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class CorkedProtocol(StrictProtocol):
    """The gateway's protocol on a corked transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn says the same
        """Cork it."""
        super().connection_made(cast("asyncio.Transport", Corked(transport, self.loop)))
