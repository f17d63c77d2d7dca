"""The call that ends the reasoning, beside the stream it is about."""

import asyncio

import httpx
import msgspec
import pytest

from gateway.events import (
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFailed,
    EndReasoningAnswered,
    ThinkingOverran,
    ThinkingRefused,
)
from gateway.sse import FrameReader
from tests.gateway.door import CHAT, House, Script, answers, run, until, whole
from tests.gateway.plays import DONE, text, thought
from tests.gateway.thinkers import (
    CAP,
    NO,
    STOP,
    STREAM,
    THINK,
    YES,
    controls,
    pending,
    server,
    settings,
    thinker,
    turn_of,
)


def test_what_is_asked() -> None:
    """The control call goes where the completion went, with what the caller may show there, and names both."""
    key = '[[keys]]\nname = "a"\nsha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"\n'
    house = House(
        server(answers(*[THINK] * CAP, text("a"), STOP, DONE), whole(YES)),
        settings=settings(version_path="/api/v9") + key,
    )
    house.asks(
        STREAM, f"{CHAT}?a=1", x_api_key="secret", authorization="Bearer mine", x_thinkcap_purpose="p", x_own="1"
    )
    (asked,) = controls(house)
    assert asked.url == "http://one.test/base/api/v9/chat/completions/control"
    assert msgspec.json.decode(asked.content) == {"id": "c1", "action": "reasoning_end", "model": "m"}
    assert asked.headers["content-type"] == "application/json"
    assert (asked.headers["authorization"], asked.headers["x-own"]) == ("Bearer mine", "1")
    assert not {"x-api-key", "x-thinkcap-purpose"} & {*asked.headers}


def test_an_upstreams_own_key_is_shown_there_too() -> None:
    """With a key of the upstream's own the caller's credentials go to neither path."""
    house = House(
        server(answers(*[THINK] * CAP, text("a"), STOP, DONE), whole(YES)),
        settings=settings(api_key_env="KEY"),
        KEY="theirs",
    )
    house.asks(STREAM, authorization="Bearer mine")
    assert [asked.headers["authorization"] for asked in house.upstream.requests] == ["Bearer theirs"] * 2


def test_the_stream_is_not_held_up() -> None:
    """Frames go on to the caller while the control call hangs: each is out before the next is written."""
    begun, seen = asyncio.Event(), [asyncio.Event() for _ in range(5)]
    ended: list[str] = []
    steps = [step for number in range(5) for step in (thought(f"n{number}"), seen[number])]
    house = thinker(pending(begun, ended), begun, *steps, text("a"), STOP, DONE)

    async def play() -> None:
        caller = house.caller(STREAM)
        running = asyncio.ensure_future(house.serve(caller))
        for number, event in enumerate(seen):
            await until(lambda number=number: thought(f"n{number}") in caller.body)  # type: ignore[misc]
            assert not ended  # the call has hung all the while
            event.set()
        await running
        assert caller.body.endswith(DONE)

    run(play())
    assert ended == ["cancelled"]
    assert turn_of(house).thinking_outcome == "moot"
    assert [fact.status for fact in house.facts.of(AttemptEnded) if fact.kind == "control"] == [None]


def test_the_margin_runs_out_while_it_hangs() -> None:
    """The call is given up, the pending one is cancelled, and the upstream is let go."""
    begun, ended = asyncio.Event(), list[str]()
    house = thinker(pending(begun, ended), begun, *[THINK] * 20, text("never"), DONE)
    caller = house.asks(STREAM)
    assert ended == ["cancelled"]
    assert house.upstream.left == 0
    assert caller.body.startswith(THINK * 14)
    frames = FrameReader().feed(caller.body)
    assert len(frames) == 15
    said = msgspec.json.decode(frames[-1].data or b"")["error"]
    assert said["code"] == "thinking_overrun"
    assert all(number in said["message"] for number in ("14", "8"))
    assert caller.complete
    assert house.facts.of(ThinkingOverran) == [ThinkingOverran("kept_thinking", 14)]
    ending = house.facts.ending
    assert isinstance(ending, CallFailed)
    assert (ending.outcome, ending.status, ending.code) == ("thinking_overrun", 200, "thinking_overrun")


@pytest.mark.parametrize(
    ("control", "result", "cause"),
    [
        (whole(NO), "refused", "refused"),
        (whole(YES, 500), "refused", "refused"),
        (whole({"success": "true"}), "error", "refused"),
        (whole([]), "error", "refused"),
        (answers(b"{"), "error", "refused"),
        (answers(b" " * 100_000), "error", "refused"),
    ],
    ids=["success false", "another status", "a word", "no object", "no JSON", "too long"],
)
def test_refusals(control: Script, result: str, cause: str) -> None:
    """Whatever is not `success: true` is a refusal; the next token of reasoning ends the call."""
    went_on = asyncio.Event()
    house = thinker(control, went_on, *[THINK] * 20)

    async def play() -> None:
        running = asyncio.ensure_future(house.ask(STREAM))
        await until(lambda: bool(house.facts.of(ThinkingRefused)))
        went_on.set()
        await running

    run(play())
    assert [fact.result for fact in house.facts.of(EndReasoningAnswered)] == [result]
    assert house.facts.of(ThinkingRefused) == [ThinkingRefused(cause)]  # type: ignore[arg-type]
    assert house.facts.of(ThinkingOverran) == [ThinkingOverran("refused", 9)]
    assert turn_of(house).thinking_outcome == "refused"


def test_a_call_nobody_answers() -> None:
    """After its own time limit the call is given up, without another frame."""
    begun, ended = asyncio.Event(), list[str]()
    house = House(
        server(answers(*[THINK] * CAP, asyncio.Event()), pending(begun, ended)),
        settings=settings(control_timeout=0.05),
    )
    house.asks(STREAM)
    assert house.facts.of(ThinkingOverran) == [ThinkingOverran("timeout", CAP)]
    assert [fact.result for fact in house.facts.of(EndReasoningAnswered)] == ["timeout"]
    assert (house.upstream.left, turn_of(house).thinking_outcome) == (0, "timeout")


def test_a_caller_who_does_not_read() -> None:
    """One who reads nothing delays neither the control call nor the end of the upstream's answer."""
    begun, ended, go = asyncio.Event(), list[str](), asyncio.Event()
    house = House(
        server(answers(*[THINK] * (CAP - 1), go, THINK, asyncio.Event()), pending(begun, ended)),
        settings=settings(control_timeout=0.05),
    )

    async def play() -> None:
        caller = house.caller(STREAM)
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: caller.body == THINK * (CAP - 1))
        caller.stuck = stuck = asyncio.Event()
        go.set()
        await begun.wait()
        await until(lambda: bool(ended))
        stuck.set()
        caller.stuck = asyncio.Event()
        await until(lambda: house.upstream.left == 0)
        caller.stuck.set()
        await running

    run(play())
    assert house.facts.outcome == "thinking_overrun"


def test_a_caller_who_leaves_meanwhile() -> None:
    """Nothing is left running, and the last fact is the one of the call."""
    begun, ended = asyncio.Event(), list[str]()
    house = thinker(pending(begun, ended), asyncio.Event())

    async def play() -> None:
        before = asyncio.all_tasks()
        caller = house.caller(STREAM)
        running = asyncio.ensure_future(house.serve(caller))
        await begun.wait()
        caller.gone.set()
        await running
        assert asyncio.all_tasks() == before

    run(play())
    assert ended == ["cancelled"]
    assert house.upstream.left == 0
    assert isinstance(house.facts.ending, CallAbandoned)
    started, over = house.facts.of(AttemptStarted), house.facts.of(AttemptEnded)
    assert sorted(fact.kind for fact in started) == sorted(fact.kind for fact in over) == ["control", "forward"]
    assert turn_of(house).thinking_outcome == "moot"


def test_a_reply_beside_a_stream_that_never_pauses() -> None:
    """The reply is heard before frames that came after it, so it was `ended`, however fast the answer."""
    begun = asyncio.Event()

    async def control(_: httpx.Request) -> httpx.Response:
        begun.set()
        return httpx.Response(200, json=YES)

    house = thinker(control, begun, *[THINK] * 5, *[text("a")] * 50, STOP, DONE)
    house.asks(STREAM)
    assert turn_of(house).thinking_outcome == "ended"
