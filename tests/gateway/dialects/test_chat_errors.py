"""Errors inside of a chat answer that was good so far, in the shapes of many servers: told, counted, never taken out."""

from typing import Any

import pytest

from gateway.deltas import Failure, Finish
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions
from gateway.sse import FrameReader
from tests.gateway.door import House, answers, request
from tests.gateway.plays import sse, text

CHAT = DIALECTS["chat"]
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
ERRORS = [
    pytest.param({"error": {"code": 502, "message": "boom"}}, id="an object"),
    pytest.param({"error": "boom"}, id="a text"),
    pytest.param({"object": "error", "message": "boom"}, id="vLLM's"),
    pytest.param({"error_message": "boom", "error_type": "engine"}, id="DeepInfra's"),
]


@pytest.mark.parametrize("choices", [{"choices": []}, {}], ids=["beside no choices", "alone"])
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_beside_a_usage_is_not_the_usage_we_asked_for(error: dict[str, Any], choices: dict[str, Any]) -> None:
    """It goes out as it came, first or last in its stream."""
    event = sse({"id": "c1", "object": "chat.completion.chunk"} | choices | {"usage": USAGE} | error)
    for before in (b"", text("a")):
        house = House(answers(before + event))
        assert house.asks(request(stream=True)).body == before + event
        assert house.facts.outcome == "stream_error"


def test_a_usage_alone_is() -> None:
    """That frame our asking caused."""
    house = House(answers(text("a") + sse({"choices": [], "usage": USAGE})))
    assert house.asks(request(stream=True)).body == text("a")


def named(data: bytes) -> bytes:
    """An event called error, with a comment in it as DashScope writes them."""
    return b"event:error\n:HTTP_STATUS/500\ndata:" + data + b"\n\n"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        pytest.param(named(b'{"code":"InternalError","message":"boom"}'), "InternalError", id="flat, with a code"),
        pytest.param(named(b'{"message":"boom"}'), "error", id="flat, without one"),
        pytest.param(named(b'{"error":{"type":"overloaded"}}'), "overloaded", id="nested"),
    ],
)
def test_an_event_named_error_is_one(event: bytes, kind: str) -> None:
    """Whatever it holds."""
    (frame,) = FrameReader().feed(event)
    (delta,) = CHAT.read_frame(frame)
    assert isinstance(delta, Failure)
    assert delta.kind == kind
    assert CHAT.strip(frame, Additions(usage=True)) == event


def test_a_chunk_in_an_event_named_error_is_a_chunk() -> None:
    """A name alone makes no error of what has choices; neither does a code under another name."""
    for event in (named(b'{"choices":[]}'), b'data: {"code":"x"}\n\n'):
        (frame,) = FrameReader().feed(event)
        assert list(CHAT.read_frame(frame)) == []


@pytest.mark.parametrize(
    ("index", "place"), [(0, 0), (1, 1), ("1", 1), (1.0, 1), (None, 0), (1.5, 0), ("x", 0), ("9" * 5000, 0), (True, 0)]
)
def test_a_choice_however_it_is_numbered(index: object, place: int) -> None:
    """A number that is written as text or with a fraction is that number, also where its finish is told otherwise."""
    choices: list[object] = [{"index": place + 1, "delta": {}}] * place
    data = sse({"choices": [*choices, {"index": index, "delta": {}, "finish_reason": "stop"}]})
    (frame,) = FrameReader().feed(data)
    (finish,) = CHAT.read_frame(frame)
    assert isinstance(finish, Finish)
    assert finish.choice == place
    changed = CHAT.relabel(frame.data or b"", place, "length").data
    assert changed == (frame.data or b"").replace(b'"stop"', b'"length"')
