"""Answers no rule can judge, and with which nothing is wrong: a stream without events, an answer that is yet to come."""

import asyncio

import pytest

from gateway.events import CallFinished
from tests.gateway.dialects.wires import wire
from tests.gateway.door import Caller, House, answers, run, until, whole

ARRAY = wire("gemini", "array-of-events.json").data
GENERATE = "/v1beta/models/m:streamGenerateContent"
FINE = CallFinished(outcome="ok", status=200)


def test_a_stream_without_events_passes_piece_by_piece() -> None:
    """Nothing waits for its end; no turn is counted."""
    half, go_on = len(ARRAY) // 2, asyncio.Event()
    house = House(answers(ARRAY[:half], go_on, ARRAY[half:], media="application/json"))

    async def main() -> Caller:
        caller = house.caller({"generationConfig": {"maxOutputTokens": 1}}, GENERATE)
        call = asyncio.create_task(house.serve(caller))
        await until(lambda: caller.body == ARRAY[:half])
        go_on.set()
        return await call

    assert run(main()).body == ARRAY
    assert house.facts.ending == FINE


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (GENERATE + "?alt=sse", "gemini/array-of-events.json"),
        ("/v1/responses", "responses/queued.json"),
        ("/v1/responses", "responses/in-progress.json"),
    ],
    ids=["an array where events were asked for", "a queued response", "a response in the works"],
)
def test_what_is_no_turn_counts_as_none(target: str, name: str) -> None:
    """It passes as it came: no word and no usage are missing."""
    dialect, _, file = name.partition("/")
    data = wire("gemini" if dialect == "gemini" else "responses", file).data
    house = House(answers(data, media="application/json"))
    assert house.asks({"model": "m"}, target).body == data
    assert house.facts.ending == FINE


def test_an_error_is_one_also_where_no_events_were_asked_for() -> None:
    """It is read and counted as everywhere."""
    house = House(whole({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}, status=400))
    assert house.asks({}, GENERATE).status == 400
    assert house.facts.outcome == "upstream_error"


def test_events_that_come_unasked_are_judged() -> None:
    """What counts is what came."""
    answer = wire("gemini", "stop-on-every-event.sse")
    house = House(answers(answer.data))
    assert b"MAX_TOKENS" in house.asks({"generationConfig": {"maxOutputTokens": 60}}, GENERATE).body
    ending = house.facts.ending
    assert isinstance(ending, CallFinished)
    assert ending.turn is not None
    assert ending.turn.verdict == "upgraded"
