"""`off` in every form that providers know, refused and turned up; and errors that only look like the refusal of a level."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.events import LevelRefused, LevelRetried
from gateway.words import LADDER, DialectName
from tests.gateway.door import Caller, House, answers, whole

PATHS: Final[dict[DialectName, str]] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
SETTINGS: Final = """
[upstreams.one]
url = "http://one.test"
dialects = ["chat", "responses", "messages", "gemini"]
[models.m]
upstream = "one"
levels = ["low", "high"]
[level_fallback]
remember_seconds = 0
"""
MANDATORY: Final = "Reasoning is mandatory for this endpoint and cannot be disabled."
BUDGET: Final = "Budget 0 is invalid. This model only works in thinking mode."
ZAI: Final = "This model always engages in thinking and cannot be disabled; please use low, high, or max."
OFF: dict[str, tuple[DialectName, dict[str, Any], str, dict[str, Any]]] = {
    "OpenAI: none": (
        "chat", {"reasoning_effort": "none"}, "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
        {"reasoning_effort": "low"},
    ),
    "OpenRouter: enabled is false": (
        "chat", {"reasoning": {"enabled": False, "exclude": True}}, MANDATORY,
        {"reasoning": {"enabled": True, "exclude": True, "effort": "low"}},
    ),
    "OpenRouter: effort none": ("chat", {"reasoning": {"effort": "none"}}, MANDATORY, {"reasoning": {"effort": "low"}}),
    "Z.ai: thinking is disabled": (
        "chat", {"thinking": {"type": "disabled"}}, ZAI, {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
    ),
    "Moonshot: thinking is disabled": (
        "chat", {"thinking": {"type": "disabled"}}, "invalid thinking: only type=enabled is allowed for this model",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
    ),
    "vLLM: enable_thinking is false": (
        "chat", {"chat_template_kwargs": {"enable_thinking": False, "x": 1}}, "Thinking cannot be turned off for this model.",
        {"chat_template_kwargs": {"enable_thinking": True, "x": 1}, "reasoning_effort": "low"},
    ),
    "DashScope: enable_thinking is false": (
        "chat", {"enable_thinking": False}, "enable_thinking must be true for this model",
        {"enable_thinking": True, "reasoning_effort": "low"},
    ),
    "Ollama: think is false": ("chat", {"think": False}, "think value 'none' is not supported", {"think": "low"}),
    "Google by OpenAI's SDK: budget 0": (
        "chat", {"google": {"thinking_config": {"thinking_budget": 0}}}, BUDGET,
        {"google": {"thinking_config": {"thinking_level": "low"}}},
    ),
    "Gemini: budget 0": (
        "gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}, "topK": 1}}, BUDGET,
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}, "topK": 1}},
    ),
    "Vertex: budget 0 in snake case": (
        "gemini", {"generation_config": {"thinking_config": {"thinking_budget": 0}}},
        "The model does not support setting thinking_budget to 0.",
        {"generation_config": {"thinking_config": {"thinking_level": "LOW"}}},
    ),
    "Responses: effort none": (
        "responses", {"reasoning": {"effort": "none"}}, "Unsupported value: 'none' is not supported for reasoning.effort.",
        {"reasoning": {"effort": "low"}},
    ),
    "Anthropic: thinking is disabled": (
        "messages", {"thinking": {"type": "disabled"}}, '"thinking.type.disabled" is not supported for this model.',
        {"output_config": {"effort": "low"}},
    ),
    "Anthropic: disabled beside an effort": (
        "messages", {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
        '"thinking.type.disabled" is not supported for this model.', {"output_config": {"effort": "low"}},
    ),
}  # fmt: skip


def ask(house: House, dialect: DialectName, fields: dict[str, Any]) -> tuple[Caller, dict[str, Any]]:
    """A call within the scope of the rule; the caller and what else the body says."""
    rest: dict[str, Any] = {} if dialect == "gemini" else {"model": "m", "max_tokens": 9999}
    return house.asks(rest | fields, PATHS[dialect], x_thinkcap_purpose="compaction"), rest


@pytest.mark.parametrize(("dialect", "fields", "message", "written"), OFF.values(), ids=OFF)
def test_off_is_turned_up(dialect: DialectName, fields: dict[str, Any], message: str, written: dict[str, Any]) -> None:
    """The refused `off` becomes the lowest declared level, in the field that takes one; all else stays."""
    house = House(whole({"error": {"message": message}}, 400), whole({}), settings=SETTINGS)
    caller, rest = ask(house, dialect, fields)
    assert caller.status == 200
    assert caller.headers[b"x-thinkcap-level"] == b"off->low"
    assert house.upstream.bodies == [rest | fields, rest | written]
    assert house.facts.of(LevelRetried) == [LevelRetried("off", "low")]


def near_misses() -> list[Any]:
    """All errors of the two collections that are no refusal of a level."""
    folder = Path(__file__).with_name("rules")
    rows: list[dict[str, Any]] = []
    for name in ("rejections.jsonl", "wordings.jsonl"):
        rows += map(json.loads, (folder / name).read_text(encoding="utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in rows if not row.get("retry", row.get("refused"))]


@pytest.mark.parametrize("row", near_misses())
def test_a_near_miss(row: dict[str, Any]) -> None:
    """Whatever level was sent, or none, the error comes back byte for byte, nothing goes out again and nothing counts."""
    body = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    house = House(answers(body.encode(), status=row["status"], media="application/json"), settings=SETTINGS)
    for number, level in enumerate((*LADDER, None), 1):
        caller, _ = ask(house, "chat", {"reasoning_effort": level} if level else {})
        assert (caller.status, caller.body) == (row["status"], body.encode())
        assert len(house.upstream.requests) == number
        assert not house.facts.of(LevelRefused)
