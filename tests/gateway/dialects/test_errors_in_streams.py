"""Errors in a stream that was good so far, as servers of all kinds write them: told by a type, a field or a name alone."""

import pytest

from gateway.deltas import Failure
from gateway.dialects import DIALECTS
from gateway.sse import FrameReader
from gateway.words import DialectName
from tests.gateway.door import LEVELS, House, answers

BARE = b'data: {"error":{"code":500,"message":"boom","type":"server_error"}}\n\n'
NAMED = b"event: error\n" + BARE
FLAT = b'event: error\ndata: {"code":500,"message":"boom","type":"server_error"}\n\n'
TYPED = b'data: {"type":"error","error":{"type":"server_error","message":"boom"}}\n\n'
NOT_ERRORS = [
    pytest.param(b'data: {"error":null}\n\n', id="no error in the field for one"),
    pytest.param(b'data: {"type":"of the future","error":{"type":"x"}}\n\n', id="a new kind of event"),
    pytest.param(b'event: ping\ndata: {"note":"boom"}\n\n', id="another name"),
]


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    "event", [BARE, NAMED, FLAT, TYPED], ids=["by a field", "by both", "by its name", "by its type"]
)
def test_an_error_is_one_however_it_is_told(dialect: DialectName, event: bytes) -> None:
    """One failure, with the short word that says what kind."""
    (frame,) = FrameReader().feed(event)
    (delta,) = DIALECTS[dialect].read_frame(frame)
    assert isinstance(delta, Failure)
    assert delta.kind in {"server_error", "500"}
    assert delta.text == frame.data


@pytest.mark.parametrize("dialect", ["messages", "responses"])
@pytest.mark.parametrize("event", NOT_ERRORS)
def test_what_is_no_error(dialect: DialectName, event: bytes) -> None:
    """Nothing is said by it."""
    (frame,) = FrameReader().feed(event)
    assert not DIALECTS[dialect].read_frame(frame)


@pytest.mark.parametrize("start", [b"data: ", b"event: error\ndata: "], ids=["bare", "named"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"model": "m", "stream": True, "output_config": {"effort": "minimal"}}),
        ("/v1/responses", {"model": "m", "stream": True, "reasoning": {"effort": "minimal"}}),
    ],
    ids=["messages", "responses"],
)
def test_a_refusal_that_is_told_so_is_answered(start: bytes, path: str, body: dict[str, object]) -> None:
    """Before the first delta the call goes out again with the next level."""
    said = b"Unexpected reasoning effort minimal. Supported types are high, medium, and low."
    refused = start + b'{"error":{"code":400,"message":"%b"}}\n\n' % said
    house = House(answers(refused), answers(TYPED), settings=LEVELS.replace("chat", path.rpartition("/")[2]))
    caller = house.asks(body, path, x_thinkcap_purpose="compaction")
    assert caller.headers[b"x-thinkcap-level"] == b"minimal->low"
    assert len(house.upstream.requests) == 2


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        pytest.param(
            b'[{\n  "error": {"code": 400, "status": "INVALID_ARGUMENT"}\n}]', "upstream_error", id="an error"
        ),
        pytest.param(b'[{"error":{"code":400}},{"candidates":[]}]', "ok", id="an error among others"),
        pytest.param(b'[{"candidates":[]}]', "ok", id="answers"),
    ],
)
def test_google_wraps_an_error_in_an_array(body: bytes, outcome: str) -> None:
    """Such a 200 is none; other arrays are not judged."""
    house = House(answers(body, media="application/json"))
    caller = house.asks({}, "/v1beta/models/g:generateContent")
    assert (caller.status, caller.body, house.facts.outcome) == (200, body, outcome)
