"""One call's facts as spans.

    SERVER  POST /v1/chat/completions     the call, until its body is closed
      CLIENT  chat MODEL                  the turn; only of judged calls
        CLIENT  POST                      each attempt, the control call among them (thinkcap.attempt)

Spans are started and ended by hand: a current-span context does not survive the yields of a stream. What they say is
said once, at the end (telemetry.attributes); events at their own moment.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from opentelemetry.context import Context
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
    attributes,
)
from telemetry.attributes import Asked, Judged, Measured, Served, answered, asked, attempted, measured, method_of
from telemetry.labels import bounded, plain
from telemetry.records import Record, Tracing
from telemetry.state import CONTROL, CallState, Handler

_W3C: Final = TraceContextTextMapPropagator()


class Attempt(Struct):
    """A request on its way."""

    span: Record
    started: AttemptStarted
    status: int | None = None

    def end(self, fault: str | None) -> None:
        """Its body is closed."""
        error = fault or _bad_status(self.status)
        self.span.end(attempted(self.started, self.status, error), failed=error is not None)


class Spans(Struct):
    """The spans of one sampled call."""

    server: Record
    turn: Record | None = None
    asked: Asked | None = None
    attempts: dict[tuple[str, int], Attempt] = {}

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C headers that make the youngest running attempt the parent; () when none runs."""
        if not self.attempts:
            return ()
        *_, youngest = self.attempts.values()
        return youngest.span.headers()


class CallSpans:
    """Starts and ends the spans of sampled calls."""

    def __init__(self, tracing: Tracing) -> None:
        """Make them here."""
        self._tracing = tracing
        self.on: Mapping[Any, Handler] = dict.fromkeys(NAMED, self._on_named) | {
            CallRouted: self._on_routed,
            AttemptStarted: self._on_attempt_started,
            AttemptAnswered: self._on_attempt_answered,
            AttemptEnded: self._on_attempt_ended,
            CallFinished: self._on_ended,
            CallFailed: self._on_ended,
            CallAbandoned: self._on_ended,
        }

    def open(self, call: CallState) -> None:
        """Start the server span, as a child of the caller's when it sent a valid traceparent; or none: not sampled."""
        started = call.started
        name = f"{method_of(started.method)} {bounded(started.route)}".strip()
        server, trace = self._tracing.root(name, _caller(started))
        call.trace_id = trace.hex()
        if server is not None:
            call.spans = Spans(server)
            call.exemplar = {"trace_id": call.trace_id}

    def _on_routed(self, call: CallState, fact: CallRouted) -> None:
        spans = call.spans
        if fact.call is not None and spans.turn is None:
            spans.asked = said = asked(fact, fact.call, call.row.upstream)
            spans.turn = spans.server.child(f"{said.operation} {said.model or ''}".strip())

    def _on_attempt_started(self, call: CallState, fact: AttemptStarted) -> None:
        spans = call.spans
        span = (spans.turn or spans.server).child(method_of(fact.method))
        spans.attempts[fact.kind, fact.number] = Attempt(span, fact)

    def _on_attempt_answered(self, call: CallState, fact: AttemptAnswered) -> None:
        for (kind, _), attempt in call.spans.attempts.items():
            if kind != CONTROL:
                attempt.status = fact.status

    def _on_attempt_ended(self, call: CallState, fact: AttemptEnded) -> None:
        attempt = call.spans.attempts.pop((fact.kind, fact.number), None)
        if attempt is not None:
            attempt.status = fact.status or attempt.status
            attempt.end(fact.fault)

    def _on_named(self, call: CallState, fact: Named) -> None:
        spans = call.spans
        (spans.turn or spans.server).event(f"thinkcap.{fact.name}", plain(attributes(fact)))

    def _on_ended(self, call: CallState, fact: Ending) -> None:
        spans, error = call.spans, _error(fact)
        while spans.attempts:
            spans.attempts.popitem()[1].end(None)
        if spans.turn is not None:
            _end_turn(spans.turn, call, fact, error)
        said = Served(
            method=method_of(call.started.method),
            route=bounded(call.started.route) or None,
            status=fact.status,
            error=error,
            purpose=call.purpose,
            outcome=_outcome(fact),
        )
        ours = error is not None and not 400 <= (fact.status or 0) < 500  # noqa: PLR2004 - a 4xx is the caller's error
        spans.server.end(said, failed=ours)


def _end_turn(span: Record, call: CallState, fact: Ending, error: str | None) -> None:
    """Whatever cannot be said about a turn, its span ends."""
    said: list[Struct] = []
    try:
        said = _of_turn(call, fact, error)
    finally:
        span.end(*said, failed=error is not None)


def _of_turn(call: CallState, fact: Ending, error: str | None) -> list[Struct]:
    turn, wanted = fact.turn, call.spans.asked
    method = turn.thinking_method if turn is not None else None
    if method is None and call.routed is not None:
        method = call.routed.thinking_method
    judged = Judged(
        purpose=call.purpose,
        outcome=_outcome(fact),
        error=error,
        level_requested=call.level_requested,
        level_sent=call.level_sent,
        method=method,
    )
    said: list[Struct] = [judged] if wanted is None else [wanted, judged]
    first = call.first_token - call.received if call.streamed and call.first_token is not None else None
    if turn is not None:
        said += (answered(turn), measured(turn, first))
    elif first is not None:
        said.append(Measured(first_chunk=first))
    return said


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


def _caller(started: CallStarted) -> Context | None:
    """The caller's trace context; None when it sent none."""
    if started.traceparent is None:
        return None
    carrier = {"traceparent": started.traceparent}
    if started.tracestate is not None:
        carrier["tracestate"] = started.tracestate
    return _W3C.extract(carrier, Context())
