"""Callers who take nothing of their answer: `server.send_timeout` ends them, and nobody who takes a little at a time."""

import asyncio
import socket

import pytest

from tests.faults.link import END, PIECE, Link, chunk
from tests.faults.living import Living, living, run, until
from tests.faults.scripts import script
from tests.faults.streams import unread
from tests.faults.upstream import Upstream, scripted


@script
async def eight_mebibytes(link: Link) -> None:
    """A whole body that no kernel takes at once."""
    await link.send(link.head_of(), chunk(link.parts[0]), *[chunk(b" " * PIECE)] * 128, chunk(link.parts[1]), END)


def settings(upstream: Upstream, script: str, seconds: float) -> str:
    """One upstream, and so many seconds for a caller who takes nothing."""
    return upstream.settings(script, f"[server]\nsend_timeout = {seconds}")


async def deaf(house: Living, *, stream: bool = True, ends: bool = False) -> socket.socket:
    """A caller who has asked, perhaps for the connection's end as well, and reads nothing."""
    house.sent += 1
    return await unread(house.port, stream=stream, more=b"connection: close\r\n" * ends)


def test_a_stream_nobody_takes_ends() -> None:
    """The upstream is left, the place is free, and the call counts as `client_gone`."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream, "endless", 0.2)) as house:
            with await deaf(house):
                await until(lambda: house.outcomes() == {"client_gone": 1}, 10)
                await until(lambda: not house.gateway.limits.inflight and not house.busy)
                await until(lambda: not house.server.server_state.connections)

    run(main())


@pytest.mark.parametrize("ends", [False, True], ids=["the connection stays", "the caller asked to close it"])
def test_a_whole_answer_nobody_takes_ends(ends: bool) -> None:
    """Its bytes are let go, and the connection with them; the call was answered and counts so."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream, "eight_mebibytes", 0.2)) as house:
            with await deaf(house, stream=False, ends=ends):
                await until(lambda: house.outcomes() == {"ok": 1}, 10)
                await until(lambda: not house.gateway.limits.inflight)
                await until(lambda: not house.server.server_state.connections)

    run(main())


def test_who_takes_a_little_at_a_time_gets_it_all() -> None:
    """Slowness is no fault: bytes that move within each limit keep the connection, however long it takes."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream, "eight_mebibytes", 0.3)) as house:
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
