"""A time limit that is put off again and again: one timer, which is moved when it fires and not before."""

import asyncio
import math
from collections.abc import Callable


class Deadline:
    """For one wait after another, of one connection: a caller's or an upstream's."""

    __slots__ = ("_at", "_loop", "_over", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, over: Callable[[], None]) -> None:
        """Begin without a limit. `over` is called once each time that one is passed."""
        self._loop = loop
        self._over: Callable[[], None] | None = over
        self._timer: asyncio.TimerHandle | None = None
        self._at = self._timer_at = math.inf

    def put_off(self, seconds: float | None) -> None:
        """So many seconds from now; None: no limit."""
        at = self._at = math.inf if seconds is None else self._loop.time() + seconds
        timer = self._timer
        if timer is not None:
            if self._timer_at <= at:  # nearly always: it looks again when it fires
                return
            timer.cancel()
            self._timer = None
        if at < math.inf:
            self._set()

    def end(self) -> None:
        """There will be none any more; whom it told of them is let go."""
        self._over = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        self._timer_at = self._at
        self._timer = self._loop.call_at(self._at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._loop.time() < self._at < math.inf:
            self._set()
        elif self._at < math.inf and self._over is not None:
            self._over()
