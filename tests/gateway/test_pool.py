"""Which connection a request gets: reuse, limits, fairness, the race of reuse, and that nothing is ever leaked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from gateway.transport import LeanTransport
from tests.gateway.scripted import (
    HELLO,
    OK,
    LoopFactory,
    Peer,
    Script,
    always,
    fetch,
    on_both_loops,
    run,
    send,
    serve,
    until,
)

HALF = OK + b"Content-Length: 9\r\n\r\nhalf"


def numbered(names: str) -> list[Script]:
    """One script per connection, each answering with its own letter."""

    def named(name: str) -> Script:
        async def script(peer: Peer) -> None:
            while True:
                await peer.answer(OK + b"Content-Length: 1\r\n\r\n" + name.encode())

        return script

    return [named(name) for name in names]


async def stop_in_the_middle(peer: Peer) -> None:
    """Send half a body and wait until the client closes."""
    await peer.answer(HALF)
    await peer.closed()


@on_both_loops
def test_the_connection_last_used_is_used_first(loop: LoopFactory) -> None:
    """So that the others can grow old and go."""

    async def main() -> None:
        async with serve(*numbered("abc")) as served, LeanTransport() as transport:
            first = await send(transport, served.url)
            assert transport.idle == 1  # its whole answer is here
            burst = await asyncio.gather(*(fetch(transport, served.url) for _ in range(3)))
            assert sorted([*burst, await first.aread()]) == [b"a", b"a", b"b", b"c"]
            assert (transport.open, transport.idle) == (3, 3)
            last = await fetch(transport, served.url)
            assert [await fetch(transport, served.url) for _ in range(3)] == [last] * 3
            assert len(served.peers) == 3

    run(loop, main())


@on_both_loops
def test_who_waits_is_served_in_order(loop: LoopFactory) -> None:
    """First come first served, also against a request that comes when a connection has just become free."""
    order: list[int] = []

    async def main() -> None:
        async with serve(always) as served, LeanTransport(max_connections=1) as transport:

            async def ask(number: int) -> None:
                await fetch(transport, served.url, timeout={"pool": 10})
                order.append(number)

            tasks = []
            for number in range(6):
                tasks.append(asyncio.create_task(ask(number)))
                await asyncio.sleep(0)
            await tasks[0]
            tasks.append(asyncio.create_task(ask(6)))
            await asyncio.gather(*tasks)
            assert order == list(range(7))
            assert (transport.open, transport.idle, len(served.peers)) == (1, 1, 1)

    run(loop, main())


@on_both_loops
def test_waiting_for_a_connection_has_a_limit(loop: LoopFactory) -> None:
    """PoolTimeout, and whoever waits longer still gets the connection."""

    async def main() -> None:
        async with serve(stop_in_the_middle, always) as served, LeanTransport(max_connections=1) as transport:
            held = await send(transport, served.url)
            patient = asyncio.create_task(fetch(transport, served.url, timeout={"pool": 10}))
            with pytest.raises(httpx.PoolTimeout):
                await fetch(transport, served.url, timeout={"pool": 0.05})
            await held.aclose()
            assert await patient == b"hello"

    run(loop, main())


@on_both_loops
def test_an_idle_connection_makes_room_for_another_origin(loop: LoopFactory) -> None:
    """At the limit the one idle longest is closed; a freed connection of the wrong origin is no use to who waits."""

    async def main() -> None:
        async with serve(always) as one, serve(always) as two, LeanTransport(max_connections=1) as transport:
            assert await fetch(transport, one.url) == b"hello"
            assert await fetch(transport, two.url) == b"hello"
            await until(lambda: one.ended == 1)
            here, there = await asyncio.gather(fetch(transport, two.url), fetch(transport, one.url))
            assert here == there == b"hello"
            assert (transport.open, len(one.peers), len(two.peers)) == (1, 2, 1)

    run(loop, main())


@on_both_loops
def test_an_idle_connection_goes_when_its_time_is_over(loop: LoopFactory) -> None:
    """By itself, without another request."""

    async def main() -> None:
        async with serve(always) as served, LeanTransport(keepalive_expiry=0.05) as transport:
            assert await fetch(transport, served.url) == b"hello"
            await until(lambda: served.ended == 1)
            assert (transport.open, transport.idle) == (0, 0)
            assert await fetch(transport, served.url) == b"hello"
            assert len(served.peers) == 2

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Bye\r\n\r\n"], ids=["in silence", "with bytes nobody wanted"])
def test_a_connection_the_peer_gave_up_is_never_used(farewell: bytes, loop: LoopFactory) -> None:
    """It leaves the pool the moment the end is seen."""

    async def script(peer: Peer) -> None:
        await peer.answer(HELLO)
        await peer.send(farewell)

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            for count in (1, 2, 3):
                assert await fetch(transport, served.url) == b"hello"
                await until(lambda: transport.open == 0)
                assert (transport.idle, len(served.peers)) == (0, count)

    run(loop, main())


def then(*after: Callable[[Peer], Awaitable[object]]) -> Script:
    """Answer one request, read the next, go on like this."""

    async def script(peer: Peer) -> None:
        await peer.answer(HELLO)
        await peer.head()
        for step in after:
            await step(peer)

    return script


async def reset(peer: Peer) -> None:
    """Break the connection off."""
    peer.reset()


@on_both_loops
@pytest.mark.parametrize("ending", [then(), then(reset)], ids=["closed", "reset"])
def test_a_request_that_met_a_closing_connection_goes_out_again(ending: Script, loop: LoopFactory) -> None:
    """On a fresh connection, in the same slot, with the same bytes."""

    async def main() -> None:
        async with serve(ending, always) as served, LeanTransport(max_connections=1) as transport:
            assert await fetch(transport, served.url) == b"hello"
            assert await fetch(transport, served.url) == b"hello"
            assert (transport.open, transport.idle, len(served.peers)) == (1, 1, 2)

    run(loop, main())


@on_both_loops
def test_no_request_is_lost_on_a_server_that_closes_unannounced(loop: LoopFactory) -> None:
    """Also where the end comes while the connection is on its way to who waits for it."""

    async def main() -> None:
        async with serve(lambda peer: peer.answer(HELLO)) as served, LeanTransport(max_connections=2) as transport:
            bodies = await asyncio.gather(*(fetch(transport, served.url) for _ in range(50)))
            assert bodies == [b"hello"] * 50
            await until(lambda: transport.open == 0)

    run(loop, main())


async def one_part() -> AsyncIterator[bytes]:
    """A body that cannot be had twice."""
    yield b"x"


async def begin(peer: Peer) -> None:
    """Send the first byte of an answer."""
    await peer.send(b"H")


async def gone(peer: Peer) -> None:
    """Close before anything is asked."""
    await peer.head()


@on_both_loops
@pytest.mark.parametrize(
    ("scripts", "body", "peers"),
    [([then(begin)], bytes, 1), ([then()], one_part, 1), ([then(), gone], bytes, 2), ([then(Peer.closed)], bytes, 1)],
    ids=["an answer had begun", "the body was a stream", "it went out again already", "it was only slow"],
)
def test_a_request_does_not_go_out_again_when(
    scripts: list[Script], body: Callable[[], bytes | AsyncIterator[bytes]], peers: int, loop: LoopFactory
) -> None:
    """One error, and no further connection."""

    async def main() -> None:
        async with serve(*scripts) as served, LeanTransport() as transport:
            assert await fetch(transport, served.url) == b"hello"
            with pytest.raises((httpx.RemoteProtocolError, httpx.NetworkError, httpx.ReadTimeout)):
                await fetch(transport, served.url, "POST", content=body(), timeout={"read": 0.2})
            assert (transport.open, len(served.peers)) == (0, peers)

    run(loop, main())
