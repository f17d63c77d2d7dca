"""anthropic's Messages through the gateway: an overrun is told as max_tokens, all else is as without it."""

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic.types import Message, ThinkingBlock

from gateway.demo.asked import PLACES
from tests.sdk.errors import every_error, raised, where

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "What is it?"}], "max_tokens": 64}
Told = tuple[str, str | None, int | None]
"""Text, stop reason, output tokens."""


def client(url: str) -> anthropic.Anthropic:
    """A client that never tries twice."""
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=60)


def aclient(url: str) -> anthropic.AsyncAnthropic:
    """The same for async code."""
    return anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0, timeout=60)


def read(answer: Message) -> Told:
    """What a whole answer says; an error that came as one has no content."""
    if not answer.content:
        return str(answer.model_extra), None, None
    text = "".join(block.text for block in answer.content if block.type == "text")
    return text, answer.stop_reason, answer.usage.output_tokens


def join(events: list[Any]) -> Told:
    """What a stream says."""
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    ends = [event for event in events if event.type == "message_delta"]
    text = "".join(delta.text for delta in deltas if delta.type == "text_delta")
    return text, ends[-1].delta.stop_reason, ends[-1].usage.output_tokens


def whole(url: str, model: str, **more: Any) -> Told:
    """create()."""
    with client(url) as anthropic_:
        return read(anthropic_.messages.create(model=model, **ASK | more))


def stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True)."""
    with client(url) as anthropic_:
        return join(list(anthropic_.messages.create(model=model, stream=True, **ASK | more)))


def helper(url: str, model: str, **more: Any) -> Told:
    """stream(): the helper that puts the answer together."""
    with client(url) as anthropic_, anthropic_.messages.stream(model=model, **ASK | more) as events:
        text = "".join(events.text_stream)
        told = read(events.get_final_message())
        assert told[0] == text
        return told


def async_whole(url: str, model: str, **more: Any) -> Told:
    """create() of the async client."""

    async def main() -> Told:
        async with aclient(url) as anthropic_:
            return read(await anthropic_.messages.create(model=model, **ASK | more))

    return asyncio.run(main())


def async_stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True) of the async client."""

    async def main() -> Told:
        async with aclient(url) as anthropic_:
            events = await anthropic_.messages.create(model=model, stream=True, **ASK | more)
            return join([event async for event in events])

    return asyncio.run(main())


def async_helper(url: str, model: str, **more: Any) -> Told:
    """stream() of the async client."""

    async def main() -> Told:
        async with aclient(url) as anthropic_, anthropic_.messages.stream(model=model, **ASK | more) as events:
            return read(await events.get_final_message())

    return asyncio.run(main())


WAYS = [whole, stream, helper, async_whole, async_stream, async_helper]
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__.replace("_", " ") for way in WAYS])
Way = Callable[..., Told]


@every_way
def test_an_honest_answer(way: Way, url: str) -> None:
    """An answer under its cap reads the same in both places."""
    text, reason, tokens = way(url, "demo-honest")
    assert text.startswith("The answer is 42")
    assert (reason, tokens) == ("end_turn", 32)


@every_way
def test_an_overrun(way: Way, direct: str, through: str) -> None:
    """105 tokens under a cap of 64 told as a clean end: through the gateway the SDK reads max_tokens, and all the text."""
    bare, told = way(direct, "demo-overrun"), way(through, "demo-overrun")
    assert bare[1:] == ("end_turn", 105)
    assert told[1:] == ("max_tokens", 105)
    assert bare[0] == told[0]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tool_call(streamed: bool, url: str) -> None:
    """A tool call comes out whole, and its stop reason stays, over the cap or not."""
    tools = PLACES["messages"].tools
    with client(url) as anthropic_:
        for model, reason in (("demo-tool", "tool_use"), ("demo-overrun-tool", "end_turn")):
            if streamed:
                with anthropic_.messages.stream(model=model, tools=tools, **ASK) as events:
                    answer: Message = events.get_final_message()
            else:
                answer = anthropic_.messages.create(model=model, tools=tools, **ASK)
            assert answer.stop_reason == reason
            calls = [block for block in answer.content if block.type == "tool_use"]
            assert [(call.name, call.input) for call in calls] == [("look", {"where": "sky"})]


def test_thinking(url: str) -> None:
    """Thoughts come as blocks of their own, whole and streamed."""
    with client(url) as anthropic_:
        answer = anthropic_.messages.create(model="demo-thinker-brief", **ASK)
        with anthropic_.messages.stream(model="demo-thinker-brief", **ASK) as events:
            streamed: Message = events.get_final_message()
    told = [[block for block in said.content if isinstance(block, ThinkingBlock)] for said in (answer, streamed)]
    assert [block.thinking for block in told[0]] == [block.thinking for block in told[1]]
    assert told[0]


def test_a_stop_sequence_of_the_callers_own(url: str) -> None:
    """The reason stays what it is, over the cap or not."""
    with client(url) as anthropic_:
        answer = anthropic_.messages.create(model="demo-overrun-stop-string", stop_sequences=["END"], **ASK)
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "END")


def test_paths_beside(url: str) -> None:
    """Counting tokens is not judged and passes through."""
    with client(url) as anthropic_:
        counted = anthropic_.messages.count_tokens(model="demo-honest", messages=ASK["messages"])
    assert counted.input_tokens == 12


def test_models(through: str) -> None:
    """The SDK lists the models of upstream and settings."""
    with client(through) as anthropic_:
        assert {"demo-honest", "shut"} <= {model.id for model in anthropic_.models.list()}


@pytest.mark.parametrize("way", [whole, stream, helper, async_stream], ids=lambda way: way.__name__.replace("_", " "))
@every_error
def test_what_is_raised(way: Way, model: str, direct: str, shut: str, through: str) -> None:
    """Class, message, status and body of an error are what they are without the gateway."""
    assert raised(way, through, model) == raised(way, where(model, direct, shut), model)


def test_a_connection_that_breaks(direct: str, through: str) -> None:
    """Where a bare SDK sees a broken connection, it sees an error with a status or an event that says who broke it."""
    for way in (whole, async_whole):
        with pytest.raises(anthropic.APIConnectionError):
            way(direct, "demo-cut")
        with pytest.raises(
            anthropic.InternalServerError, match="upstream demo did not speak HTTP to the end"
        ) as caught:
            way(through, "demo-cut")
        assert caught.value.status_code == 502
    for way in (stream, helper, async_stream):
        with pytest.raises(Exception, match="peer closed connection"):
            way(direct, "demo-cut")
        with pytest.raises(anthropic.APIStatusError, match="upstream_protocol_error"):
            way(through, "demo-cut")
