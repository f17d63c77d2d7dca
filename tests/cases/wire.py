"""Reads HTTP/1.1 and event streams off a socket with nothing but the standard library.

It is a second reader on purpose: what the gateway wrote is not judged by the gateway's own framer.
"""

import re
from asyncio import StreamReader
from collections.abc import AsyncIterator
from typing import NamedTuple, TypeAlias

Headers: TypeAlias = dict[str, str]

LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """An event: `raw` without comment lines, `end` the offset behind it, `whole` if a blank line ended it."""

    raw: bytes
    name: str | None
    data: str
    end: int
    whole: bool


async def read_head(reader: StreamReader) -> tuple[str, Headers]:
    """The start line and the headers of a message; names in lower case, repeated ones joined with a comma."""
    start, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers: Headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        earlier = headers.get(name.lower())
        headers[name.lower()] = f"{earlier}, {value.strip()}" if earlier else value.strip()
    return start, headers


async def read_body(reader: StreamReader, headers: Headers, *, to_end: bool = False) -> AsyncIterator[bytes]:
    """The body of a message in pieces, as its framing says. `to_end`: without a length, until the connection ends."""
    length = headers.get("content-length")
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int((await reader.readline()).split(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    elif length or not to_end:
        yield await reader.readexactly(int(length or 0))
    else:
        while data := await reader.read(65536):
            yield data


def read_events(body: bytes) -> tuple[list[Event], list[bytes]]:
    """Events and comments of a stream. CR, LF and CRLF end a line and nothing else does; a torn last event counts."""
    events: list[Event] = []
    comments: list[bytes] = []
    raw, name, data, offset = b"", None, list[bytes](), 0
    lines = LINE.findall(body.removeprefix(BYTE_ORDER_MARK))
    if lines and body.startswith(BYTE_ORDER_MARK):
        raw, offset = BYTE_ORDER_MARK, len(BYTE_ORDER_MARK)
    for number, line in enumerate([*lines, b""]):
        field, colon, value = line.rstrip(b"\r\n").partition(b":")
        offset += len(line)
        if colon and not field:
            comments.append(value)
            continue
        raw += line
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif not field:
            if data or name:
                text = b"\n".join(data).decode("utf-8", "replace")
                events.append(Event(raw, name, text, offset, whole=number < len(lines)))
            raw, name, data = b"", None, []
    return events, comments


def count_events(body: bytes, *, whole: bool = False) -> int:
    """How many events a stream holds so far; `whole`: only those that have ended."""
    return sum(event.whole or not whole for event in read_events(body)[0])
