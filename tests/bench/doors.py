"""A whole gateway without sockets, telemetry and all, whose calls can be counted: ASGI in front, a script behind."""

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from gateway import upstream
from gateway.app import Gateway, series_of
from gateway.config import parse_settings
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from tests.bench.counting import Counts, count
from tests.bench.paths import HEADERS, answer, relay, request
from tests.bench.systems import CHAT, SETTINGS
from tests.gateway.callers import GET, turns
from tests.gateway.door import Caller, Script, Upstreams, answers
from tests.gateway.passage import HEAD, Passage, transfer_chunk
from tests.gateway.plays import DONE, chunk, text, usage

OURS = ("gateway", "telemetry")


def whole() -> Script:
    """A model that answers whole, in 1 kB."""
    return answers(answer(1000), media="application/json")


def stream(tokens: int) -> Script:
    """A model that answers token by token, each in a read of its own."""
    return answers(*[text(" fox")] * tokens, chunk(finish="stop"), usage(tokens), DONE)


@contextmanager
def gateway(script: Script) -> Iterator[Gateway]:
    """A gateway with everything on but traces, before this model."""
    settings = parse_settings(SETTINGS.format(upstream=1, traces="off"), {})
    telemetry = Telemetry(series_of(settings), log=json_log(io.BytesIO()))
    terms = upstream.Terms(name="bench", url="http://127.0.0.1:1")
    client = upstream.Upstream(terms, httpx.MockTransport(Upstreams(script)))
    yield Gateway(settings, telemetry, {"bench": client})
    assert telemetry.failures == 0


def executed(script: Script, *, streamed: bool) -> Counts:
    """What one call executes in the gateway and in telemetry."""
    body = request(1000)
    if streamed:
        body = body[:-1] + b',"stream":true}'

    async def ask(serving: Gateway) -> None:
        headers = {name.decode(): value.decode() for name, value in HEADERS}
        caller = Caller("POST", CHAT, headers | {"content-length": str(len(body))}, [body])
        await serving.app(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]  # a scope as uvicorn makes it
        assert caller.status == httpx.codes.OK
        assert caller.complete

    with gateway(script) as serving, asyncio.Runner() as runner:
        loop = runner.get_loop()
        return count(lambda: loop.run_until_complete(ask(serving)), only=OURS)


def flowed(frame: bytes) -> Counts:
    """What a token executes from one socket to the other, in the turn of the loop in which it comes."""
    piece = transfer_chunk(frame)

    async def main() -> Counts:
        passage = Passage(relay(), read=60.0)
        await passage.served.feed(GET)
        passage.come(HEAD + piece)
        for _ in range(4):
            passage.come(piece)
            await turns()
        before = len(passage.writes)
        counts = count(lambda: passage.come(piece), only=OURS)
        assert len(passage.writes) > before  # at once, without a turn of the loop
        for task in passage.served.state.tasks:
            task.cancel()
        await turns()
        return counts

    with asyncio.Runner() as runner:
        return runner.run(main())
