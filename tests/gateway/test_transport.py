"""The transport over real sockets, on both loops: answers in every framing, flow control, limits, broken peers."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import httpx
import pytest

from gateway.connection import MAX_BUFFERED_BYTES
from gateway.transport import LeanTransport
from tests.gateway.scripted import HELLO, OK, LoopFactory, Peer, fetch, on_both_loops, run, send, serve, tapped, until

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
BODIES = {
    "a counted body": (HELLO, 1),
    "chunks with trailers": (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n", 1),
    "informational heads first": (b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + HELLO, 1),
    "Connection: close": (OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", 0),
    "a body up to the end": (OK + b"\r\nhello", 0),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", 0),
    "surplus bytes": (HELLO + b"HTTP/1.1 200 OK\r\n\r\n", 0),
}
BROKEN = {
    "nothing": (b"", httpx.RemoteProtocolError),
    "half a head": (OK + b"Content-Le", httpx.RemoteProtocolError),
    "garbage": (b"hello\r\n\r\n", httpx.RemoteProtocolError),
    "a head that smuggles": (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", httpx.RemoteProtocolError),
    "half a counted body": (OK + b"Content-Length: 9\r\n\r\nhello", httpx.RemoteProtocolError),
    "half a chunked body": (CHUNKED + b"9\r\nhello", httpx.RemoteProtocolError),
    "chunks that turn to garbage": (CHUNKED + b"5\r\nhello\r\nxyz\r\n", httpx.RemoteProtocolError),
}

in_every_way = pytest.mark.parametrize(
    "get", [fetch, tapped, partial(tapped, turns=2)], ids=["read", "tapped", "tapped and read in turns"]
)
Get = Callable[..., Awaitable[bytes]]


@on_both_loops
@in_every_way
@pytest.mark.parametrize("step", [None, 1], ids=["in one write", "byte by byte"])
@pytest.mark.parametrize(("wire", "idle"), BODIES.values(), ids=BODIES)
def test_a_body_comes_whole_in_every_framing(
    wire: bytes, idle: int, step: int | None, get: Get, loop: LoopFactory
) -> None:
    """And only a connection that came clean out of its exchange is kept."""

    async def script(peer: Peer) -> None:
        await peer.head()
        for begin in range(0, len(wire), step or len(wire)):
            await peer.send(wire[begin : begin + (step or len(wire))])
            await asyncio.sleep(0)
        if idle:
            await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            assert await get(transport, served.url) == b"hello"
            await until(lambda: (transport.open, transport.idle) == (idle, idle))

    run(loop, main())


@on_both_loops
@in_every_way
@pytest.mark.parametrize(("wire", "error"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_an_error_and_frees_its_slot(
    wire: bytes, error: type[Exception], get: Get, loop: LoopFactory
) -> None:
    """However far it came; nothing that was cut off passes for whole."""

    async def main() -> None:
        async with serve(lambda peer: peer.answer(wire)) as served, LeanTransport() as transport:
            with pytest.raises(error):
                await get(transport, served.url)
            assert (transport.open, transport.idle) == (0, 0)

    run(loop, main())


@on_both_loops
def test_the_response_is_what_httpx_gives(loop: LoopFactory) -> None:
    """Status, reason, version and headers as they came; through httpx.AsyncClient the same, decoded by it."""
    head = b"HTTP/1.1 404 Not There\r\nB: 1\r\nb: 2\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n"

    async def main() -> None:
        async with serve(lambda peer: peer.answer(*[head + b"hello"] * 4)) as served:
            transport = LeanTransport()
            async with httpx.AsyncClient(transport=transport, base_url=served.url) as client:
                response = await client.get("/a", params={"q": "1"})
                assert (response.status_code, response.reason_phrase, response.text) == (404, "Not There", "hello")
                assert response.http_version == "HTTP/1.1"
                assert response.headers.multi_items()[:2] == [("b", "1"), ("b", "2")]
                async with client.stream("GET", "/b") as streamed:
                    assert [part async for part in streamed.aiter_raw()] == [b"hello"]
                assert (await client.head("/c")).content == b""
                assert transport.open == 0  # an answer without its body ends the connection
            assert (transport.open, len(served.peers)) == (0, 1)

    run(loop, main())


@on_both_loops
def test_what_is_there_comes_at_once_and_in_one_piece(loop: LoopFactory) -> None:
    """A read waits for the first byte and for no other, and gives everything that came meanwhile as one."""
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED + b"1\r\na\r\n")
        await go_on.wait()
        await peer.send(b"1\r\nb\r\n1\r\nc\r\n1\r\nd\r\n" + END)
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            response = await send(transport, served.url)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            parts = aiter(response.stream)
            assert await anext(parts) == b"a"
            go_on.set()
            assert [part async for part in parts] == [b"bcd"]
            assert transport.idle == 1
            await response.aclose()
            await response.aclose()
            assert (transport.open, transport.idle) == (1, 1)

    run(loop, main())


@on_both_loops
def test_a_slow_caller_slows_its_upstream(loop: LoopFactory) -> None:
    """Beyond 256 KiB reading stops, so that the server cannot send more than sockets hold; then it all comes."""
    total, piece = 64 * 2**20, b"x" * 2**16

    async def script(peer: Peer) -> None:
        await peer.answer(OK + b"Content-Length: %d\r\n\r\n" % total)
        for _ in range(total // len(piece)):
            await peer.send(piece)
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            response = await send(transport, served.url)
            before = -1
            while served.peers[0].sent > before:
                before = served.peers[0].sent
                await asyncio.sleep(0.2)
            assert MAX_BUFFERED_BYTES < before < total // 2
            assert isinstance(response.stream, httpx.AsyncByteStream)
            assert sum([len(part) async for part in response.stream]) == total
            assert transport.idle == 1

    run(loop, main())


LIMITS = {
    "read, before the head": (b"", {"read": 0.05}),
    "first byte, before the head": (b"", {"read": 60, "first_byte": 0.05}),
    "read, in the body": (CHUNKED + b"1\r\na\r\n", {"read": 0.05, "first_byte": 60}),
}


@on_both_loops
@in_every_way
@pytest.mark.parametrize(("wire", "limits"), LIMITS.values(), ids=LIMITS)
def test_silence_has_a_limit(wire: bytes, limits: dict[str, float], get: Get, loop: LoopFactory) -> None:
    """Before the head and in the body, each its own; the connection goes with it."""

    async def script(peer: Peer) -> None:
        await peer.answer(wire)
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            with pytest.raises(httpx.ReadTimeout):
                await get(transport, served.url, timeout=limits)
            assert transport.open == 0
            await until(lambda: served.ended == 1)

    run(loop, main())


@on_both_loops
@in_every_way
def test_a_limit_is_of_silence_and_not_of_the_whole(get: Get, loop: LoopFactory) -> None:
    """A stream that keeps coming outlives its limit, and a shorter limit on a kept connection counts at once."""

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED)
        for _ in range(12):
            await asyncio.sleep(0.15)
            await peer.send(b"1\r\na\r\n")
        await peer.send(END)
        await peer.head()
        await peer.closed()

    async def main() -> None:
        async with serve(script) as served, LeanTransport() as transport:
            assert await get(transport, served.url, timeout={"read": 1.5}) == b"a" * 12
            with pytest.raises(httpx.ReadTimeout):
                await get(transport, served.url, timeout={"read": 0.05})
            assert (transport.open, len(served.peers)) == (0, 1)

    run(loop, main())
