"""HTTP/1.1 towards callers, without a socket: bytes in, an ASGI application, bytes out."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.caller import DEPARTURE
from gateway.protocol import MAX_PIPELINED
from tests.gateway.callers import CHUNKS, GET, OK, POST, Served, answers, body, length, turns


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The data in pieces of these sizes, then the rest."""
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


@given(st.sampled_from([POST, CHUNKS, POST + GET, CHUNKS + POST]), st.lists(st.integers(1, 40), max_size=12))
def test_pieces_do_not_matter(wire: bytes, sizes: list[int]) -> None:
    """However the bytes come, the application reads the same, and requests are answered in order."""
    read: list[tuple[str, bytes]] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        read.append((scope["method"], await body(receive)))
        await answers(b"%d" % len(read), headers=length(1), read=False)(scope, receive, send)

    async def main() -> None:
        served = Served(app)
        await served.feed(*[piece for piece in cut(wire, sizes) if piece])
        await turns(30)
        assert served.out == b"".join(OK + b"content-length: 1\r\n\r\n%d" % (n + 1) for n in range(len(read)))

    asyncio.run(main())
    assert read[0] == ("POST", b"hello")
    assert len(read) == wire.count(b"Host")


def test_the_scope() -> None:
    """What ASGI says of it; the path is decoded, the raw one is kept, trailers are no headers."""

    async def main() -> None:
        served = Served(answers())
        await served.feed(CHUNKS.replace(b"/p", b"/a%20b?q=%20"))
        scope = served.scopes[0]
        assert (scope["method"], scope["path"], scope["raw_path"]) == ("POST", "/a b", b"/a%20b")
        assert (scope["query_string"], scope["http_version"]) == (b"q=%20", "1.1")
        assert scope["headers"] == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
        assert scope[DEPARTURE] is not None

    asyncio.run(main())


def test_answers_come_in_order_and_reading_ahead_has_an_end() -> None:
    """Requests behind one that takes its time are read up to a number, then no more, until it is answered."""
    go_on = asyncio.Event()

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await go_on.wait()
        await answers(scope["raw_path"], headers=length(2))(scope, receive, send)

    async def main() -> None:
        served = Served(app)
        requests = [GET.replace(b"/a", b"/%c" % (97 + number)) for number in range(MAX_PIPELINED + 1)]
        await served.feed(*requests[:-1])
        assert (served.reads(), len(served.scopes)) == (True, 1)
        await served.feed(requests[-1])
        assert not served.reads()
        go_on.set()
        await turns(200)
        assert served.reads()
        told = [head.split(b"\r\n\r\n")[1] for head in served.out.split(OK)[1:]]
        assert told == [b"/%c" % (97 + number) for number in range(MAX_PIPELINED + 1)]

    asyncio.run(main())


def test_a_caller_who_leaves_is_missed() -> None:
    """Who watches is told once, who reads is told, and what stands behind it in the line is never begun."""
    told: list[str] = []

    async def app(scope: dict[str, Any], receive: Any, _send: Any) -> None:
        scope[DEPARTURE].watch(lambda: told.append("watcher"))
        assert (await receive())["type"] == "http.request"
        told.append((await receive())["type"])
        scope[DEPARTURE].watch(lambda: told.append("too late"))

    async def main() -> None:
        served = Served(app)
        await served.feed(GET + GET)
        served.protocol.connection_lost(ConnectionResetError())
        await turns()
        assert sorted(told) == ["http.disconnect", "too late", "watcher"]
        assert len(served.scopes) == 1
        assert not served.state.connections
        assert not served.state.tasks

    asyncio.run(main())


def test_heads_that_do_not_come_are_not_waited_for() -> None:
    """From the start and after each answer; an answer may take as long as it takes."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            await go_on.wait()
            await answers(headers=length(0))(scope, receive, send)

        served = Served(app, patience=0.03)
        await served.feed(GET)
        await asyncio.sleep(0.1)
        assert not served.closed()
        go_on.set()
        await turns()
        served.protocol.data_received(GET[:10])
        await asyncio.sleep(0.1)
        assert served.closed()
        served = Served(app, patience=0.03)
        await asyncio.sleep(0.1)
        assert served.closed()

    asyncio.run(main())


def test_a_server_that_stops() -> None:
    """An idle connection is closed, one that answers closes behind its answer."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
            await go_on.wait()
            await answers(headers=length(0))(scope, receive, send)

        idle, busy = Served(app), Served(app)
        await busy.feed(GET)
        for served in (idle, busy):
            served.protocol.shutdown()
        assert (idle.closed(), busy.closed()) == (True, False)
        go_on.set()
        await turns()
        assert busy.out == OK + b"content-length: 0\r\nconnection: close\r\n\r\n"
        assert busy.closed()

    asyncio.run(main())


@pytest.mark.parametrize(
    "wire",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000,
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
    ids=["no Host", "two", "a coding under the chunks", "a head without end", "CONNECT", "TLS"],
)
def test_what_has_no_single_meaning_is_refused(wire: bytes) -> None:
    """400, and the end of the connection; in the middle of an answer the end alone."""

    async def main() -> None:
        served = Served(answers())
        assert (await served.feed(wire)).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert served.closed()
        assert not served.scopes

        async def waits(_scope: Any, receive: Any, _send: Any) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        served = Served(waits)
        assert await served.feed(GET, wire) == b""
        assert served.closed()

    asyncio.run(main())


def test_a_connection_that_is_lost_leaves_no_timer() -> None:
    """At rest or in the middle of a head: a timer would hold it for as long as callers may be idle."""

    async def main() -> None:
        for wire in (GET, GET[:9]):
            served = Served(answers(b"hi", headers=length(2)))
            await served.feed(wire)
            served.protocol.connection_lost(None)
            timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # of asyncio's own
            assert all(timer.cancelled() for timer in timers)

    asyncio.run(main())
