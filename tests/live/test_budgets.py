"""The budget fields of llama.cpp, as the real server takes them."""

from typing import Any, Final

import httpx
import msgspec
import pytest

from gateway.dialects.budgets import write_budget
from gateway.words import DialectName
from tests.live.llama import LlamaServer

CAP: Final = 20
PATHS: Final[dict[DialectName, str]] = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
ASKED: Final[dict[DialectName, dict[str, Any]]] = {
    "chat": {"messages": [{"role": "user", "content": "What is it?"}], "max_tokens": 200},
    "messages": {"messages": [{"role": "user", "content": "What is it?"}], "max_tokens": 200},
    "responses": {"input": "What is it?", "max_output_tokens": 200},
}


def _told(dialect: DialectName, answer: dict[str, Any]) -> tuple[str, str]:
    """The thinking and the text of a whole answer."""
    if dialect == "chat":
        message = answer["choices"][0]["message"]
        return message.get("reasoning_content", ""), message["content"]
    if dialect == "messages":
        blocks = {block["type"]: block for block in answer["content"]}
        return blocks.get("thinking", {}).get("thinking", ""), blocks.get("text", {}).get("text", "")
    texts = [part["text"] for item in answer["output"] for part in item["content"]]
    return (texts[0], texts[1]) if len(texts) > 1 else (texts[0], "")


@pytest.mark.parametrize(
    ("dialect", "fields", "most"),
    [
        pytest.param("chat", {}, CAP, id="chat"),
        pytest.param("chat", {"thinking_budget_tokens": 5}, 5, id="chat under its own budget"),
        pytest.param("chat", {"reasoning_budget_tokens": -1}, CAP, id="chat with the name that wins"),
        pytest.param("messages", {}, CAP, id="messages"),
        pytest.param("messages", {"thinking": {"type": "adaptive"}}, CAP, id="messages, adaptive"),
        pytest.param("responses", {}, CAP, id="responses"),
    ],
)
def test_the_server_keeps_the_budget(
    llama: LlamaServer, dialect: DialectName, fields: dict[str, Any], most: int
) -> None:
    """A model that would think for ever stops at the budget that was written, and answers."""
    asked = msgspec.json.encode({"model": llama.alias, **ASKED[dialect], **fields})
    body = write_budget(dialect, "llama.cpp", asked, CAP)
    assert body is not None
    answer = httpx.post(llama.url + PATHS[dialect], content=body, headers={"content-type": "application/json"}).json()
    thinking, text = _told(dialect, answer)
    assert most - 1 <= thinking.count("thought") <= most
    assert text == "The answer is 42."


def test_a_budget_switches_nothing_on(llama: LlamaServer) -> None:
    """A caller who switched thinking off gets none through a budget."""
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    for dialect in ("chat", "messages"):
        asked = msgspec.json.encode({"model": llama.alias, **ASKED[dialect], **off})
        body = write_budget(dialect, "llama.cpp", asked, CAP)
        answer = httpx.post(llama.url + PATHS[dialect], content=body, headers={"content-type": "application/json"})
        assert _told(dialect, answer.json()) == ("", "The answer is 42.")
