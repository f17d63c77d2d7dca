"""One call's facts as numbers: which fact moves which series.

Most of a turn is counted once, from the totals stated at the end; what has a moment of its own is counted then.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.events import (
    AttemptEnded,
    CallAbandoned,
    CallFailed,
    CallFinished,
    CallRouted,
    EndReasoningAnswered,
    FinishRaised,
    FirstToken,
    KeyRefused,
    LevelAnswered,
    LevelPreempted,
    LevelRefused,
    OutputOverran,
    ThinkingOverran,
    Turn,
)
from gateway.words import Outcome
from telemetry.labels import count, overran
from telemetry.metrics import Metrics
from telemetry.state import CONTROL, CallState, Handler

ENDED_BY_ITSELF: Final = frozenset({"ok", "incomplete"})
"""Outcomes of turns that came to their own end, with or without a finish word."""


class CallTally:
    """Moves the counters: those an ordinary call moves stand in its row, the others are looked up."""

    def __init__(self, metrics: Metrics) -> None:
        """Count into these metrics."""
        self._metrics = metrics
        self.on: Mapping[Any, Handler] = {
            CallRouted: self._on_routed,
            KeyRefused: self._on_key_refused,
            AttemptEnded: self._on_attempt_ended,
            FirstToken: self._on_first_token,
            OutputOverran: self._on_overrun,
            FinishRaised: self._on_raised,
            ThinkingOverran: self._on_thinking_overran,
            EndReasoningAnswered: self._on_end_answered,
            LevelRefused: self._on_level_refused,
            LevelAnswered: self._on_level_answered,
            LevelPreempted: self._on_level_preempted,
            CallFinished: self._on_finished,
            CallFailed: self._on_failed,
            CallAbandoned: self._on_abandoned,
        }

    def _on_routed(self, call: CallState, _fact: CallRouted) -> None:
        if not call.busy:
            call.busy = True
            self._metrics.inflight[call.row.upstream,].inc()

    def _on_key_refused(self, call: CallState, fact: KeyRefused) -> None:
        self._metrics.key_refusals[fact.reason,].inc(1, call.exemplar)

    def _on_attempt_ended(self, call: CallState, fact: AttemptEnded) -> None:
        # The control call's own trouble stands in end_reasoning_seconds: it is no error of the answer.
        if fact.fault is not None and fact.kind != CONTROL:
            self._metrics.upstream_errors[call.row.upstream, fact.fault].inc(1, call.exemplar)

    def _on_first_token(self, call: CallState, _fact: FirstToken) -> None:
        if call.streamed:  # the first token of a whole body comes with its last: that is request_seconds
            call.row.first_token_seconds.observe(call.elapsed, call.exemplar)

    def _on_overrun(self, call: CallState, fact: OutputOverran) -> None:
        where, asked = call.row.where, call.routed.call if call.routed is not None else None
        self._metrics.output_overruns[*where, fact.verdict].inc(1, call.exemplar)
        choices = asked.choices if asked is not None else 1
        self._metrics.output_overrun_tokens[where].inc(overran(fact.used, fact.cap, choices))

    def _on_raised(self, call: CallState, fact: FinishRaised) -> None:
        self._metrics.finish_upgrades[*call.row.where, fact.kind].inc(1, call.exemplar)

    def _on_thinking_overran(self, call: CallState, fact: ThinkingOverran) -> None:
        self._metrics.thinking_overruns[*call.row.where, fact.cause].inc(1, call.exemplar)

    def _on_end_answered(self, call: CallState, fact: EndReasoningAnswered) -> None:
        seconds = max(0.0, fact.seconds)
        self._metrics.end_reasoning[call.row.upstream, fact.result].observe(seconds, call.exemplar)

    def _on_level_refused(self, call: CallState, fact: LevelRefused) -> None:
        key = (*call.row.where, call.purpose, fact.level)
        self._metrics.level_refusals[key].inc(1, call.exemplar)

    def _on_level_answered(self, call: CallState, fact: LevelAnswered) -> None:
        key = (*call.row.where, call.purpose, fact.refused, fact.sent, fact.outcome)
        self._metrics.level_retries[key].inc(1, call.exemplar)

    def _on_level_preempted(self, call: CallState, fact: LevelPreempted) -> None:
        key = (*call.row.where, call.purpose, fact.refused, fact.sent)
        self._metrics.level_preempted[key].inc(1, call.exemplar)

    def _on_finished(self, call: CallState, fact: CallFinished) -> None:
        self._close(call, fact.outcome, whole=not call.streamed)
        if fact.turn is not None:
            self._add_turn(call, fact.turn, fact.outcome)

    def _on_failed(self, call: CallState, fact: CallFailed) -> None:
        self._close(call, fact.outcome, whole=False)
        if fact.turn is not None:
            self._add_turn(call, fact.turn, fact.outcome)

    def _on_abandoned(self, call: CallState, fact: CallAbandoned) -> None:
        self._close(call, "client_gone", whole=False)
        if fact.turn is not None:
            self._add_turn(call, fact.turn, "client_gone")

    def _close(self, call: CallState, outcome: Outcome, *, whole: bool) -> None:
        """The call itself: how it went, how long it took, and the time the gateway itself added.

        That runs from the whole request to the first attempt, and for whole bodies also from the last byte to the end.
        What a stream costs per event is not among the facts, so it is not in there.
        """
        row, exemplar = call.row, call.exemplar
        if call.busy:
            call.busy = False
            self._metrics.inflight[row.upstream,].dec()
        row.requests[outcome,].inc(1, exemplar)
        row.request_seconds.observe(call.elapsed, exemplar)
        if call.first_attempt is not None:
            seconds = call.first_attempt - call.received
            if whole and call.last_closed is not None and call.routed is not None and call.routed.call is not None:
                seconds += call.now - call.last_closed
            row.overhead_seconds.observe(max(0.0, seconds), exemplar)

    def _add_turn(self, call: CallState, turn: Turn, outcome: Outcome) -> None:
        row, usage = call.row, turn.usage
        if turn.reported != "missing" or outcome in ENDED_BY_ITSELF:
            self._add_end(call, turn, counted=outcome != "client_gone")
        if usage is not None:
            if tokens := count(usage.input):
                row.tokens["input",].inc(tokens)
            if tokens := count(usage.output):
                row.tokens["output",].inc(tokens)
            if tokens := count(usage.cached):
                row.tokens["cached_input",].inc(tokens)
        if (tokens := count(turn.reasoning_tokens)) and turn.reasoning_source is not None:
            row.reasoning_tokens[turn.reasoning_source,].inc(tokens)
            row.thinking_tokens.observe(tokens, call.exemplar)
        self._add_oddities(call, turn)

    def _add_end(self, call: CallState, turn: Turn, *, counted: bool) -> None:
        """What only a turn that came to its end can say. One that was broken off has no finish reason to miss."""
        row = call.row
        if counted:
            row.finish_reasons[turn.reported, turn.returned].inc()
        used = count(turn.usage.output) if turn.usage is not None else None
        if turn.output_cap and turn.output_cap > 0 and used is not None:
            row.output_capped.inc()
            row.cap_used_ratio.observe(used / (turn.output_cap * max(1, turn.choices)), call.exemplar)

    def _add_oddities(self, call: CallState, turn: Turn) -> None:
        """What an ordinary turn has none of."""
        metrics, where = self._metrics, call.row.where
        if turn.usage_missing:
            metrics.usage_missing[where].inc()
        if turn.reasoning_only:
            metrics.reasoning_only[where].inc()
        if turn.malformed and (malformed := count(turn.malformed)):
            metrics.malformed_events[where].inc(malformed)
        if turn.thinking_outcome is not None:
            method = turn.thinking_method or (call.routed.thinking_method if call.routed is not None else None)
            if method is not None:
                metrics.thinking_capped[*where, method, turn.thinking_outcome].inc(1, call.exemplar)
        if (past := count(turn.past_cap)) is not None:
            metrics.tokens_past_cap[where].observe(past, call.exemplar)
