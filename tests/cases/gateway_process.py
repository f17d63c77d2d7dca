"""The gateway as a process of its own, and a caller who talks to it over a plain socket."""

import asyncio
import contextlib
import os
import re
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.cases.exact import Json
from tests.cases.server import BROKEN, LARGEST_HEAD, TraceReceiver, body_of
from tests.cases.telemetry_text import Series, read_metrics
from tests.cases.wire import Headers, count_events, read_body, read_head

ROOT = Path(__file__).parents[2]
SERVE = (sys.executable, "-m", "gateway", "serve", "-c", "{settings}", "--port", "0", "--metrics-port", "0")
READY = re.compile(r"thinkcap ready on http://127\.0\.0\.1:(\d+) metrics on http://127\.0\.0\.1:(\d+)/metrics")
SECRETS = {"CASE_UPSTREAM_KEY": "upstream-secret"}
START_LIMIT, ANSWER_LIMIT = 30.0, 20.0


class Gateway:
    """One gateway with its settings, from start to end. `ready` is False when it did not come up."""

    port: int
    metrics_port: int
    exit_status: int | None = None
    _process: Process
    _listening: asyncio.Task[None]

    def __init__(self, settings: str, receiver: TraceReceiver | None = None, command: tuple[str, ...] = SERVE) -> None:
        self._settings, self._receiver, self._command = settings, receiver, command
        self._ready = asyncio.Event()
        self.log: list[str] = []

    @property
    def ready(self) -> bool:
        """Whether the ready line was read."""
        return self._ready.is_set()

    async def __aenter__(self) -> Self:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".toml", delete=False) as file:
            file.write(self._settings)
        self._file = Path(file.name)
        argv = [word.replace("{settings}", file.name) for word in self._command]
        self._process = await asyncio.create_subprocess_exec(
            *argv, cwd=ROOT, env=self._environment(), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, limit=1 << 22
        )
        self._listening = asyncio.create_task(self._listen())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({waiting, self._listening}, timeout=START_LIMIT, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.ready:  # one that refuses its settings ends by itself
            await self._ended_within(3.0)
        for end in (self._process.terminate, self._process.kill):
            with contextlib.suppress(ProcessLookupError):
                end()
            if await self._ended_within(5.0):
                break
        await asyncio.wait({self._listening}, timeout=2.0)
        self._listening.cancel()
        self._file.unlink()
        self.exit_status = self._process.returncode

    def _environment(self) -> dict[str, str]:
        inherited = {
            k: v for k, v in os.environ.items() if not k.startswith("OTEL_") and not k.lower().endswith("_proxy")
        }
        environment = inherited | SECRETS | {"PYTHONUNBUFFERED": "1"}
        if self._receiver:
            environment |= {
                "OTEL_EXPORTER_OTLP_ENDPOINT": self._receiver.url,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_BSP_SCHEDULE_DELAY": "50",
                "OTEL_TRACES_SAMPLER": "always_on",
            }
        return environment

    async def _listen(self) -> None:
        assert self._process.stdout
        while line := (await self._process.stdout.readline()).decode("utf-8", "replace"):
            self.log = [*self.log[-200:], line.rstrip()]
            if found := READY.search(line):
                self.port, self.metrics_port = int(found[1]), int(found[2])
                self._ready.set()

    async def _ended_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)
        return self._process.returncode is not None

    async def scrape(self) -> dict[Series, float]:
        """Every sample that /metrics gives now."""
        answer = await ask(
            self.metrics_port, {"method": "GET", "path": "/metrics", "headers": {"accept": "text/plain"}}
        )
        return read_metrics(answer.text)


@dataclass
class Answer:
    """What the caller got. `marks`: seconds and body length at each read; `ended`: complete, cut, left or late."""

    status: int = 0
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    marks: list[tuple[float, int]] = field(default_factory=list)
    ended: str = "complete"
    took: float = 0.0

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


class LeftError(Exception):
    """The caller goes away, as its case says."""


async def ask(port: int, request: Json, leave: Json | None = None) -> Answer:
    """Send one request and read the answer. `leave`: `leave_after_s`, `leave_after_events`, as in a case's `client`."""
    answer, began = Answer(), time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LARGEST_HEAD)
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            writer.write(_written(request))
            await _read_answer(reader, answer, leave or {}, began)
    except LeftError:
        answer.ended = "left"
    except TimeoutError:
        answer.ended = "late"
    except BROKEN:
        answer.ended = "cut"
    writer.close()
    with contextlib.suppress(*BROKEN):
        await asyncio.wait_for(writer.wait_closed(), 1.0)
    answer.took = time.monotonic() - began
    return answer


def _written(request: Json) -> bytes:
    body = body_of(request)
    headers = {"host": "gateway.test"} | request.get("headers", {})
    if request["method"] == "POST":
        headers["content-length"] = str(len(body))
    lines = [f"{request['method']} {request['path']} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def _read_answer(reader: asyncio.StreamReader, answer: Answer, leave: Json, began: float) -> None:
    if "leave_after_s" in leave:
        await asyncio.sleep(leave["leave_after_s"])
        raise LeftError
    start, answer.headers = await read_head(reader)
    answer.status = int(start.split(" ")[1])
    async for part in read_body(reader, answer.headers, to_end=True):
        answer.body += part
        answer.marks.append((time.monotonic() - began, len(answer.body)))
        if "leave_after_events" in leave and count_events(answer.body) >= leave["leave_after_events"]:
            raise LeftError
