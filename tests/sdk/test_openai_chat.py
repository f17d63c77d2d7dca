"""openai's Chat Completions through the gateway: all it offers works, and what it raises is what it raises without."""

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gateway.demo.asked import PLACES
from tests.running import Running
from tests.sdk.errors import every_error, raised, where
from tests.sdk.openai_clients import aclient, client

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "What is it?"}], "max_completion_tokens": 64}
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}
Told = tuple[str, str | None, int | None]
"""Text, finish reason, completion tokens."""


def read(answer: ChatCompletion) -> Told:
    """What a whole answer says; an error that came as one has no choices."""
    if not answer.choices:
        return str(answer.model_extra), None, None
    choice = answer.choices[0]
    tokens = answer.usage.completion_tokens if answer.usage else None
    return choice.message.content or "", choice.finish_reason, tokens


def join(chunks: list[ChatCompletionChunk]) -> Told:
    """What a stream says."""
    parts = [choice for chunk in chunks for choice in chunk.choices]
    reason = next((part.finish_reason for part in parts if part.finish_reason), None)
    tokens = next((chunk.usage.completion_tokens for chunk in chunks if chunk.usage), None)
    return "".join(part.delta.content or "" for part in parts), reason, tokens


def whole(url: str, model: str, **more: Any) -> Told:
    """create()."""
    with client(url) as openai_:
        return read(openai_.chat.completions.create(model=model, **ASK | more))


def stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True)."""
    with client(url) as openai_:
        return join(list(openai_.chat.completions.create(model=model, stream=True, **ASK | USAGE | more)))


def helper(url: str, model: str, **more: Any) -> Told:
    """stream(): the helper that puts the answer together."""
    with client(url) as openai_, openai_.chat.completions.stream(model=model, **ASK | USAGE | more) as events:
        events.until_done()
        return read(events.get_final_completion())


def async_whole(url: str, model: str, **more: Any) -> Told:
    """create() of the async client."""

    async def main() -> Told:
        async with aclient(url) as openai_:
            return read(await openai_.chat.completions.create(model=model, **ASK | more))

    return asyncio.run(main())


def async_stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True) of the async client."""

    async def main() -> Told:
        async with aclient(url) as openai_:
            chunks = await openai_.chat.completions.create(model=model, stream=True, **ASK | USAGE | more)
            return join([chunk async for chunk in chunks])

    return asyncio.run(main())


def async_helper(url: str, model: str, **more: Any) -> Told:
    """stream() of the async client."""

    async def main() -> Told:
        async with (
            aclient(url) as openai_,
            openai_.chat.completions.stream(model=model, **ASK | USAGE | more) as events,
        ):
            await events.until_done()
            return read(await events.get_final_completion())

    return asyncio.run(main())


WAYS = [whole, stream, helper, async_whole, async_stream, async_helper]
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__.replace("_", " ") for way in WAYS])
Way = Callable[..., Told]


@every_way
def test_an_honest_answer(way: Way, url: str) -> None:
    """An answer under its cap reads the same in both places."""
    text, reason, tokens = way(url, "demo-honest")
    assert text.startswith("The answer is 42")
    assert (reason, tokens) == ("stop", 32)


@pytest.mark.parametrize("way", [whole, stream, async_whole, async_stream], ids=lambda way: way.__name__)
def test_an_overrun(way: Way, direct: str, through: str) -> None:
    """105 tokens under a cap of 64 told as a clean stop: through the gateway the SDK reads length, and all the text."""
    bare, told = way(direct, "demo-overrun"), way(through, "demo-overrun")
    assert (bare[1], told[1]) == ("stop", "length")
    assert (bare[0], bare[2]) == (told[0], told[2])
    assert told[2] == 105


@pytest.mark.parametrize("way", [helper, async_helper], ids=["helper", "async helper"])
def test_an_overrun_in_the_helper(way: Way, direct: str, through: str) -> None:
    """The helper takes a clean stop for a good answer; told that it was cut it raises, with the answer in hand."""
    assert way(direct, "demo-overrun")[1:] == ("stop", 105)
    with pytest.raises(openai.LengthFinishReasonError) as caught:
        way(through, "demo-overrun")
    assert read(caught.value.completion)[1:] == ("length", 105)


@pytest.mark.parametrize("asked", [False, True], ids=["nobody asked for usage", "usage was asked for"])
def test_usage_in_a_stream(asked: bool, url: str) -> None:
    """The usage chunk that the gateway asks for on its own account never shows; the one the caller wants does."""
    with client(url) as openai_:
        options = USAGE if asked else {}
        chunks = list(openai_.chat.completions.create(model="demo-overrun", stream=True, **ASK | options))
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == ([105] if asked else [])
    assert all(chunk.choices for chunk in chunks) is not asked


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tool_call(streamed: bool, url: str) -> None:
    """A tool call comes out whole, and its finish word stays, over the cap or not."""
    tools = PLACES["chat"].tools
    with client(url) as openai_:
        for model, reason in (("demo-tool", "tool_calls"), ("demo-overrun-tool", "stop")):
            if streamed:
                with openai_.chat.completions.stream(model=model, tools=tools, **ASK) as events:
                    answer: Any = events.get_final_completion()
            else:
                answer = openai_.chat.completions.create(model=model, tools=tools, **ASK)
            choice = answer.choices[0]
            assert choice.finish_reason == reason
            assert [(call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
                ("look", '{"where": "sky"}')
            ]


def test_thinking(url: str) -> None:
    """Thoughts stand where the SDK puts fields it does not know, whole and streamed."""
    with client(url) as openai_:
        answer = openai_.chat.completions.create(model="demo-thinker-brief", **ASK)
        extra = answer.choices[0].message.model_extra
        chunks = list(openai_.chat.completions.create(model="demo-thinker-brief", stream=True, **ASK))
    deltas = [chunk.choices[0].delta.model_extra or {} for chunk in chunks if chunk.choices]
    assert extra is not None
    assert extra["reasoning_content"] == "".join(delta.get("reasoning_content", "") for delta in deltas)
    assert extra["reasoning_content"]


@pytest.mark.parametrize("way", [whole, stream, helper, async_stream], ids=lambda way: way.__name__.replace("_", " "))
@every_error
def test_what_is_raised(way: Way, model: str, direct: str, shut: str, through: str) -> None:
    """Class, message, status and body of an error are what they are without the gateway."""
    assert raised(way, through, model) == raised(way, where(model, direct, shut), model)


def test_request_ids(through: str) -> None:
    """The upstream's own id of a request is kept, and where it has none there is one."""
    for model, wanted in (("shut", "req-7"), ("demo-busy", None)):
        with pytest.raises(openai.APIStatusError) as caught:
            whole(through, model)
        assert caught.value.request_id
        assert wanted in {caught.value.request_id, None}


def test_a_connection_that_breaks(direct: str, through: str) -> None:
    """Where a bare SDK sees a broken connection, it sees an error with a status or an event that says who broke it."""
    for way in (whole, stream, async_whole, async_stream):
        with pytest.raises(openai.APIConnectionError):
            way(direct, "demo-cut")
    for way in (whole, async_whole):
        with pytest.raises(openai.InternalServerError, match="upstream demo did not speak HTTP to the end") as caught:
            way(through, "demo-cut")
        assert (caught.value.status_code, caught.value.code) == (502, "upstream_protocol_error")
    for way in (stream, async_stream):
        with pytest.raises(openai.APIError, match="upstream demo did not speak HTTP to the end") as broken:
            way(through, "demo-cut")
        assert broken.value.code == "upstream_protocol_error"


def test_models_and_counters(gateway: Running) -> None:
    """The SDK lists the models of upstream and settings, and an overrun shows on /metrics."""
    before = gateway.counted("thinkcap_finish_upgrades_total", kind="over")
    with client(gateway.url) as openai_:
        names = {model.id for model in openai_.models.list()}
    assert {"demo-overrun", "shut"} <= names
    whole(gateway.url, "demo-overrun")
    assert gateway.counted("thinkcap_finish_upgrades_total", kind="over") == before + 1
