"""The seven conditions of a re-issue, from the caller's side: with all of them the call goes out again, without one not."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from gateway.events import LevelRefused
from tests.gateway.door import LEVELS, Caller, House, Script, answers, request, run, whole
from tests.gateway.plays import chunk, sse, text, thought

TEMPLATE = "Unexpected reasoning effort minimal. Supported types are high (default), and low."
CODE = "unsupported_reasoning_effort"
COMPACTION = {"x_thinkcap_purpose": "compaction"}
GOOD = answers(text("hi"), chunk(finish="stop"))
TOOL = chunk({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]})


def error(message: str = "Thinking level MINIMAL is not supported for this model.", **more: Any) -> dict[str, Any]:
    """A refusal, unless it says something else."""
    return {"error": {"message": message} | more}


def first_event(*before: bytes) -> Script:
    """The refusal as an event of a 200 stream, behind these."""
    return answers(*before, sse(error()))


def ask(
    script: Script, body: Any = None, fallback: str = "", levels: str = '["low", "high"]', **headers: str
) -> tuple[Caller, House]:
    """One call to an upstream that answers with this script, then well."""
    settings = LEVELS.replace('["low", "high"]', levels) + f"[level_fallback]\n{fallback}\n"
    house = House(script, GOOD, settings=settings)
    return house.asks(body or request(reasoning_effort="minimal"), **COMPACTION | headers), house


STREAM = request(reasoning_effort="minimal", stream=True)
MET: dict[str, tuple[Script, dict[str, Any]]] = {
    "all of them": (whole(error(), 400), {}),
    "1: an ordinary turn, where the settings name it": (
        whole(error(), 400),
        {"x_thinkcap_purpose": "conversation", "fallback": 'purposes = ["conversation"]'},
    ),
    "2: status 422": (whole(error(), 422), {}),
    "2: status 500 for a template's sentence": (whole(error(TEMPLATE), 500), {}),
    "2: the first event of a 200": (first_event(), {"body": STREAM}),
    "3: none sent, and a level with a level wording": (whole(error(), 400), {"body": request()}),
    "3: the field and a list without the level sent": (
        whole(error("`reasoning_effort` must be one of `low` or `high`"), 400),
        {},
    ),
    "4: another code": (whole(error(code="invalid_reasoning_effort"), 400), {}),
    "5: behind a role and a comment": (first_event(chunk({"role": "assistant"}), b": hi\n\n"), {"body": STREAM}),
    "6: a list, and nothing declared": (
        whole(error("reasoning_effort 'minimal' is not supported; supported: low"), 400),
        {"levels": "[]"},
    ),
}
BROKEN: dict[str, tuple[Script, dict[str, Any]]] = {
    "1: a purpose that is none of ours": (whole(error(), 400), {"x_thinkcap_purpose": "nightly"}),
    "1: an ordinary turn": (whole(error(), 400), {"x_thinkcap_purpose": "conversation"}),
    "1: switched off": (whole(error(), 400), {"fallback": "enabled = false"}),
    **{f"2: status {status}": (whole(error(), status), {}) for status in (401, 403, 404, 409, 429, 500, 502, 503)},
    "3: another level than the one sent": (whole(error(), 400), {"body": request(reasoning_effort="max")}),
    "3: none sent, and no word of levels": (
        whole(error("Invalid value: 'minimal'. Supported values are: 'low'."), 400),
        {"body": request()},
    ),
    "3: the list has the level sent": (
        whole(error("`reasoning_effort` must be one of `minimal` or `high`"), 400),
        {},
    ),
    "4: the code": (whole(error(code=CODE), 400), {}),
    "4: the type": (whole(error(type=CODE), 400), {}),
    "4: the status, in capitals": (whole(error(status=CODE.upper()), 400), {}),
    "4: the reason of a detail": (whole(error(details=[{"reason": CODE}]), 400), {}),
    "5: behind text": (first_event(text("a")), {"body": STREAM}),
    "5: behind reasoning": (first_event(thought("a")), {"body": STREAM}),
    "5: behind a tool call": (first_event(TOOL), {"body": STREAM}),
    "6: no list and no declaration": (whole(error(), 400), {"levels": "[]"}),
    "6: off alone is left": (whole(error(), 400), {"levels": '["off", "minimal"]'}),
    "6: the list is empty of targets": (
        whole(error("reasoning_effort 'minimal' is not supported; supported values: ['none']"), 400),
        {},
    ),
    "7: no retries": (whole(error(), 400), {"fallback": "max_retries = 0"}),
    "7: a Thinkcap further out has retried": (whole(error(), 400), {"x_thinkcap_retried": "1"}),
}


@pytest.mark.parametrize(("script", "how"), MET.values(), ids=MET)
def test_met(script: Script, how: dict[str, Any]) -> None:
    """The call goes out once more; the caller sees the second answer alone, and which level it was."""
    caller, house = ask(script, **how)
    assert len(house.upstream.requests) == 2
    assert (caller.status, caller.body) == run(raw(GOOD))
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert house.facts.of(LevelRefused) == [LevelRefused("minimal")]


@pytest.mark.parametrize(("script", "how"), BROKEN.values(), ids=BROKEN)
def test_one_is_broken(script: Script, how: dict[str, Any]) -> None:
    """One request, and the answer comes back byte for byte."""
    caller, house = ask(script, **how)
    assert len(house.upstream.requests) == 1
    assert (caller.status, caller.body) == run(raw(script))
    assert b"x-thinkcap-level" not in caller.headers


async def raw(script: Script) -> tuple[int, bytes]:
    """What the upstream said."""
    response = await script(httpx.Request("POST", "http://one.test"))
    return response.status_code, await response.aread()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_the_caller_has_gone(streamed: bool) -> None:
    """Condition 2: a refusal that comes when nobody waits any more is not answered by a second request."""
    begun, refuse = asyncio.Event(), asyncio.Event()

    async def script(asked: httpx.Request) -> httpx.Response:
        begun.set()
        await refuse.wait()
        return await (first_event() if streamed else whole(error(), 400))(asked)

    house = House(script, settings=LEVELS)
    caller: Caller = house.caller(STREAM if streamed else request(reasoning_effort="minimal"), **COMPACTION)

    async def play() -> None:
        running = asyncio.ensure_future(house.serve(caller))
        await begun.wait()
        caller.gone.set()
        refuse.set()  # at the same moment: whichever the gateway sees first
        await running

    run(play())
    assert len(house.upstream.requests) == 1
    assert house.facts.outcome == "client_gone"


@pytest.mark.parametrize("retries", [1, 2, 3])
def test_each_retry_walks_on(retries: int) -> None:
    """Condition 7: at most so many, each to the next level, none that was refused; then the first refusal comes back."""

    async def script(asked: httpx.Request) -> httpx.Response:
        level = json.loads(asked.content)["reasoning_effort"]
        return await whole(error(f"Thinking level {level.upper()} is not supported."), 400)(asked)

    settings = LEVELS.replace('"low", "high"', '"low", "high", "max"')
    house = House(script, settings=settings + f"[level_fallback]\nmax_retries = {retries}\n")
    caller = house.asks(request(reasoning_effort="medium"), **COMPACTION)
    sent = [body["reasoning_effort"] for body in house.upstream.bodies]
    assert sent == ["medium", "high", "max", "low"][: retries + 1]
    assert caller.json["error"]["message"] == "Thinking level MEDIUM is not supported."
    assert [fact.level for fact in house.facts.of(LevelRefused)] == sent
