"""Request bodies that come bit by bit: what goes out when, and what ends it early."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway.bulk import LONG
from gateway.connection import Connection
from gateway.http1 import write
from gateway.transport import LeanTransport
from tests.gateway.scripted import HELLO, LoopFactory, Peer, always, fetch, on_both_loops, run, send, serve, until

END = b"0\r\n\r\n"
Body = Callable[[], AsyncIterator[bytes]]


@on_both_loops
@pytest.mark.parametrize("framing", [{}, {"Content-Length": "2097152"}], ids=["in chunks", "with a length"])
def test_an_upload_goes_out_as_it_comes(framing: dict[str, str], loop: LoopFactory) -> None:
    """The second half is asked for only after the server has the first: nothing is collected."""
    half, arrived = b"y" * 2**20, asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield half
        await arrived.wait()
        yield b""
        yield half

    async def script(peer: Peer) -> None:
        chunked = b"Transfer-Encoding: chunked" in await peer.head()
        for _ in range(2):
            if chunked:
                assert await peer.reader.readline() == b"100000\r\n"
            assert await peer.reader.readexactly(len(half)) == half
            assert not chunked or await peer.reader.readline() == b"\r\n"
            arrived.set()
        assert not chunked or await peer.reader.readexactly(5) == END
        await peer.send(HELLO)
        await always(peer)

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            assert await fetch(transport, served.url, "POST", content=body(), headers=framing) == b"hello"
            assert transport.idle == 1
            assert await fetch(transport, served.url) == b"hello"

    run(loop, main())


@on_both_loops
def test_an_early_answer_ends_an_upload(loop: LoopFactory) -> None:
    """A server that answers before it has read everything is heard, the rest is not sent, the connection not kept."""
    stopped = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"some"
            await asyncio.Event().wait()
        finally:
            stopped.set()

    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

    async def script(peer: Peer) -> None:
        await peer.answer(refusal)
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            response = await send(transport, served.url, "POST", content=body())
            assert (response.status_code, await response.aread()) == (413, b"no")
            await stopped.wait()
            assert transport.open == 0

    run(loop, main())


async def failing() -> AsyncIterator[bytes]:
    """A body that breaks off."""
    yield b"some"
    raise KeyError("the caller left")


async def two_bytes() -> AsyncIterator[bytes]:
    """A body of two bytes."""
    yield b"ab"


UPLOADS = {
    "an error of the stream": (failing, {}, KeyError),
    "a body shorter than announced": (two_bytes, {"Content-Length": "3"}, httpx.LocalProtocolError),
    "a body longer than announced": (two_bytes, {"Content-Length": "1"}, httpx.LocalProtocolError),
}


@on_both_loops
@pytest.mark.parametrize(("body", "headers", "error"), UPLOADS.values(), ids=UPLOADS)
def test_an_upload_that_fails_is_told_as_it_is(
    body: Body, headers: dict[str, str], error: type[Exception], loop: LoopFactory
) -> None:
    """The error of the body reaches the caller, and the half request never looks whole to the server."""

    async def script(peer: Peer) -> None:
        head = await peer.head()
        rest = await peer.reader.read()
        assert END not in rest
        assert b"Content-Length" not in head or rest in (b"", b"ab")

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            with pytest.raises(error):
                await send(transport, served.url, "POST", content=body(), headers=headers)
            assert transport.open == 0
            await until(lambda: served.ended == 1)

    run(loop, main())


@on_both_loops
def test_a_peer_that_goes_away_ends_an_upload(loop: LoopFactory) -> None:
    """A reset in the middle of sending is a WriteError, and the body's stream is let go."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * 2**16

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.reader.readexactly(2**20)
        peer.reset()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            with pytest.raises(httpx.WriteError):
                await send(transport, served.url, "POST", content=endless())
            assert transport.open == 0

    run(loop, main())


@on_both_loops
def test_a_stream_that_never_pauses_does_not_outrun_a_failed_socket(loop: LoopFactory) -> None:
    """A broken socket is told about in a later turn of the loop, which such a stream does not let come."""
    asked = 0

    async def main() -> None:
        async with serve(Peer.closed) as served, LeanTransport() as transport:

            async def body() -> AsyncIterator[bytes]:
                nonlocal asked
                plug = next(iter(transport._pool._connections))._transport.get_extra_info("socket")  # type: ignore[union-attr]
                with socket.socket(fileno=os.dup(plug.fileno())) as same:
                    same.shutdown(socket.SHUT_WR)
                for _ in range(10000):
                    asked += 1
                    yield b"z" * 2**17

            with pytest.raises(httpx.WriteError):
                await send(transport, served.url, "POST", content=body())
            assert asked < 100
            assert transport.open == 0

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("streamed", ["", "streamed"], ids=["bytes", "a stream"])
def test_a_peer_that_does_not_read_runs_into_the_write_limit(streamed: str, loop: LoopFactory) -> None:
    """The request is given up, and its connection."""
    whole = b"z" * 2**25

    async def body() -> AsyncIterator[bytes]:
        yield whole

    async def script(peer: Peer) -> None:
        await peer.head()
        await asyncio.Event().wait()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            with pytest.raises(httpx.WriteTimeout):
                await send(transport, served.url, "POST", content=body() if streamed else whole, timeout={"write": 0.1})
            assert transport.open == 0

    run(loop, main())


@on_both_loops
def test_a_peer_that_reads_slowly_does_not(loop: LoopFactory) -> None:
    """As long as something goes out the limit does not pass, though the whole takes longer."""
    whole = b"z" * 2**25

    async def script(peer: Peer) -> None:
        await peer.head()
        for _ in range(32):
            await peer.reader.readexactly(2**20)
            await asyncio.sleep(0.06)
        await peer.send(HELLO)
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            assert await fetch(transport, served.url, "POST", content=whole, timeout={"write": 1.0}) == b"hello"
            assert transport.idle == 1

    run(loop, main())


class Dying(asyncio.Transport):
    """The peer is gone once something was written; the loop says so later."""

    written = 0

    def write(self, _data: object) -> None:
        self.written += 1

    def is_closing(self) -> bool:
        return self.written > 1

    def abort(self) -> None:
        """There is nothing left of it."""

    def get_write_buffer_size(self) -> int:
        return 0


def test_who_hears_of_a_loss_first_does_not_matter() -> None:
    """Where a write finds the kept connection gone, before the loop tells, the request may go out once more all the same."""

    async def main() -> None:
        connection = Connection((b"https", b"a", 443), lambda _: None, memoryview(bytearray(1)))
        connection.connection_made(Dying())
        connection.reused = True
        length = 2 * LONG
        outgoing = write("POST", b"/", [(b"host", b"a"), (b"content-length", b"%d" % length)], b"x" * length).in_steps()
        with pytest.raises(httpx.WriteError):
            await connection.exchange(outgoing, {})
        assert connection.stale
        assert outgoing.repeatable

    asyncio.run(main())


@on_both_loops
def test_an_answer_before_all_was_sent_ends_the_connection(loop: LoopFactory) -> None:
    """What is left of a body must not come before the next request."""

    async def script(peer: Peer) -> None:
        await peer.answer(HELLO)
        await asyncio.Event().wait()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            assert await fetch(transport, served.url, "POST", content=b"z" * 2**25) == b"hello"
            assert transport.open == 0

    run(loop, main())
