"""One call's facts as spans, by the conventions of OpenTelemetry for HTTP and GenAI (1.44), names spelt here.

    SERVER  POST /v1/chat/completions     the call, until its body is closed
      CLIENT  chat MODEL                  the turn; only of judged calls
        CLIENT  POST                      each attempt, the control call among them (thinkcap.attempt)

Spans are started and ended by hand: a current-span context does not survive the yields of a stream. Attributes are set
once, at the end; events at their own moment. No content, no full URL (it may hold a key).
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanKind, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.events import (
    NAMED,
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFailed,
    CallFinished,
    CallRouted,
    CallStarted,
    Ending,
    Named,
    Turn,
    attributes,
)
from telemetry.labels import bounded, count, overran, plain
from telemetry.records import Record, Tracing
from telemetry.state import CONTROL, CallState, On

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
PROVIDERS: Final = {"gemini": "gcp.gemini"}
"""Kinds whose name in the conventions differs from ours."""
REASONS_LIMIT: Final = 16
"""Raw finish reasons on a span: one per choice."""
_W3C: Final = TraceContextTextMapPropagator()


class Attempt(Struct):
    """A request on its way."""

    span: Record
    started: AttemptStarted
    status: int | None = None


class CallSpans:
    """The spans of one sampled call."""

    __slots__ = ("_at", "_attempts", "_server", "_turn")

    def __init__(self, server: Record, state: CallState) -> None:
        """Take the server span, which has begun."""
        self._server, self._at = server, state
        self._turn: Record | None = None
        self._attempts: dict[tuple[str, int], Attempt] = {}

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C headers that make the youngest running attempt the parent; () when none runs."""
        if not self._attempts:
            return ()
        *_, youngest = self._attempts.values()
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, set_span_in_context(NonRecordingSpan(youngest.span.context), Context()))
        return tuple((name.encode(), value.encode()) for name, value in carrier.items())

    def _on_routed(self, fact: CallRouted) -> None:
        if fact.call is None or self._turn is not None:
            return
        name = f"{_operation(fact)} {bounded(fact.call.model)}".strip()
        self._turn = self._server.child(name, SpanKind.CLIENT)

    def _on_attempt_started(self, fact: AttemptStarted) -> None:
        span = (self._turn or self._server).child(_method(fact.method), SpanKind.CLIENT)
        self._attempts[fact.kind, fact.number] = Attempt(span, fact)

    def _on_attempt_answered(self, fact: AttemptAnswered) -> None:
        for (kind, _), attempt in self._attempts.items():
            if kind != CONTROL:
                attempt.status = fact.status

    def _on_attempt_ended(self, fact: AttemptEnded) -> None:
        attempt = self._attempts.pop((fact.kind, fact.number), None)
        if attempt is not None:
            attempt.status = fact.status or attempt.status
            _end_attempt(attempt, fact.fault)

    def _on_named(self, fact: Named) -> None:
        (self._turn or self._server).event(f"thinkcap.{fact.name}", plain(attributes(fact)))

    def _on_ended(self, fact: Ending) -> None:
        error = _error(fact)
        while self._attempts:
            _end_attempt(self._attempts.popitem()[1], None)
        if self._turn is not None:
            _end(self._turn, lambda: self._of_turn(fact, error), failed=error is not None)
        ours = error is not None and not 400 <= (fact.status or 0) < 500  # noqa: PLR2004 - a 4xx is the caller's error
        _end(self._server, lambda: self._of_server(fact, error), failed=ours)

    def _of_server(self, fact: Ending, error: str | None) -> dict[str, Any]:
        started = self._at.started
        return {
            "http.request.method": _method(started.method),
            "http.route": started.route or None,
            "http.response.status_code": fact.status,
            "error.type": error,
            "thinkcap.purpose": self._at.purpose,
            "thinkcap.outcome": _outcome(fact),
        }

    def _of_turn(self, fact: Ending, error: str | None) -> dict[str, Any]:
        at, routed = self._at, self._at.routed
        said: dict[str, Any] = {
            "thinkcap.upstream": at.upstream,
            "thinkcap.purpose": at.purpose,
            "thinkcap.outcome": _outcome(fact),
            "thinkcap.reasoning.level.requested": at.level_requested,
            "gen_ai.request.reasoning.level": at.level_sent,
            "error.type": error,
        }
        if at.streamed and at.first_token is not None:
            said["gen_ai.response.time_to_first_chunk"] = at.first_token - at.received
        if routed is not None:
            said |= _asked(routed)
        if fact.turn is not None:
            said |= _answered(fact.turn)
        return said

    on: ClassVar[On] = dict.fromkeys(NAMED, _on_named) | {
        CallRouted: _on_routed,
        AttemptStarted: _on_attempt_started,
        AttemptAnswered: _on_attempt_answered,
        AttemptEnded: _on_attempt_ended,
        CallFinished: _on_ended,
        CallFailed: _on_ended,
        CallAbandoned: _on_ended,
    }


def _asked(routed: CallRouted) -> dict[str, Any]:
    said: dict[str, Any] = {
        "gen_ai.operation.name": _operation(routed),
        "gen_ai.provider.name": PROVIDERS.get(routed.provider, routed.provider),
        "gen_ai.request.max_tokens": routed.output_cap or None,
        "thinkcap.thinking_cap.limit": routed.thinking_cap,
        "thinkcap.thinking_cap.method": routed.thinking_method,
    }
    if (call := routed.call) is not None:
        said["gen_ai.request.model"] = call.model or None
        said["gen_ai.request.stream"] = call.stream
        said["gen_ai.request.choice.count"] = call.choices if call.choices != 1 else None
    return said


def _answered(turn: Turn) -> dict[str, Any]:
    usage, cap = turn.usage, turn.output_cap
    said: dict[str, Any] = {
        "gen_ai.response.id": turn.response_id,
        "gen_ai.response.model": turn.response_model,
        "gen_ai.response.finish_reasons": tuple(bounded(raw) for raw in turn.raw_reasons[:REASONS_LIMIT]) or None,
        "gen_ai.usage.reasoning.output_tokens": count(turn.reasoning_tokens),
        "thinkcap.finish_reason.returned": turn.returned,
        "thinkcap.finish_reason.upgraded": turn.verdict == "upgraded",
        "thinkcap.finish_reason.verdict": turn.verdict,
        "thinkcap.output_cap.limit": cap or None,
        "thinkcap.thinking_cap.tokens_at_fire": turn.fired_at,
        "thinkcap.thinking_cap.tokens_past_fire": turn.past_cap,
        "thinkcap.thinking_cap.outcome": turn.thinking_outcome,
    }
    if turn.thinking_method is not None:
        said["thinkcap.thinking_cap.method"] = turn.thinking_method
    if usage is not None:
        used = count(usage.output)
        said["gen_ai.usage.input_tokens"] = count(usage.input)
        said["gen_ai.usage.output_tokens"] = used
        said["gen_ai.usage.cache_read.input_tokens"] = count(usage.cached)
        if cap and used is not None:
            said["thinkcap.output_cap.overrun_tokens"] = overran(used, cap, turn.choices)
    return said


def _end(span: Record, attributes: Callable[[], dict[str, Any]], *, failed: bool) -> None:
    """Whatever cannot be said about a span, it ends."""
    said: dict[str, Any] = {}
    try:
        said = plain(attributes())
    finally:
        span.end(said, failed=failed)


def _end_attempt(attempt: Attempt, fault: str | None) -> None:
    started = attempt.started
    error = fault or _bad_status(attempt.status)
    said = {
        "http.request.method": _method(started.method),
        "server.address": started.host,
        "server.port": started.port,
        "http.response.status_code": attempt.status,
        "http.request.resend_count": started.number - 1 if started.number > 1 else None,
        "thinkcap.attempt": started.kind,
        "error.type": error,
    }
    _end(attempt.span, lambda: said, failed=error is not None)


def _error(fact: Ending) -> str | None:
    """`error.type`: the gateway's own code, the upstream's status, or the outcome. A caller who leaves is no error."""
    if isinstance(fact, CallAbandoned):
        return None
    if isinstance(fact, CallFailed):
        return fact.code
    return None if fact.outcome == "ok" else _bad_status(fact.status) or fact.outcome


def _bad_status(status: int | None) -> str | None:
    return str(status) if status is not None and status >= 400 else None  # noqa: PLR2004 - HTTP's own border


def _outcome(fact: Ending) -> str:
    return "client_gone" if isinstance(fact, CallAbandoned) else fact.outcome


def _operation(routed: CallRouted) -> str:
    return "generate_content" if routed.call is not None and routed.call.dialect == "gemini" else "chat"


def _method(method: str) -> str:
    return method if method in METHODS else "_OTHER"


def open_spans(tracing: Tracing, state: CallState) -> CallSpans | None:
    """Start the server span, as a child of the caller's when it sent a valid traceparent; None: it is not sampled."""
    started = state.started
    name = f"{_method(started.method)} {bounded(started.route)}".strip()
    server, context = tracing.root(name, SpanKind.SERVER, _parent(started))
    state.trace_id = format_trace_id(context.trace_id)
    if server is None:
        return None
    state.sampled(state.trace_id)
    return CallSpans(server, state)


def _parent(started: CallStarted) -> Context:
    """The caller's trace context; an empty one when it sent none that is valid."""
    if started.traceparent is None:
        return Context()
    carrier = {"traceparent": started.traceparent}
    if started.tracestate is not None:
        carrier["tracestate"] = started.tracestate
    return _W3C.extract(carrier, Context())
