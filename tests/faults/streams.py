"""Streams that stay open: many at once whose callers go on reading, and calls whose callers read nothing."""

import asyncio
import socket

from tests.faults.caller import Answer, ask
from tests.faults.upstream import Upstream
from tests.faults.wires import request


async def open_streams(port: int, upstream: Upstream, count: int, ends: asyncio.Event) -> list[asyncio.Task[Answer]]:
    """Streams that are under way, each past its first events, until `ends`."""
    tasks = [asyncio.ensure_future(ask(port, request("chat", "m", stream=True), on=ends)) for _ in range(count)]
    async with asyncio.timeout(30):
        while len(upstream.seen["all"].requests) < count:  # noqa: ASYNC110 - a list, which sets no event
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)
    return tasks


async def narrow(port: int, room: int = 4096) -> socket.socket:
    """A connection to the gateway for which the kernel takes so many bytes that nobody has read."""
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    plug.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plug, ("127.0.0.1", port))
    return plug


async def unread(port: int, *, stream: bool = True, room: int = 4096, more: bytes = b"") -> socket.socket:
    """A call whose caller has yet to read; `room`: bytes its own kernel is to take for it, `more`: lines of the head."""
    plug = await narrow(port, room)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(plug, request("chat", "m", stream=stream).replace(b"\r\n", b"\r\n" + more, 1))
    return plug
