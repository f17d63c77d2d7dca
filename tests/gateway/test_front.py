"""The door: whatever comes in, exactly one terminal fact comes of it, and errors are told in the caller's dialect."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.events import CallAbandoned, CallFailed, CallRouted, CallStarted, KeyRefused
from gateway.keys import new_key
from tests.gateway.door import CHAT, SETTINGS, Caller, House, answers, fails, hangs, request, run, until, whole
from tests.gateway.plays import DONE, chunk, text

GEMINI = "/v1beta/models/g:generateContent"
GOOD = {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
ERRORS: dict[str, tuple[str, bytes, str, int, str, str]] = {
    "broken JSON": (CHAT, b'{"model":', SETTINGS, 400, "bad_request", "refused"),
    "a body that is no object": (CHAT, b"[1]", SETTINGS, 400, "bad_request", "refused"),
    "an empty body": (CHAT, b"", SETTINGS, 400, "bad_request", "refused"),
    "a model that is no string": (CHAT, b'{"model":7}', SETTINGS, 400, "bad_request", "refused"),
    "a body past the limit": (CHAT, b'{"model":"m"}', "[server]\nmax_body_bytes = 8" + SETTINGS, 413, "body_too_large", "refused"),
    "a path nobody has": ("/v2/other", b"{}", SETTINGS, 404, "not_found", "refused"),
    "a dialect nobody speaks": (CHAT, b'{"model":"m"}', SETTINGS.replace('"chat", ', ""), 404, "not_found", "refused"),
    "a model whose upstream does not speak the dialect": (
        "/v1/messages", b'{"model":"m","max_tokens":9}',
        SETTINGS.replace('"messages", ', "") + '[upstreams.two]\nurl = "http://two.test"\ndialects = ["messages"]\n[models.m]\nupstream = "one"',
        400, "bad_request", "refused",
    ),
    "a level the settings refuse": (
        CHAT, b'{"model":"m","reasoning_effort":"minimal"}',
        SETTINGS + '[models.m]\nupstream = "one"\nlevels = ["low"]\nundeclared_level = "refuse"',
        400, "unsupported_reasoning_effort", "refused",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("target", "body", "settings", "status", "code", "outcome"), ERRORS.values(), ids=ERRORS)
def test_what_is_refused(target: str, body: bytes, settings: str, status: int, code: str, outcome: str) -> None:
    """A request that goes nowhere is answered with status and code of the contract, and counted once."""
    house = House(fails(AssertionError("nothing goes out")), settings=settings)
    caller = house.asks(body, target)
    assert caller.status == status
    assert caller.json["error"]["code" if target == CHAT else "type"] in {
        code,
        "invalid_request_error",
        "not_found_error",
    }
    assert house.facts.ending == CallFailed(outcome=outcome, status=status, code=code)  # type: ignore[arg-type]
    assert not house.upstream.requests
    assert len(caller.headers[b"x-request-id"]) == 32


def test_a_body_that_grows_past_the_limit() -> None:
    """Without a length the bytes are counted as they come, and the rest is not waited for."""
    house = House(settings="[server]\nmax_body_bytes = 8" + SETTINGS)
    caller = Caller("POST", CHAT, {"transfer-encoding": "chunked"}, [b"12345", b"67890"])
    caller.whole = False
    run(house.serve(caller))
    assert caller.status == 413
    assert caller.json["error"]["code"] == "body_too_large"


@pytest.mark.parametrize(
    ("target", "where"),
    [(CHAT, "chat"), ("/v1/responses", "responses"), ("/v1/messages", "messages"), (GEMINI, "gemini")],
    ids=["in chat", "in responses", "in messages", "in gemini"],
)
def test_errors_speak_the_dialect(target: str, where: str) -> None:
    """An error of the gateway's own stands in the shape the caller's SDK reads."""
    error = House(fails(httpx.ConnectError("no"))).asks({"model": "m", "max_tokens": 5}, target)
    assert error.status == 502
    said = error.json["error"]
    code: Any = {
        "chat": lambda: said["code"],
        "responses": lambda: said["code"],
        "messages": lambda: said.get("code") or said["message"],
        "gemini": lambda: said["details"][0]["reason"],
    }[where]()
    assert "upstream_unreachable" in code
    assert "upstream one cannot be reached" in said["message"]


def test_too_many_calls() -> None:
    """Above max_inflight a call is told to come back, and the calls that run are not touched."""
    begun = asyncio.Event()
    house = House(hangs(begun), settings="[server]\nmax_inflight = 1" + SETTINGS)

    async def play() -> Caller:
        first = house.caller()
        running = asyncio.ensure_future(house.serve(first))
        await begun.wait()
        second = await house.ask()
        first.gone.set()
        await running
        return second

    caller = run(play())
    assert (caller.status, caller.headers[b"retry-after"]) == (503, b"1")
    assert [type(end) for end in house.facts.of(CallFailed) + house.facts.of(CallAbandoned)] == [
        CallFailed,
        CallAbandoned,
    ]
    assert house.facts.of(CallFailed)[0].outcome == "overloaded"
    assert house.gateway.limits.inflight == 0


def test_draining() -> None:
    """In a drain no call is taken, and health says so; the last call that ends says that all is quiet."""
    begun = asyncio.Event()
    house = House(hangs(begun))

    async def play() -> tuple[Caller, Caller]:
        first = house.caller()
        running = asyncio.ensure_future(house.serve(first))
        await begun.wait()
        house.gateway.limits.drain()
        late, ready = await house.ask(), await house.ask(target="/health/ready", method="GET")
        assert not house.gateway.limits.idle.is_set()
        first.gone.set()
        await running
        assert house.gateway.limits.idle.is_set()
        return late, ready

    late, ready = run(play())
    assert (late.status, late.headers[b"retry-after"], late.json["error"]["code"]) == (503, b"1", "draining")
    assert ready.status == 503


@pytest.mark.parametrize("streamed", [False, True], ids=["before the head", "in the middle of a stream"])
def test_a_fault_of_our_own(streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is a 500 of the dialect, or a cut; the log says where, and nothing of the content."""
    fault = RuntimeError("secret prompt")
    house = House(answers(text("a"), fault) if streamed else fails(fault))
    with caplog.at_level(logging.ERROR, "thinkcap"):
        caller = house.asks(request(stream=streamed))
    if streamed:
        assert caller.body == text("a")
        assert not caller.complete
        assert house.facts.outcome == "stream_error"
    else:
        assert (caller.status, caller.json["error"]["code"]) == (500, "internal_error")
        assert house.facts.outcome == "refused"
    assert house.upstream.left == 0
    assert "unexpected RuntimeError in" in caplog.text
    assert "secret" not in caplog.text + repr(caller.messages)


def test_keys() -> None:
    """With keys set a call needs a known one; which it was not is a fact, and it goes no further."""
    key, digest = new_key()
    settings = SETTINGS + f'[[keys]]\nname = "a"\nsha256 = "{digest}"'
    for headers, reason in (({}, "missing"), ({"authorization": "Bearer other"}, "unknown")):
        house = House(whole(GOOD), settings=settings)
        caller = house.asks(**headers)
        assert (caller.status, caller.json["error"]["code"]) == (401, "unauthorized")
        assert house.facts.of(KeyRefused) == [KeyRefused(reason)]  # type: ignore[arg-type]
        assert not house.upstream.requests
        assert house.asks(target="/v1/models", method="GET", **headers).status == 401
    house = House(whole(GOOD), settings=settings)
    assert house.asks(target=f"{CHAT}?a=1&key={key}", authorization="Bearer mine").status == 200
    sent = house.upstream.requests[0]
    assert sent.headers["authorization"] == "Bearer mine"
    assert sent.url.query == b"a=1"


def test_the_first_fact() -> None:
    """A call states a template of its path, never the path, and the trace it came with."""
    house = House(whole(GOOD))
    house.asks(target=f"{CHAT}?secret=1", traceparent="00-1-2-01", tracestate="a=b")
    started = house.facts.of(CallStarted)[0]
    assert started == CallStarted(dialect="chat", method="POST", route=CHAT, traceparent="00-1-2-01", tracestate="a=b")
    assert House(whole(GOOD)).asks(target="/nowhere/secret").status == 404


def test_purposes_and_routes() -> None:
    """A forwarded path is routed by its dialect, with the purpose the caller names, and is not judged."""
    house = House(whole({}))
    house.asks({}, "/v1/embeddings", x_thinkcap_purpose="compaction")
    routed = house.facts.of(CallRouted)[0]
    assert (routed.upstream, routed.model, routed.purpose, routed.call) == ("one", "other", "compaction", None)


def test_a_caller_who_leaves_while_being_refused() -> None:
    """Leaving in the middle of an error of ours is leaving, like anywhere else."""
    house = House(fails(httpx.ConnectError("no")))

    async def play() -> None:
        caller = house.caller()
        caller.stuck = asyncio.Event()
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: bool(house.upstream.requests))
        await asyncio.sleep(0.01)
        caller.gone.set()
        await running

    run(play())
    assert house.facts.outcome == "client_gone"


def test_the_process_ends_in_the_middle() -> None:
    """A call that is cancelled by the server is counted once, and the cancelling goes on."""
    begun = asyncio.Event()
    house = House(answers(text("a"), begun, chunk(finish="stop"), DONE))

    async def play() -> None:
        caller = house.caller(request(stream=True))
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: len(caller.messages) > 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(play())
    assert house.facts.outcome == "overloaded"
    assert house.upstream.left == 0


async def drained(house: House, caller: Caller, begun: Callable[[], bool]) -> None:
    """A call that has begun when the time to drain is over."""
    running = asyncio.ensure_future(house.serve(caller))
    await until(begun)
    for _ in range(20):  # what came behind that is read
        await asyncio.sleep(0)
    house.gateway.limits.drain()
    running.cancel()
    await running


@pytest.mark.parametrize(
    ("steps", "outcome", "status", "last"),
    [
        pytest.param((), "overloaded", 503, b'"draining"', id="before the head"),
        pytest.param((text("a"),), "stream_error", 200, b'"draining"', id="in the middle of a stream"),
        pytest.param((text("a"), b'data: {"id"'), "stream_error", 200, b'"draining"', id="in the middle of an event"),
        pytest.param((text("a"), chunk(finish="stop"), DONE), "ok", 200, b"[DONE]", id="behind its last event"),
        pytest.param((text("a"), chunk(finish="stop"), DONE[:-1]), "ok", 200, b"[DONE]", id="a line short of its end"),
    ],
)
def test_the_time_to_drain_is_over(steps: tuple[bytes, ...], outcome: str, status: int, last: bytes) -> None:
    """A call that is cut then is told so, by its status or by an event; it counts as broken if it was not over."""
    begun = asyncio.Event()
    house = House(answers(*steps, asyncio.Event()) if steps else hangs(begun))

    caller = house.caller(request(stream=True))
    run(drained(house, caller, lambda: (steps[0] in caller.body) if steps else begun.is_set()))
    ending = house.facts.ending
    assert (house.facts.outcome, ending.status, caller.status) == (outcome, status, status)
    assert (ending.turn is not None) is (status == 200)
    assert caller.complete
    assert last in caller.body.rstrip().rsplit(b"\n\n", 1)[-1]
    assert b'"id"data' not in caller.body
    assert house.gateway.limits.idle.is_set()
    assert house.upstream.left == 0


def test_a_stream_that_is_cut_says_so_in_its_dialect() -> None:
    """Its facts come before that, for a caller who asked."""
    house = House(answers(b'event: ping\ndata: {"type":"ping"}\n\n', asyncio.Event()))

    caller = house.caller({"model": "m", "stream": True}, "/v1/messages", x_thinkcap_facts="1")
    run(drained(house, caller, lambda: b"ping" in caller.body))
    told, error = caller.body.rstrip().rsplit(b"\n\n", 2)[-2:]
    assert b'"event":"totals"' in told
    assert error.startswith(b"event: error\n")
    assert b"the time for calls that run is over" in error


def test_a_body_that_is_passed_through_is_cut_as_it_is() -> None:
    """Nobody knows what an error would be in it."""
    house = House(answers(b"some of", asyncio.Event(), media="text/plain"))

    caller = house.caller(b"{}", "/v1/embeddings")
    run(drained(house, caller, lambda: caller.body == b"some of"))
    assert (caller.body, caller.complete, house.facts.outcome) == (b"some of", False, "stream_error")
