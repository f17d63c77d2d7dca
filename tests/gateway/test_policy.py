"""Which settings apply to a call."""

from typing import Any

import pytest
from msgspec import structs

from gateway.calls import Call, Wishes
from gateway.config import parse_settings
from gateway.errors import BadRequest, NotFound, UnsupportedLevel
from gateway.policy import Policies, Policy, Thinking
from gateway.words import DialectName, Level

SETTINGS = """
[upstreams.local]
url = "http://127.0.0.1:1"
kind = "llama.cpp"
dialects = ["chat", "messages"]
finish_reasons = { eos = "stop" }

[upstreams.google]
url = "http://127.0.0.1:2"
kind = "gemini"
dialects = ["gemini", "chat"]
ask_usage = false

[models.thinker]
upstream = "local"
levels = ["low", "high"]
thinking_cap = 100
thinking_overrun = 5
undeclared_level = "refuse"
reasoning_only = "promote"

[models."gemini-3.8-flash"]
upstream = "google"
undeclared_level = "refuse"

[models.plain]
upstream = "google"
undeclared_level = "refuse"

[thinking]
cap = 50
overrun = 9

[output_cap]
hold_seconds = 1.5
unproven_stop = "upgrade"

[level_fallback]
purposes = ["compaction", "title"]
direction = "down"
remember_seconds = 60
extra_patterns = ["no (\\\\w+)"]
[level_fallback.ceiling]
compaction = "medium"

[[purposes]]
purpose = "title"
model = "plain"

[[purposes]]
purpose = "compaction"
header = { name = "X-Kind", equals = "compact" }
path = "/v1/chat"
"""
POLICIES = Policies(parse_settings(SETTINGS, {}))


def call(model: str = "unlisted", dialect: DialectName = "chat", **more: Any) -> Call:
    """A call."""
    fields: dict[str, Any] = {"dialect": dialect, "model": model, "stream": False, "body": b""}
    return Call(**(fields | {"path": "/v1/chat/completions"} | more))


def of(model: str = "unlisted", dialect: DialectName = "chat", **more: Any) -> Policy:
    """Its policy."""
    return POLICIES.of(call(model, dialect, **more))


def test_a_listed_model_goes_to_its_upstream() -> None:
    """With the traits of its kind, under its own name."""
    policy = of("thinker")
    assert (policy.upstream, policy.provider, policy.model) == ("local", "llama.cpp", "thinker")
    assert (policy.per_frame, policy.ask_usage, policy.promote) == (True, True, True)
    assert policy.output_cap.enforces_cap
    assert policy.output_cap.overrides == {"eos": "stop"}


def test_an_unlisted_model_goes_to_the_first_upstream() -> None:
    """That speaks the dialect; its label is `other`."""
    assert (of().upstream, of().model) == ("local", "other")
    assert of("x", "gemini").upstream == "google"
    assert of("x", "gemini").ask_usage is False


def test_no_upstream_speaks_the_dialect() -> None:
    """A dialect nobody speaks is not found."""
    assert not POLICIES.speaks("responses")
    with pytest.raises(NotFound, match="responses"):
        of("x", "responses")


def test_a_model_called_in_the_wrong_dialect() -> None:
    """The error names the field, what is wrong and what is allowed."""
    with pytest.raises(BadRequest, match=r"field model: thinker .* does not speak gemini \(it speaks chat, messages\)"):
        of("thinker", "gemini")


def test_the_output_cap_and_its_settings() -> None:
    """Plain numbers from the call and the settings."""
    policy = of(output_cap=64, choices=2, stop_sequences=True)
    rule = policy.output_cap
    assert (rule.cap, rule.choices, rule.stop_sequences, rule.upgrade_unproven) == (64, 2, True, True)
    assert policy.hold_seconds == 1.5


def test_llama_cpps_own_cap_counts_there_alone() -> None:
    """`n_predict` beats the other names on that server."""
    assert of("thinker", output_cap=64, native_cap=9).output_cap.cap == 9
    assert of("plain", output_cap=64, native_cap=9).output_cap.cap == 64


CAPS = [
    ("the model's own", "thinker", None, Thinking(100, 5, ("control", "budget"))),
    ("the default", "plain", None, Thinking(50, 9, ("watch",))),
    ("lowered by the caller", "thinker", 40, Thinking(40, 5, ("control", "budget"))),
    ("never raised by the caller", "thinker", 400, Thinking(100, 5, ("control", "budget"))),
]


@pytest.mark.parametrize(("model", "asked", "thinking"), [row[1:] for row in CAPS], ids=[row[0] for row in CAPS])
def test_the_thinking_cap(model: str, asked: int | None, thinking: Thinking) -> None:
    """From the model, else the default; a caller may lower it."""
    assert of(model, wishes=Wishes(thinking_cap=asked)).thinking == thinking


def test_without_a_configured_cap_the_caller_sets_one() -> None:
    """And without both there is none."""
    policies = Policies(parse_settings(SETTINGS.replace("cap = 50", "cap = 0"), {}))
    assert policies.of(call()).thinking is None
    asked = policies.of(call(wishes=Wishes(thinking_cap=7))).thinking
    assert asked == Thinking(7, 9, ("control", "budget"))


PURPOSES = [
    ("none is a conversation", {}, "conversation"),
    ("the header names it", {"wishes": Wishes(purpose="title")}, "title"),
    ("an unknown one is other", {"wishes": Wishes(purpose="x")}, "other"),
    ("recognised by the model", {"model": "plain"}, "title"),
    ("the header wins over the settings", {"model": "plain", "wishes": Wishes(purpose="compaction")}, "compaction"),
    ("recognised by path and header", {"headers": ((b"x-kind", b"compact"),)}, "compaction"),
    ("another value is not it", {"headers": ((b"x-kind", b"else"),)}, "conversation"),
    ("another path is not it", {"headers": ((b"x-kind", b"compact"),), "path": "/v1/responses"}, "conversation"),
]


@pytest.mark.parametrize(("more", "purpose"), [row[1:] for row in PURPOSES], ids=[row[0] for row in PURPOSES])
def test_the_purpose(more: dict[str, Any], purpose: str) -> None:
    """What a call is for, as a label."""
    assert of(**more).purpose == purpose


def test_the_purpose_of_a_forwarded_path() -> None:
    """By its header, else by path and header."""
    assert POLICIES.purpose_of("/v1/files", ((b"x-thinkcap-purpose", b"title"),)) == "title"
    assert POLICIES.purpose_of("/v1/chat/x", ((b"x-kind", b"compact"),)) == "compaction"
    assert POLICIES.purpose_of("/v1/files", ()) == "conversation"


def test_the_level_fallback_of_a_purpose_in_scope() -> None:
    """Direction, ceiling and declared levels; out of scope there is none."""
    rule = of("thinker", wishes=Wishes(purpose="compaction")).levels
    assert (rule.direction, rule.ceiling, rule.declared) == ("down", "medium", ("low", "high"))
    assert rule.in_scope("compaction", retried=False)
    assert not of("thinker").levels.in_scope("conversation", retried=False)
    assert [pattern.pattern for pattern in of().patterns] == ["no (\\w+)"]
    assert POLICIES.remember_seconds == 60


def test_declared_levels_come_from_the_catalogue_where_the_settings_say_none() -> None:
    """And from nobody for a model nobody knows."""
    assert POLICIES.declared("gemini", "gemini-3.8-flash") == ("low", "medium", "high")
    assert POLICIES.declared("generic", "plain") is None
    assert of("plain", wishes=Wishes(purpose="title")).levels.declared == ()


@pytest.mark.parametrize(("model", "level"), [("thinker", "minimal"), ("gemini-3.8-flash", "minimal")])
def test_an_undeclared_level_is_refused(model: str, level: Level) -> None:
    """Before any provider sees it, where the setting says so."""
    with pytest.raises(UnsupportedLevel, match=r"minimal is not declared"):
        of(model, level=level)


@pytest.mark.parametrize(
    ("model", "level"),
    [("thinker", "low"), ("thinker", None), ("plain", "max")],
    ids=["declared", "none sent", "nobody declares any"],
)
def test_other_levels_go_on(model: str, level: Level | None) -> None:
    """A declared level, no level, and a model without declared levels."""
    assert of(model, level=level).model == model


def test_targets_and_models_are_there_to_be_listed() -> None:
    """What GET /v1/models needs."""
    assert list(POLICIES.targets) == ["local", "google"]
    assert set(POLICIES.models) == {"thinker", "gemini-3.8-flash", "plain"}
    assert structs.asdict(POLICIES.targets["google"])["finish_reasons"] == {}
