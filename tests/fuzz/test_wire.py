"""Bytes on the wire that are nearly HTTP: read in one way only, whoever reads and however they are cut.

h11 is asked for a second opinion: what this gateway takes for a request or an answer must be the same one to it.
"""

import asyncio
import itertools
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import h11
import httpx
from hypothesis import given
from hypothesis import strategies as st

from gateway.http1 import DONE, ResponseReader
from tests.fuzz.profiles import FUZZED
from tests.gateway.callers import Served, answers, body, length, turns


class Read(NamedTuple):
    """A message as somebody read it."""

    start: tuple[bytes, ...]
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


NAMES: Final = st.sampled_from([b"Host", b"host", b"Content-Length", b"Transfer-Encoding", b"transfer-encoding", b"Connection", b"Expect", b"Trailer", b"X", b"x-\x80", b"X Y", b"", b"Content-Length ", b"Upgrade", b"TE"])  # fmt: skip
VALUES: Final = st.sampled_from([b"a", b"", b"0", b"3", b"5", b"005", b"+5", b"5,5", b"5, 5", b"0x5", b"chunked", b"Chunked", b"chunked, chunked", b"identity", b"gzip, chunked", b"xchunked", b"close", b"keep-alive", b"close, x", b"100-continue", b"\xe4", b"a\tb", b"a\x00b", b"a\rb", b" 5 ", b"\x0b5", b"h2c"])  # fmt: skip
SEPARATORS: Final = st.sampled_from([b": "] * 6 + [b":", b" : ", b":\t", b"", b":\r\n "])
ENDS: Final = st.sampled_from([b"\r\n"] * 60 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n", b"\r\n "])
ODD_LINE: Final = st.tuples(NAMES, SEPARATORS, VALUES, ENDS).map(b"".join)
LINE: Final = st.sampled_from([b"X: a\r\n", b"X:  a \r\n", b"x:\r\n", b"X: \xe4\r\n", b"TE: trailers\r\n", b"Connection: keep-alive\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Expect: 100-continue\r\n"])  # fmt: skip
LINES: Final = st.lists(LINE | LINE | LINE | ODD_LINE, max_size=3).map(b"".join)
SANE: Final = st.sampled_from(
    [b"", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 0\r\n"]
)
BODIES: Final = st.sampled_from(
    [b"", b"hello", b"hel", b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5\nhello\n0\n\n", b"00005\r\nhello\r\n000\r\n\r\n", b"A\r\nhello", b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n"]
)  # fmt: skip
METHODS: Final = st.sampled_from([b"GET", b"POST", b"HEAD", b"DELETE"] * 4 + [b"get", b"G(T", b"", b"OPTIONS"])
TARGETS: Final = st.sampled_from(
    [b"/", b"/v1/x?y", b"/a%20b", b"http://b/c", b"//x", b"*", b"/ x", b"", b"/\xff", b"/#f"]
)
VERSIONS: Final = st.sampled_from([b"HTTP/1.1"] * 30 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"HTTP/01.1", b""])  # fmt: skip
STATUSES: Final = st.sampled_from([b"200 OK"] * 6 + [b"200", b"200 ", b"204 No", b"304 N", b"100 Continue", b"101 S", b"099 x", b"999 x", b"2000 x", b"20 x", b"-200 x"])  # fmt: skip


def message(start: st.SearchStrategy[bytes], host: bytes) -> st.SearchStrategy[bytes]:
    """A message that is mostly sound: a start line, lines, an end, a body."""
    return st.tuples(start, ENDS, st.just(host), SANE, LINES, ENDS, BODIES).map(b"".join)


REQUEST_LINES: Final = st.tuples(METHODS, st.just(b" "), TARGETS, st.just(b" "), VERSIONS).map(b"".join)
STATUS_LINES: Final = st.tuples(VERSIONS, st.just(b" "), STATUSES).map(b"".join)
REQUESTS: Final = st.lists(message(REQUEST_LINES, b"Host: a\r\n"), min_size=1, max_size=3).map(b"".join)
RESPONSES: Final = message(STATUS_LINES, b"")
REASON: Final = re.compile(rb"\A(HTTP/1\.[01] \d{3}) [^\r\n]*")
PLACES: Final = st.lists(st.integers(0, 400), max_size=6)
FLIPS: Final = st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=2)), max_size=2)


def flipped(data: bytes, flips: list[tuple[int, bytes]]) -> bytes:
    """The same with a byte or two in place of others, at some places."""
    for place, other in flips:
        at = place % (len(data) + 1)
        data = data[:at] + other + data[at + len(other[:1]) :]
    return data


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The same bytes in pieces that end at these places."""
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(ends)]


async def served(pieces: list[bytes]) -> list[Read]:
    """The requests the gateway reads on one connection."""
    read: list[Read] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        got = await body(receive)
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        start = (scope["method"].encode(), target, scope["http_version"].encode())
        headers = tuple(pair for pair in scope["headers"] if pair[0] != b"upgrade")
        read.append(Read(start, headers, got))
        await answers(b"1", headers=length(1), read=False)(scope, receive, send)

    connection = Served(app)
    for piece in pieces:
        if not connection.closed():
            connection.protocol.data_received(piece)
            await turns()
    await turns(30)
    connection.protocol.connection_lost(None)
    await turns()
    return read


def events(connection: h11.Connection) -> Iterator[h11.Event]:
    """What h11 makes of what it was given; its refusal ends it."""
    try:
        while isinstance(event := connection.next_event(), h11.Event) and not isinstance(event, h11.ConnectionClosed):
            yield event
    except h11.RemoteProtocolError:
        return


def second_opinion(data: bytes) -> list[Read]:
    """The requests h11 reads on one connection."""
    read: list[Read] = []
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    while True:
        head: h11.Request | None = None
        parts, whole = b"", False
        for event in events(connection):
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                parts += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                whole = True
        if head is None or not whole:
            return read
        read.append(Read(*seen_by_h11(head), parts))
        try:
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()
        except h11.LocalProtocolError:  # the connection ends with this request
            return read


def seen_by_h11(head: h11.Request) -> tuple[tuple[bytes, ...], tuple[tuple[bytes, bytes], ...]]:
    """The head as it goes on here: the target without the authority, no offer to leave HTTP/1.1."""
    target = head.target
    if not target.startswith((b"/", b"*")):
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    headers = tuple((bytes(name), bytes(value)) for name, value in head.headers if name != b"upgrade")
    return (head.method, target.removesuffix(b"?"), head.http_version), headers


def test_requests() -> None:
    """What is served is what h11 reads there too; pieces change nothing but where a refusal finds what came before."""

    @FUZZED
    @given(data=REQUESTS, flips=FLIPS, places=PLACES)
    def holds(data: bytes, flips: list[tuple[int, bytes]], places: list[int]) -> None:
        wire = flipped(data, flips)
        whole, pieces = asyncio.run(served([wire])), asyncio.run(served(cut(wire, places)))
        shorter = min(len(whole), len(pieces))
        assert whole[:shorter] == pieces[:shorter]
        both = max(whole, pieces, key=len)
        assert both == second_opinion(wire)[: len(both)]

    holds()


def answered(pieces: list[bytes]) -> Read | None:
    """The answer the gateway reads on a connection that then ends; None: it refuses it."""
    reader = ResponseReader()
    reader.begin(bodiless=False)
    try:
        for piece in pieces:
            if reader.feed(piece) == DONE:
                break
        else:
            reader.end()
    except httpx.RemoteProtocolError:
        return None
    if reader.phase != DONE:
        return None
    return Read((b"%d" % reader.status,), tuple(reader.headers), reader.take())


def second_opinion_of_answer(data: bytes) -> Read | None:
    """The answer h11 reads there; whatever the reason phrase is, since it goes no further."""
    data = REASON.sub(rb"\1 x", data)
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    connection.receive_data(b"")
    head: h11.Response | None = None
    parts = b""
    for event in events(connection):
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            parts += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Read((b"%d" % head.status_code,), tuple(head.headers), parts)
    return None


def test_responses() -> None:
    """An answer that is passed on is the one h11 reads there, and the same in whatever pieces it came."""

    @FUZZED
    @given(data=RESPONSES, flips=FLIPS, places=PLACES)
    def holds(data: bytes, flips: list[tuple[int, bytes]], places: list[int]) -> None:
        wire = flipped(data, flips)
        whole = answered([wire])
        assert whole == answered(cut(wire, places))
        if whole is not None:
            assert whole == second_opinion_of_answer(wire)

    holds()
