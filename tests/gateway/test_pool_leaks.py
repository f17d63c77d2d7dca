"""Cancelled, closed early, or closed down: no connection, slot or place in the queue is ever lost."""

import asyncio

import httpx
import pytest

from gateway.connection import Connection
from gateway.transport import LeanTransport
from tests.gateway.scripted import (
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


async def hang(peer: Peer) -> None:
    """Read a request and say nothing until the client closes."""
    await peer.head()
    await peer.closed()


async def stop_in_the_middle(peer: Peer) -> None:
    """Send half a body and wait until the client closes."""
    await peer.answer(HALF)
    await peer.closed()


@on_both_loops
@pytest.mark.parametrize("script", [hang, stop_in_the_middle], ids=["awaiting the head", "in the body"])
def test_a_cancelled_request_leaves_nothing_behind(script: Script, loop: LoopFactory) -> None:
    """Its connection is closed, and whoever waits gets the slot."""

    async def main() -> None:
        async with serve(script, always) as served, LeanTransport(max_connections=1) as transport:
            task = asyncio.create_task(fetch(transport, served.url))
            await until(lambda: bool(served.peers))
            waiting = asyncio.create_task(fetch(transport, served.url))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await waiting == b"hello"
            await until(lambda: served.ended == 1)
            assert transport.open == 1

    run(loop, main())


@on_both_loops
def test_a_request_cancelled_as_its_socket_opens_leaves_nothing_behind(
    loop: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the socket that is there and whoever waited for it: uvloop closes it then, and tells nobody."""
    tasks: list[asyncio.Task[bytes]] = []
    made = Connection.connection_made

    def cancelling(self: Connection, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        tasks.pop().cancel()

    async def main() -> None:
        async with serve(always) as served, LeanTransport() as transport:
            with monkeypatch.context() as patched:
                patched.setattr(Connection, "connection_made", cancelling)
                task = asyncio.create_task(fetch(transport, served.url))
                tasks.append(task)
                with pytest.raises(asyncio.CancelledError):
                    await task
            await until(lambda: not transport._closing)
            assert transport.open == 0
            assert await fetch(transport, served.url) == b"hello"

    run(loop, main())


@on_both_loops
def test_a_place_in_the_queue_given_up_at_the_last_moment_is_passed_on(loop: LoopFactory) -> None:
    """Cancelled while waiting, and cancelled after the connection was granted but before the task knew."""

    async def main() -> None:
        async with serve(stop_in_the_middle, always) as served, LeanTransport(max_connections=1) as transport:
            held = await send(transport, served.url)
            early, late, last = [asyncio.create_task(fetch(transport, served.url)) for _ in range(3)]
            await asyncio.sleep(0)
            early.cancel()
            await asyncio.sleep(0)
            await held.aclose()  # grants `late`, which is cancelled in the same step
            late.cancel()
            assert await last == b"hello"
            assert (early.cancelled(), late.cancelled(), transport.open) == (True, True, 1)

    run(loop, main())


@on_both_loops
def test_closing_a_response_early_closes_its_connection(loop: LoopFactory) -> None:
    """At once: the server sees it go, and whoever reads gets an error, not an end."""

    async def main() -> None:
        async with serve(stop_in_the_middle) as served, LeanTransport() as transport:
            response = await send(transport, served.url)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            parts = aiter(response.stream)
            assert await anext(parts) == b"half"
            reading = asyncio.ensure_future(anext(parts))
            await asyncio.sleep(0.01)
            await response.aclose()
            with pytest.raises(httpx.ReadError):
                await reading
            await until(lambda: served.ended == 1)
            assert transport.open == 0

    run(loop, main())


@on_both_loops
def test_closing_the_transport_ends_everything(loop: LoopFactory) -> None:
    """Requests under way and waiting ones fail with errors of httpx, nothing new begins, closing twice is no error."""

    async def main() -> None:
        async with serve(hang, stop_in_the_middle) as served:
            transport = LeanTransport(max_connections=2)
            tasks = [asyncio.create_task(fetch(transport, served.url)) for _ in range(3)]
            await until(lambda: len(served.peers) == 2)
            await asyncio.sleep(0.01)
            await transport.aclose()
            await until(lambda: served.ended == 2)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(result) for result in results] == [httpx.ReadError, httpx.ReadError, httpx.ConnectError]
            with pytest.raises(httpx.ConnectError):
                await fetch(transport, served.url)
            await transport.aclose()
            assert transport.open == 0

    run(loop, main())


@on_both_loops
def test_closing_the_transport_closes_idle_connections(loop: LoopFactory) -> None:
    """And waits until their sockets are gone, so that none is left to the garbage collector."""

    async def main() -> None:
        async with serve(always) as served:
            async with LeanTransport() as transport:
                await asyncio.gather(*(fetch(transport, served.url) for _ in range(3)))
                assert transport.idle == 3
            assert (transport.open, transport.idle, transport._closing) == (0, 0, set())
            await until(lambda: served.ended == 3)

    run(loop, main())
