"""One write for what is written at once: head and body of an answer leave in one system call instead of two.

A system call is the dearest thing an answer costs; uvicorn writes a head and a body apart.
"""

import asyncio
from typing import Any, Final, cast

from gateway.strict import StrictProtocol

HEAD: Final = b"HTTP/1."
"""How an answer begins. What else begins so is held for as long, and nothing worse."""


class Corked:
    """A transport that writes the head of an answer together with what follows. All else is the inner transport's."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Stand before a transport."""
        self._inner, self._loop = transport, loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        """What is not corked is the inner transport's own."""
        return getattr(self._inner, name)

    def write(self, data: Any) -> None:
        """Write; the head of an answer waits for its body, until the end of this turn at most."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        if not self._inner.is_closing():  # the caller may have left within this turn
            self._inner.write(data)

    def close(self) -> None:
        """Close behind what was written."""
        self._flush()
        self._inner.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")


class CorkedProtocol(StrictProtocol):
    """The gateway's protocol on a corked transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn says the same
        """Cork it."""
        super().connection_made(cast("asyncio.Transport", Corked(transport, self.loop)))
