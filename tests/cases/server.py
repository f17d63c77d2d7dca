"""The two servers around a gateway under test: an upstream that answers from a script, and a receiver of traces."""

import asyncio
import base64
import contextlib
import gzip
import json
import socket
import struct
import time
from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

from tests.cases.exact import Json, lookup, parse
from tests.cases.telemetry_text import Span, read_spans
from tests.cases.wire import Headers, count_events, read_body, read_events, read_head

CONNECTION_LIMIT = 35.0
HOLD_LIMIT = 15.0
LARGEST_HEAD = 1 << 24
BROKEN = (OSError, EOFError, asyncio.LimitOverrunError, ValueError, TimeoutError)
"""How reading from a peer fails when it leaves or talks nonsense."""

UNEXPECTED: Json = {
    "reply": {"status": 599, "headers": {"content-type": "application/json"}, "body": {"error": "unexpected call"}}
}


def body_of(message: Json) -> bytes:
    """The body of a scripted request or reply, as it is sent."""
    if coded := message.get("sse_base64") or message.get("body_base64"):
        return base64.b64decode(coded)
    value = message.get("json", message.get("body"))
    text = message.get("sse", message.get("body_text", ""))
    if value is not None:  # spaced as no serialiser does it, so that a body that was written anew shows
        text = json.dumps(value, ensure_ascii=False, separators=(",", ": "))
    if expand := message.get("expand"):
        text = text.replace(expand["token"], expand["text"] * expand["times"])
    return str(text).encode()


def decoded(reply: Json) -> bytes:
    """The body of a reply without its content encoding."""
    body = body_of(reply)
    return gzip.decompress(body) if reply.get("headers", {}).get("content-encoding") == "gzip" else body


def pieces(reply: Json, body: bytes) -> tuple[list[bytes], float]:
    """The writes that a reply is sent in, and the seconds between two of them."""
    split, pause = reply.get("split") or [], reply.get("pause_at_split_s", 0.02)
    if "pace_s" in reply:
        split, pause = [event.end for event in read_events(body)[0]], reply["pace_s"]
    elif isinstance(split, str):
        step = {"every_byte": 1, "every_4096": 4096}[split]
        split, pause = range(step, len(body), step), 0.0
    return [body[a:b] for a, b in pairwise([0, *split, len(body)]) if a < b], pause


@dataclass
class Call:
    """A request that came in. `events_before`: events of the first answer that were out by then."""

    method: str
    path: str
    headers: Headers
    body: bytes
    events_before: int = 0
    reply: Json = field(default_factory=dict)
    events_sent: int = 0
    closed_after: float | None = None

    @property
    def is_control(self) -> bool:
        """Whether it asks for the end of a reasoning block."""
        return self.path.endswith("/control")


class Listener(ABC):
    """An HTTP server on a free port of 127.0.0.1, one request a connection."""

    port: int
    _server: asyncio.Server

    def __init__(self) -> None:
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=LARGEST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECTION_LIMIT):
                start, headers = await read_head(reader)
                body = b"".join([part async for part in read_body(reader, headers)])
                method, path, _ = start.split(" ", 2)
                await self.answer(Call(method, path, headers, body), reader, writer)
        except BROKEN:
            writer.transport.abort()
        finally:
            writer.close()

    @abstractmethod
    async def answer(self, call: Call, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer one request; the connection is closed after it."""


class TraceReceiver(Listener):
    """Keeps every span that it is sent by OTLP/HTTP."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []

    async def answer(self, call: Call, reader: StreamReader, writer: StreamWriter) -> None:
        """Take the spans of one export."""
        del reader
        packed = call.headers.get("content-encoding") == "gzip"
        self.spans += read_spans(gzip.decompress(call.body) if packed else call.body)
        lines = "HTTP/1.1 200 OK", "connection: close", "content-type: application/x-protobuf", "content-length: 0"
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()


class FakeUpstream(Listener):
    """Answers from `script`, exchange by exchange, and notes every call in `calls`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.script: list[Json] = []

    async def answer(self, call: Call, reader: StreamReader, writer: StreamWriter) -> None:
        """Give the next reply of the script."""
        call.events_before = self.calls[0].events_sent if self.calls else 0
        self.calls.append(call)
        exchange = self._next(call)
        reply = exchange["reply"]
        if "when_streamed" in reply and lookup(parse(call.body), "stream"):
            reply = reply["when_streamed"]
        call.reply = reply
        gone = Departure(call, reader)
        try:
            if await gone.within(exchange.get("reply_delay_s", 0) + reply.get("delay_before_headers_s", 0)):
                return
            await Reply(call, writer, gone).send()
        finally:
            await gone.forget()

    def _next(self, call: Call) -> Json:
        """The next exchange; a control call takes only one that expects a control call, and no other does."""
        for number, exchange in enumerate(self.script):
            if exchange.get("expect", {}).get("path", "").endswith("/control") == call.is_control:
                return self.script.pop(number)
        return UNEXPECTED


class Departure:
    """Watches for the moment when the gateway closes its connection, and notes it on the call."""

    def __init__(self, call: Call, reader: StreamReader) -> None:
        self._call, self._began = call, time.monotonic()
        self._reading = asyncio.ensure_future(reader.read(1))

    async def within(self, seconds: float) -> bool:
        """Whether the peer is gone after at most so many seconds."""
        await asyncio.wait({self._reading}, timeout=seconds)
        if self._reading.done() and self._call.closed_after is None:
            self._call.closed_after = time.monotonic() - self._began
        return self._reading.done()

    async def forget(self) -> None:
        """Stop watching."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Reply:
    """Writes one scripted reply in its pieces, at its pace, to its end."""

    def __init__(self, call: Call, writer: StreamWriter, gone: Departure) -> None:
        self._call, self._reply, self._writer, self._gone = call, call.reply, writer, gone
        self._body = body_of(call.reply)
        self._parts, self._pause = pieces(call.reply, self._body)
        self._headers = {"connection": "close"} | {k.lower(): v for k, v in call.reply.get("headers", {}).items()}
        streamed = "sse" in call.reply or "sse_base64" in call.reply
        self._chunked = len(self._parts) > 1 or streamed or "transfer-encoding" in self._headers
        framing = {"transfer-encoding": "chunked"} if self._chunked else {"content-length": str(len(self._body))}
        self._headers |= framing

    async def send(self) -> None:
        """Write it all, unless the peer leaves before."""
        lines = [f"HTTP/1.1 {self._reply['status']} X", *(f"{k}: {v}" for k, v in self._headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        for number, part in enumerate(self._parts, 1):
            self._writer.write(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)
            await self._writer.drain()
            if len(self._parts) < 200:  # a body cut into single bytes is not recounted at each
                self._call.events_sent = count_events(b"".join(self._parts[:number]), whole=True)
            if number < len(self._parts) and await self._gone.within(self._pause):
                return
        await self._end()

    async def _end(self) -> None:
        match self._reply.get("end"):
            case "hold":
                await self._gone.within(HOLD_LIMIT)
            case "reset":
                await self._gone.within(0.1)
                linger = struct.pack("ii", 1, 0)
                self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self._writer.transport.abort()
            case _:
                self._writer.write(b"0\r\n\r\n" if self._chunked else b"")
                with contextlib.suppress(ConnectionError):  # it has all it needs and may be gone
                    await self._writer.drain()
