"""Errors of a hostile upstream: they cost a bounded amount of memory, and reach the caller as they came."""

import asyncio
import gzip
import tracemalloc

from gateway.events import LevelRefused
from gateway.rules.envelopes import LIMIT
from tests.gateway.door import LEVELS, Caller, House, answers, request, run, until

REFUSAL = b'{"error":{"message":"Thinking level MINIMAL is not supported for this model.","x":"%s"}}'
ASK = request(reasoning_effort="minimal")


def ask(house: House) -> Caller:
    """Ask within the scope of the rule."""
    return house.asks(ASK, x_thinkcap_purpose="compaction")


def test_an_error_too_large_to_be_read() -> None:
    """Its beginning is a refusal, but nobody waits for its end: it goes on piece by piece, and nothing is retried."""
    piece, rest = REFUSAL.split(b"%s")[0] + b"a" * LIMIT, asyncio.Event()
    house = House(answers(piece, rest, b'a"}}', status=400, media="application/json"), settings=LEVELS)
    caller = house.caller(ASK, x_thinkcap_purpose="compaction")

    async def play() -> None:
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: caller.body == piece)
        rest.set()
        await running

    run(play())
    assert (caller.status, caller.body, caller.complete) == (400, piece + b'a"}}', True)
    assert len(house.upstream.requests) == 1
    assert not house.facts.of(LevelRefused)
    assert house.facts.outcome == "upstream_error"


def test_an_error_just_small_enough_is_read() -> None:
    """64 KiB are read, and the call goes out again."""
    body = REFUSAL % (b"a" * (LIMIT - len(REFUSAL) + 2))
    assert len(body) == LIMIT
    good = answers(b'{"choices":[]}', media="application/json")
    house = House(answers(body, status=400, media="application/json"), good, settings=LEVELS)
    assert ask(house).headers[b"x-thinkcap-level"] == b"minimal->low"


def test_a_bomb() -> None:
    """64 MiB in 64 KiB of gzip are undone step by step; none of it is kept."""
    bomb = gzip.compress(b"\0" * (64 << 20))
    script = answers(bomb, status=400, headers={"content-encoding": "gzip"}, media="application/json")
    house = House(script, settings=LEVELS)
    caller = house.caller(ASK, x_thinkcap_purpose="compaction")
    taken = 0

    async def count(message: object) -> None:
        nonlocal taken
        caller.messages.append({"status": 400} if not caller.messages else {"body": b""})
        taken += len(message.get("body", b"")) if isinstance(message, dict) else 0

    caller.send = count  # type: ignore[method-assign]  # a caller who keeps nothing
    tracemalloc.start()
    try:
        run(house.serve(caller))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == 64 << 20
    assert peak < 16 << 20
