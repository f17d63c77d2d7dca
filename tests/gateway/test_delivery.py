"""Deliveries: one answer brought to the caller, whatever its coding, its kind and its end, and the facts told with it."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import zstandard

from gateway.delivery import WHOLE_BYTES
from gateway.events import AttemptEnded, CallFailed, CallFinished
from tests.gateway.door import SETTINGS, House, answers, fails, request, whole
from tests.gateway.plays import DONE, chunk, text, thought, usage

GOOD: dict[str, Any] = {
    "id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 9, "total_tokens": 10},
}  # fmt: skip
BODY = json.dumps(GOOD).encode()
KEYED = SETTINGS + 'api_key_env = "KEY"\n'
STREAM = request(stream=True)


def ends(house: House) -> tuple[str, Any]:
    """Outcome of the call and fault of its last attempt."""
    return house.facts.outcome, house.facts.of(AttemptEnded)[-1].fault


@pytest.mark.parametrize("coding", ["gzip", "zstd", "deflate"])
def test_codings_nobody_asked_for(coding: str) -> None:
    """A coded answer is read, judged and handed on plain."""
    coded: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "zstd": zstandard.compress,
        "deflate": zlib.compress,
    }
    house = House(answers(coded[coding](BODY), headers={"content-encoding": coding}, media="application/json"))
    caller = house.asks(request(max_tokens=4))
    assert house.upstream.requests[0].headers["accept-encoding"] == "identity"
    assert b"content-encoding" not in caller.headers
    assert caller.headers[b"content-length"] == str(len(caller.body)).encode()
    assert caller.json["choices"][0]["finish_reason"] == "length"


def test_a_coding_nobody_knows() -> None:
    """An answer in an unknown coding passes as it came, unjudged."""
    headers = {"content-encoding": "br", "content-length": "4"}
    house = House(answers(b"\x01\x02", b"\x03\x04", headers=headers, media="application/json"))
    caller = house.asks()
    assert caller.body == b"\x01\x02\x03\x04"
    assert (caller.headers[b"content-encoding"], caller.headers[b"content-length"]) == (b"br", b"4")
    assert house.facts.ending == CallFinished(outcome="ok", status=200)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "in a stream"])
def test_a_coding_cut_short(streamed: bool) -> None:
    """A gzip body that ends too early is a broken transport."""
    coded = gzip.compress(text("a") if streamed else BODY)[:-4]
    media = "text/event-stream" if streamed else "application/json"
    house = House(answers(coded, headers={"content-encoding": "gzip"}, media=media))
    caller = house.asks(request(stream=streamed))
    assert b"upstream_protocol_error" in caller.body
    assert caller.status == (200 if streamed else 502)
    assert ends(house) == ("stream_error" if streamed else "upstream_error", "protocol")


@pytest.mark.parametrize("media", ["", "application/json", "text/plain"], ids=["no type", "JSON", "text"])
@pytest.mark.parametrize(
    "before",
    [b"", b"\xef\xbb\xbf", b": hello\n\n", b"\r\n\n"],
    ids=["data first", "a byte order mark", "a comment", "blank lines"],
)
def test_a_stream_under_another_name(media: str, before: bytes) -> None:
    """A stream that was asked for is one, whatever its type says: it flows and is judged, however it is cut."""
    body = before + text("hello") + chunk(finish="stop") + usage(9) + DONE
    house = House(answers(*(body[i : i + 1] for i in range(len(body))), media=media))
    caller = house.asks(request(stream=True, max_tokens=4, stream_options={"include_usage": True}))
    assert caller.body == body.replace(b'"stop"', b'"length"')
    assert house.facts.outcome == "ok"


@pytest.mark.parametrize("media", ["", "application/json", "text/html"], ids=["no type", "JSON", "HTML"])
@pytest.mark.parametrize(
    "body",
    [b"<html>data: x</html>", b"", b" " * 5_000 + b"{}", b"dat"],
    ids=["a page", "nothing", "blanks and JSON", "half a name"],
)
def test_what_is_no_stream(media: str, body: bytes) -> None:
    """Anything else that comes in place of a stream passes as it came."""
    caller = House(answers(*(body[i : i + 7] for i in range(0, len(body), 7)), media=media)).asks(STREAM)
    assert caller.body == body


def test_an_answer_too_large_to_be_judged() -> None:
    """A whole answer above 32 MiB passes on as it comes, and a break in it is a cut."""
    piece = b"x" * (WHOLE_BYTES // 4)
    house = House(answers(*[piece] * 5, media="application/json"))
    caller = house.asks()
    assert (len(caller.body), caller.complete) == (5 * len(piece), True)
    assert house.facts.ending == CallFinished(outcome="ok", status=200)
    for error, outcome in ((httpx.ReadError(""), "stream_error"), (httpx.ReadTimeout(""), "timeout")):
        house = House(answers(*[piece] * 5, error, media="application/json"))
        caller = house.asks()
        assert not caller.complete
        assert house.facts.outcome == outcome


def test_a_page_for_people() -> None:
    """HTML with a 200, to a call for a stream or not, passes as it came and counts as incomplete."""
    page = b"<html>hello</html>"
    for body in (request(), STREAM):
        house = House(answers(page, media="text/html"))
        caller = house.asks(body)
        assert (caller.status, caller.body, caller.headers[b"content-type"]) == (200, page, b"text/html")
        assert house.facts.outcome == "incomplete"


def test_a_stream_answered_whole() -> None:
    """A stream that was asked for and answered with JSON is judged like any whole answer."""
    house = House(whole(GOOD))
    caller = house.asks(request(stream=True, max_tokens=4))
    assert caller.json["choices"][0]["finish_reason"] == "length"
    assert house.facts.outcome == "ok"


def test_an_error_in_a_good_answer() -> None:
    """A whole 200 that is an error counts as one of the upstream's."""
    house = House(whole({"error": {"message": "overloaded"}}))
    assert house.asks().status == 200
    assert house.facts.outcome == "upstream_error"


BREAKS: dict[str, tuple[Exception, str, str, int, str]] = {
    "no connection": (httpx.ConnectError("x"), "connect", "upstream_error", 502, "upstream_unreachable"),
    "no connection in time": (httpx.ConnectTimeout("x"), "timeout", "timeout", 504, "upstream_timeout"),
    "no free connection": (httpx.PoolTimeout("x"), "timeout", "timeout", 504, "upstream_timeout"),
    "silence": (httpx.ReadTimeout("x"), "timeout", "timeout", 504, "upstream_timeout"),
    "a reset": (httpx.ReadError("x"), "reset", "upstream_error", 502, "upstream_protocol_error"),
    "a reset while sending": (httpx.WriteError("x"), "reset", "upstream_error", 502, "upstream_protocol_error"),
    "no HTTP": (httpx.RemoteProtocolError("x"), "protocol", "upstream_error", 502, "upstream_protocol_error"),
}


@pytest.mark.parametrize(("error", "fault", "outcome", "status", "code"), BREAKS.values(), ids=BREAKS)
def test_breaks_before_the_head(error: Exception, fault: str, outcome: str, status: int, code: str) -> None:
    """Nothing has gone out yet: the caller gets an error of ours, and the attempt its fault."""
    house = House(fails(error))
    caller = house.asks(STREAM)
    assert (caller.status, caller.json["error"]["code"]) == (status, code)
    assert ends(house) == (outcome, fault)


@pytest.mark.parametrize(
    ("error", "fault", "outcome", "code"),
    [
        (httpx.ReadError("x"), "reset", "stream_error", "upstream_protocol_error"),
        (httpx.RemoteProtocolError("x"), "protocol", "stream_error", "upstream_protocol_error"),
        (httpx.ReadTimeout("x"), "timeout", "timeout", "upstream_timeout"),
    ],
    ids=["a reset", "a body that is no HTTP", "silence"],
)
def test_breaks_in_the_middle(error: Exception, fault: str, outcome: str, code: str) -> None:
    """What came is delivered, half an event is not; one whole error event of the dialect ends it, and no [DONE]."""
    house = House(answers(text("a"), text("b")[:-9], error))
    caller = house.asks(STREAM)
    assert caller.body.startswith(text("a") + b"data: {")
    event = json.loads(caller.body.removeprefix(text("a")).removeprefix(b"data: "))
    assert (event["error"]["code"], caller.complete) == (code, True)
    assert ends(house) == (outcome, fault)
    ending = house.facts.ending
    assert isinstance(ending, CallFailed)
    assert ending.turn is not None
    assert ending.code == code


def test_a_break_after_the_turn() -> None:
    """A connection that breaks behind [DONE] took nothing from the turn."""
    house = House(answers(text("a"), chunk(finish="stop"), usage(3), DONE, httpx.ReadError("x")))
    caller = house.asks(STREAM)
    assert caller.body.endswith(DONE)
    assert house.facts.outcome == "ok"


def test_keys_stay_where_they_are() -> None:
    """The upstream's own key takes the place of the caller's, and what quotes it does not reach the caller."""
    error = {"error": {"message": "bad key own-key"}}
    house = House(whole(error, 401, {"x-debug": "own-key", "retry-after": "7"}), settings=KEYED, KEY="own-key")
    caller = house.asks(authorization="Bearer theirs", x_api_key="theirs")
    sent = house.upstream.requests[0].headers
    assert (sent["authorization"], "x-api-key" in sent) == ("Bearer own-key", False)
    assert b"own-key" not in caller.body
    assert b"[redacted]" in caller.body
    assert b"x-debug" not in caller.headers
    assert (caller.status, caller.headers[b"retry-after"]) == (401, b"7")
    assert ends(house) == ("upstream_error", "http_4xx")


def test_credentials_of_the_caller() -> None:
    """Without a key of its own an upstream gets the caller's, and errors come back byte for byte."""
    error = b'{ "error" : {"message": "slow down", "n": 1.0} }'
    house = House(answers(error, status=429, media="application/json", headers={"x-request-id": "up-1"}))
    caller = house.asks(authorization="Bearer theirs", x_thinkcap_purpose="compaction", connection="x-gone", x_gone="1")
    sent = house.upstream.requests[0].headers
    assert sent["authorization"] == "Bearer theirs"
    assert not [name for name in sent if name.startswith("x-")]
    assert (caller.status, caller.body, caller.headers[b"x-request-id"]) == (429, error, b"up-1")
    assert ends(house) == ("upstream_error", "http_429")


FACTS = {"x_thinkcap_facts": "1"}


def test_facts_with_a_whole_answer() -> None:
    """A caller who asks reads in a header what was done; one who does not, does not."""
    house = House(whole(GOOD))
    caller = house.asks(request(max_tokens=4), **FACTS)
    told = json.loads(caller.headers[b"x-thinkcap-facts"])
    assert told == [
        {"event": "output_cap.overrun", "cap": 4, "used": 9, "verdict": "upgraded"},
        {"event": "finish_reason.upgraded", "from": "stop", "to": "length", "kind": "over"},
    ]
    assert b"x-thinkcap-facts" not in House(whole(GOOD)).asks(request(max_tokens=4)).headers


def test_facts_in_a_stream() -> None:
    """Each fact is a comment at its moment, the totals the last one; without them the stream is the same."""
    steps = (thought("a"), thought("b"), text("c"), chunk(finish="stop"), usage(9), DONE)
    settings = SETTINGS + "[thinking]\ncap = 1\n[upstreams.x]\nurl='http://x.test'\ndialects=['chat']"
    settings = settings.replace("[thinking]", 'thinking_method = "give_up"\nkind = "vllm"\n[thinking]\noverrun = 9')
    told = House(answers(*steps), settings=settings).asks(request(stream=True, max_tokens=4), **FACTS)
    plain = House(answers(*steps), settings=settings).asks(request(stream=True, max_tokens=4))
    lines = [line for line in told.body.split(b"\n\n") if line.startswith(b": thinkcap ")]
    events = [json.loads(line.removeprefix(b": thinkcap ")) for line in lines]
    assert [event["event"] for event in events] == [
        "thinking_cap.fired", "output_cap.overrun", "finish_reason.upgraded", "totals",
    ]  # fmt: skip
    assert events[-1] == {
        "event": "totals", "reasoning_tokens": 2, "past_cap": 1, "reported": "stop", "returned": "length", "verdict": "upgraded",
    }  # fmt: skip
    stripped = told.body
    for line in lines:
        stripped = stripped.replace(line + b"\n\n", b"")
    assert stripped == plain.body
    assert told.body.index(lines[0]) < told.body.index(b'"b"')


def test_an_upstream_that_lingers() -> None:
    """A connection left open behind [DONE] is not waited for."""
    house = House(answers(text("b"), chunk(finish="stop"), usage(2), DONE, asyncio.Event()))
    caller = house.asks(STREAM)
    assert caller.complete
    assert house.facts.outcome == "ok"
    assert house.upstream.left == 0


def test_a_stream_that_is_no_events() -> None:
    """Gemini's other stream, one JSON array, is passed on piece by piece and not judged."""
    house = House(answers(b"[{}", b",{}]", media="application/json"))
    caller = house.asks({}, "/v1beta/models/g:streamGenerateContent")
    assert [message["body"] for message in caller.messages[1:]] == [b"[{}", b",{}]", b""]
    assert house.facts.ending == CallFinished(outcome="ok", status=200)


def test_an_empty_stream() -> None:
    """No event at all is an answer without a finish word."""
    house = House(answers())
    caller = house.asks(STREAM)
    assert (caller.status, caller.body, caller.complete) == (200, b"", True)
    assert house.facts.outcome == "incomplete"
