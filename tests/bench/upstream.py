"""The LLM server of the benchmark: one process, a bare asyncio protocol, so that it costs next to nothing.

    python -m tests.bench.upstream PORT

Every POST is answered as Chat Completions. The last message may say `bench n=200 ms=20`: 200 tokens, one every 20 ms
(0: as fast as the loop turns). Half of them are reasoning. Each carries the moment it was sent (`t~MICROSECONDS` of the
monotonic clock), so that the caller can tell its delay. One event is one transfer chunk and one write.
"""

import asyncio
import re
import sys
import time
from typing import Final, cast

import httptools
import uvloop

SPEC: Final = re.compile(rb"bench n=(\d+) ms=(\d+)")
STREAM: Final = re.compile(rb'"stream"\s*:\s*true')
STAMP: Final = b"t~"
"""Before the sixteen digits of a token's moment."""
_HEAD: Final = (
    b'"id":"chatcmpl-bench0123456789abcdef","created":1764500000,"model":"fake-model","system_fingerprint":"fp_bench"'
)
_EVENT: Final = b'data: {"object":"chat.completion.chunk",%b,"choices":[' % _HEAD
_TOKEN: Final = _EVENT + b'{"index":0,"delta":{"%b":" t~%016d"},"logprobs":null,"finish_reason":null}]}\n\n'
_FINISH: Final = _EVENT + b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
_LAST: Final = _EVENT + b'],"usage":%b}\n\n'
_USAGE: Final = (
    b'{"prompt_tokens":128,"completion_tokens":%d,"total_tokens":%d,'
    b'"completion_tokens_details":{"reasoning_tokens":%d}}'
)
_TEXT: Final = b"A fox came to the river, looked at the far bank, and thought about it. " * 8
_WHOLE: Final = b'{"object":"chat.completion",%b,"choices":[{"index":0,"message":%b,%b}],"usage":%b}' % (
    _HEAD,
    b'{"role":"assistant","content":"%b","reasoning_content":"a short thought"}' % _TEXT,
    b'"logprobs":null,"finish_reason":"stop"',
    _USAGE % (200, 328, 100),
)
_WHOLE_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_WHOLE),
    _WHOLE,
)
_STREAM_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


def token(number: int, total: int, moment: int) -> bytes:
    """One event of a stream; `moment` in microseconds."""
    return _TOKEN % (b"reasoning_content" if number < total // 2 else b"content", moment)


def ending(total: int) -> bytes:
    """What follows the last token, as transfer chunks: finish, usage, `[DONE]`."""
    usage = _USAGE % (total, total + 128, total // 2)
    return _chunk(_FINISH) + _chunk(_LAST % usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _chunk(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


class Answering(asyncio.Protocol):
    """One connection: a request, its answer, the next one."""

    def __init__(self) -> None:
        """Wait for a request."""
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._body: list[bytes] = []
        self._timer: asyncio.Handle | None = None
        self._total = self._sent = 0
        self._gap = self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A caller came."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """The caller left, perhaps in the middle of a stream."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Read."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.close()

    def on_body(self, data: bytes) -> None:
        """A piece of a request's body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """A request is whole: answer it."""
        body = b"".join(self._body)
        self._body.clear()
        if self._transport is None:
            return
        if not STREAM.search(body):
            self._transport.write(_WHOLE_ANSWER)
            return
        spec = SPEC.search(body)
        self._total, gap_ms = (int(spec[1]), int(spec[2])) if spec else (200, 0)
        self._sent, self._gap, self._due = 0, gap_ms / 1000, self._loop.time()
        self._transport.write(_STREAM_ANSWER)
        self._step()

    def _step(self) -> None:
        if self._transport is None:
            return
        if self._sent == self._total:
            self._timer = None
            self._transport.write(ending(self._total))
            return
        self._transport.write(_chunk(token(self._sent, self._total, time.monotonic_ns() // 1000)))
        self._sent += 1
        self._due += self._gap
        self._timer = self._loop.call_at(self._due, self._step) if self._gap else self._loop.call_soon(self._step)


async def serve(port: int) -> None:
    """Serve until cancelled."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
