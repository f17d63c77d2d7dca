"""openai's Responses through the gateway: an overrun is told as an incomplete response, all else is as without it."""

import asyncio
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from gateway.demo.asked import PLACES
from tests.sdk.errors import every_error, raised, where
from tests.sdk.openai_clients import aclient, client

ASK: dict[str, Any] = {"input": "What is it?", "max_output_tokens": 64}
Told = tuple[str, str | None, str | None, int | None]
"""Text, status, why it is incomplete, output tokens."""


def read(answer: Response) -> Told:
    """What a whole answer says; an error that came as one has no output."""
    if not answer.output:
        return str(answer.error), None, None, None
    why = answer.incomplete_details.reason if answer.incomplete_details else None
    return answer.output_text, answer.status, why, answer.usage.output_tokens if answer.usage else None


def last(events: list[Any]) -> Told:
    """What the terminal event of a stream says, which must bear out its deltas; an error event stands for itself."""
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    final = events[-1]
    if final.type == "error":
        return final.message, final.code, None, None
    assert final.type == f"response.{final.response.status}"
    assert final.response.output_text == text
    return read(final.response)


def whole(url: str, model: str, **more: Any) -> Told:
    """create()."""
    with client(url) as openai_:
        return read(openai_.responses.create(model=model, **ASK | more))


def stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True)."""
    with client(url) as openai_:
        return last(list(openai_.responses.create(model=model, stream=True, **ASK | more)))


def helper(url: str, model: str, **more: Any) -> Told:
    """stream(): the helper that puts the answer together."""
    with client(url) as openai_, openai_.responses.stream(model=model, **ASK | more) as events:
        return last(list(events))


def async_whole(url: str, model: str, **more: Any) -> Told:
    """create() of the async client."""

    async def main() -> Told:
        async with aclient(url) as openai_:
            return read(await openai_.responses.create(model=model, **ASK | more))

    return asyncio.run(main())


def async_stream(url: str, model: str, **more: Any) -> Told:
    """create(stream=True) of the async client."""

    async def main() -> Told:
        async with aclient(url) as openai_:
            events = await openai_.responses.create(model=model, stream=True, **ASK | more)
            return last([event async for event in events])

    return asyncio.run(main())


def async_helper(url: str, model: str, **more: Any) -> Told:
    """stream() of the async client."""

    async def main() -> Told:
        async with aclient(url) as openai_, openai_.responses.stream(model=model, **ASK | more) as events:
            return last([event async for event in events])

    return asyncio.run(main())


WAYS = [whole, stream, helper, async_whole, async_stream, async_helper]
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__.replace("_", " ") for way in WAYS])
Way = Callable[..., Told]


@every_way
def test_an_honest_answer(way: Way, url: str) -> None:
    """An answer under its cap is complete in both places."""
    text, status, why, tokens = way(url, "demo-honest")
    assert text.startswith("The answer is 42")
    assert (status, why, tokens) == ("completed", None, 32)


@every_way
def test_an_overrun(way: Way, direct: str, through: str) -> None:
    """105 tokens under a cap of 64, told as completed: through the gateway it is incomplete, and says why."""
    bare, told = way(direct, "demo-overrun"), way(through, "demo-overrun")
    assert bare[1:] == ("completed", None, 105)
    assert told[1:] == ("incomplete", "max_output_tokens", 105)
    assert bare[0] == told[0]


def test_the_helper_ends_well(through: str) -> None:
    """The helper's own final response is the incomplete one."""
    with client(through) as openai_, openai_.responses.stream(model="demo-overrun", **ASK) as events:
        events.until_done()
        with pytest.raises(RuntimeError, match=r"response\.completed"):  # it knows no other ending
            events.get_final_response()
    with client(through) as openai_, openai_.responses.stream(model="demo-honest", **ASK) as events:
        assert events.get_final_response().status == "completed"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_tool_call(streamed: bool, url: str) -> None:
    """A tool call comes out whole, and its response stays complete, over the cap or not."""
    tools = PLACES["responses"].tools
    with client(url) as openai_:
        for model in ("demo-tool", "demo-overrun-tool"):
            if streamed:
                events: list[Any] = list(openai_.responses.create(model=model, tools=tools, stream=True, **ASK))
                answer: Response = events[-1].response
            else:
                answer = openai_.responses.create(model=model, tools=tools, **ASK)
            assert answer.status == "completed"
            calls = [item for item in answer.output if item.type == "function_call"]
            assert [(call.name, call.arguments) for call in calls] == [("look", '{"where": "sky"}')]


def test_thinking(url: str) -> None:
    """Thoughts come as events, as an item of their own, and are counted."""
    with client(url) as openai_:
        events: list[Any] = list(openai_.responses.create(model="demo-thinker-brief", stream=True, **ASK))
    answer: Response = events[-1].response
    assert {"reasoning", "message"} == {item.type for item in answer.output}
    assert [event for event in events if event.type.startswith("response.reasoning")]
    assert answer.usage is not None
    assert answer.usage.output_tokens_details.reasoning_tokens == 12


@pytest.mark.parametrize("way", [whole, stream, helper, async_stream], ids=lambda way: way.__name__.replace("_", " "))
@every_error
def test_what_is_raised(way: Way, model: str, direct: str, shut: str, through: str) -> None:
    """Class, message, status and body of an error are what they are without the gateway."""
    assert raised(way, through, model) == raised(way, where(model, direct, shut), model)


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
        said = way(through, "demo-cut")
        assert said[:2] == ("upstream demo did not speak HTTP to the end", "upstream_protocol_error")
