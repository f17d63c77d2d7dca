"""The last event of a stream and the end of its body leave in one write, where they came in one read."""

import asyncio
from typing import Any

import pytest

from gateway.answer import Plan
from gateway.caller import DEPARTURE, Caller
from gateway.channel import TOGETHER
from gateway.connection import READ_BYTES, Connection
from gateway.http1 import Outgoing
from gateway.pump import Pump, Terms
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.rules.output_cap import OutputCap
from gateway.transport import Incoming
from tests.gateway.callers import GET, Served, Transport, answers, turns
from tests.gateway.door import run
from tests.gateway.plays import CHAT, DONE, chunk, text, usage

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
BEHIND = chunk(finish="stop") + usage(3) + DONE


def piece(data: bytes) -> bytes:
    """A transfer chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Line:
    """A connection to an upstream, and an application that passes its answer on."""

    def __init__(self) -> None:
        self.connection = Connection((b"http", b"model", 80), lambda _: None, memoryview(bytearray(READ_BYTES)))
        self.connection.connection_made(Transport())
        self.served = Served(self._answer)
        self.ready = asyncio.Event()

    async def _answer(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.connection.exchange(Outgoing(b"", None, None, bodiless=False), {})
        incoming, caller = Incoming(self.connection, lambda _: None), Caller(receive, send, scope[DEPARTURE])
        terms = Terms(
            start=lambda: caller.start(200, []), end_reasoning=lambda _: asyncio.Future(), refused=lambda _: False
        )
        relay = Relay(CHAT, Plan(output_cap=OutputCap(cap=64)), lambda _: None)
        await Pump(relay, Reads(incoming, incoming), caller, terms).run()
        await caller.end()

    def come(self, data: bytes) -> None:
        """Bytes of the upstream come."""
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))

    async def writes(self, *reads: bytes) -> list[bytes]:
        """What goes out for each of these, within three turns of the loop."""
        await self.served.feed(GET)
        out = []
        for data in reads:
            before = len(self.served.transport.writes)
            self.come(data)
            await turns(3)
            out.append(self.served.transport.writes[before:])
        return [b"|".join(written) for written in out]


def test_one_read_one_write() -> None:
    """The caller has the end as soon as the last event, and no write is spent on it."""

    async def main() -> None:
        first, last = await Line().writes(HEAD + piece(text("a")), piece(BEHIND) + END)
        assert first.endswith(piece(text("a")))
        assert last == piece(BEHIND) + END

    run(main())


def test_an_end_that_comes_later_keeps_nothing_waiting() -> None:
    """The last event leaves at once where the body is still open."""

    async def main() -> None:
        _, last, end = await Line().writes(HEAD + piece(text("a")), piece(BEHIND), END)
        assert last == piece(BEHIND)
        assert end == END

    run(main())


def test_a_held_finish_leaves_with_the_end() -> None:
    """A finish that waits for a usage which never comes goes out with the end."""

    async def main() -> None:
        _, held, last = await Line().writes(HEAD + piece(text("a")), piece(chunk(finish="stop")), END)
        assert held == b""
        assert last == piece(chunk(finish="stop")) + END

    run(main())


@pytest.mark.parametrize(
    ("pieces", "wire"),
    [
        pytest.param([(b"a", True), (b"b", False)], b"1\r\na\r\n1\r\nb\r\n", id="the next piece"),
        pytest.param([(b"a", True), (b"b", True), (b"c", False)], b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n", id="two of them"),
    ],
)
def test_what_was_to_leave_together_does(pieces: list[tuple[bytes, bool]], wire: bytes) -> None:
    """It goes before what comes next, in one write with it."""

    async def app(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"0", "more_body": True})
        for body, together in pieces:
            message = {"type": "http.response.body", "body": body, "more_body": True}
            await send(message | ({TOGETHER: True} if together else {}))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def main() -> None:
        served = Served(app)
        await served.feed(GET)
        assert served.transport.writes[1:] == [wire, END]

    run(main())


def test_what_was_to_leave_together_is_not_lost() -> None:
    """An application that fails before the rest of it has lost that rest, and nothing else."""

    async def app(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"0", "more_body": True})
        await turns(1)  # nothing of the head is left to be seen to
        await send({"type": "http.response.body", "body": b"a", "more_body": True, TOGETHER: True})
        raise RuntimeError("no")

    async def main() -> None:
        served = Served(app)
        assert (await served.feed(GET)).endswith(b"1\r\na\r\n")
        assert served.closed()

    run(main())


def test_a_long_piece_is_not_copied_to_leave_together() -> None:
    """Above what is joined it leaves at once."""

    async def app(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": True, TOGETHER: True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def main() -> None:
        served = Served(app)
        await served.feed(GET)
        assert b"a" * 100_000 in served.transport.writes
        assert served.transport.writes[-1] == END

    run(main())


def test_an_answer_with_a_length() -> None:
    """What waits counts as sent."""
    app = answers(b"ab", b"c", headers=((b"content-length", b"3"),))

    async def main() -> None:
        served = Served(app)
        assert (await served.feed(GET)).endswith(b"\r\n\r\nabc")

    run(main())
