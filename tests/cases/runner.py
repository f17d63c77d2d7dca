"""Runs case files against real gateways: one gateway per settings text, several of them at a time.

Per case: scrape, send the request, read the answer, then scrape until counters, spans and upstream calls are as they
should be or the time for that is over. Everything has a limit, and only processes started here are ended.
"""

import asyncio
import copy
import json
import socket
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tests.cases.exact import Json, put, short
from tests.cases.gateway_process import SERVE, Answer, Gateway, ask
from tests.cases.server import FakeUpstream, TraceReceiver, body_of
from tests.cases.telemetry_text import Series, Span
from tests.cases.verdicts import check_client
from tests.cases.verdicts_telemetry import check_counters, check_spans, movement
from tests.cases.verdicts_upstream import check_calls

HERE = Path(__file__).parent
CASE_LIMIT = 60.0
LARGEST_GROUP = 16
TRACES = '\n[telemetry]\ntraces = "otlp"\n'


@dataclass(frozen=True)
class Options:
    """How to run.

    `command`: the words that start a gateway, `{settings}` among them. `jobs`: gateways at a time. `settle_seconds`:
    for how long counters, spans and upstream calls may lag behind an answer.
    """

    command: tuple[str, ...] = SERVE
    spans: bool = True
    counters: bool = True
    jobs: int = 4
    settle_seconds: float = 4.0


@dataclass
class Verdict:
    """What came of a case: no differences is a pass. `transcript` holds everything that was said."""

    case: Json
    differences: list[str] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)


def load(paths: Iterable[Path] = (HERE,)) -> list[Json]:
    """The cases of these files, and of these folders with all below them, by id."""
    files = [file for path in paths for file in (path.rglob("*.json") if path.is_dir() else [path])]
    return sorted((json.loads(file.read_text(encoding="utf-8")) for file in files), key=lambda case: case["id"])


def grouped(cases: Iterable[Json]) -> list[list[Json]]:
    """Cases that can share a gateway: the same settings, none of them `fresh`, and not so many that it takes long."""
    groups: dict[tuple[str, str], list[Json]] = {}
    for case in cases:
        groups.setdefault((case["settings"], case["id"] if case.get("fresh") else ""), []).append(case)
    return [group for cases in groups.values() for group in _slices(cases)]


def _slices(cases: Sequence[Json]) -> list[list[Json]]:
    step = -(-len(cases) // LARGEST_GROUP)
    return [list(islice(cases, start, None, step)) for start in range(step)]


async def run(cases: Iterable[Json], options: Options) -> AsyncIterator[Verdict]:
    """The verdicts, as they are reached."""
    slots = asyncio.Semaphore(options.jobs)

    async def one(group: list[Json]) -> list[Verdict]:
        async with slots:
            return await run_group(group, options)

    tasks = [asyncio.create_task(one(group)) for group in sorted(grouped(cases), key=len, reverse=True)]
    try:
        for done in asyncio.as_completed(tasks):
            for verdict in await done:
                yield verdict
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_group(cases: list[Json], options: Options) -> list[Verdict]:
    """Cases of one settings text, one after another, against one gateway."""
    async with FakeUpstream() as upstream, TraceReceiver() as receiver:
        traced = receiver if options.spans else None
        settings = cases[0]["settings"].replace("@UPSTREAM@", upstream.url).replace("@CLOSED@", _closed_address())
        async with Gateway(settings + (TRACES if traced else ""), traced, options.command) as gateway:
            verdicts = [Verdict(case) for case in cases]
            if gateway.ready and "start_fails" not in cases[0]:
                stage = Stage(gateway, upstream, receiver, options)
                for verdict in verdicts:
                    await stage.play(verdict)
    if "start_fails" in cases[0]:
        for verdict in verdicts:
            verdict.differences += check_refusal(verdict.case["start_fails"], gateway)
    elif not gateway.ready:
        for verdict in verdicts:
            verdict.differences.append(f"the gateway did not get ready: {' / '.join(gateway.log[-5:])}")
            verdict.transcript += gateway.log
    return verdicts


def check_refusal(wanted: Json, gateway: Gateway) -> list[str]:
    """Whether a gateway that must not start said why and ended with its status."""
    if gateway.ready:
        return ["the gateway started, want a refusal"]
    said = "\n".join(gateway.log)
    found = [f"start message lacks {words!r}: {short(said, 300)}" for words in wanted["says"] if words not in said]
    if gateway.exit_status != wanted["exit"]:
        found.append(f"exit status {gateway.exit_status}, want {wanted['exit']}")
    return found


def _closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # nothing listens there once this is closed
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@dataclass
class Stage:
    """A running gateway between its two servers, on which cases are played."""

    gateway: Gateway
    upstream: FakeUpstream
    receiver: TraceReceiver
    options: Options

    async def play(self, verdict: Verdict) -> None:
        """Play all steps of one case; what goes wrong with the gateway is a difference of this case alone."""
        try:
            async with asyncio.timeout(CASE_LIMIT):
                for number, step in enumerate([verdict.case, *verdict.case.get("then", [])]):
                    found = await self._play_step(step, verdict.transcript)
                    verdict.differences += [f"step {number}: {d}" if number else d for d in found]
        except Exception as error:  # noqa: BLE001 - a dead gateway or a broken case must not end the other cases
            said = " / ".join(self.gateway.log[-3:])
            verdict.differences.append(f"{type(error).__name__}: {error}; the gateway said: {said}")

    async def _play_step(self, step: Json, transcript: list[str]) -> list[str]:
        """One request or its repetitions; a repetition after a failed one is not judged."""
        client, patience = step["expect"].get("client", {}), self.options.settle_seconds
        before, mark = await self.gateway.scrape(), len(self.receiver.spans)
        self.upstream.calls.clear()
        found: list[str] = []
        for request in requests_of(step):
            self.upstream.script[:] = [{"reply": step["upstream"]}, *step.get("exchanges", [])]
            answer = await ask(self.gateway.port, request, client)
            found = found or list(check_client(client, self.upstream.calls, answer))
            transcript += _exchange(request, answer)
        after, told = await self._settled(step, before, mark, min(1.0, patience) if found else patience)
        for _ in range(step.get("scrapes", 0)):
            again = await self.gateway.scrape()
            told += [f"{series} moved between two scrapes" for series in movement(after, again)]
        for call in self.upstream.calls:
            body = call.body[:3000].decode("utf-8", "replace")
            transcript.append(f"upstream was sent {call.method} {call.path} {call.headers}\n{body}")
        transcript += [f"moved {series} {value:+g}" for series, value in movement(before, after).items()]
        transcript += [str(span) for span in self.receiver.spans[mark:]]
        return found + told

    async def _settled(
        self, step: Json, before: dict[Series, float], mark: int, limit: float
    ) -> tuple[dict[Series, float], list[str]]:
        """The last scrape and what is still wrong then: counters and spans may come a moment after the answer."""
        began = time.monotonic()
        while True:
            after = await self.gateway.scrape()
            told = self._judge(step, before, after, self.receiver.spans[mark:])
            if not told or time.monotonic() - began > limit:
                return after, told
            await asyncio.sleep(0.05)

    def _judge(
        self, step: Json, before: dict[Series, float], after: dict[Series, float], spans: list[Span]
    ) -> list[str]:
        requests, expect = len(step.get("repeat", [{}])), step["expect"]
        told = list(check_calls(step, requests, self.upstream.calls))
        if self.options.counters:
            told += check_counters(expect, before, after)
        if self.options.spans:
            told += check_spans(expect, requests, spans)
        return told


def requests_of(step: Json) -> list[Json]:
    """The request of a step, once per patch of `repeat`."""
    requests = []
    for patch in step.get("repeat", [{}]):
        request = copy.deepcopy(step["request"])
        for path, value in patch.items():
            put(request, path, value)
        requests.append(request)
    return requests


def _exchange(request: Json, answer: Answer) -> list[str]:
    sent = body_of(request)[:3000].decode("utf-8", "replace")
    return [
        f"> {request['method']} {request['path']} {request.get('headers')}\n{sent}",
        f"< {answer.status} {answer.headers} {answer.ended} {answer.took:.2f} s\n{answer.text[:6000]}",
    ]
