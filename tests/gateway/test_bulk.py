"""Long bodies: put together in place, and changed without a second copy, from the pieces to what goes out."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bodies import chain
from gateway.bulk import LONG, Edited, Gathered, edited, joined
from gateway.delivery import Delivery
from gateway.http1 import Outgoing, write
from gateway.line import LeanLine
from gateway.splice import put, replace
from gateway.transport import LeanTransport
from tests.faults.wires import REFUSAL
from tests.gateway.door import House, Script, answers, request, whole
from tests.gateway.plays import DONE
from tests.gateway.scripted import HELLO, LoopFactory, Peer, on_both_loops, run, serve

TEXT = bytes(range(256)) * 512
"""Twice as long as what is taken for long."""
JSON = b'{"m":"a","n":null,"text":"' + b"x" * 2**20 + b'" }'


@given(st.lists(st.binary(max_size=4), max_size=6))
def test_pieces_come_out_as_they_went_in(pieces: list[bytes]) -> None:
    """However many there are, also empty ones; taken, nothing is left, and another body can be gathered."""
    gathered = Gathered()
    for _ in range(2):
        for piece in pieces:
            gathered.add(piece)
        assert gathered.size == len(b"".join(pieces))
        assert gathered.take() == b"".join(pieces)
        assert (gathered.size, gathered.take()) == (0, b"")


def test_one_piece_is_handed_on() -> None:
    """Nothing is copied of a body that came in one, wherever the gathering began."""
    added = Gathered()
    added.add(TEXT)
    assert added.take() is TEXT
    assert Gathered(TEXT).take() is TEXT


def gather() -> bytes:
    """A body of pieces, none of which is kept."""
    gathered = Gathered()
    for number in range(64):
        gathered.add(b"%c" % number * LONG)
    return gathered.take()


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(gather, id="gathered"),
        pytest.param(lambda: put(JSON, ("stream",), b"true"), id="a member added"),
        pytest.param(lambda: put(JSON, ("n",), b"1"), id="a null filled"),
        pytest.param(lambda: replace(JSON, ("m",), b'"b"'), id="a member replaced"),
    ],
)
def test_a_long_body_is_made_once(work: Callable[[], bytes]) -> None:
    """At no time is more taken than what comes out, and a little."""
    work()
    tracemalloc.start()
    try:
        made = len(work())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < made * 1.2


SPOT = st.integers(0, len(TEXT))


@given(st.lists(st.tuples(SPOT, st.integers(0, 9), st.binary(max_size=9)), max_size=3))
def test_a_changed_body_is_what_it_was_changed_to(edits: list[tuple[int, int, bytes]]) -> None:
    """Whatever is put in, taken out or replaced, and wherever."""
    changed = TEXT
    for at, gone, new in edits:
        changed = changed[:at] + new + changed[at + gone :]
    content = edited(TEXT, changed)
    assert joined(content) == changed
    if isinstance(content, Edited):
        assert content.size == len(changed)


@pytest.mark.parametrize(
    ("changed", "new"),
    [
        pytest.param(TEXT + b"more", [b"more"], id="at its end"),
        pytest.param(b"more" + TEXT, [b"more"], id="before it"),
        pytest.param(TEXT[:5000] + b"more" + TEXT[5000:], [b"more"], id="in the middle"),
        pytest.param(TEXT[:5000] + b"\0more\0" + TEXT[5010:], [b"\0more\0"], id="in place of something"),
        pytest.param(TEXT[:5000] + TEXT[6000:], [], id="something taken out"),
        pytest.param(TEXT[:-9], [], id="its end taken off"),
    ],
)
def test_what_stayed_is_not_copied(changed: bytes, new: list[bytes]) -> None:
    """The pieces of a long body are those of the body it was made of, and what is new."""
    content = edited(TEXT, changed)
    assert isinstance(content, Edited)
    assert [piece for piece in content.pieces if isinstance(piece, bytes)] == new
    assert all(piece.obj is TEXT for piece in content.pieces if isinstance(piece, memoryview))


@pytest.mark.parametrize(
    ("original", "changed"),
    [
        pytest.param(TEXT, TEXT, id="nothing changed"),
        pytest.param(b"{}", b'{"a":1}', id="it is short"),
        pytest.param(TEXT[:LONG], b"x" * LONG, id="it is just as long as one that is copied"),
        pytest.param(TEXT, b"a" + TEXT[::-1] + b"b", id="it has little in common"),
    ],
)
def test_what_is_left_as_it_is(original: bytes, changed: bytes) -> None:
    """There is nothing to be gained."""
    assert edited(original, changed) is changed


@pytest.mark.parametrize(
    ("size", "apart"), [(LONG, False), (LONG + 1, True)], ids=["as long as is copied", "longer by a byte"]
)
def test_a_long_body_stands_behind_its_head(size: int, apart: bool) -> None:
    """A shorter one leaves with it, in one piece."""
    body = TEXT[:size]
    outgoing = write("POST", b"/", [(b"host", b"a"), (b"content-length", b"%d" % size)], body)
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size
    assert outgoing == Outgoing(head if apart else head + body, None, size, False, (body,) if apart else ())
    if apart:
        assert outgoing.behind[0] is body


def test_a_body_in_pieces_has_the_length_its_head_says() -> None:
    """As one in one piece has."""
    pieces = (memoryview(TEXT), b"!")
    size = len(TEXT) + 1
    headers = [(b"host", b"a"), (b"content-length", b"%d" % size)]
    assert write("POST", b"/", headers, Edited(pieces, size)).behind == pieces
    with pytest.raises(httpx.LocalProtocolError):
        write("POST", b"/", headers, Edited(pieces, size + 1))


@on_both_loops
@pytest.mark.parametrize("pieces", [False, True], ids=["in one piece", "in several"])
def test_a_long_body_arrives_whole(pieces: bool, loop: LoopFactory) -> None:
    """Also when the kept connection turns out to be closed, so that it goes out once more."""
    body = TEXT * 32
    content = edited(body[:-9], body) if pieces else body
    got: list[bytes] = []

    async def once(peer: Peer) -> None:
        await peer.answer(HELLO)
        await peer.head()  # of the second request: it dies unanswered
        peer.reset()

    async def script(peer: Peer) -> None:
        head = await peer.head()
        assert b"content-length: %d\r\n" % len(body) in head
        got.append(await peer.reader.readexactly(len(body)))
        await peer.send(HELLO)
        await peer.closed()

    async def main() -> None:
        async with serve(once, script) as served, LeanTransport() as transport:
            line = LeanLine(httpx.URL(served.url), {}, transport)
            for sent in (b"", content):
                answer = await line.send("POST", b"/", [], sent)
                assert b"".join([chunk async for chunk in answer]) == b"hello"
            assert got == [body]
            assert len(served.peers) == 2

    run(loop, main())


def test_fields_are_added_to_a_long_call() -> None:
    """A transport behind httpx's interface gets one body all the same."""
    house = House(answers(DONE))
    asked = request(stream=True, messages=[{"role": "user", "content": "x" * 2 * LONG}])
    house.asks(asked)
    assert house.upstream.bodies == [asked | {"stream_options": {"include_usage": True}}]


def test_a_long_call_goes_out_again_with_another_level() -> None:
    """Attempt after attempt from what the caller sent, of which none keeps a copy."""
    kept: list[type] = []

    def looking(script: Script) -> Script:
        async def look(sent: httpx.Request) -> httpx.Response:
            kept.extend(type(found._sent) for found in gc.get_objects() if isinstance(found, Delivery))
            return await script(sent)

        return look

    asked = request(messages=[{"role": "user", "content": "x" * 2 * LONG}], reasoning_effort="minimal")
    refusal = answers(REFUSAL, status=400, media="application/json")
    house = House(looking(refusal), looking(whole({"choices": []})))
    house.asks(asked, x_thinkcap_purpose="compaction")
    assert house.upstream.bodies == [asked, asked | {"reasoning_effort": "low"}]
    assert kept == [bytes, Edited]


def test_what_a_chain_gave_it_does_not_keep() -> None:
    """It may be much, and so may what follows."""

    async def more() -> AsyncIterator[bytes]:
        yield b"c"

    async def main() -> None:
        parts = [b"a", b"b"]
        chained = chain(parts, more())
        assert await anext(chained) == b"a"
        assert parts == [b"b"]
        assert [part async for part in chained] == [b"b", b"c"]

    asyncio.run(main())
