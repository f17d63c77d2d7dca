"""A caller on a raw socket: sends bytes, reads one answer strictly, and leaves when it is told to."""

import asyncio
import re
import socket
import struct
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n")
LIMIT_SECONDS: Final = 60.0


class Answer(Struct):
    """What came back. `status` 0: nothing did; `whole`: framed to its end."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    body: bytearray = field(default_factory=bytearray)
    whole: bool = False
    left_at: float = 0.0
    """When the caller left, on the loop's clock; 0: it did not."""

    def header(self, name: bytes) -> bytes | None:
        """The one value of a header."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) < 2, f"{name!r} came twice"
        return values[0] if values else None


Leave = Callable[[Answer], bool]


async def ask(
    port: int,
    request: bytes,
    *,
    leave: Leave | None = None,
    pause: float = 0.0,
    receive_bytes: int = 65536,
    on: asyncio.Event | None = None,
) -> Answer:
    """Send, read one answer. `leave`: asked after each read (and while waiting) whether to go, with a reset.

    `pause`: seconds between reads of `receive_bytes`; `on`: an event that makes the caller leave.
    """
    plug = socket.socket()
    plug.setblocking(False)
    if pause:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    loop = asyncio.get_running_loop()
    answer = Answer()
    try:
        await loop.sock_connect(plug, ("127.0.0.1", port))
        await loop.sock_sendall(plug, request)
        async with asyncio.timeout(LIMIT_SECONDS):
            await _read(plug, answer, _Patience(leave, pause, receive_bytes, on))
        if answer.left_at:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except ConnectionError:
        answer.whole = False
    finally:
        plug.close()
    return answer


class _Patience(Struct):
    leave: Leave | None
    pause: float
    receive_bytes: int
    on: asyncio.Event | None


async def _read(plug: socket.socket, answer: Answer, patience: _Patience) -> None:
    loop = asyncio.get_running_loop()
    parser = _Parser(answer)
    while not answer.whole:
        receiving = asyncio.ensure_future(loop.sock_recv(plug, patience.receive_bytes))
        leaving = asyncio.ensure_future(patience.on.wait()) if patience.on is not None else None
        await asyncio.wait({receiving, leaving} if leaving else {receiving}, return_when=asyncio.FIRST_COMPLETED)
        if patience.on is not None and patience.on.is_set():
            receiving.cancel()
            await asyncio.wait({receiving})
            answer.left_at = loop.time()
            return
        if leaving is not None:
            leaving.cancel()
        data = receiving.result()
        if not data:
            parser.end()
            return
        parser.feed(data)
        if patience.leave is not None and patience.leave(answer):
            answer.left_at = loop.time()
            return
        if patience.pause:
            await asyncio.sleep(patience.pause)


class _Parser:
    """Reads one answer, and fails on anything but strict framing."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._held = answer, bytearray()
        self._left: int | None = None
        self._chunked = self._until_end = False
        self._body = answer.body

    def feed(self, data: bytes) -> None:
        self._held += data
        if not self._answer.status and not self._head():
            return
        while self._step():
            continue

    def end(self) -> None:
        if self._until_end:
            self._answer.whole = True

    def _head(self) -> bool:
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return False
        head, self._held = bytes(self._held[: end + 2]), self._held[end + 4 :]
        found = STATUS.match(head)
        assert found, head
        answer = self._answer
        answer.status = int(found[1])
        for line in head[found.end() :].split(b"\r\n")[:-1]:
            name, colon, value = line.partition(b": ")
            assert colon, line
            answer.headers.append((name.lower(), value))
        length, coding = answer.header(b"content-length"), answer.header(b"transfer-encoding")
        assert length is None or coding is None, "two framings"
        self._chunked = coding == b"chunked"
        bodiless = answer.status in {204, 304}
        self._left = 0 if bodiless or self._chunked else int(length) if length is not None else None
        self._until_end = self._left is None
        answer.whole = self._left == 0 and not self._chunked
        return True

    def _step(self) -> bool:
        """Take what can be taken; True: look again."""
        held = self._held
        if self._until_end or not self._chunked:
            if self._left is not None:
                assert len(held) <= self._left, "more than the announced length"
                self._left -= len(held)
                self._answer.whole = self._left == 0
            self._body += held
            held.clear()
            return False
        if self._answer.whole:
            assert not held, bytes(held[:200])
            return False
        if not self._left:
            end = held.find(b"\r\n")
            if end < 0:
                return False
            size = int(held[:end], 16)
            if size == 0:
                if len(held) < end + 4:
                    return False
                assert held[end + 2 : end + 4] == b"\r\n"
                del held[: end + 4]
                self._answer.whole = True
                return True
            del held[: end + 2]
            self._left = size + 2
        taken = min(len(held), max(0, self._left - 2))
        self._body += held[:taken]
        del held[:taken]
        self._left -= taken
        if self._left <= 2:
            if len(held) < self._left:
                return False
            del held[: self._left]
            self._left = 0
            return bool(held)
        return False
