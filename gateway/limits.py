"""How many calls are let in, and whether the door is closing."""

import asyncio


class Limits:
    """How much the door lets in, and whether it is closing."""

    def __init__(self, *, max_body_bytes: int, max_inflight: int, keepalive_seconds: float) -> None:
        """Take the limits of the settings."""
        self.max_body_bytes, self.max_inflight, self.keepalive_seconds = max_body_bytes, max_inflight, keepalive_seconds
        self.inflight = 0
        self.draining = False
        self.idle = asyncio.Event()
        """Set when, in a drain, the last call has ended."""

    def enter(self) -> None:
        """A call begins."""
        self.inflight += 1

    def leave(self) -> None:
        """A call has ended."""
        self.inflight -= 1
        if self.draining and not self.inflight:
            self.idle.set()

    def drain(self) -> None:
        """Let nobody in any more."""
        self.draining = True
        if not self.inflight:
            self.idle.set()
