"""One call's facts as numbers: which fact moves which series.

Most of a turn is counted once, from the totals stated at the end; what has a moment of its own is counted then.
"""

from typing import ClassVar, Final

from gateway.events import (
    AttemptEnded,
    CallAbandoned,
    CallFailed,
    CallFinished,
    CallRouted,
    Ending,
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
from telemetry.state import CONTROL, CallState, On

ENDED_BY_ITSELF: Final = frozenset({"ok", "incomplete"})
"""Outcomes of turns that came to their own end, with or without a finish word."""


class CallTally:
    """Moves the counters of one call."""

    __slots__ = ("_at", "_busy", "_metrics")

    def __init__(self, metrics: Metrics, state: CallState) -> None:
        """Count into these metrics under the labels of this state."""
        self._metrics, self._at = metrics, state
        self._busy = False

    @property
    def _where(self) -> tuple[str, str]:
        return self._at.upstream, self._at.model

    def _on_routed(self, _fact: CallRouted) -> None:
        if not self._busy:
            self._busy = True
            self._metrics.inflight[self._at.upstream,].inc()

    def _on_key_refused(self, fact: KeyRefused) -> None:
        self._metrics.key_refusals[fact.reason,].inc(1, self._at.exemplar)

    def _on_attempt_ended(self, fact: AttemptEnded) -> None:
        # The control call's own trouble stands in end_reasoning_seconds: it is no error of the answer.
        if fact.fault is not None and fact.kind != CONTROL:
            self._metrics.upstream_errors[self._at.upstream, fact.fault].inc(1, self._at.exemplar)

    def _on_first_token(self, _fact: FirstToken) -> None:
        at = self._at
        if at.streamed:  # the first token of a whole body comes with its last: that is request_seconds
            self._metrics.first_token_seconds[at.dialect, *self._where].observe(at.elapsed, at.exemplar)

    def _on_overrun(self, fact: OutputOverran) -> None:
        self._metrics.output_overruns[*self._where, fact.verdict].inc(1, self._at.exemplar)
        self._metrics.output_overrun_tokens[self._where].inc(overran(fact.used, fact.cap, self._at.choices))

    def _on_raised(self, fact: FinishRaised) -> None:
        self._metrics.finish_upgrades[*self._where, fact.kind].inc(1, self._at.exemplar)

    def _on_thinking_overran(self, fact: ThinkingOverran) -> None:
        self._metrics.thinking_overruns[*self._where, fact.cause].inc(1, self._at.exemplar)

    def _on_end_answered(self, fact: EndReasoningAnswered) -> None:
        seconds = max(0.0, fact.seconds)
        self._metrics.end_reasoning[self._at.upstream, fact.result].observe(seconds, self._at.exemplar)

    def _on_level_refused(self, fact: LevelRefused) -> None:
        key = (*self._where, self._at.purpose, fact.level)
        self._metrics.level_refusals[key].inc(1, self._at.exemplar)

    def _on_level_answered(self, fact: LevelAnswered) -> None:
        key = (*self._where, self._at.purpose, fact.refused, fact.sent, fact.outcome)
        self._metrics.level_retries[key].inc(1, self._at.exemplar)

    def _on_level_preempted(self, fact: LevelPreempted) -> None:
        key = (*self._where, self._at.purpose, fact.refused, fact.sent)
        self._metrics.level_preempted[key].inc(1, self._at.exemplar)

    def _on_finished(self, fact: CallFinished) -> None:
        self._close(fact.outcome)
        self._add_overhead(whole=not self._at.streamed)
        self._add_turn(fact, fact.outcome)

    def _on_failed(self, fact: CallFailed) -> None:
        self._close(fact.outcome)
        self._add_overhead(whole=False)
        self._add_turn(fact, fact.outcome)

    def _on_abandoned(self, fact: CallAbandoned) -> None:
        self._close("client_gone")
        self._add_overhead(whole=False)
        self._add_turn(fact, "client_gone")

    def _close(self, outcome: Outcome) -> None:
        at = self._at
        if self._busy:
            self._busy = False
            self._metrics.inflight[at.upstream,].dec()
        self._metrics.requests[at.dialect, *self._where, outcome].inc(1, at.exemplar)
        self._metrics.request_seconds[at.dialect, *self._where].observe(at.elapsed, at.exemplar)

    def _add_overhead(self, *, whole: bool) -> None:
        """From the whole request to the first attempt; for whole bodies also from the last byte to the end.

        What a stream costs per event is not among the facts, so it is not in here.
        """
        at = self._at
        if at.first_attempt is None:
            return
        seconds = at.first_attempt - at.received
        if whole and at.last_closed is not None and at.routed is not None and at.routed.call is not None:
            seconds += at.now - at.last_closed
        self._metrics.overhead_seconds[at.dialect,].observe(max(0.0, seconds), at.exemplar)

    def _add_turn(self, fact: Ending, outcome: Outcome) -> None:
        turn = fact.turn
        if turn is None:
            return
        if turn.reported != "missing" or outcome in ENDED_BY_ITSELF:
            self._add_end(turn, counted=type(fact) is not CallAbandoned)
        self._add_tokens(turn)
        self._add_thinking(turn)

    def _add_end(self, turn: Turn, *, counted: bool) -> None:
        """What only a turn that came to its end can say. One that was broken off has no finish reason to miss."""
        metrics, where = self._metrics, self._where
        if counted:
            metrics.finish_reasons[*where, turn.reported, turn.returned].inc()
        used = count(turn.usage.output) if turn.usage is not None else None
        if turn.output_cap and turn.output_cap > 0 and used is not None:
            metrics.output_capped[where].inc()
            ratio = used / (turn.output_cap * max(1, turn.choices))
            metrics.cap_used_ratio[where].observe(ratio, self._at.exemplar)

    def _add_tokens(self, turn: Turn) -> None:
        metrics, where, usage = self._metrics, self._where, turn.usage
        if usage is not None:
            kinds = (("input", usage.input), ("output", usage.output), ("cached_input", usage.cached))
            for kind, value in kinds:
                if tokens := count(value):
                    metrics.tokens[*where, kind].inc(tokens)
        if turn.usage_missing:
            metrics.usage_missing[where].inc()
        if turn.reasoning_only:
            metrics.reasoning_only[where].inc()
        if malformed := count(turn.malformed):
            metrics.malformed_events[where].inc(malformed)

    def _add_thinking(self, turn: Turn) -> None:
        metrics, at, where = self._metrics, self._at, self._where
        if (tokens := count(turn.reasoning_tokens)) and turn.reasoning_source is not None:
            metrics.reasoning_tokens[*where, turn.reasoning_source].inc(tokens)
            metrics.thinking_tokens[where].observe(tokens, at.exemplar)
        method = turn.thinking_method or (at.routed.thinking_method if at.routed is not None else None)
        if turn.thinking_outcome is not None and method is not None:
            metrics.thinking_capped[*where, method, turn.thinking_outcome].inc(1, at.exemplar)
        if (past := count(turn.past_cap)) is not None:
            metrics.tokens_past_cap[where].observe(past, at.exemplar)

    on: ClassVar[On] = {
        CallRouted: _on_routed,
        KeyRefused: _on_key_refused,
        AttemptEnded: _on_attempt_ended,
        FirstToken: _on_first_token,
        OutputOverran: _on_overrun,
        FinishRaised: _on_raised,
        ThinkingOverran: _on_thinking_overran,
        EndReasoningAnswered: _on_end_answered,
        LevelRefused: _on_level_refused,
        LevelAnswered: _on_level_answered,
        LevelPreempted: _on_level_preempted,
        CallFinished: _on_finished,
        CallFailed: _on_failed,
        CallAbandoned: _on_abandoned,
    }
