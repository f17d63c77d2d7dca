"""The last event of a stream and the end of its body leave in one write, where they came in one read."""

from typing import Any

import pytest

from gateway.answer import Plan
from gateway.channel import TOGETHER
from gateway.relay import Relay
from gateway.rules.output_cap import OutputCap
from tests.gateway.callers import GET, Served, turns
from tests.gateway.door import run
from tests.gateway.passage import HEAD, Passage, transfer_chunk
from tests.gateway.plays import CHAT, DONE, chunk, text, usage

END = b"0\r\n\r\n"
BEHIND = chunk(finish="stop") + usage(3) + DONE


async def writes(*reads: bytes) -> list[bytes]:
    """What goes out for each of these, within three turns of the loop."""
    passage = Passage(Relay(CHAT, Plan(output_cap=OutputCap(cap=64)), lambda _: None))
    await passage.served.feed(GET)
    out = []
    for data in reads:
        before = len(passage.writes)
        passage.come(data)
        await turns(3)
        out.append(passage.writes[before:])
    return [b"|".join(written) for written in out]


def test_one_read_one_write() -> None:
    """The caller has the end as soon as the last event, and no write is spent on it."""

    async def main() -> None:
        first, last = await writes(HEAD + transfer_chunk(text("a")), transfer_chunk(BEHIND) + END)
        assert first.endswith(transfer_chunk(text("a")))
        assert last == transfer_chunk(BEHIND) + END

    run(main())


def test_an_end_that_comes_later_keeps_nothing_waiting() -> None:
    """The last event leaves at once where the body is still open."""

    async def main() -> None:
        _, last, end = await writes(HEAD + transfer_chunk(text("a")), transfer_chunk(BEHIND), END)
        assert last == transfer_chunk(BEHIND)
        assert end == END

    run(main())


def test_a_held_finish_leaves_with_the_end() -> None:
    """A finish that waits for a usage which never comes goes out with the end."""

    async def main() -> None:
        _, held, last = await writes(HEAD + transfer_chunk(text("a")), transfer_chunk(chunk(finish="stop")), END)
        assert held == b""
        assert last == transfer_chunk(chunk(finish="stop")) + END

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

    async def app(_scope: dict[str, Any], _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True, TOGETHER: True})
        await send({"type": "http.response.body", "body": b"c", "more_body": False})

    async def main() -> None:
        served = Served(app)
        assert (await served.feed(GET)).endswith(b"\r\n\r\nabc")

    run(main())
