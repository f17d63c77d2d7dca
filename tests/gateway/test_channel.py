"""One request and its answer towards a caller: framing, when it leaves, and what happens when it fails."""

import asyncio
from typing import Any, Final

import pytest

from gateway.channel import HIGH_WATER, JOINED
from tests.gateway.callers import CHUNKS, GET, OK, POST, App, Served, answers, body, length, turns

HI: Final = answers(b"hi", headers=length(2))
TWO: Final = OK + b"content-length: 2\r\n"
CLOSE: Final = b"connection: close\r\n"
CHUNKED: Final = b"transfer-encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("app", "request_", "wire", "closed"),
    [
        pytest.param(HI, GET, TWO + b"\r\nhi", False, id="a length"),
        pytest.param(answers(b"h", b"i"), GET, OK + CHUNKED + b"\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", False, id="no length goes in chunks"),
        pytest.param(answers(status=204), GET, b"HTTP/1.1 204 No Content\r\n\r\n", False, id="204 has no body"),
        pytest.param(answers(status=304), GET, b"HTTP/1.1 304 Not Modified\r\n\r\n", False, id="304 has no body"),
        pytest.param(answers(status=599), GET, b"HTTP/1.1 599 \r\n" + CHUNKED + b"\r\n0\r\n\r\n", False, id="a status without a name"),
        pytest.param(HI, GET.replace(b"GET", b"HEAD"), TWO + b"\r\n", False, id="HEAD gets a head"),
        pytest.param(HI, GET.replace(b"1.1", b"1.0"), TWO + CLOSE + b"\r\nhi", True, id="HTTP/1.0 closes"),
        pytest.param(HI, GET[:-2] + b"Connection: close\r\n\r\n", TWO + CLOSE + b"\r\nhi", True, id="the caller wants it closed"),
        pytest.param(answers(b"hi", headers=(*length(2), (b"connection", b"close"))), GET, TWO + CLOSE + b"\r\nhi", True, id="the application wants it closed"),
        pytest.param(
            answers(headers=((b"x", b"a\r\nb: c"),)),
            GET,
            b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            True,
            id="a header that would be two",
        ),
        pytest.param(answers(b"hi", headers=length(3)), GET, OK + b"content-length: 3\r\n\r\nhi", True, id="too short is cut"),
        pytest.param(answers(b"hi", headers=length(1)), GET, OK + b"content-length: 1\r\n\r\n", True, id="too long is cut"),
    ],
)  # fmt: skip
def test_what_goes_out(app: App, request_: bytes, wire: bytes, closed: bool) -> None:
    """Framing, and whether the connection stays."""

    async def main() -> None:
        served = Served(app)
        assert await served.feed(request_) == wire
        assert served.closed() == closed

    asyncio.run(main())


def test_a_head_leaves_with_its_body_or_without_when_that_takes_longer() -> None:
    """One write for both; a large body is not copied for it; a head whose body is late does not wait for it."""
    go_on = asyncio.Event()

    async def app(scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % (JOINED + 1))]}
        )
        if scope["path"] == "/late":
            await go_on.wait()
        await send({"type": "http.response.body", "body": b"x" * (JOINED + 1)})

    async def main() -> None:
        served = Served(app)
        await served.feed(GET)
        assert [len(data) for data in served.transport.writes] == [len(OK) + 25, JOINED + 1]
        served = Served(HI)
        await served.feed(GET)
        assert served.transport.writes == [TWO + b"\r\nhi"]
        served = Served(app)
        await served.feed(GET.replace(b"/a", b"/late"))
        assert len(served.transport.writes) == 1
        go_on.set()
        await turns()
        assert len(served.transport.writes) == 2

    asyncio.run(main())


@pytest.mark.parametrize("read", [True, False], ids=["the body is asked for", "it is not"])
def test_go_on_is_said_to_those_who_wait_for_it(read: bool) -> None:
    """`100 Continue` goes out when the body is wanted, and not before an answer that does without."""

    async def main() -> None:
        served = Served(answers(headers=length(0), read=read))
        head, content = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n").split(b"hello")[0], b"hello"
        went_on = await served.feed(head)
        assert (went_on == b"HTTP/1.1 100 Continue\r\n\r\n") == read
        assert (await served.feed(content)).endswith(OK + b"content-length: 0\r\n\r\n")

    asyncio.run(main())


def test_a_body_nobody_takes_stops_the_reading() -> None:
    """Above a few reads the caller is slowed; taking the body goes on reading."""
    take, taken = asyncio.Event(), []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await take.wait()
        taken.append(len(await body(receive)))
        await answers(headers=length(0), read=False)(scope, receive, send)

    async def main() -> None:
        served = Served(app)
        size = HIGH_WATER + 2
        await served.feed(POST.replace(b"5", b"%d" % size, 1).replace(b"hello", b"x" * (HIGH_WATER + 1)))
        assert not served.reads()
        take.set()
        await turns()
        assert served.reads()
        await served.feed(b"x")
        assert taken == [size]

    asyncio.run(main())


def test_a_body_in_crumbs_is_not_copied_for_each_of_them() -> None:
    """Pieces that nobody has taken yet are added in place: else the thousandth costs a thousand times the first."""
    taken = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await turns(2)
        taken.append(await body(receive))
        await answers(headers=length(0), read=False)(scope, receive, send)

    async def main() -> None:
        served = Served(app)
        served.protocol.data_received(CHUNKS[: CHUNKS.index(b"0\r\n")])
        reading = served.protocol._reading
        assert reading is not None
        held = reading._body
        await served.feed(b"1\r\n!\r\n1\r\n!\r\n0\r\n\r\n")
        assert taken == [b"hello!!"]
        assert held == b"hello!!"

    asyncio.run(main())


def test_a_caller_slow_to_read_is_waited_for() -> None:
    """A send returns when there is room; one that waits for a caller who leaves returns too."""
    sent: list[int] = []

    async def app(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent.append(number)

    async def main() -> None:
        served = Served(app)
        served.protocol.pause_writing()
        await served.feed(GET)
        assert sent == []
        served.protocol.resume_writing()
        await turns()
        assert sent == [0, 1, 2]
        sent.clear()
        served = Served(app)
        served.protocol.pause_writing()
        await served.feed(GET)
        served.protocol.connection_lost(None)
        await turns()
        assert sent == [0, 1, 2]
        assert served.out == b""

    asyncio.run(main())


async def _fails(_scope: Any, _receive: Any, _send: Any) -> None:
    raise ValueError("a prompt might stand in here")


async def _fails_later(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x", "more_body": True})
    raise ValueError("a prompt might stand in here")


async def _says_nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """Ends without an answer."""


@pytest.mark.parametrize(
    ("app", "status"),
    [
        pytest.param(_fails, b"HTTP/1.1 500", id="it fails at once"),
        pytest.param(_says_nothing, b"HTTP/1.1 500", id="it says nothing"),
        pytest.param(_fails_later, b"HTTP/1.1 200", id="it fails in the middle"),
    ],
)
def test_an_application_that_fails(app: App, status: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """An error where one can be said, else the answer is cut; the log has the kind of the error and not its words."""

    async def main() -> None:
        served = Served(app)
        assert (await served.feed(GET)).startswith(status)
        assert b"0\r\n\r\n" not in served.out
        assert served.closed()

    asyncio.run(main())
    assert "prompt" not in caplog.text
    assert ("ValueError" in caplog.text) == (app is not _says_nothing)
