"""The gateway over real sockets: who hangs up is let go, who is slow slows the other side, both ways."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
import uvicorn

from gateway.app import Gateway
from gateway.config import parse_settings
from gateway.protocol import CallerProtocol
from tests.gateway.door import Facts, run, until
from tests.gateway.passage import transfer_chunk
from tests.gateway.plays import DONE, chunk, text
from tests.gateway.scripted import OK, Peer, Script, Served, serve

MIB: Final = 1024 * 1024
SSE: Final = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SETTINGS: Final = """
[upstreams.one]
url = "{url}"
dialects = ["chat"]
"""


class House:
    """A gateway on a socket, its upstream, and what it stated."""

    def __init__(self, served: Served) -> None:
        self.served, self.facts = served, Facts()
        self.gateway = Gateway(parse_settings(SETTINGS.format(url=served.url), {}), self.facts)
        self.port = 0

    async def connect(self, wire: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of a caller who has sent this."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)
        writer.write(wire)
        return reader, writer

    async def ask(self, wire: bytes) -> bytes:
        """All that comes until the connection is closed."""
        reader, writer = await self.connect(wire)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


@contextlib.asynccontextmanager
async def house(*scripts: Script) -> AsyncIterator[House]:
    """Serve a gateway in front of a scripted upstream."""
    async with serve(*scripts) as served:
        house = House(served)
        config = uvicorn.Config(
            house.gateway.app, port=0, http=CallerProtocol, ws="none", lifespan="on", log_config=None,
            access_log=False, log_level="critical", server_header=False, date_header=False,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        await until(lambda: server.started)
        house.port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield house
        finally:
            server.should_exit = True
            await serving


def post(path: str = "/v1/chat/completions", **fields: Any) -> bytes:
    """A request with a chat body, on a connection of its own."""
    body = msgspec.json.encode({"model": "m", "messages": [], **fields})
    return head("POST", path, f"content-length: {len(body)}") + body


def head(method: str, path: str, *lines: str) -> bytes:
    """The head of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", "connection: close", *lines, "", ""]).encode()


async def gone(writer: asyncio.StreamWriter) -> None:
    """Hang up."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("streamed", [True, False], ids=["in the middle of a stream", "before the head"])
def test_hanging_up(streamed: bool) -> None:
    """The upstream is closed as soon as the caller has left."""

    async def upstream(peer: Peer) -> None:
        await peer.head()
        if streamed:
            await peer.send(SSE + transfer_chunk(text("a")))
        await peer.closed()

    async def main() -> None:
        async with house(upstream) as h:
            reader, writer = await h.connect(post(stream=True))
            if streamed:
                await reader.readuntil(b'"a"')
            await until(lambda: len(h.served.peers) == 1)
            await gone(writer)
            await until(lambda: h.served.ended == 1)
            await until(lambda: h.gateway.limits.inflight == 0)
            assert h.facts.outcome == "client_gone"

    run(main())


def test_a_slow_caller_slows_its_upstream() -> None:
    """A caller who does not read stops the upstream after a few buffers; when they read it all comes."""
    event, events = text("x" * 64 * 1024), 1024  # 64 MiB

    async def upstream(peer: Peer) -> None:
        await peer.head()
        await peer.send(SSE)
        for _ in range(events):
            await peer.send(transfer_chunk(event))
        await peer.send(transfer_chunk(chunk(finish="stop") + DONE) + b"0\r\n\r\n")

    async def main() -> None:
        async with house(upstream) as h:
            reader, writer = await h.connect(post(stream=True))
            await until(lambda: bool(h.served.peers))
            peer, before = h.served.peers[0], -1
            while peer.sent != before:
                before = peer.sent
                await asyncio.sleep(0.3)
            assert 0 < peer.sent < 32 * MIB
            body = b"".join([piece async for piece in pieces(reader)])
            assert body.count(event[6:-2]) == events
            assert body.count(DONE) == 1
            await gone(writer)
            assert h.facts.outcome == "ok"

    run(main())


async def pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """What comes until the connection is closed."""
    while piece := await reader.read(MIB):
        yield piece


@pytest.mark.parametrize("known", [True, False], ids=["of a known length", "in chunks"])
def test_a_slow_upstream_slows_an_upload(known: bool) -> None:
    """An upload is not gathered: it stops where the upstream does not read, and arrives whole when it does."""
    part, parts = b"x" * MIB, 64
    reading = asyncio.Event()

    async def upstream(peer: Peer) -> None:
        await peer.head()
        await reading.wait()
        left = MIB * parts
        while left:
            left -= (await peer.reader.read(MIB)).count(b"x")
        await peer.send(OK + b"Content-Length: 2\r\n\r\nok")

    async def main() -> None:
        async with house(upstream) as h:
            framing = f"content-length: {MIB * parts}" if known else "transfer-encoding: chunked"
            reader, writer = await h.connect(head("POST", "/v1/files", framing))
            for _ in range(parts):
                writer.write(part if known else transfer_chunk(part))
            writer.write(b"" if known else b"0\r\n\r\n")
            before, left = -1, 0
            while left != before:
                before = left
                await asyncio.sleep(0.3)
                left = writer.transport.get_write_buffer_size()
            assert left > 32 * MIB
            reading.set()
            assert (await reader.read()).endswith(b"\r\n\r\nok")
            await gone(writer)
            assert h.facts.outcome == "ok"

    run(main())


def test_hanging_up_in_the_middle_of_an_upload() -> None:
    """Half an upload is dropped on the way."""

    async def upstream(peer: Peer) -> None:
        await peer.head()
        await peer.closed()

    async def main() -> None:
        async with house(upstream) as h:
            _, writer = await h.connect(head("POST", "/v1/files", f"content-length: {4 * MIB}") + b"x" * MIB)
            await until(lambda: len(h.served.peers) == 1)
            await gone(writer)
            await until(lambda: h.served.ended == 1)
            await until(lambda: h.gateway.limits.inflight == 0)
            assert h.facts.outcome == "client_gone"

    run(main())


ANSWERS: Final = {
    "HEAD, with the length of what GET would get": ("HEAD", OK + b"Content-Length: 5\r\n\r\n", b"200 OK", b"\r\n\r\n"),
    "no content": ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", b"204 No Content", b"\r\n\r\n"),
    "not modified, with the length of what is not sent": (
        "GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: a\r\n\r\n", b"304 Not Modified", b"\r\n\r\n",
    ),
    "a body that ends with its connection": ("GET", OK + b"\r\nhello", b"200 OK", b"5\r\nhello\r\n0\r\n\r\n"),
}  # fmt: skip


@pytest.mark.parametrize(("method", "wire", "status", "end"), ANSWERS.values(), ids=ANSWERS)
def test_bodies_that_are_none(method: str, wire: bytes, status: bytes, end: bytes) -> None:
    """Answers without a body, or without its length, come back well framed."""

    async def upstream(peer: Peer) -> None:
        await peer.answer(wire)

    async def main() -> None:
        async with house(upstream) as h:
            answer = await h.ask(head(method, "/v1/files/f"))
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.endswith(end)
            assert h.facts.outcome == "ok"

    run(main())


def test_a_cut_shows_as_a_cut() -> None:
    """A forwarded answer that breaks reaches the caller as an unfinished one, never as a whole one."""

    async def upstream(peer: Peer) -> None:
        await peer.head()
        await peer.send(OK + b"Transfer-Encoding: chunked\r\n\r\n" + transfer_chunk(b"hello"))
        peer.reset()

    async def main() -> None:
        async with house(upstream) as h:
            answer = await h.ask(head("GET", "/v1/files/f"))
            assert not answer.endswith(b"0\r\n\r\n")
            assert h.facts.outcome == "stream_error"

    run(main())
