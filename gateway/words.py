"""The closed vocabularies: every word that may become a metric label is spelt here, once."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

DialectName = Literal["chat", "responses", "messages", "gemini"]
DIALECTS: Final[tuple[DialectName, ...]] = get_args(DialectName)

Reason = Literal["stop", "length", "tool_calls", "content_filter", "error", "missing", "other"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
"""Finish reasons after folding. `missing`: none was said. `other`: a word nobody knows, never taken for `stop`."""

WORST_FIRST: Final[tuple[Reason, ...]] = ("error", "content_filter", "length", "tool_calls", "other", "stop", "missing")
"""Several choices count as one turn: as the worst of them."""

MappedReason = Literal["stop", "length", "tool_calls", "content_filter", "error"]
MAPPED_REASONS: Final[tuple[MappedReason, ...]] = get_args(MappedReason)
"""What an operator may map a raw word to (`finish_reasons` of an upstream)."""

Verdict = Literal[
    "override", "stronger", "unjudged", "under", "tool_calls",
    "choices", "stop_sequence", "unproven_stop", "enforced", "upgraded",
]  # fmt: skip
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
"""What rule 1 made of a turn, and why."""

UpgradeKind = Literal["at", "over"]
UPGRADE_KINDS: Final[tuple[UpgradeKind, ...]] = get_args(UpgradeKind)

Outcome = Literal[
    "ok", "upstream_error", "stream_error", "incomplete", "client_gone",
    "thinking_overrun", "refused", "overloaded", "timeout",
]  # fmt: skip
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

UpstreamFault = Literal["connect", "tls", "timeout", "reset", "protocol", "http_4xx", "http_429", "http_5xx"]
UPSTREAM_FAULTS: Final[tuple[UpstreamFault, ...]] = get_args(UpstreamFault)

Level = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
LADDER: Final[tuple[Level, ...]] = get_args(Level)
"""Thinking levels, least first. A level a provider spells otherwise (none, disabled, budget 0) is folded to these."""

LEVEL_WORDS: Final[Mapping[str, Level]] = {level: level for level in LADDER} | {
    "none": "off", "disabled": "off", "disable": "off", "false": "off", "between_tools": "off",
}  # fmt: skip
"""Every spelling of a step, in lower case. Modes (`auto`, `default`, `adaptive`, `enabled`) are no steps."""


def level_of(word: str) -> Level | None:
    """The step a provider's word stands for, in any case and with Vertex's prefix; None for a word that is none."""
    return LEVEL_WORDS.get(word.strip().lower().removeprefix("thinking_level_"))


Method = Literal["control", "budget", "give_up", "watch"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
"""How a thinking cap acts on an upstream."""

CapOutcome = Literal["ended", "overrun", "refused", "timeout", "moot", "unable"]
CAP_OUTCOMES: Final[tuple[CapOutcome, ...]] = get_args(CapOutcome)

OverrunCause = Literal["kept_thinking", "refused", "timeout"]
OVERRUN_CAUSES: Final[tuple[OverrunCause, ...]] = get_args(OverrunCause)

EndResult = Literal["ended", "refused", "timeout", "error"]
END_RESULTS: Final[tuple[EndResult, ...]] = get_args(EndResult)
"""How the control call itself went."""

RetryOutcome = Literal["ok", "refused_again", "failed"]
RETRY_OUTCOMES: Final[tuple[RetryOutcome, ...]] = get_args(RetryOutcome)

TokenKind = Literal["input", "output", "cached_input"]
TOKEN_KINDS: Final[tuple[TokenKind, ...]] = get_args(TokenKind)

CountSource = Literal["upstream", "counted", "estimated"]
COUNT_SOURCES: Final[tuple[CountSource, ...]] = get_args(CountSource)
"""Where a number of reasoning tokens comes from, best first."""

UpstreamKind = Literal["openai", "anthropic", "gemini", "llama.cpp", "vllm", "sglang", "thinkcap", "generic"]
UPSTREAM_KINDS: Final[tuple[UpstreamKind, ...]] = get_args(UpstreamKind)

KeyRefusal = Literal["missing", "unknown"]
KEY_REFUSALS: Final[tuple[KeyRefusal, ...]] = get_args(KeyRefusal)

CONVERSATION: Final = "conversation"
"""The purpose of a call that names none."""

OTHER: Final = "other"
"""The label of everything that is not known: models, purposes, upstreams, dialects."""
