"""A refused thinking level, from the caller's side: what goes out again, what comes back, what is remembered and told."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from gateway.events import (
    AttemptEnded,
    CallAbandoned,
    LevelAnswered,
    LevelPreempted,
    LevelRefused,
    LevelRetried,
)
from tests.gateway.door import LEVELS, Caller, House, Script, answers, fails, hangs, request, run, until, whole
from tests.gateway.plays import DONE, chunk, refusal, text, usage

GOOD: dict[str, Any] = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}


def refused(level: str, listed: str = "", **headers: str) -> Script:
    """A refusal as a status."""
    return whole(refusal(level, listed), 400, headers)


def refused_in_200(level: str) -> Script:
    """The same as the first event of a stream."""
    event = b"data: " + json.dumps(refusal(level)).encode() + b"\n\n"
    return answers(chunk({"role": "assistant"}), event + DONE)


ASK = request(reasoning_effort="minimal")
STREAM = request(reasoning_effort="minimal", stream=True)
PURPOSE = {"x_thinkcap_purpose": "compaction"}


def ask(house: House, body: Any = None, **headers: str) -> Caller:
    """Ask within the scope of the rule."""
    return house.asks(body or ASK, **PURPOSE | headers)


def efforts(house: House) -> list[str | None]:
    """The levels that went out."""
    return [body.get("reasoning_effort") for body in house.upstream.bodies]


@pytest.mark.parametrize(
    ("streamed", "refusing"),
    [(False, refused), (True, refused), (True, refused_in_200)],
    ids=["whole", "in a stream, by a status", "in a stream, by its first event"],
)
def test_a_level_is_refused(streamed: bool, refusing: Any) -> None:
    """The call goes out once more with the next level; the caller sees the second answer alone, and which level it was."""
    good = answers(text("hi"), chunk(finish="stop"), usage(3), DONE) if streamed else whole(GOOD)
    house = House(refusing("minimal"), good, settings=LEVELS)
    caller = ask(house, STREAM if streamed else ASK)
    assert caller.status == 200
    assert b"Unsupported" not in caller.body
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert efforts(house) == ["minimal", "low"]
    assert house.facts.of(LevelRefused) == [LevelRefused("minimal")]
    assert house.facts.of(LevelRetried) == [LevelRetried("minimal", "low")]
    assert house.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "ok")]
    assert house.facts.outcome == "ok"
    assert house.upstream.left == 0
    assert [end.number for end in house.facts.of(AttemptEnded)] == [1, 2]


@pytest.mark.parametrize("refusing", [refused, refused_in_200], ids=["by a status", "in the first event of a 200"])
def test_refused_again(refusing: Any) -> None:
    """When the second level is refused too the caller gets the first refusal, and no word of another level."""
    house = House(refusing("minimal"), refusing("low"), settings=LEVELS)
    alone = House(
        refusing("minimal"), settings=LEVELS.replace("[models.m]", "[level_fallback]\nenabled = false\n[models.m]")
    )
    caller, plain = ask(house, STREAM), ask(alone, STREAM)
    assert (caller.status, caller.body) == (plain.status, plain.body)
    assert b"x-thinkcap-level" not in caller.headers
    assert house.facts.of(LevelRefused) == [LevelRefused("minimal"), LevelRefused("low")]
    assert house.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "refused_again")]
    assert house.facts.outcome in {"upstream_error", "stream_error"}


@pytest.mark.parametrize(
    ("second", "status", "outcome"),
    [(whole({"error": {"message": "busy"}}, 429), 429, "upstream_error"), (fails(httpx.ReadError("x")), 502, "upstream_error")],
    ids=["another error", "a broken connection"],
)  # fmt: skip
def test_the_second_attempt_fails(second: Script, status: int, outcome: str) -> None:
    """An error of another kind is the caller's to see, with the level it belongs to."""
    house = House(refused("minimal"), second, settings=LEVELS)
    caller = ask(house, x_thinkcap_facts="1")
    assert caller.status == status
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert [fact["event"] for fact in json.loads(caller.headers[b"x-thinkcap-facts"])] == [
        "level.refused",
        "level.retried",
    ]
    assert house.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "failed")]
    assert house.facts.outcome == outcome


def test_remembered() -> None:
    """The next call goes out with the target at once, told as preempted and not as a retry."""
    house = House(refused("minimal"), whole(GOOD), settings=LEVELS)
    ask(house)
    house.facts.facts.clear()
    caller = ask(house)
    assert efforts(house) == ["minimal", "low", "low"]
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert house.facts.of(LevelPreempted) == [LevelPreempted("minimal", "low")]
    assert not house.facts.of(LevelRetried)


def test_remembered_twice() -> None:
    """A target that was refused since is no target; when none is left the call goes out as it came."""
    house = House(refused("minimal"), refused("low"), refused("high"), whole(GOOD), settings=LEVELS)
    ask(house)
    ask(house)
    assert efforts(house) == ["minimal", "low", "high"]
    house.facts.facts.clear()
    assert ask(house).status == 200
    assert efforts(house)[-1] == "minimal"
    assert not house.facts.of(LevelPreempted)


def test_two_levels_in_one_body() -> None:
    """A body that says two levels, of which the second is refused, does not send the memory round in circles."""
    body = request(reasoning_effort="low", chat_template_kwargs={"reasoning_effort": "max"})
    settings = LEVELS.replace('"low", "high"', '"low"')
    house = House(refused("max", "'low'"), whole(GOOD), settings=settings)
    for _ in range(2):
        assert ask(house, body).headers[b"x-thinkcap-level"] == b"max->low"
    assert [sent["chat_template_kwargs"]["reasoning_effort"] for sent in house.upstream.bodies] == ["max", "low", "low"]


def test_several_retries() -> None:
    """With more retries allowed the walk goes on, and the header names where it began and where it ended."""
    settings = LEVELS.replace("[models.m]", "[level_fallback]\nmax_retries = 2\n[models.m]")
    house = House(refused("minimal"), refused("low"), whole(GOOD), settings=settings)
    caller = ask(house)
    assert efforts(house) == ["minimal", "low", "high"]
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->high"
    assert [fact.outcome for fact in house.facts.of(LevelAnswered)] == ["refused_again", "ok"]


def test_an_adapters_level() -> None:
    """A level that somebody further on put in is refused: the call goes out with one of the list."""
    house = House(refused("minimal", "'low' and 'high'"), whole(GOOD), settings=LEVELS)
    caller = ask(house, request())
    assert efforts(house) == [None, "low"]
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert ask(house, request()).headers[b"x-thinkcap-level"] == b"minimal->low"
    assert efforts(house)[-1] == "low"


@pytest.mark.parametrize(
    ("headers", "script"),
    [
        ({"x_thinkcap_purpose": "other"}, refused("minimal")),
        (PURPOSE | {"x_thinkcap_retried": "1"}, refused("minimal")),
        ({"x_thinkcap_purpose": "other"}, refused_in_200("minimal")),
    ],
    ids=["a purpose that is none of ours", "a re-issue of a Thinkcap further out", "out of scope, in a stream"],
)
def test_out_of_scope(headers: dict[str, str], script: Script) -> None:
    """The refusal is stated, and goes to the caller as it came."""
    house = House(script, settings=LEVELS)
    caller = house.asks(STREAM, **headers)
    assert b"Unsupported" in caller.body
    assert house.facts.of(LevelRefused) == [LevelRefused("minimal")]
    assert len(house.upstream.requests) == 1


@pytest.mark.parametrize(("kind", "marked"), [("thinkcap", "1"), ("openai", None)])
def test_the_marker(kind: str, marked: str | None) -> None:
    """A Thinkcap further in is told of the re-issue, and nobody else."""
    settings = LEVELS.replace("[models.m]", f'kind = "{kind}"\n[models.m]')
    house = House(refused("minimal"), whole(GOOD), settings=settings)
    ask(house)
    sent = [request.headers.get("x-thinkcap-retried") for request in house.upstream.requests]
    assert sent == [None, marked]


def test_a_guarded_stream_that_is_let_go() -> None:
    """Frames that carry no delta wait for the first one; another error lets them go as they came."""
    error = b'data: {"error":{"message":"overloaded"}}\n\n'
    house = House(answers(chunk({"role": "assistant"}), error), settings=LEVELS)
    caller = ask(house, STREAM)
    assert caller.body == chunk({"role": "assistant"}) + error
    assert house.facts.outcome == "stream_error"


@pytest.mark.parametrize("error", [httpx.ReadError("x"), None], ids=["breaks", "ends"])
def test_a_guarded_stream_without_a_delta(error: Exception | None) -> None:
    """What waited goes out when the body breaks or ends first."""
    role = chunk({"role": "assistant"})
    house = House(answers(role, *([error] if error else [])), settings=LEVELS)
    caller = ask(house, STREAM)
    assert caller.body.startswith(role)
    assert house.facts.outcome == ("stream_error" if error else "incomplete")


@pytest.mark.parametrize("error", [httpx.ReadError("x"), None], ids=["breaks", "ends"])
def test_a_guarded_stream_of_nothing(error: Exception | None) -> None:
    """With nothing to send a break is an error of ours with its status, an end an empty answer."""
    house = House(answers(*([error] if error else [])), settings=LEVELS)
    caller = ask(house, STREAM)
    assert (caller.status, caller.complete) == (502 if error else 200, True)
    assert (b"upstream_protocol_error" in caller.body) is bool(error)


def test_nowhere_to_write_a_level() -> None:
    """A body whose way to the level's field is blocked is not re-issued: the caller gets the refusal."""
    house = House(refused("minimal", "'low' and 'high'"), settings=LEVELS.replace('["chat"]', '["responses"]'))
    caller = house.asks({"model": "m", "input": "hi", "reasoning": "much"}, "/v1/responses", **PURPOSE)
    assert caller.status == 400
    assert not house.facts.of(LevelRetried)


def leave(script: Script, when: bytes) -> House:
    """Leave in the middle of the second attempt."""
    house = House(refused("minimal"), script, settings=LEVELS)
    caller = house.caller(STREAM, **PURPOSE)

    async def play() -> None:
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: when in caller.body if when else len(house.upstream.requests) > 1)
        caller.gone.set()
        await running

    run(play())
    return house


def test_leaving_during_a_retry() -> None:
    """A caller who leaves before the second answer abandons the call; the level is not known to be taken."""
    house = leave(hangs(asyncio.Event()), b"")
    assert house.facts.ending == CallAbandoned()
    assert house.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "failed")]


def test_leaving_after_a_retry() -> None:
    """A caller who leaves in the middle of the second answer has seen that the level was taken."""
    house = leave(answers(text("hi"), asyncio.Event()), b"hi")
    assert isinstance(house.facts.ending, CallAbandoned)
    assert house.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "ok")]
