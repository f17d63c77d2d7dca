"""Request bodies that stop on their way, and uploads nobody reads: what the caller is told, and what is left open."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.faults.living import Living, living, run, until

SETTINGS: Final = """
[server]
body_timeout = {seconds}
[upstreams.one]
url = "http://127.0.0.1:{port}"
dialects = ["chat", "messages"]
"""
HEAD: Final = b"POST %b HTTP/1.1\r\nhost: x\r\n%b: %b\r\n\r\n"
BROKEN_OFF: Final = {
    "judged, by length": HEAD % (b"/v1/chat/completions", b"content-length", b"100") + b'{"model":',
    "judged, in chunks": HEAD % (b"/v1/messages", b"transfer-encoding", b"chunked") + b"5\r\n{",
    "judged, without a byte": HEAD % (b"/v1/chat/completions", b"content-length", b"9"),
    "forwarded, small": HEAD % (b"/v1/files", b"content-length", b"100") + b"x",
    "forwarded, as it comes": HEAD % (b"/v1/files", b"content-length", b"9000000") + b"x",
}
LARGE: Final = 96 * 1024 * 1024
"""More than all buffers of the kernel hold."""
SENT: Final = 2 * 1024 * 1024
"""More than the gateway takes ahead, and less than the kernel does."""


@asynccontextmanager
async def deaf(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """An upstream that takes connections and reads nothing; its port."""
    stop = asyncio.Event()

    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
        await stop.wait()
        writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=4096, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        stop.set()
        server.close()
        await asyncio.sleep(0.05)


async def connect(house: Living, wire: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A caller who has sent this, and counts as one call."""
    house.sent += 1
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    writer.write(wire)
    return reader, writer


@pytest.mark.parametrize("wire", BROKEN_OFF.values(), ids=list(BROKEN_OFF))
def test_a_body_that_stops_on_its_way_holds_no_place(wire: bytes) -> None:
    """After `body_timeout` without a byte: 408 in the caller's dialect, the connection ends, the call is counted."""

    async def main() -> None:
        async with deaf() as port, living(SETTINGS.format(port=port, seconds=0.2)) as house:
            reader, writer = await connect(house, wire)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close\r\n" in answer
            assert b"server.body_timeout" in answer
            assert house.outcomes() == {"refused": 1}
            writer.close()

    run(main())


def test_a_body_that_comes_slowly_is_waited_for() -> None:
    """The limit is on silence between two pieces, not on the whole."""

    async def main() -> None:
        async with deaf() as port, living(SETTINGS.format(port=port, seconds=1.5)) as house:
            reader, writer = await connect(house, HEAD % (b"/v1/chat/completions", b"content-length", b"6"))
            for _ in range(6):
                await asyncio.sleep(0.35)
                writer.write(b"[")
            assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 400 Bad Request\r\n"
            writer.close()

    run(main())


@pytest.mark.parametrize(
    ("size", "linger"),
    [
        pytest.param(LARGE, struct.pack("ii", 1, 0), id="a reset, with most of it unsent"),
        pytest.param(SENT, struct.pack("ii", 1, 0), id="a reset, with all sent so far"),
        pytest.param(SENT, struct.pack("ii", 0, 0), id="an end in good order, with all sent so far"),
    ],
)
def test_a_caller_who_breaks_off_an_upload_that_nobody_reads(size: int, linger: bytes) -> None:
    """Nothing of the caller is read while the upstream takes nothing; that the connection has ended is seen at once."""

    async def main() -> None:
        async with deaf() as port, living(SETTINGS.format(port=port, seconds=60)) as house:
            _, writer = await connect(house, HEAD % (b"/v1/files", b"content-length", b"%d" % LARGE))
            plug = writer.get_extra_info("socket")
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.write(b"x" * size)
            unsent = -1
            while unsent != writer.transport.get_write_buffer_size():
                unsent = writer.transport.get_write_buffer_size()
                await asyncio.sleep(0.2)
            assert bool(unsent) is (size == LARGE)
            assert house.busy == 1
            writer.transport.abort()
            await until(lambda: not house.gateway.limits.inflight)
            assert house.outcomes() == {"client_gone": 1}
            assert not house.busy

    run(main())
