"""Ends connections whose peers take nothing of what was written for them: what waits for them is memory."""

import asyncio
import fcntl
import struct
import termios
from contextlib import suppress
from typing import Final

_INT: Final = struct.Struct("i")


class SendTimeout:
    """For one connection: runs only while something waits to be taken, and cuts after one to two limits of nothing."""

    __slots__ = ("_loop", "_seconds", "_timer", "_transport", "_unsent")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Begin with nothing written. `seconds`: how long a peer may take nothing."""
        self._transport, self._loop, self._seconds = transport, loop, seconds
        self._timer: asyncio.TimerHandle | None = None
        self._unsent: int | None = None
        """At the last look; None before the first."""

    def start(self) -> None:
        """Something waits, and nothing is written behind it until it is taken."""
        if self._timer is None:
            self._unsent = None
            self._wait()

    def stop(self) -> None:
        """All was taken, or the connection is gone."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        before, self._unsent = self._unsent, self._left()
        if before is None or self._unsent < before:
            self._wait()
        else:
            self._timer = None
            self._transport.abort()

    def _left(self) -> int:
        """Bytes the peer has not taken: the transport's, and the kernel's, which asks for more a megabyte at a time."""
        queued = bytes(_INT.size)
        plug = self._transport.get_extra_info("socket")
        if plug is not None:
            with suppress(OSError):  # of a socket that is closed, or of a kind that cannot tell
                queued = fcntl.ioctl(plug.fileno(), termios.TIOCOUTQ, queued)
        return self._transport.get_write_buffer_size() + int(_INT.unpack(queued)[0])
