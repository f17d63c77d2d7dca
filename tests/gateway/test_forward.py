"""Paths no rule looks at: forwarded as they are, both ways as they come, counted once."""

import asyncio
import json

import httpx
import pytest

from gateway.events import AttemptEnded, CallAbandoned, CallFailed, CallFinished, CallRouted
from tests.gateway.door import SETTINGS, TRACE, Caller, House, answers, fails, request, run, until, whole

FILES = "/v1/files"
KEYED = SETTINGS + 'api_key_env = "KEY"\nversion_path = "/api"\n'


@pytest.mark.parametrize(
    ("method", "target", "path"),
    [
        ("POST", "/v1/embeddings", "/v1/embeddings"),
        ("POST", "/v1/messages/count_tokens?beta=true", "/v1/messages/count_tokens?beta=true"),
        ("GET", "/v1/responses/resp_1", "/v1/responses/resp_1"),
        ("DELETE", "/v1/files/f%2F1", "/v1/files/f%2F1"),
        ("POST", "/upload/v1beta/files", "/upload/v1beta/files"),
        ("GET", "/v1beta/cachedContents?pageSize=1", "/v1beta/cachedContents?pageSize=1"),
    ],
    ids=["embeddings", "a count of tokens", "one response", "a file with a slash in its name", "an upload", "caches"],
)
def test_paths(method: str, target: str, path: str) -> None:
    """Method, path, query and body arrive as they came, and the answer comes back as it is."""
    house = House(answers(b'{ "n": 1.0}', media="application/json", headers={"x-request-id": "up-1"}))
    caller = house.asks({"a": 1}, target, method, authorization="Bearer theirs", accept_encoding="br")
    sent = house.upstream.requests[0]
    assert (sent.method, sent.url.raw_path) == (method, b"/base" + path.encode())
    assert sent.content == (b'{"a":1}' if method == "POST" else b"")
    assert (sent.headers["authorization"], sent.headers["accept-encoding"]) == ("Bearer theirs", "br")
    assert (caller.status, caller.body, caller.headers[b"x-request-id"]) == (200, b'{ "n": 1.0}', b"up-1")
    assert house.facts.ending == CallFinished(outcome="ok", status=200)
    assert house.facts.of(CallRouted)[0].call is None
    assert house.upstream.left == 0


def test_keys() -> None:
    """The upstream's own key takes the place of the caller's, in its dialect's header, and its version path counts."""
    house = House(whole({}, headers={"x-debug": "own-key"}), settings=KEYED, KEY="own-key")
    caller = house.asks(target="/v1beta/files?key=theirs&a=1", method="GET", authorization="Bearer theirs")
    sent = house.upstream.requests[0]
    assert sent.url.raw_path == b"/base/api/files?a=1"
    assert (sent.headers["x-goog-api-key"], "authorization" in sent.headers) == ("own-key", False)
    assert b"x-debug" not in caller.headers
    assert len(caller.headers[b"x-request-id"]) == 32


def test_traces() -> None:
    """The trace goes along only where it is set."""
    house = House(whole({}), settings=SETTINGS + "forward_trace = true\n")
    house.asks({}, FILES, traceparent="00-ff-ff-01")
    house.asks(request(), traceparent="00-ff-ff-01")
    assert [sent.headers["traceparent"] for sent in house.upstream.requests] == [TRACE[0][1].decode()] * 2
    house = House(whole({}))
    house.asks({}, FILES, traceparent="00-ff-ff-01", baggage="a=b")
    assert not {"traceparent", "baggage"} & set(house.upstream.requests[0].headers)


@pytest.mark.parametrize(
    ("status", "outcome", "fault"),
    [(204, "ok", None), (304, "ok", None), (404, "upstream_error", "http_4xx"), (429, "upstream_error", "http_429"),
     (500, "upstream_error", "http_5xx"), (302, "upstream_error", "protocol")],
    ids=["no content", "not modified", "not found", "too many", "a fault", "a redirect"],
)  # fmt: skip
def test_statuses(status: int, outcome: str, fault: str | None) -> None:
    """Every status comes back as it is, and counts for what it is."""
    house = House(answers(status=status))
    assert house.asks(target=FILES, method="GET").status == status
    assert house.facts.ending == CallFinished(outcome=outcome, status=status)  # type: ignore[arg-type]
    assert house.facts.of(AttemptEnded)[0].fault == fault


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(httpx.ReadError("x"), "stream_error"), (httpx.ReadTimeout("x"), "timeout")],
    ids=["breaks", "falls silent"],
)
def test_an_answer_that_breaks(error: Exception, outcome: str) -> None:
    """Before the head it is an error of ours; behind it the caller is cut off, for nothing can be said any more."""
    house = House(fails(error))
    caller = house.asks({}, FILES)
    assert caller.json["error"]["code"] == ("upstream_timeout" if outcome == "timeout" else "upstream_protocol_error")
    house = House(answers(b"a", error))
    caller = house.asks({}, FILES)
    assert (caller.body, caller.complete) == (b"a", False)
    ending = house.facts.ending
    assert isinstance(ending, CallFailed)
    assert (ending.outcome, ending.status) == (outcome, 200)
    assert house.upstream.left == 0


@pytest.mark.parametrize("length", ["x", "-1", "9" * 16, ""], ids=["a word", "negative", "beyond measure", "empty"])
def test_a_length_that_is_none(length: str) -> None:
    """A content-length that is no number is refused."""
    house = House(whole({}))
    caller = run(house.serve(Caller("POST", FILES, {"content-length": length}, [b"a"])))
    assert (caller.status, caller.json["error"]["code"]) == (400, "bad_request")


@pytest.mark.parametrize("length", [None, 3 * 1024 * 1024], ids=["in chunks", "of a known length"])
def test_an_upload(length: int | None) -> None:
    """A large body goes on as it comes, beyond the limit of judged calls, its length kept where it had one."""
    parts = [b"x" * 1024 * 1024] * 3
    headers = {"transfer-encoding": "chunked"} if length is None else {"content-length": str(length)}
    house = House(whole({}), settings="[server]\nmax_body_bytes = 8" + SETTINGS)
    assert run(house.serve(Caller("POST", FILES, headers, parts))).status == 200
    sent = house.upstream.requests[0]
    assert sent.content == b"".join(parts)
    assert sent.headers.get("content-length") == (str(length) if length else None)
    assert house.facts.outcome == "ok"


@pytest.mark.parametrize("length", [8, 3 * 1024 * 1024], ids=["small", "large"])
def test_leaving_in_the_middle_of_an_upload(length: int) -> None:
    """Half a request is none: the upstream is let go."""
    house = House(whole({}))
    caller = Caller("POST", FILES, {"content-length": str(length)}, [b"half"])
    caller.whole = False
    caller.gone.set()
    run(house.serve(caller))
    assert house.facts.ending == CallAbandoned()
    assert not caller.messages


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("size", [0, 2 * 1024 * 1024], ids=["small", "large"])
def test_leaving_in_the_middle_of_an_answer(method: str, size: int) -> None:
    """The upstream is let go when the caller has left, whatever was sent before."""
    house = House(answers(b"a", asyncio.Event()))
    caller = house.caller(b"x" * size, FILES, method)

    async def play() -> None:
        running = asyncio.ensure_future(house.serve(caller))
        await until(lambda: caller.body == b"a")
        caller.gone.set()
        await running

    run(play())
    assert house.facts.ending == CallAbandoned(status=200)
    assert house.upstream.left == 0


def test_errors_that_quote_the_key() -> None:
    """An upstream's error does not carry its key to the caller, also where it falls between two reads."""
    house = House(
        answers(b'{"error":"bad own-', b'key"}', status=401, headers={"content-length": "23"}),
        settings=KEYED,
        KEY="own-key",
    )
    caller = house.asks({}, FILES)
    assert json.loads(caller.body) == {"error": "bad [redacted]"}
    assert b"content-length" not in caller.headers
