"""The load generator: a bare asyncio client. Does one job, prints one Result as JSON, ends.

    python -m tests.bench.callers '{"url": ..., "load": {...}, "model": ...}'

`whole` and `stream` are closed loops: a connection asks again as soon as its answer is complete. `open` opens its
streams, says so (Opened), and holds them until stdin is closed.
"""

import asyncio
import sys
import time
from contextlib import suppress
from typing import Final, cast
from urllib.parse import urlsplit

import httptools
import msgspec
import uvloop

from tests.bench.loads import CAP, Job, Opened, Quantiles, Result
from tests.bench.upstream import STAMP

TOLERATED: Final = 50
"""Errors after which a run is given up."""
PATIENCE: Final = 60.0
"""Seconds for what is under way at the deadline."""
STEADY: Final = 0.3
"""Seconds after the last start from which on a rate is taken."""
SAMPLE: Final = 4
"""The delay is read from every so manieth piece."""
DIGITS: Final = 16
_SENTENCE: Final = "please sum up the discussion of proxies and of how they count tokens "
_EVENT: Final = b"data: {"


def request_of(job: Job) -> bytes:
    """Head and body of the one request that every connection sends."""
    load, url = job.load, urlsplit(job.url)
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    for turn in range(load.request_kb):
        text = (_SENTENCE * 16)[:980]  # with the JSON around it, 1 kB
        messages.append({"role": "assistant" if turn % 2 else "user", "content": text})
    spec = f"bench n={load.tokens} ms={load.gap_ms}"
    messages.append({"role": "user", "content": f"{spec} Tell me a short story about a fox."})
    body: dict[str, object] = {"model": job.model, "messages": messages, "max_tokens": CAP}
    if load.kind != "whole":
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    encoded = msgspec.json.encode(body)
    head = [
        f"POST {url.path} HTTP/1.1",
        f"host: {url.netloc}",
        "content-type: application/json",
        "authorization: Bearer sk-bench",
        f"content-length: {len(encoded)}",
        *(f"{name}: {value}" for name, value in job.headers),
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + encoded


class Calling(asyncio.Protocol):
    """One connection: asks, reads, asks again."""

    def __init__(self, run: "Run") -> None:
        """Belong to a run."""
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._started = self._first = self._seen = self._pieces = 0
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there: ask."""
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        self._first = self._seen = self._pieces = 0
        self._tail = b""
        self._started = time.perf_counter_ns()
        if self._transport is not None:
            self._transport.write(self._run.request)

    def data_received(self, data: bytes) -> None:
        """Read."""
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """A piece of the answer: count its tokens, and look at the moment of one now and then."""
        run = self._run
        if not run.stream:
            return
        told = self._tail + data  # an event may begin in the piece before
        events, self._tail = told.count(_EVENT), told[1 - len(_EVENT) :]
        if events and not self._first:
            self._first = time.perf_counter_ns()
            run.begun(self._first - self._started)
        self._seen += events
        run.chunks += events
        self._pieces += 1
        if self._pieces % SAMPLE == 1:
            start = data.find(STAMP) + len(STAMP)
            if len(STAMP) <= start <= len(data) - DIGITS:
                run.delay.append(time.monotonic_ns() - int(data[start : start + DIGITS]) * 1000)

    def on_message_complete(self) -> None:
        """An answer is whole: book it, ask again or leave."""
        run = self._run
        run.book(self._parser.get_status_code(), time.perf_counter_ns() - self._started, self._seen)
        if run.over:
            self._leave()
        elif self._parser.should_keep_alive():
            self._ask()
        elif self._transport is not None:
            self._transport.close()

    def _leave(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None
            self._run.left()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """The other side closed: come again, unless it is time to go."""
        if self._transport is None:
            return
        self._transport = None
        if self._run.over:
            self._run.left()
        else:
            self._run.connect_soon()


class Run:
    """One job."""

    def __init__(self, job: Job) -> None:
        """Prepare; nothing is sent yet."""
        self.load, self.stream = job.load, job.load.kind != "whole"
        url = urlsplit(job.url)
        self._address = (url.hostname or "127.0.0.1", url.port or 80)
        self.request = request_of(job)
        self.latency: list[int] = []
        self.first_token: list[int] = []
        self.delay: list[int] = []
        self.done = self.errors = self.short = self.chunks = self.opened = 0
        self.last_status: int | None = None
        self._left_over = job.load.connections
        self._end, self._all_open = asyncio.Event(), asyncio.Event()
        self._deadline = float("inf")
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def over(self) -> bool:
        """No further call begins."""
        return time.perf_counter() >= self._deadline or self.errors > TOLERATED

    def begun(self, nanoseconds: int) -> None:
        """The first token of a stream came."""
        self.first_token.append(nanoseconds)
        self.opened += 1
        if self.opened >= self.load.connections:
            self._all_open.set()

    def book(self, status: int, nanoseconds: int, tokens: int) -> None:
        """One call was answered. The finish and the usage are events as well, and gateways add some of their own."""
        self.done += 1
        self.latency.append(nanoseconds)
        if status != 200:
            self._fail()
            self.last_status = status
        elif self.stream and not self.load.tokens <= tokens <= self.load.tokens + 6:
            self.short += 1

    def _fail(self) -> None:
        self.errors += 1
        if self.errors > TOLERATED:
            self._all_open.set()

    def left(self) -> None:
        """A connection is done."""
        self._left_over -= 1
        if not self._left_over:
            self._end.set()

    def connect_soon(self) -> None:
        """Open one more connection."""
        task = asyncio.ensure_future(self._connect())
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: Calling(self), *self._address)
        except OSError:
            self._fail()
            self.left()

    async def _begin(self) -> None:
        for _ in range(self.load.connections):
            self.connect_soon()
            if self.load.ramp:
                await asyncio.sleep(self.load.ramp / self.load.connections)

    async def measure(self) -> Result:
        """Run until the deadline and what was begun by then is done."""
        started = time.perf_counter()
        self._deadline = started + self.load.seconds
        await self._begin()
        rate: float | None = None
        if self.load.gap_ms and time.perf_counter() + 2 * STEADY < self._deadline:  # while all streams run
            await asyncio.sleep(STEADY)
            before, since = self.chunks, time.perf_counter()
            await asyncio.sleep(self._deadline - since)
            rate = (self.chunks - before) / (time.perf_counter() - since)
        with suppress(TimeoutError):  # then some are unfinished
            async with asyncio.timeout(PATIENCE):
                await self._end.wait()
        wall = time.perf_counter() - started
        return Result(
            wall=wall,
            done=self.done,
            chunks=self.chunks,
            rate=rate if rate is not None else (self.chunks if self.stream else self.done) / wall,
            errors=self.errors,
            short=self.short,
            unfinished=self._left_over,
            last_status=self.last_status,
            latency=quantiles(self.latency),
            first_token=quantiles(self.first_token),
            delay=quantiles(self.delay),
        )

    async def hold(self) -> None:
        """Open all streams, say so, and keep them until stdin is closed."""
        await self._begin()
        with suppress(TimeoutError):  # then it is said how many there are
            async with asyncio.timeout(PATIENCE):
                await self._all_open.wait()
        _say(Opened(opened=self.opened, errors=self.errors))
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def quantiles(nanoseconds: list[int]) -> Quantiles | None:
    """Median and 99th percentile in microseconds; None of nothing."""
    if not nanoseconds:
        return None
    ordered = sorted(nanoseconds)
    p50, p99 = (ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1000 for q in (0.5, 0.99))
    return Quantiles(p50, p99)


def _say(value: Result | Opened) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


async def main(job: Job) -> None:
    """Do the job."""
    run = Run(job)
    if job.load.kind == "open":
        await run.hold()
    else:
        _say(await run.measure())


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Job)))
