"""The shipped table of declared levels: complete, well formed, and found under the names that models go by."""

import pytest

from gateway.catalog import Budget, catalogue, declared
from gateway.words import LADDER, UPSTREAM_KINDS, Level

LMH: tuple[Level, ...] = ("low", "medium", "high")


def test_every_entry_is_a_ladder_in_order() -> None:
    """Levels are words of the ladder, least first, each once; every provider says where from and when."""
    for table in catalogue().values():
        assert table.source
        assert table.date
        assert table.kind is None or table.kind in UPSTREAM_KINDS
        for model, levels in table.levels.items():
            assert model == model.lower()
            assert levels
            assert list(levels) == sorted(set(levels), key=LADDER.index)


def test_aliases_lead_somewhere() -> None:
    """An alias names an entry of its own provider and is none itself."""
    for table in catalogue().values():
        for alias, name in table.aliases.items():
            assert name in table.levels
            assert alias not in table.levels


@pytest.mark.parametrize(
    ("kind", "model", "name", "levels"),
    [
        pytest.param("gemini", "gemini-3.8-flash", "gemini-3.8-flash", LMH, id="as written"),
        pytest.param("gemini", "models/gemini-3.8-flash", "gemini-3.8-flash", LMH, id="Google's path"),
        pytest.param("gemini", "GEMINI-3.8-Flash", "gemini-3.8-flash", LMH, id="another case"),
        pytest.param("gemini", "gemini-flash-latest", "gemini-flash-latest", LMH, id="latest that has an entry"),
        pytest.param("gemini", "gemini-3.8-flash-001", "gemini-3.8-flash", LMH, id="Google's version"),
        pytest.param("gemini", "gemini-3.8-flash-preview-09-2026", "gemini-3.8-flash", LMH, id="a dated preview"),
        pytest.param("gemini", "gemini-3.1-pro", "gemini-3.1-pro-preview", LMH, id="an alias"),
        pytest.param("gemini", "google/gemini-3.8-flash", "gemini-3.8-flash", LMH, id="a prefix at its own provider"),
        pytest.param("generic", "google/gemini-3.8-flash", "gemini-3.8-flash", LMH, id="OpenRouter"),
        pytest.param("generic", "google/gemini-3.8-flash:free", "gemini-3.8-flash", LMH, id="OpenRouter's variant"),
        pytest.param("generic", "vertex_ai/gemini-3.8-flash", "gemini-3.8-flash", LMH, id="LiteLLM"),
        pytest.param("generic", "gemini-3.8-flash", "gemini-3.8-flash", LMH, id="no prefix at a reseller"),
        pytest.param("generic", "openai/gpt-oss-20b", "openai/gpt-oss-20b", LMH, id="Groq's own name with a slash"),
        pytest.param("openai", "gpt-5.1-2026-03-01", "gpt-5.1", ("off", *LMH), id="OpenAI's date"),
        pytest.param("openai", "gpt-5.1-chat-latest", "gpt-5.1-chat-latest", ("medium",), id="a latest of its own"),
        pytest.param("anthropic", "claude-opus-4-5-20260801", "claude-opus-4-5", ("off", *LMH), id="Anthropic's date"),
        pytest.param("anthropic", "claude-opus-4-5@20260801", "claude-opus-4-5", ("off", *LMH), id="Vertex's date"),
        pytest.param("anthropic", "claude-opus-4-5-latest", "claude-opus-4-5", ("off", *LMH), id="latest"),
        pytest.param("generic", "anthropic/claude-opus-4.5", "claude-opus-4-5", ("off", *LMH), id="dots for hyphens"),
        pytest.param(
            "anthropic", "us.anthropic.claude-opus-4-5-20260801-v1:0", "claude-opus-4-5", ("off", *LMH), id="Bedrock"
        ),
        pytest.param("thinkcap", "kimi-k3", "kimi-k3", ("low", "high", "max"), id="another Thinkcap in between"),
    ],
)
def test_a_model_is_found_by_its_names(kind: str, model: str, name: str, levels: tuple[Level, ...]) -> None:
    """Prefixes, dates, versions and aliases lead to the one entry."""
    found = declared(kind, model)
    assert found is not None
    assert (found.name, found.levels) == (name, levels)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        pytest.param("openai", "gpt-5.1-codex-ultra", id="only the beginning is known"),
        pytest.param("openai", "gpt-5.9", id="a version that is not there"),
        pytest.param("openai", "gpt-5.2-chat", id="a variant that is not there"),
        pytest.param("openai", "gemini-3.8-flash", id="another provider's model"),
        pytest.param("openai", "google/gemini-3.8-flash", id="another provider's prefix"),
        pytest.param("gemini", "gemini-3.8-flash-tiered", id="an unknown suffix"),
        pytest.param("generic", "acme/gemini-3.8-flash", id="an unknown prefix"),
        pytest.param("vllm", "kimi-k3", id="self-hosted: the template decides"),
        pytest.param("generic", "", id="no model"),
        pytest.param("generic", "__proto__", id="no model at all"),
        pytest.param("generic", "-latest", id="a suffix alone"),
    ],
)
def test_nothing_is_guessed(kind: str, model: str) -> None:
    """A name that is not in the table has no declared levels."""
    assert declared(kind, model) is None


def test_a_model_with_a_budget_declares_no_level() -> None:
    """Gemini 2.5 and old Claudes take tokens; no level can be sent to them."""
    found = declared("gemini", "gemini-2.5-pro")
    assert found is not None
    assert (found.levels, found.budget) == ((), Budget(128, 32_768, off=False))


def test_providers_that_disagree_declare_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a reseller a name counts only when all who have it say the same."""
    tables = dict(catalogue())
    clash = type(tables["zai"])(prefixes=("z",), source="s", date="d", levels={"kimi-k3": ("low",)})
    monkeypatch.setattr("gateway.catalog.catalogue", lambda: {**tables, "zai": clash})
    assert declared("generic", "kimi-k3") is None
