"""Many long bodies at once against a gateway process, and what each of them costs it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.link import END, PIECE, Link, chunk
from tests.faults.scripts import script
from tests.faults.streams import narrow
from tests.faults.wires import post
from tests.running import Running

AT_ONCE: Final = 16
UPLOAD: Final = 2 * 1024 * 1024
"""Bytes of a request with a few pictures in it."""
ANSWER: Final = 8 * 1024 * 1024
"""Bytes of an answer with a picture in it; the kernel takes some of them, and the gateway holds all until it has all."""


@script
async def long_whole(link: Link) -> None:
    """A long text, as one answer."""
    body = link.wire.whole.replace(b"hello", b"x" * (ANSWER - len(link.wire.whole)))
    await link.send(link.head_of(), *(chunk(body[at : at + PIECE]) for at in range(0, len(body), PIECE)), END)


class Memory:
    """What a process holds, in bytes, as the kernel counts it."""

    def __init__(self, gateway: Running) -> None:
        self._place = Path(f"/proc/{gateway.process.pid}")

    @property
    def now(self) -> int:
        """At this moment."""
        return self._line("VmRSS")

    @property
    def peak(self) -> int:
        """The most since `forget`."""
        return self._line("VmHWM")

    def forget(self) -> None:
        """Let the peak begin anew (proc(5): 5 resets it)."""
        (self._place / "clear_refs").write_text("5", encoding="ascii")

    def _line(self, name: str) -> int:
        lines = (self._place / "status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def upload(size: int, **more: object) -> bytes:
    """A judged request whose body has about this many bytes."""
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * size}], **more}
    return post("/v1/chat/completions", msgspec.json.encode(body))


@asynccontextmanager
async def callers(port: int, request: bytes, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many at once who have sent this, and read nothing but what the test reads; they leave with the block."""

    async def call() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(sock=await narrow(port), limit=4096)
        writer.write(request)
        await writer.drain()
        return reader, writer

    found = await asyncio.gather(*(call() for _ in range(count)))
    try:
        yield [reader for reader, _ in found]
    finally:
        for _, writer in found:
            writer.transport.abort()
