"""Thinking budgets: which field of which server, row by row, and the requests that get none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.budgets import write_budget
from gateway.words import DIALECTS, UPSTREAM_KINDS, DialectName, UpstreamKind

CAP = 2000
Json = dict[str, Any]


def row(dialect: DialectName, kind: UpstreamKind, asked: Json, expected: Json | None, id: str) -> Any:  # noqa: A002 - pytest's own word
    """One case: this request, to a server of this kind, goes out as that; None: no budget can be said."""
    return pytest.param(dialect, kind, asked, expected, id=id)


def thinks(**fields: Any) -> Json:
    """An Anthropic request with these thinking fields."""
    return {"max_tokens": 8000, "thinking": fields}


def gemini(**fields: Any) -> Json:
    """A Gemini request with this thinking configuration."""
    return {"generationConfig": {"thinkingConfig": fields}}


ROWS = [
    row("chat", "llama.cpp", {}, {"thinking_budget_tokens": CAP}, "llama.cpp chat gets the cap"),
    row(
        "chat",
        "llama.cpp",
        {"thinking_budget_tokens": 5000},
        {"thinking_budget_tokens": CAP},
        "llama.cpp chat is lowered to the cap",
    ),
    row(
        "chat",
        "llama.cpp",
        {"thinking_budget_tokens": CAP},
        {"thinking_budget_tokens": CAP},
        "llama.cpp chat on the cap stays",
    ),
    row(
        "chat",
        "llama.cpp",
        {"thinking_budget_tokens": 0},
        {"thinking_budget_tokens": 0},
        "llama.cpp chat with thinking off stays off",
    ),
    row(
        "chat",
        "llama.cpp",
        {"thinking_budget_tokens": 10, "reasoning_budget_tokens": -1},
        {"thinking_budget_tokens": 10, "reasoning_budget_tokens": CAP},
        "llama.cpp chat: the name that wins is lowered",
    ),
    row(
        "chat",
        "llama.cpp",
        {"reasoning_budget_tokens": "5"},
        {"reasoning_budget_tokens": "5", "thinking_budget_tokens": CAP},
        "llama.cpp chat: a name the server ignores does not count",
    ),
    row("chat", "llama.cpp", {"thinking_budget_tokens": "9"}, None, "llama.cpp chat with a budget that is no number"),
    row("responses", "llama.cpp", {}, {"thinking_budget_tokens": CAP}, "llama.cpp responses gets the cap"),
    row(
        "messages",
        "llama.cpp",
        {},
        {"thinking": {"type": "enabled", "budget_tokens": CAP}},
        "llama.cpp messages gets the whole form",
    ),
    row(
        "messages",
        "llama.cpp",
        {"thinking": {"type": "adaptive"}},
        {"thinking": {"type": "enabled", "budget_tokens": CAP}},
        "llama.cpp messages: adaptive is no form the server reads",
    ),
    row(
        "messages",
        "llama.cpp",
        {"thinking": {"type": "enabled", "budget_tokens": 10}},
        {"thinking": {"type": "enabled", "budget_tokens": 10}},
        "llama.cpp messages under the cap stays",
    ),
    row("messages", "llama.cpp", {"thinking": {"type": "disabled"}}, None, "llama.cpp messages with thinking off"),
    row(
        "messages",
        "llama.cpp",
        {"thinking": {"type": ["x"]}},
        {"thinking": {"type": "enabled", "budget_tokens": CAP}},
        "llama.cpp messages with a type that is none",
    ),
    row(
        "messages", "llama.cpp", {"thinking": {"type": "between_tools"}}, None, "llama.cpp messages between tools alone"
    ),
    row("messages", "llama.cpp", {"thinking": "yes"}, None, "llama.cpp messages with a thinking that is no object"),
    row("chat", "vllm", {}, {"thinking_token_budget": CAP}, "vLLM chat gets the cap"),
    row(
        "chat",
        "vllm",
        {"thinking_token_budget": 9000},
        {"thinking_token_budget": CAP},
        "vLLM chat is lowered to the cap",
    ),
    row("chat", "sglang", {}, {"custom_params": {"thinking_budget": CAP}}, "SGLang chat gets the cap"),
    row(
        "chat",
        "sglang",
        {"custom_params": {"x": 1, "thinking_budget": 9000}},
        {"custom_params": {"x": 1, "thinking_budget": CAP}},
        "SGLang chat is lowered and keeps its other parameters",
    ),
    row("chat", "sglang", {"custom_params": []}, None, "SGLang chat with parameters that are no object"),
    row(
        "messages",
        "anthropic",
        thinks(type="enabled", budget_tokens=4000),
        thinks(type="enabled", budget_tokens=CAP),
        "Anthropic is lowered to the cap",
    ),
    row(
        "messages",
        "anthropic",
        thinks(type="enabled", budget_tokens=1024),
        thinks(type="enabled", budget_tokens=1024),
        "Anthropic under the cap stays",
    ),
    row("messages", "anthropic", {"max_tokens": 8000}, None, "Anthropic without thinking is not switched on"),
    row("messages", "anthropic", thinks(type="adaptive"), None, "Anthropic adaptive takes no budget"),
    row("messages", "anthropic", thinks(type="disabled", budget_tokens=4000), None, "Anthropic with thinking off"),
    row(
        "messages",
        "anthropic",
        {"max_tokens": CAP, "thinking": {"type": "enabled", "budget_tokens": 4000}},
        None,
        "Anthropic: the budget must stay below max_tokens",
    ),
    row(
        "gemini", "gemini", {}, {"generationConfig": {"thinkingConfig": {"thinkingBudget": CAP}}}, "Gemini gets the cap"
    ),
    row("gemini", "gemini", gemini(thinkingBudget=-1), gemini(thinkingBudget=CAP), "Gemini dynamic is bounded"),
    row("gemini", "gemini", gemini(thinkingBudget=0), gemini(thinkingBudget=0), "Gemini off stays off"),
    row(
        "gemini",
        "gemini",
        {"generation_config": {"thinking_config": {"thinking_budget": 4000}}},
        {"generation_config": {"thinking_config": {"thinking_budget": CAP}}},
        "Gemini in snake case is lowered where it stands",
    ),
    row("gemini", "gemini", {"generationConfig": 3}, None, "Gemini with a configuration that is no object"),
    *(
        row("chat", kind, {}, None, f"chat to {kind} has no field")
        for kind in UPSTREAM_KINDS
        if kind in {"openai", "generic"}
    ),
    row("responses", "vllm", {}, None, "responses to vllm has no field"),
]
"""All for gemini-2.5-flash, where the model matters."""


@pytest.mark.parametrize(("dialect", "kind", "asked", "expected"), ROWS)
def test_rows(dialect: DialectName, kind: UpstreamKind, asked: Json, expected: Json | None) -> None:
    """Each server gets its own field, with at most the cap in it."""
    written = write_budget(dialect, kind, json.dumps(asked).encode(), CAP, model="gemini-2.5-flash")
    assert (None if written is None else json.loads(written)) == expected


@pytest.mark.parametrize(
    ("dialect", "kind", "asked"),
    [
        pytest.param("chat", "llama.cpp", {"reasoning_effort": "high"}, id="chat effort"),
        pytest.param("chat", "vllm", {"reasoning": {"effort": "low"}}, id="nested chat effort"),
        pytest.param("chat", "sglang", {"chat_template_kwargs": {"reasoning_effort": "low"}}, id="template effort"),
        pytest.param("chat", "vllm", {"chat_template_kwargs": {"reasoning_strength": "high"}}, id="template strength"),
        pytest.param("chat", "vllm", {"think": "high"}, id="Ollama's word"),
        pytest.param("chat", "vllm", {"think": False}, id="Ollama's no"),
        pytest.param(
            "chat", "llama.cpp", {"google": {"thinking_config": {"thinking_level": "low"}}}, id="Google's in chat"
        ),
        pytest.param("responses", "llama.cpp", {"reasoning": {"effort": "low"}}, id="responses effort"),
        pytest.param("responses", "llama.cpp", {"input": [{"reasoning": {"effort": "low"}}]}, id="an item's effort"),
        pytest.param(
            "messages",
            "anthropic",
            {"output_config": {"effort": "low"}, "thinking": {"type": "enabled", "budget_tokens": 4000}},
            id="messages effort",
        ),
        pytest.param(
            "messages", "llama.cpp", {"messages": [{"output_config": {"effort": "max"}}]}, id="a message's own"
        ),
        pytest.param("gemini", "gemini", gemini(thinkingLevel="LOW"), id="Gemini level"),
        pytest.param("gemini", "gemini", gemini(thinking_level="LOW", thinkingBudget=9000), id="Gemini snake level"),
    ],
)
def test_never_beside_a_level(dialect: DialectName, kind: UpstreamKind, asked: Json) -> None:
    """Where a thinking level is said no budget is written."""
    assert write_budget(dialect, kind, json.dumps(asked).encode(), CAP, model="gemini-2.5-flash") is None


@pytest.mark.parametrize(
    ("model", "cap", "asked", "written"),
    [
        pytest.param("gemini-2.5-pro-002", 128, {}, 128, id="2.5 Pro on its least"),
        pytest.param("gemini-2.5-pro", 127, {}, None, id="2.5 Pro under its least"),
        pytest.param("gemini-2.5-flash", 1, {}, 1, id="2.5 Flash on its least"),
        pytest.param("gemini-2.5-flash-lite", 512, {}, None, id="2.5 Flash-Lite does not think by itself"),
        pytest.param("gemini-2.5-flash-lite", 512, gemini(thinkingBudget=600), 512, id="2.5 Flash-Lite on its least"),
        pytest.param(
            "gemini-2.5-flash-lite", 511, gemini(thinkingBudget=600), None, id="2.5 Flash-Lite under its least"
        ),
        pytest.param("gemini-2.5-flash-image", CAP, {}, None, id="a model that draws gets none"),
        pytest.param("gemini-2.5-pro-preview-tts", CAP, {}, None, id="a model that speaks gets none"),
        pytest.param("gemini-3.8-flash", CAP, {}, None, id="a model of levels gets no budget"),
        pytest.param("gemini-3.8-flash", CAP, gemini(thinkingBudget=9000), CAP, id="unless its caller named one"),
    ],
)
def test_gemini_models(model: str, cap: int, asked: Json, written: int | None) -> None:
    """What a Gemini model takes depends on the model."""
    body = write_budget("gemini", "gemini", json.dumps(asked).encode(), cap, model=model)
    assert (
        None if body is None else json.loads(body)["generationConfig"]["thinkingConfig"]["thinkingBudget"]
    ) == written


@pytest.mark.parametrize(
    ("cap", "written"), [pytest.param(1024, 1024, id="on it"), pytest.param(1023, None, id="under it")]
)
def test_anthropic_least(cap: int, written: int | None) -> None:
    """A cap under Anthropic's least budget cannot be said."""
    body = write_budget("messages", "anthropic", json.dumps(thinks(type="enabled", budget_tokens=4000)).encode(), cap)
    assert (None if body is None else json.loads(body)["thinking"]["budget_tokens"]) == written


def test_the_rest_of_the_body_is_untouched() -> None:
    """Numbers, unknown fields, white space and their order survive."""
    body = b'{ "seed": 12345678901234567890,"thinking_token_budget" : 9000, "x":1.50, "y":[ ] }'
    assert write_budget("chat", "vllm", body, CAP) == body.replace(b"9000", b"2000")
    assert write_budget("chat", "vllm", body, 9000) is body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[1]", id="an array"),
        pytest.param(b"{", id="half an object"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b"[" * 100_000, id="nested too deeply"),
    ],
)
def test_what_is_no_request_gets_none(body: bytes) -> None:
    """Bytes that are no JSON object get no budget."""
    assert write_budget("chat", "vllm", body, CAP) is None


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "thinking_budget_tokens": st.integers(-2, 9000),
        "reasoning_budget_tokens": st.integers(-2, 9000) | st.none(),
        "thinking_token_budget": st.integers(-2, 9000),
        "custom_params": st.fixed_dictionaries({}, optional={"thinking_budget": st.integers(-2, 9000)}),
        "thinking": st.fixed_dictionaries(
            {"type": st.sampled_from(["enabled", "adaptive", "disabled"])},
            optional={"budget_tokens": st.integers(-2, 9000)},
        ),
        "generationConfig": st.fixed_dictionaries(
            {},
            optional={"thinkingConfig": st.fixed_dictionaries({}, optional={"thinkingBudget": st.integers(-2, 9000)})},
        ),
    },
)


@given(st.sampled_from(DIALECTS), st.sampled_from(UPSTREAM_KINDS), FIELDS, st.integers(1, 9000))
def test_it_only_lowers(dialect: DialectName, kind: UpstreamKind, asked: Json, cap: int) -> None:
    """Whatever the caller sent, each number that changes was unbounded or higher, and becomes the cap."""
    body = write_budget(dialect, kind, json.dumps(asked).encode(), cap, model="gemini-2.5-flash")
    if body is None:
        return
    before, after = dict(_numbers(asked)), dict(_numbers(json.loads(body)))
    assert before.keys() <= after.keys()
    for path, number in after.items():
        assert number == before.get(path) or (number == cap and (before.get(path, -1) == -1 or before[path] > cap))
    assert sum(number != before.get(path) for path, number in after.items()) <= 1


def _numbers(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], int]]:
    """Every number of a JSON object with the path it stands at."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in _numbers(inner, (*path, key))]
    return [(path, value)] if isinstance(value, int) else []
