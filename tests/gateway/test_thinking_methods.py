"""Which way the thinking cap acts on a call, and what that adds to it."""

from typing import Any, Final

import msgspec
import pytest

from gateway.events import (
    CallFailed,
    CallFinished,
    LevelRetried,
    ThinkingCapped,
)
from tests.gateway.door import CHAT, House, answers, request, run, whole
from tests.gateway.plays import DONE, sse, text, thought, usage
from tests.gateway.thinkers import (
    CAP,
    MESSAGES,
    STOP,
    STREAM,
    THINK,
    YES,
    controls,
    server,
    settings,
    thinker,
    turn_of,
)


@pytest.mark.parametrize(
    ("kind", "target", "fields", "added", "method", "outcome"),
    [
        ("llama.cpp", CHAT, {"stream": True}, {"reasoning_control": True, "timings_per_token": True}, "control", None),
        ("llama.cpp", CHAT, {"stream": True, "n": 2}, {}, "control", "unable"),
        ("llama.cpp", CHAT, {"n": 2}, {}, "control", "unable"),
        ("llama.cpp", MESSAGES, {"stream": True}, {"thinking": {"type": "enabled", "budget_tokens": 8}}, "budget", None),
        ("llama.cpp", "/v1/responses", {"stream": True}, {}, "watch", None),
        ("vllm", CHAT, {"stream": True}, {"thinking_token_budget": 8}, "budget", "unable"),
        ("vllm", CHAT, {"stream": True, "thinking_token_budget": 5}, {}, "budget", "unable"),
        ("vllm", CHAT, {"stream": True, "reasoning_effort": "low"}, {}, "budget", "unable"),
        ("sglang", CHAT, {"stream": True}, {"custom_params": {"thinking_budget": 8}}, "budget", "unable"),
        ("openai", CHAT, {"stream": True}, {}, "watch", "unable"),
        ("generic", CHAT, {}, {}, "watch", "unable"),
    ],
    ids=[
        "control", "two choices are not ended", "nor in a whole answer", "messages take a budget",
        "responses are watched", "vLLM takes a budget", "a lower budget stays", "no budget beside a level",
        "SGLang takes a budget", "others are watched", "also whole",
    ],
)  # fmt: skip
def test_which_way(
    kind: str, target: str, fields: dict[str, Any], added: dict[str, Any], method: str, outcome: str | None
) -> None:
    """By kind and dialect the request is changed by exactly what the method needs, and the turn says what came of it."""
    message = {"reasoning_content": "four" * 20, "content": "a"}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    frames = [*[thought("four")] * 20, text("a"), STOP, usage(21), DONE]
    stream = answers(*frames) if fields.get("stream") else whole(body)
    house = House(server(stream, whole(YES)), settings=settings(kind, ask_usage=False))
    asked = request(max_tokens=99, **fields)
    house.asks(asked, target)
    if outcome is not None:
        assert turn_of(house).thinking_outcome == outcome
    assert house.upstream.bodies[0] == asked | added
    assert len(controls(house)) == (method == "control" and "n" not in fields)
    assert turn_of(house).thinking_method == method


def test_a_whole_call_is_streamed() -> None:
    """Where control can act a whole answer is streamed upstream, with usage, and put together again."""
    frames = [*[THINK] * CAP, text("a"), STOP, usage(9), DONE]
    house = House(server(answers(*frames), whole(YES)), settings=settings())
    caller = house.asks(request(x_thinkcap_facts="1"), x_thinkcap_facts="1")
    assert house.upstream.bodies[0]["stream"] is True
    assert house.upstream.bodies[0]["stream_options"] == {"include_usage": True}
    assert caller.headers[b"content-type"] == b"application/json"
    assert caller.json["choices"][0]["message"] == {"role": "assistant", "content": "a", "reasoning_content": "t" * CAP}
    assert msgspec.json.decode(caller.headers[b"x-thinkcap-facts"]) == [
        {"event": "thinking_cap.fired", "cap": CAP, "tokens": CAP}
    ]


def test_without_a_cap_nothing_is_added() -> None:
    """No cap, no opt-in, no stream."""
    house = House(whole({"choices": []}), settings=settings().replace(f"cap = {CAP}", "cap = 0"))
    house.asks()
    assert house.upstream.bodies == [request()]


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "of our asking"])
def test_timings(asked: bool) -> None:
    """The running count is the caller's when they asked for it, and taken out when only we did."""
    timed = thought("t", timings={"predicted_n": 1})
    body = request(stream=True, **({"timings_per_token": True} if asked else {}))
    house = House(server(answers(timed, text("a"), STOP, DONE), whole(YES)), settings=settings())
    caller = house.asks(body)
    assert caller.body.startswith(timed if asked else thought("t"))


def test_an_upstream_without_control() -> None:
    """A 404 of the control path is remembered: the next call goes out with a budget instead."""
    stream = answers(*[THINK] * 20, DONE)
    house = House(server(stream, whole({"error": "File Not Found"}, 404)), settings=settings())
    run(_both(house))
    first, second = house.facts.of(CallFailed), house.facts.of(CallFinished)
    assert [failed.turn and failed.turn.thinking_outcome for failed in first] == ["refused"]
    assert [done.turn and done.turn.thinking_method for done in second] == ["budget"]
    bodies = [body for body in house.upstream.bodies if "messages" in body]
    assert "thinking_budget_tokens" not in bodies[0]
    assert bodies[1]["thinking_budget_tokens"] == CAP
    assert "reasoning_control" not in bodies[1]


async def _both(house: House) -> None:
    await house.ask(STREAM)
    await house.ask(STREAM)


def test_a_retry_for_a_level_brings_no_budget_along() -> None:
    """A level that a retry writes stands alone: the budget of the first attempt is not sent beside it."""
    refusal = {"error": {"message": "Thinking level MINIMAL is not supported for this model", "code": 400}}
    house = House(whole(refusal, 400), answers(text("a"), STOP, DONE), settings=settings("vllm") + LEVELS)
    house.asks(STREAM, x_thinkcap_purpose="compaction")
    assert house.facts.of(LevelRetried) == [LevelRetried("minimal", "low")]
    first, second = house.upstream.bodies
    assert first["thinking_token_budget"] == CAP
    assert second["reasoning_effort"] == "low"
    assert "thinking_token_budget" not in second


LEVELS: Final = '[models.m]\nupstream = "one"\nlevels = ["low", "high"]\n'


def test_a_level_refused_where_an_answer_is_put_together() -> None:
    """An error event before the first delta is a refusal also of a whole call that was streamed."""
    refusal = sse({"error": {"message": "Thinking level MINIMAL is not supported for this model", "code": 400}})
    house = House(answers(refusal), answers(text("a"), STOP, DONE), settings=settings() + LEVELS)
    caller = house.asks(request(reasoning_effort="minimal"), x_thinkcap_purpose="compaction")
    assert [body["reasoning_effort"] for body in house.upstream.bodies] == ["minimal", "low"]
    assert (caller.status, caller.headers[b"x-thinkcap-level"]) == (200, b"minimal->low")
    stuck = House(answers(refusal), settings=settings() + LEVELS)
    caller = stuck.asks(request(reasoning_effort="minimal"), x_thinkcap_purpose="compaction")
    assert (caller.status, caller.body, len(stuck.upstream.requests)) == (400, refusal[6:-2], 2)


@pytest.mark.parametrize("before", [(), (THINK,)], ids=["at once", "in the middle"])
def test_an_error_where_an_answer_is_put_together(before: tuple[bytes, ...]) -> None:
    """The caller gets the error whole, with its status, and the call counts as an upstream's error."""
    error = sse({"error": {"message": "no", "code": 503}})
    house = House(answers(*before, error), settings=settings())
    caller = house.asks()
    assert (caller.status, caller.body) == (503, error[6:-2])
    assert house.facts.outcome == "upstream_error"


@pytest.mark.parametrize("status", [400, 429, 503])
def test_a_status_where_an_answer_is_put_together(status: int) -> None:
    """An upstream's error comes back as it is."""
    house = House(whole({"error": {"message": "no"}}, status, {"retry-after": "7"}), settings=settings())
    caller = house.asks()
    assert (caller.status, caller.json, caller.headers[b"retry-after"]) == (status, {"error": {"message": "no"}}, b"7")


@pytest.mark.parametrize(
    ("header", "fired"),
    [("5", ThinkingCapped(5, 5)), ("50", ThinkingCapped(CAP, CAP)), ("8", ThinkingCapped(CAP, CAP))],
    ids=["it lowers", "it never raises", "the same"],
)
def test_the_header(header: str, fired: ThinkingCapped) -> None:
    """A caller may lower the cap for one call."""
    house = thinker(whole(YES), text("a"), STOP, DONE)
    house.asks(STREAM, x_thinkcap_thinking_cap=header)
    assert house.facts.of(ThinkingCapped) == [fired]
