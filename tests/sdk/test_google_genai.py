"""google-genai through the gateway: an overrun is told as MAX_TOKENS, all else is as without it."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from google import genai
from google.genai import errors
from google.genai.types import (
    FinishReason,
    GenerateContentConfig,
    GenerateContentResponse,
    HttpOptions,
    HttpRetryOptions,
    ThinkingConfig,
)

from gateway.demo.asked import PLACES
from tests.sdk.errors import every_error, raised, where

Told = tuple[str, FinishReason | None, int]
"""Text, finish reason, output tokens with those of thinking."""


def client(url: str) -> genai.Client:
    """A client that never tries twice."""
    options = HttpOptions(base_url=url, timeout=60_000, retry_options=HttpRetryOptions(attempts=1))
    return genai.Client(api_key="none", http_options=options)


def config(**more: Any) -> GenerateContentConfig:
    """A call under a cap of 64 tokens."""
    return GenerateContentConfig(max_output_tokens=64, **more)


def join(answers: list[GenerateContentResponse]) -> Told:
    """What a whole answer, or the chunks of a stream, say."""
    parts = [part for answer in answers for part in (answer.candidates or [])[0].content.parts or []]  # type: ignore[union-attr]
    usage, candidates = answers[-1].usage_metadata, answers[-1].candidates
    assert usage is not None
    assert candidates is not None
    tokens = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return "".join(part.text or "" for part in parts if not part.thought), candidates[0].finish_reason, tokens


def whole(url: str, model: str, **more: Any) -> Told:
    """generate_content()."""
    with closing(client(url)) as genai_:
        return join([genai_.models.generate_content(model=model, contents="What is it?", config=config(**more))])


def stream(url: str, model: str, **more: Any) -> Told:
    """generate_content_stream()."""
    with closing(client(url)) as genai_:
        chunks = genai_.models.generate_content_stream(model=model, contents="What is it?", config=config(**more))
        return join(list(chunks))


def async_whole(url: str, model: str, **more: Any) -> Told:
    """generate_content() of the async client."""

    async def main() -> Told:
        async with client(url).aio as genai_:
            return join([await genai_.models.generate_content(model=model, contents="What?", config=config(**more))])

    return asyncio.run(main())


def async_stream(url: str, model: str, **more: Any) -> Told:
    """generate_content_stream() of the async client."""

    async def main() -> Told:
        async with client(url).aio as genai_:
            chunks = await genai_.models.generate_content_stream(model=model, contents="What?", config=config(**more))
            return join([chunk async for chunk in chunks])

    return asyncio.run(main())


WAYS = [whole, stream, async_whole, async_stream]
every_way = pytest.mark.parametrize("way", WAYS, ids=[way.__name__.replace("_", " ") for way in WAYS])
Way = Callable[..., Told]


@every_way
def test_an_honest_answer(way: Way, url: str) -> None:
    """An answer under its cap reads the same in both places."""
    text, reason, tokens = way(url, "demo-honest")
    assert text.startswith("The answer is 42")
    assert (reason, tokens) == (FinishReason.STOP, 32)


@every_way
def test_an_overrun(way: Way, direct: str, through: str) -> None:
    """105 tokens under a cap of 64 told as STOP: through the gateway the SDK reads MAX_TOKENS, and all the text."""
    bare, told = way(direct, "demo-overrun"), way(through, "demo-overrun")
    assert bare[1:] == (FinishReason.STOP, 105)
    assert told[1:] == (FinishReason.MAX_TOKENS, 105)
    assert bare[0] == told[0]


@pytest.mark.parametrize("model", ["demo-tool", "demo-overrun-tool"], ids=["under the cap", "over the cap"])
def test_a_tool_call(model: str, url: str) -> None:
    """A tool call comes out whole, and its finish reason stays."""
    tools = PLACES["gemini"].tools
    with closing(client(url)) as genai_:
        answer = genai_.models.generate_content(model=model, contents="What is it?", config=config(tools=tools))
        chunks = list(
            genai_.models.generate_content_stream(model=model, contents="What is it?", config=config(tools=tools))
        )
    for said in ([answer], chunks):
        calls = [call for part in said for call in part.function_calls or []]
        assert [(call.name, call.args) for call in calls] == [("look", {"where": "sky"})]
        assert (said[-1].candidates or [])[0].finish_reason == FinishReason.STOP


def test_thinking(url: str) -> None:
    """Thoughts are parts marked as such, with a level or a budget set; they are counted beside the text."""
    for thinking in (ThinkingConfig(include_thoughts=True), ThinkingConfig(thinking_budget=32)):
        with closing(client(url)) as genai_:
            answer = genai_.models.generate_content(
                model="demo-thinker-brief", contents="What is it?", config=config(thinking_config=thinking)
            )
        assert answer.candidates
        content = answer.candidates[0].content
        assert content is not None
        assert [part.text for part in content.parts or [] if part.thought]
        assert answer.usage_metadata is not None
        assert answer.usage_metadata.thoughts_token_count == 12


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_models(version: str, through: str) -> None:
    """The SDK lists the models of upstream and settings, on the path it shares with others as well."""
    options = HttpOptions(base_url=through, api_version=version, timeout=60_000)
    with closing(genai.Client(api_key="none", http_options=options)) as genai_:
        assert "models/demo-honest" in {model.name for model in genai_.models.list()}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.replace("_", " "))
@every_error
def test_what_is_raised(way: Way, model: str, direct: str, shut: str, through: str) -> None:
    """Class, message, status and body of an error are what they are without the gateway."""
    assert raised(way, through, model) == raised(way, where(model, direct, shut), model)


def test_a_connection_that_breaks(direct: str, through: str) -> None:
    """Where a bare SDK sees a broken connection, it sees an error with a status or an event that says who broke it."""
    for way in WAYS:
        with pytest.raises(Exception, match="peer closed connection"):
            way(direct, "demo-cut")
        with pytest.raises(errors.ServerError, match="upstream demo did not speak HTTP to the end") as caught:
            way(through, "demo-cut")
        assert (caught.value.code, caught.value.status) == (502, "UPSTREAM_PROTOCOL_ERROR")
