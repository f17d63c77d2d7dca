"""Bytes to responses and requests to bytes: the same reading over every cut, and a refusal of all that is ambiguous."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest

from gateway.http1 import BODY, CRUMBS, DONE, MAX_HEAD_BYTES, ResponseReader, encode

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"

READ = {
    "a counted body": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello", True),
    "an empty body": (OK + b"Content-Length: 0\r\n\r\n", b"", True),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n" + END, b"hello", True),
    "no chunk at all": (CHUNKED + END, b"", True),
    "a chunk with an extension": (CHUNKED + b'5;a="b"\r\nhello\r\n' + END, b"hello", True),
    "chunk sizes in upper case and with zeros": (CHUNKED + b"00B\r\nhello world\r\n" + END, b"hello world", True),
    "chunks and trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Type: x\r\n\r\n", b"hello", True),
    "Chunked in capitals": (OK + b"TRANSFER-ENCODING: Chunked \r\n\r\n5\r\nhello\r\n" + END, b"hello", True),
    "informational heads first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        + OK
        + b"Content-Length: 5\r\n\r\nhello",
        b"hello",
        True,
    ),
    "a length on an informational head": (
        b"HTTP/1.1 102 Processing\r\nContent-Length: 9\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
        b"hello",
        True,
    ),
    "204 without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "204 with a length, whose body would come later": (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", b"", False),
    "304 with the length of what it stands for": (b"HTTP/1.1 304 Not\r\nContent-Length: 5\r\n\r\n", b"", True),
    "Connection: close": (OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "close among other words": (OK + b"Connection: x, Close\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "HTTP/1.0 kept alive": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
        True,
    ),
    "surplus bytes": (OK + b"Content-Length: 5\r\n\r\nhello world", b"hello", False),
    "surplus after a close": (OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello world", b"hello", False),
    "a second response": (
        (OK + b"Content-Length: 5\r\n\r\nhello") + OK + b"Content-Length: 0\r\n\r\n",
        b"hello",
        False,
    ),
    "surplus after the last chunk": (CHUNKED + b"5\r\nhello\r\n" + END + b"x", b"hello", False),
    "no reason phrase": (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    "an unknown status": (b"HTTP/1.1 799 Odd\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    "an offer to upgrade": (
        OK + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 5\r\n\r\nhello",
        b"hello",
        True,
    ),
}
REFUSED = {
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n\r\n",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n\r\n",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 OK\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "switching protocols without a word": b"HTTP/1.1 101 Switching\r\n\r\n",
    "length and chunks": OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "chunks and length": CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n" + END,
    "two lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "the same length twice": OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": OK + b"Content-Length: +5\r\n\r\nhello",
    "an empty length": OK + b"Content-Length: \r\n\r\nhello",
    "a length beyond all bounds": OK + b"Content-Length: 99999999999999999999999\r\n\r\nhello",
    "a coding under the chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + END,
    "a coding above the chunks": OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + END,
    "chunks twice": CHUNKED[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + END,
    "an unknown coding": OK + b"Transfer-Encoding: xchunked\r\n\r\n" + END,
    "identity": OK + b"Transfer-Encoding: identity\r\n\r\nhello",
    "chunks in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "a folded line": OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a bare LF after the status": b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
    "a bare LF after a header": OK + b"X: a\nContent-Length: 0\r\n\r\n",
    "a bare CR in a header": OK + b"X: a\rContent-Length: 0\r\n\r\n",
    "a space in a name": OK + b"A b: c\r\n\r\n",
    "a space before the colon": OK + b"Content-Length : 5\r\n\r\nhello",
    "no name": OK + b": c\r\n\r\n",
    "no colon": OK + b"abc\r\n\r\n",
    "NUL in a value": OK + b"X: a\0b\r\n\r\n",
    "a chunk size that is no number": CHUNKED + b"xyz\r\n",
    "a chunk size with a space": CHUNKED + b"5 \r\nhello\r\n" + END,
    "a chunk size beyond all bounds": CHUNKED + b"fffffffffffffffff\r\nhello",
    "a chunk ended by a bare LF": CHUNKED + b"5\nhello\n0\n\n",
    "a chunk longer than it says": CHUNKED + b"5\r\nhello world\r\n" + END,
    "a length in the trailers": CHUNKED + b"0\r\nContent-Length: 4\r\n\r\n",
    "a head too large": OK + b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n\r\n",
    "a head too large that never ends": OK + b"X: " + b"a" * MAX_HEAD_BYTES,
    "too many headers": OK + b"X: aaaa\r\n" * (MAX_HEAD_BYTES // 5) + b"\r\n",
    "trailers too large": CHUNKED + b"0\r\n" + b"X: aaaa\r\n" * (MAX_HEAD_BYTES // 5) + b"\r\n",
}
named = pytest.mark.parametrize


def read(parts: Iterable[bytes]) -> tuple[int, list[tuple[bytes, bytes]], bytes, int, bool]:
    """One response out of these reads."""
    reader = ResponseReader()
    reader.begin(bodiless=False)
    status, headers = 0, list[tuple[bytes, bytes]]()
    for part in parts:
        if reader.phase != DONE:
            reader.feed(part)
            status, headers = reader.status, reader.headers
        else:
            reader.keep_alive = False  # what a connection does with bytes after the end
    return status, headers, reader.take(), reader.phase, reader.keep_alive


@named(("wire", "body", "keep_alive"), READ.values(), ids=READ)
def test_a_response_reads_the_same_over_every_cut(wire: bytes, body: bytes, keep_alive: bool) -> None:
    """Status, headers, body, end and fate of the connection do not depend on how the bytes arrive."""
    whole = read([wire])
    assert whole[2:] == (body, DONE, keep_alive)
    assert read(wire[i : i + 1] for i in range(len(wire))) == whole
    for place in range(1, len(wire)):
        assert read([wire[:place], wire[place:]]) == whole


@named("wire", REFUSED.values(), ids=REFUSED)
@named("step", [None, 1], ids=["in one read", "byte by byte"])
def test_what_is_no_plain_response_is_refused(wire: bytes, step: int | None) -> None:
    """Whatever could be read in two ways, or is no HTTP, is a RemoteProtocolError."""
    if step and len(wire) > MAX_HEAD_BYTES:
        step = 1000
    with pytest.raises(httpx.RemoteProtocolError):
        read(wire[i : i + (step or len(wire))] for i in range(0, len(wire), step or len(wire)))


def test_headers_come_as_they_were_sent() -> None:
    """Order, repetition and odd bytes are kept; names have no case, and white space around a value is no part of it."""
    wire = OK + b"B: 1\r\na:\r\nSet-Cookie: x\r\nset-cookie:\t y=\xe9 \t\r\nContent-Length: 0\r\n\r\n"
    expected = [(b"b", b"1"), (b"a", b""), (b"set-cookie", b"x"), (b"set-cookie", b"y=\xe9"), (b"content-length", b"0")]
    assert read([wire])[1] == expected


def test_a_body_without_framing_ends_with_the_connection() -> None:
    """Read to the end, and only such a body: the end of a counted one that comes too early is no end."""
    for head, phase in ((OK, DONE), (OK + b"Content-Length: 9\r\n", BODY), (CHUNKED[:-2], BODY)):
        reader = ResponseReader()
        reader.begin(bodiless=False)
        reader.feed(head + b"\r\n")
        reader.end()
        assert reader.phase == phase
        assert not reader.keep_alive


def test_a_head_request_has_an_answer_without_a_body() -> None:
    """The length it states is that of a GET; the parser cannot be told, so the connection is not used again."""
    reader = ResponseReader()
    reader.begin(bodiless=True)
    assert reader.feed(OK + b"Content-Length: 5\r\n\r\n") == DONE
    assert (reader.status, reader.take(), reader.keep_alive) == (200, b"", False)


def test_a_chunk_extension_without_end_is_refused() -> None:
    """Framing that never comes to data is bounded, however slowly it comes."""
    reader = ResponseReader()
    reader.begin(bodiless=False)
    reader.feed(CHUNKED + b"5;")
    for _ in range(MAX_HEAD_BYTES // 1000):
        reader.feed(b"a" * 1000)
    with pytest.raises(httpx.RemoteProtocolError):
        reader.feed(b"a" * 1000)


def test_a_body_in_crumbs_is_held_in_few_pieces() -> None:
    """What nobody has taken yet costs its bytes, not an object for every two of them."""
    reader = ResponseReader()
    reader.begin(bodiless=False)
    reader.feed(CHUNKED)
    for _ in range(100):
        reader.feed(b"2\r\nab\r\n" * 50)
        assert len(reader.pieces) <= CRUMBS
    assert reader.take() == b"ab" * 5000
    reader.feed(b"1\r\n!\r\n")
    assert reader.take() == b"!"


def test_trickling_framing_of_a_long_stream_is_not_counted_together() -> None:
    """Data between the bits of framing shows that the stream goes on."""
    reader = ResponseReader()
    reader.begin(bodiless=False)
    reader.feed(CHUNKED)
    for _ in range(MAX_HEAD_BYTES):
        reader.feed(b"1\r\n")
        reader.feed(b"a\r\n")
        assert reader.take() == b"a"


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    """A body that comes bit by bit."""
    for part in data:
        yield part


WRITTEN: dict[str, tuple[dict[str, Any], bytes]] = {
    "no body": ({}, b"GET /p?q=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
    "a body": (
        {"method": "POST", "content": b"hi"},
        b"POST /p?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
    ),
    "an own target": ({"extensions": {"target": b"/raw%2F?k"}}, b"GET /raw%2F?k HTTP/1.1\r\nHost: a\r\n\r\n"),
    "headers twice": (
        {"headers": [("Host", "b"), ("X", "1"), ("x", "2")]},
        b"GET /p?q=1 HTTP/1.1\r\nHost: b\r\nX: 1\r\nx: 2\r\n\r\n",
    ),
}
UNWRITTEN: dict[str, dict[str, Any]] = {
    "a line break in a value": {"headers": [("X", "a\r\nY: b")]},
    "a bare LF in a value": {"headers": [("X", "a\nY: b")]},
    "NUL in a value": {"headers": [("X", "a\0b")]},
    "a colon in a name": {"headers": [("X: y", "a")]},
    "a line break in a name": {"headers": [("X\r\nY", "a")]},
    "an empty name": {"headers": [("", "a")]},
    "a space in the method": {"method": "GET /x HTTP/1.1\r\nHost: b"},
    "a tunnel": {"method": "CONNECT"},
    "a space in the target": {"extensions": {"target": b"/a b"}},
    "a line break in the target": {"extensions": {"target": b"/a\r\nX:1"}},
    "two hosts": {"headers": [("Host", "a"), ("Host", "b")]},
    "two lengths": {"content": b"hi", "headers": [("Content-Length", "2"), ("Content-Length", "2")]},
    "a length that is not the body's": {"content": b"hi", "headers": {"Content-Length": "3"}},
    "a length without a body": {"headers": {"Content-Length": "3"}},
    "a length that is no number": {"content": b"hi", "headers": {"Content-Length": "+2"}},
    "length and chunks": {"content": b"hi", "headers": [("Content-Length", "2"), ("Transfer-Encoding", "chunked")]},
    "an unknown coding": {"content": b"hi", "headers": {"Transfer-Encoding": "gzip, chunked"}},
    "a stream without any framing": {"stream": httpx.Request("POST", "http://a", content=parts()).stream},
    "chunks around bytes": {"stream": httpx.ByteStream(b"hi"), "headers": {"Transfer-Encoding": "chunked"}},
    "a synchronous stream": {"content": iter([b"hi"])},
}


@named(("request_of", "wire"), WRITTEN.values(), ids=WRITTEN)
def test_a_request_is_written_in_one_piece(request_of: dict[str, Any], wire: bytes) -> None:
    """Head and body as bytes, headers in their order and case."""
    request = httpx.Request(**{"method": "GET", "url": "http://a/p?q=1#f", **request_of})
    outgoing = encode(request)
    assert (outgoing.wire, outgoing.stream) == (wire, None)


@named("request_of", UNWRITTEN.values(), ids=UNWRITTEN)
def test_a_request_that_could_be_read_in_two_ways_is_not_written(request_of: dict[str, Any]) -> None:
    """A LocalProtocolError before a byte goes out."""
    request = httpx.Request(**{"method": "GET", "url": "http://a", **request_of})
    with pytest.raises(httpx.LocalProtocolError):
        encode(request)
