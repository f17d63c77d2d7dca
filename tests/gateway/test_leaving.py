"""Callers who leave, at every point of a call: its upstream is let go and exactly one terminal fact is stated."""

import asyncio
from typing import Any

import pytest

from gateway.events import AttemptEnded, CallAbandoned, CallFinished
from tests.gateway.door import SETTINGS, Caller, House, Script, answers, hangs, request, run, until
from tests.gateway.plays import DONE, chunk, text, thought, usage


def _leave(script: Script, body: Any, when: str, settings: str = SETTINGS, **headers: str) -> tuple[House, Caller]:
    """Ask, leave when these bytes are out ("": when the request is), and wait until all is over."""
    house = House(script, settings=settings)
    caller = house.caller(body, **headers)

    async def play() -> None:
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: when.encode() in caller.body if when else bool(house.upstream.requests))
        caller.gone.set()
        await running

    run(play())
    assert house.upstream.left == 0
    assert house.gateway.limits.inflight == 0
    return house, caller


def test_leaving_before_the_body_was_read() -> None:
    """A caller who leaves with half a request sent is gone, and no upstream hears of it."""
    house = House()
    caller = house.caller()
    caller.whole = False
    caller.gone.set()
    run(house.serve(caller))
    assert house.facts.ending == CallAbandoned()
    assert not caller.messages


def test_leaving_before_the_head() -> None:
    """The attempt ends with the caller."""
    house, _ = _leave(hangs(asyncio.Event()), request(stream=True), "")
    assert house.facts.ending == CallAbandoned()
    assert house.facts.of(AttemptEnded)[-1].status is None


@pytest.mark.parametrize("streamed", [False, True], ids=["of a whole answer", "of a stream"])
def test_leaving_in_the_middle(streamed: bool) -> None:
    """The upstream is let go, and what is known of the turn is kept."""
    steps = (thought("abcd"), text("b")) if streamed else (b"{",)
    script = answers(*steps, asyncio.Event(), media="text/event-stream" if streamed else "application/json")
    house, _ = _leave(script, request(stream=streamed), '"b"' if streamed else "")
    ending = house.facts.ending
    assert isinstance(ending, CallAbandoned)
    assert ending.status == (200 if streamed else None)
    assert ending.turn is not None
    assert ending.turn.reasoning_tokens == (1 if streamed else None)


def test_leaving_during_the_hold() -> None:
    """A finish frame that is held when the caller leaves has been said: the turn is told, and is no success."""
    script = answers(text("b"), chunk(finish="stop"), asyncio.Event())
    house, caller = _leave(script, request(stream=True, max_tokens=4), '"b"')
    assert isinstance(house.facts.ending, CallAbandoned)
    assert b'finish_reason":"stop' not in caller.body


def test_leaving_after_the_last_event() -> None:
    """Behind [DONE] the turn is over, whoever hangs up first."""
    script = answers(text("b"), chunk(finish="stop"), usage(2), DONE, asyncio.Event())
    house, _ = _leave(script, request(stream=True), "[DONE]")
    ending = house.facts.ending
    assert isinstance(ending, CallFinished)
    assert (ending.outcome, ending.turn and ending.turn.reported) == ("ok", "stop")
