"""Flow control: a slow caller slows its upstream, what a stream holds is bounded, and overload is told at once."""

import asyncio
from pathlib import Path

from tests.faults.link import END, PIECE, Link, chunk
from tests.faults.living import Living, living, run, until
from tests.faults.scripts import script
from tests.faults.streams import unread
from tests.faults.upstream import scripted
from tests.faults.wires import post, request

AHEAD = 512 * 1024
"""Bytes a stream may hold beyond its largest event, whatever its caller does."""


def test_a_slow_caller_slows_its_upstream() -> None:
    """With a caller who reads nothing the upstream comes to a standstill after what socket buffers and the gateway hold."""

    async def main() -> None:
        async with scripted() as upstream, living(upstream.settings("endless")) as house:
            reader, writer = await _stream(house, 4096)
            try:
                seen = upstream.seen["all"]
                await asyncio.wait_for(seen.arrived.wait(), 10)
                await seen.standstill()
                before = seen.sent
                assert before < _kernel() + AHEAD
                while seen.sent == before:
                    await reader.readexactly(4096)
            finally:
                writer.transport.abort()

    run(main())


def _kernel() -> int:
    """Bytes the kernel may take: from the upstream and for the gateway, then from the gateway for the caller."""
    limits = [Path(f"/proc/sys/net/ipv4/tcp_{kind}mem").read_text(encoding="ascii").split()[2] for kind in "rww"]
    return sum(map(int, limits))


async def _stream(
    house: Living, buffer: int, *, stream: bool = True
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    house.sent += 1
    plug = await unread(house.port, stream=stream, room=buffer)
    reader, writer = await asyncio.open_connection(sock=plug, limit=buffer)
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


@script
async def large_whole(link: Link) -> None:
    """A body that no kernel takes at once."""
    await link.send(link.head_of(), chunk(link.parts[0]), *[chunk(b" " * PIECE)] * 256, chunk(link.parts[1]), END)


def test_an_answer_nobody_takes_holds_its_place() -> None:
    """Its bytes are memory, so the call counts against max_inflight until they were taken or the caller is gone."""

    async def main() -> None:
        more = "[server]\nmax_inflight = 2"
        async with scripted() as upstream, living(upstream.settings("large_whole", more)) as house:
            (reader, writer), (_, leaving) = [await _stream(house, 4096, stream=False) for _ in range(2)]
            await until(lambda: house.outcomes() == {"ok": 2})
            assert not house.busy
            assert (await house.ask(request("chat", "m", stream=False))).status == 503
            leaving.transport.abort()
            await until(lambda: house.gateway.limits.inflight == 1)
            while house.gateway.limits.inflight:
                await reader.read(PIECE)
            writer.transport.abort()

    run(main())


def test_overload_is_told_at_once_and_health_answers() -> None:
    """Above max_inflight a call gets 503 and Retry-After; health and the counters answer meanwhile; later calls get in."""

    async def main() -> None:
        more = "[server]\nmax_inflight = 3"
        async with scripted() as upstream, living(upstream.settings("stall_in_body", more)) as house:
            streams = [await _stream(house, 65536) for _ in range(3)]
            for _ in range(20):
                answer = await house.ask(request("chat", "m", stream=True))
                assert answer.status == 503
                assert answer.header(b"retry-after") == b"1"
                assert b'"overloaded"' in answer.body
            health = await house.peek(post("/health/live", b"", method="GET"))
            assert (health.status, bytes(health.body)) == (200, b'{"status":"ok"}')
            assert house.outcomes() == {"overloaded": 20}
            for _, writer in streams:
                writer.transport.abort()
            await until(lambda: not house.gateway.limits.inflight)
            on = asyncio.Event()
            asking = asyncio.ensure_future(house.ask(request("chat", "m", stream=True), on=on))
            await until(lambda: house.gateway.limits.inflight == 1)
            on.set()
            assert (await asking).status in {0, 200}

    run(main())
