"""Callers who take nothing of their answer: `server.send_timeout` ends them, and nobody who takes a little at a time."""

import asyncio
import socket
from typing import Final

import pytest

from tests.faults.link import END, PIECE, Link, chunk
from tests.faults.living import Living, living, run, until
from tests.faults.scripts import script
from tests.faults.upstream import scripted
from tests.faults.wires import request

SETTINGS: Final = """
[server]
send_timeout = {seconds}
[upstreams.one]
url = "http://127.0.0.1:{port}/{script}.all"
dialects = ["chat"]
"""


@script
async def eight_mebibytes(link: Link) -> None:
    """A whole body that no kernel takes at once."""
    await link.send(link.head_of(), chunk(link.parts[0]), *[chunk(b" " * PIECE)] * 128, chunk(link.parts[1]), END)


def settings(port: int, script: str, seconds: float) -> str:
    """One upstream."""
    return SETTINGS.format(port=port, script=script, seconds=seconds)


async def deaf(house: Living, *, stream: bool, wire: bytes = b"") -> socket.socket:
    """A caller who has asked and reads nothing."""
    house.sent += 1
    plug = socket.socket()
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plug.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(plug, ("127.0.0.1", house.port))
    await loop.sock_sendall(plug, wire or request("chat", "m", stream=stream))
    return plug


def test_a_stream_nobody_takes_ends() -> None:
    """The upstream is left, the place is free, and the call counts as `client_gone`."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream.port, "endless", 0.2)) as house:
            with await deaf(house, stream=True):
                await until(lambda: house.outcomes() == {"client_gone": 1}, 10)
                await until(lambda: not house.gateway.limits.inflight and not house.busy)
                await until(lambda: not house.server.server_state.connections)

    run(main())


@pytest.mark.parametrize("ends", [False, True], ids=["the connection stays", "the caller asked to close it"])
def test_a_whole_answer_nobody_takes_ends(ends: bool) -> None:
    """Its bytes are let go, and the connection with them; the call was answered and counts so."""
    wire = request("chat", "m", stream=False)
    if ends:
        wire = wire.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream.port, "eight_mebibytes", 0.2)) as house:
            with await deaf(house, stream=False, wire=wire):
                await until(lambda: house.outcomes() == {"ok": 1}, 10)
                await until(lambda: not house.gateway.limits.inflight)
                await until(lambda: not house.server.server_state.connections)

    run(main())


def test_who_takes_a_little_at_a_time_gets_it_all() -> None:
    """Slowness is no fault: bytes that move within each limit keep the connection, however long it takes."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream.port, "eight_mebibytes", 0.3)) as house:
            with await deaf(house, stream=False) as plug:
                loop = asyncio.get_running_loop()
                begun, got = loop.time(), 0
                while got < 128 * PIECE:
                    data = await loop.sock_recv(plug, 2 * PIECE)
                    assert data
                    got += len(data)
                    await asyncio.sleep(len(data) / (40 * PIECE))
                assert loop.time() - begun > 3

    run(main())
