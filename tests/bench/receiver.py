"""The trace receiver of the benchmark: takes OTLP/HTTP exports, counts their spans, keeps nothing.

    python -m tests.bench.receiver PORT

A POST is an export and is answered with an empty 200; `GET /` tells the counts as JSON. Spans are counted by walking the
protobuf's lengths (ExportTraceServiceRequest 1 -> ResourceSpans 2 -> ScopeSpans 2 -> Span): the receiver shares its core
with the load generator and has to be cheap.
"""

import asyncio
import sys
import zlib
from collections.abc import Iterator
from typing import Final, cast

import httptools
import msgspec
import uvloop
from msgspec import Struct

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"


class Seen(Struct):
    """What has come so far. `unreadable`: exports that were no protobuf."""

    exports: int = 0
    spans: int = 0
    unreadable: int = 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def fields(data: bytes, at: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Start and end of each length-delimited field of that number. Raises IndexError where the data breaks off."""
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
            continue
        if kind == _LENGTH:
            size, at = _varint(data, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise IndexError(f"no protobuf: wire type {kind}")
        if at + size > end:
            raise IndexError("a field reaches beyond its message")
        if kind == _LENGTH and key >> 3 == wanted:
            yield at, at + size
        at += size


def count_spans(export: bytes) -> int:
    """Spans of one ExportTraceServiceRequest."""
    return sum(
        1
        for resource in fields(export, 0, len(export), 1)
        for scope in fields(export, *resource, 2)
        for _ in fields(export, *scope, 2)
    )


class Receiving(asyncio.Protocol):
    """One connection of an exporter, or of the benchmark asking for the counts."""

    def __init__(self, seen: Seen) -> None:
        """Count into this."""
        self._seen = seen
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._body: list[bytes] = []
        self._packed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody came."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Read."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Exports may be gzipped."""
        if name.lower() == b"content-encoding":
            self._packed = value.lower() == b"gzip"

    def on_body(self, data: bytes) -> None:
        """A piece of an export."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """A request is whole."""
        body = b"".join(self._body)
        self._body.clear()
        kind, answer = b"application/x-protobuf", b""
        if self._parser.get_method() == b"GET":
            kind, answer = b"application/json", msgspec.json.encode(self._seen)
        else:
            self._take(body)
        self._packed = False
        if self._transport is not None:
            self._transport.write(_HEAD % (kind, len(answer)) + answer)

    def _take(self, body: bytes) -> None:
        self._seen.exports += 1
        try:
            self._seen.spans += count_spans(zlib.decompress(body, 47) if self._packed else body)
        except (IndexError, zlib.error):
            self._seen.unreadable += 1


async def serve(port: int) -> None:
    """Serve until cancelled."""
    seen = Seen()
    server = await asyncio.get_running_loop().create_server(lambda: Receiving(seen), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
