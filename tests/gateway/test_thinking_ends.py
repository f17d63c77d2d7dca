"""Calls that are given up because the model thinks on, whole and streamed, in every dialect."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from gateway.dialects import DIALECTS
from gateway.errors import ThinkingOverrun
from gateway.events import (
    ThinkingCapped,
    ThinkingOverran,
)
from gateway.sse import FrameReader
from tests.gateway.door import CHAT, House, answers, request, whole
from tests.gateway.plays import DONE, sse, thought
from tests.gateway.thinkers import (
    MESSAGES,
    OVERRUN,
    THINK,
    YES,
    settings,
    thinker,
    turn_of,
)


def test_a_whole_answer_is_given_up() -> None:
    """Nothing has gone out: status 502, the error in the dialect's shape, and the facts for one who asked."""
    house = thinker(whole(YES), *[THINK] * 20, DONE)
    caller = house.asks(request(), x_thinkcap_facts="1")
    assert (caller.status, caller.json["error"]["code"]) == (502, "thinking_overrun")
    told = msgspec.json.decode(caller.headers[b"x-thinkcap-facts"])
    assert [fact["event"] for fact in told] == [ThinkingCapped.name, ThinkingOverran.name]
    assert (house.upstream.left, house.facts.outcome) == (0, "thinking_overrun")
    assert turn_of(house).past_cap == OVERRUN


CODES: Final[dict[str, Callable[[Any], object]]] = {
    "chat": lambda said: said["error"]["code"],
    "responses": lambda said: said.get("code") or said["error"]["code"],
    "messages": lambda said: said["error"].get("code") or said["error"]["message"].split(":")[0],
    "gemini": lambda said: said["error"]["details"][0]["reason"],
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_how_each_dialect_says_it(dialect: Any) -> None:
    """The code stands where the dialect's SDKs look for it, in a body and in one whole event; no `[DONE]` follows."""
    error = ThinkingOverrun("too long")
    assert error.status == 502
    assert "thinking_overrun" in str(CODES[dialect.name](msgspec.json.decode(dialect.error_body(error))))
    event = dialect.error_event(error)
    frames = FrameReader().feed(event)
    assert b"thinking_overrun" in event
    assert b"[DONE]" not in event
    assert len([frame for frame in frames if frame.data]) == 1


THINKING: Final[dict[str, Callable[[str], bytes]]] = {
    CHAT: thought,
    MESSAGES: lambda word: b"event: content_block_delta\n" + sse(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": word}}
    ),
    "/v1/responses": lambda word: b"event: response.reasoning_text.delta\n" + sse(
        {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": word}
    ),
    "/v1beta/models/m:streamGenerateContent?alt=sse": lambda word: sse(
        {"candidates": [{"content": {"parts": [{"text": word, "thought": True}]}}]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", THINKING, ids=["chat", "messages", "responses", "gemini"])
def test_every_dialect_can_be_given_up(target: str) -> None:
    """An estimate of four bytes a token counts where nothing better is known; at cap + overrun the stream is dropped."""
    frame = THINKING[target]("four")
    house = House(answers(*[frame] * 20), settings=settings("generic", thinking_method="give_up"))
    caller = house.asks(request(stream=True, max_tokens=99), target)
    assert caller.body.startswith(frame * 14)
    assert caller.body.count(b"thinking_overrun") in {1, 2}
    assert frame * 15 not in caller.body
    assert b"[DONE]" not in caller.body
    assert (house.upstream.left, house.facts.outcome) == (0, "thinking_overrun")
