"""One exchange as a scripted upstream sees it: what came, what goes out, and when the gateway closed."""

import asyncio
import contextlib
import socket
import struct
from typing import Final

from msgspec import Struct, field

from tests.faults.wires import EVENTS, JSON, WIRES

PIECE: Final = 65536
END: Final = b"0\r\n\r\n"
"""The last chunk."""


class Seen(Struct):
    """What one cell's upstream saw."""

    requests: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """The script has come to where it waits for what the caller does."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a test that lets the script go on."""
    sent: int = 0
    closed_at: float = 0.0
    """When the last connection was closed by the gateway, on the loop's clock."""

    async def standstill(self, *, requests: int = 0, seconds: float = 0.25) -> None:
        """Wait until so many requests have come, and in so many seconds no socket took any more."""
        before = -1
        while len(self.requests) < requests or self.sent != before:
            before = self.sent
            await asyncio.sleep(seconds)


class Link:
    """One exchange as a script sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, seen: Seen) -> None:
        self.reader, self.writer, self.request, self.seen = reader, writer, request, seen
        head = self.head = request.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        target = head.split(b" ", 2)[1].decode().split("/", 2)[2]
        named = (
            (name, wire)
            for name, wire in WIRES.items()
            if target.split("?")[0].startswith(wire.path.strip("/").split("{")[0])
        )
        self.dialect, self.wire = next(named, ("chat", WIRES["chat"]))
        self.target = target

    @property
    def stream(self) -> bool:
        """Whether events are asked for."""
        return b'"stream":true' in self.request or "alt=sse" in self.target

    async def send(self, *parts: bytes) -> None:
        """Send, and count what the socket took."""
        for part in parts:
            if self.writer.transport.is_closing():
                raise ConnectionResetError
            self.writer.write(part)
            await self.writer.drain()
            self.seen.sent += len(part)

    def reset(self) -> None:
        """Break off with an RST."""
        plug: socket.socket = self.writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def wait(self) -> None:
        """Say that this is the place, and wait until the gateway closes."""
        self.seen.arrived.set()
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(PIECE):
                pass
        self.seen.closed_at = asyncio.get_running_loop().time()

    def head_of(
        self, status: bytes = b"200 OK", *, media: bytes | None = None, more: bytes = b"", version: bytes = b"1.1"
    ) -> bytes:
        """A head; without `more` the body is chunked."""
        media = media or (EVENTS if self.stream else JSON)
        framing = more or b"Transfer-Encoding: chunked\r\n"
        return b"HTTP/%b %b\r\nContent-Type: %b\r\n%b\r\n" % (version, status, media, framing)

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The body's natural pieces."""
        whole = self.wire.whole
        return self.wire.events if self.stream else (whole[:30], whole[30:])

    @property
    def spoken(self) -> bytes:
        """The pieces before the turn's end."""
        return b"".join(self.wire.events[: self.wire.spoken]) if self.stream else self.parts[0]

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(self.parts)


def chunk(data: bytes) -> bytes:
    """One chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)
