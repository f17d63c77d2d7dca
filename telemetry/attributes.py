"""What spans say, by the conventions of OpenTelemetry for HTTP and GenAI (1.44), names spelt here.

What is frozen is said by many spans in the same words, and encoded once. Text from outside is bounded before it gets in
here. No content, no full URL (it may hold a key).
"""

from typing import Final

from msgspec import Struct, field

from gateway.calls import Call
from gateway.deltas import Usage
from gateway.events import AttemptStarted, CallRouted, Turn
from telemetry.labels import bounded, count, overran

PROVIDERS: Final = {"gemini": "gcp.gemini"}
"""Kinds whose name in the conventions differs from ours."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
REASONS_LIMIT: Final = 16
"""Raw finish reasons on a span: one per choice."""


NO_USAGE: Final = Usage(output=None)


class Served(Struct, frozen=True):
    """The whole call."""

    method: str = field(name="http.request.method")
    route: str | None = field(name="http.route")
    status: int | None = field(name="http.response.status_code")
    error: str | None = field(name="error.type")
    purpose: str = field(name="thinkcap.purpose")
    outcome: str = field(name="thinkcap.outcome")


class Attempted(Struct, frozen=True):
    """One request to an upstream."""

    method: str = field(name="http.request.method")
    host: str = field(name="server.address")
    port: int = field(name="server.port")
    status: int | None = field(name="http.response.status_code")
    resent: int | None = field(name="http.request.resend_count")
    kind: str = field(name="thinkcap.attempt")
    error: str | None = field(name="error.type")


class Asked(Struct, frozen=True):
    """A turn: who asked whom for what."""

    operation: str = field(name="gen_ai.operation.name")
    provider: str = field(name="gen_ai.provider.name")
    upstream: str = field(name="thinkcap.upstream")
    model: str | None = field(name="gen_ai.request.model")
    stream: bool = field(name="gen_ai.request.stream")
    choices: int | None = field(name="gen_ai.request.choice.count")
    max_tokens: int | None = field(name="gen_ai.request.max_tokens")
    thinking_cap: int | None = field(name="thinkcap.thinking_cap.limit")


class Judged(Struct, frozen=True):
    """How the turn went."""

    purpose: str = field(name="thinkcap.purpose")
    outcome: str = field(name="thinkcap.outcome")
    error: str | None = field(name="error.type")
    level_requested: str | None = field(name="thinkcap.reasoning.level.requested")
    level_sent: str | None = field(name="gen_ai.request.reasoning.level")
    method: str | None = field(name="thinkcap.thinking_cap.method")


class Answered(Struct, frozen=True):
    """What came back, in words."""

    model: str | None = field(name="gen_ai.response.model")
    reasons: tuple[str, ...] | None = field(name="gen_ai.response.finish_reasons")
    returned: str = field(name="thinkcap.finish_reason.returned")
    upgraded: bool = field(name="thinkcap.finish_reason.upgraded")
    verdict: str = field(name="thinkcap.finish_reason.verdict")
    cap: int | None = field(name="thinkcap.output_cap.limit")
    thinking: str | None = field(name="thinkcap.thinking_cap.outcome")


class Measured(Struct):
    """What came back, in numbers: hardly ever the same twice."""

    id: str | None = field(name="gen_ai.response.id", default=None)
    first_chunk: float | None = field(name="gen_ai.response.time_to_first_chunk", default=None)
    input: int | None = field(name="gen_ai.usage.input_tokens", default=None)
    output: int | None = field(name="gen_ai.usage.output_tokens", default=None)
    cached: int | None = field(name="gen_ai.usage.cache_read.input_tokens", default=None)
    reasoning: int | None = field(name="gen_ai.usage.reasoning.output_tokens", default=None)
    overrun: int | None = field(name="thinkcap.output_cap.overrun_tokens", default=None)
    fired_at: int | None = field(name="thinkcap.thinking_cap.tokens_at_fire", default=None)
    past_fire: int | None = field(name="thinkcap.thinking_cap.tokens_past_fire", default=None)


def method_of(method: str) -> str:
    """A method of HTTP, or what stands for another."""
    return method if method in METHODS else "_OTHER"


def attempted(started: AttemptStarted, status: int | None, error: str | None) -> Attempted:
    """The attempt that was started so."""
    return Attempted(
        method=method_of(started.method),
        host=started.host,
        port=started.port,
        status=status,
        resent=started.number - 1 if started.number > 1 else None,
        kind=started.kind,
        error=error,
    )


def asked(routed: CallRouted, call: Call, upstream: str) -> Asked:
    """The turn that was routed so, under the name of its upstream."""
    return Asked(
        operation="generate_content" if call.dialect == "gemini" else "chat",
        provider=PROVIDERS.get(routed.provider, routed.provider),
        upstream=upstream,
        model=bounded(call.model) or None,
        stream=call.stream,
        choices=call.choices if call.choices != 1 else None,
        max_tokens=count(routed.output_cap) or None,
        thinking_cap=count(routed.thinking_cap),
    )


def answered(turn: Turn) -> Answered:
    """The words of a turn."""
    return Answered(
        model=bounded(turn.response_model) if turn.response_model is not None else None,
        reasons=tuple(map(bounded, turn.raw_reasons[:REASONS_LIMIT])) or None,
        returned=turn.returned,
        upgraded=turn.verdict == "upgraded",
        verdict=turn.verdict,
        cap=count(turn.output_cap) or None,
        thinking=turn.thinking_outcome,
    )


def measured(turn: Turn, first_chunk: float | None) -> Measured:
    """The numbers of a turn."""
    usage = turn.usage if turn.usage is not None else NO_USAGE
    used, cap = count(usage.output), turn.output_cap
    return Measured(
        id=bounded(turn.response_id) if turn.response_id is not None else None,
        first_chunk=first_chunk,
        input=count(usage.input),
        output=used,
        cached=count(usage.cached),
        reasoning=count(turn.reasoning_tokens),
        overrun=overran(used, cap, turn.choices) if cap and used is not None else None,
        fired_at=count(turn.fired_at),
        past_fire=count(turn.past_cap),
    )
