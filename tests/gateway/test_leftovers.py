"""A call frees what it made by itself. A cycle would leave it to the collector, which then walks through every call."""

import asyncio
import io
from typing import Any, Final

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider

from gateway.app import Gateway, series_of
from gateway.config import parse_settings
from gateway.upstream import Terms, Upstream
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from tests.garbage import left_by
from tests.gateway import thinkers
from tests.gateway.door import CHAT, LEVELS, Caller, Script, Upstreams, answers, fails, request, run, whole
from tests.gateway.plays import DONE, chunk, text, usage

ANSWER: Final = {"id": "c", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
REFUSED: Final = whole({"error": {"message": "Thinking level MINIMAL is not supported for this model."}}, status=400)
GOOD: Final = whole(ANSWER)
STREAM: Final = answers(text("a"), text("b"), chunk(finish="stop"), usage(2), DONE)
CAPPED: Final = thinkers.server(
    answers(*[thinkers.THINK] * thinkers.CAP, text("so"), chunk(finish="stop"), DONE), whole(thinkers.YES)
)
RESET: Final = httpx.ReadError("reset")
CALLS: Final = [
    pytest.param([GOOD], {}, LEVELS, id="a whole answer"),
    pytest.param([STREAM], {"stream": True}, LEVELS, id="a stream"),
    pytest.param([answers(text("a"), RESET)], {"stream": True}, LEVELS, id="a stream that breaks"),
    pytest.param([fails(RESET)], {}, LEVELS, id="an upstream that breaks before its head"),
    pytest.param([whole({"error": "no"}, status=500)], {}, LEVELS, id="an error of the upstream"),
    pytest.param([REFUSED, GOOD], {"reasoning_effort": "minimal"}, LEVELS, id="a refused level that is sent again"),
    pytest.param([CAPPED], {"stream": True}, thinkers.settings(), id="a stream whose thinking is ended"),
    pytest.param([CAPPED], {}, thinkers.settings(), id="a whole answer put together from a stream"),
    pytest.param([GOOD], {"model": 7}, LEVELS, id="a request that is not understood"),
]


def cyclic(scripts: list[Script], fields: dict[str, Any], settings: str) -> list[str]:
    """Types of ours that a call leaves to the collector."""

    async def main() -> list[str]:
        provider = TracerProvider(shutdown_on_exit=False)
        parsed = parse_settings(settings, {})
        telemetry = Telemetry(series_of(parsed), log=json_log(io.BytesIO()), tracer_provider=provider)
        upstream = Upstream(Terms(name="one", url="http://one.test"), httpx.MockTransport(Upstreams(*scripts * 2)))
        gateway = Gateway(parsed, telemetry, {"one": upstream})

        async def call() -> int | None:
            body = httpx.Request("POST", "http://x", json=request(**fields)).content
            headers = {"content-length": str(len(body)), "x-thinkcap-purpose": "compaction"}
            caller = Caller("POST", CHAT, headers, [body])
            await gateway.app(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]  # a scope as uvicorn makes it
            for _ in range(3):  # what is still on its way when the answer is out
                await asyncio.sleep(0)
            return caller.status

        assert await call() is not None
        return await left_by(call)

    return run(main())


@pytest.mark.parametrize(("scripts", "fields", "settings"), CALLS)
def test_leaves_nothing_to_the_collector(scripts: list[Script], fields: dict[str, Any], settings: str) -> None:
    """Whatever becomes of the call."""
    assert cyclic(scripts, fields, settings) == []
