"""The scripted server as the vendors' own clients read it: what they find is what the script claims."""

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from gateway.demo.asked import Wish
from gateway.demo.upstream import running
from gateway.words import DIALECTS, DialectName

Told = tuple[str, str | None, Any]
"""Text, finish word and output tokens."""

WORDS = {
    ("chat", "stop"): "stop",
    ("chat", "length"): "length",
    ("messages", "stop"): "end_turn",
    ("messages", "length"): "max_tokens",
    ("gemini", "stop"): "STOP",
    ("gemini", "length"): "MAX_TOKENS",
    ("responses", "stop"): "completed",
    ("responses", "length"): "incomplete",
}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """A scripted server that takes no time a token."""
    with running(pace=0) as url:
        yield url


def told(url: str, wish: Wish) -> Told:
    """Text, finish word and output tokens of an answer, by the vendor's own client, whole or streamed."""
    return {"chat": by_chat, "responses": by_responses, "messages": by_messages, "gemini": by_gemini}[wish.dialect](
        url, wish
    )


def by_chat(url: str, wish: Wish) -> Told:
    """By openai's Chat Completions."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {k: v for k, v in wish.body().items() if k != "stream"}
        if not wish.stream:
            answer = client.chat.completions.create(**asked)
            choice = answer.choices[0]
            return choice.message.content or "", choice.finish_reason, answer.usage and answer.usage.completion_tokens
        text, word, usage = "", None, None
        for chunk in client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for part in chunk.choices:
                text += part.delta.content or ""
                word = part.finish_reason or word
        return text, word, usage and usage.completion_tokens


def by_responses(url: str, wish: Wish) -> Told:
    """By openai's Responses."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = {k: v for k, v in wish.body().items() if k != "stream"}
        if not wish.stream:
            answer = client.responses.create(**asked)
        else:
            text = ""
            answer = None
            for event in client.responses.create(**asked, stream=True):
                if event.type == "response.output_text.delta":
                    text += event.delta
                elif event.type in {"response.completed", "response.incomplete"}:
                    answer = event.response
            assert answer is not None
            assert text == answer.output_text
        return answer.output_text, answer.status, answer.usage and answer.usage.output_tokens


def by_messages(url: str, wish: Wish) -> Told:
    """By anthropic's Messages."""
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        asked: Any = {"max_tokens": 1000} | {k: v for k, v in wish.body().items() if k != "stream"}
        if not wish.stream:
            message = client.messages.create(**asked)
        else:
            with client.messages.stream(**asked) as stream:
                message = stream.get_final_message()
        text = "".join(block.text for block in message.content if block.type == "text")
        return text, message.stop_reason, message.usage.output_tokens


def by_gemini(url: str, wish: Wish) -> Told:
    """By google-genai."""
    client = genai.Client(api_key="none", http_options={"base_url": url})
    asked: Any = {"model": wish.model, "contents": "What is it?"}
    if wish.cap:
        asked["config"] = {"max_output_tokens": wish.cap}
    answers = (
        list(client.models.generate_content_stream(**asked))
        if wish.stream
        else [client.models.generate_content(**asked)]
    )
    client.close()
    parts = [p for a in answers for p in (a.candidates or [])[0].content.parts or []]  # type: ignore[union-attr]
    usage = answers[-1].usage_metadata
    text = "".join(part.text or "" for part in parts if not part.thought)
    word = (answers[-1].candidates or [])[0].finish_reason
    tokens = usage and (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return text, word and word.value, tokens


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("model", "cap", "wanted"),
    [
        pytest.param("demo-overrun", 64, ("stop", 105, 16), id="an overrun, told as a clean stop"),
        pytest.param("demo-overrun-aloud", 64, ("stop", 105, 16), id="an overrun that shows its thinking"),
        pytest.param("demo-at-cap", 64, ("stop", 64, 44), id="a clean stop on the cap"),
        pytest.param("demo-honest", 64, ("stop", 32, 24), id="a short answer"),
        pytest.param("demo-honest-length", 64, ("length", 64, 64), id="a cut that says so"),
        pytest.param("demo-honest", 20, ("length", 20, 12), id="a short answer under a cap that is shorter"),
    ],
)
def test_the_vendors_clients_read_what_the_script_claims(
    upstream: str, dialect: DialectName, model: str, cap: int, wanted: tuple[str, int, int], *, stream: bool
) -> None:
    """In each dialect, whole and streamed, the vendor's own client finds finish word, count and text as scripted."""
    text, word, used = told(upstream, Wish(dialect=dialect, model=model, cap=cap, stream=stream))
    reason, tokens, words = wanted
    assert (word, used, len(text.split())) == (WORDS[dialect, reason], tokens, words)
