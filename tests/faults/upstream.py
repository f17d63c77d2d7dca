"""A raw upstream: what it does stands in the first segment of the path, `/<script>.<cell>/v1/...`, a script by name.

It notes, for each cell, what it received and when the gateway closed the connection on it.
"""

import asyncio
import contextlib
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import Final

from tests.faults.echo import echo
from tests.faults.link import Link, Seen
from tests.faults.scripts import SCRIPTS, script

LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
TLS_HELLO: Final = b"\x16"
script(echo)


class Upstream:
    """The running server. `seen` is by cell."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: defaultdict[str, Seen] = defaultdict(Seen)
        self.open = 0

    def settings(self, script: str, more: str = "", dialects: Iterable[str] = ("chat",)) -> str:
        """Of a gateway that has this upstream alone, with one script for all calls and room for many."""
        spoken = ", ".join(f'"{dialect}"' for dialect in dialects)
        url = f"http://127.0.0.1:{self.port}/{script}.all"
        return f'[upstreams.one]\nurl = "{url}"\ndialects = [{spoken}]\nmax_connections = 2000\n{more}'

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, request after request."""
        self.open += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                first = await reader.readexactly(1)
                if first == TLS_HELLO:
                    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    return
                while True:
                    head = first + await reader.readuntil(b"\r\n\r\n")
                    first = b""
                    length = LENGTH.search(head)
                    body = await reader.readexactly(int(length[1])) if length else b""
                    name, _, cell = head.split(b"/", 2)[1].decode().partition(".")
                    seen = self.seen[cell]
                    seen.requests.append(head + body)
                    await SCRIPTS[name](Link(reader, writer, head + body, seen))
                    if writer.is_closing():
                        break
        finally:
            self.open -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def scripted() -> AsyncIterator[Upstream]:
    """Serve on a free port until the block ends."""
    upstream = Upstream()
    running: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await upstream.connected(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            running.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
