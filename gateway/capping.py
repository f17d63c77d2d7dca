"""The thinking cap of one answer: tells the rule what the frames bring, and the world what the rule makes of it."""

from collections.abc import Callable, Sequence
from typing import Final

from gateway.answer import Answer
from gateway.deltas import Content, Delta, Reasoning, ToolCall
from gateway.events import Fact, ThinkingCapped, ThinkingOverran, ThinkingRefused, Turn
from gateway.rules.thinking_cap import Ask, GiveUp, ThinkingCap
from gateway.words import EndResult, OverrunCause

CAUSES: Final[dict[EndResult, OverrunCause]] = {"refused": "refused", "error": "refused", "timeout": "timeout"}


class Capping:
    """One machine of rule 2 and its facts."""

    __slots__ = ("_note", "cap")

    def __init__(self, cap: ThinkingCap, note: Callable[[Fact], None]) -> None:
        """Take a fresh machine."""
        self.cap, self._note = cap, note

    def weigh(self, deltas: Sequence[Delta], answer: Answer) -> Ask | GiveUp | None:
        """What one frame brought: the text first, for what has ended needs no ending."""
        cap = self.cap
        step: Ask | GiveUp | None = None
        if any(type(delta) is Content or type(delta) is ToolCall for delta in deltas):
            cap.visible()
        if any(type(delta) is Reasoning for delta in deltas):
            step = self.reasoned(answer.reasoning_tokens)
        if answer.finishes or answer.over or answer.failed is not None:
            cap.ended()
        return step

    def reasoned(self, tokens: int) -> Ask | GiveUp | None:
        """A frame of reasoning: so many tokens in all so far."""
        cap = self.cap
        fired = cap.fired_at
        step = cap.reasoned(tokens)
        if fired is None and cap.fired_at is not None:
            self._note(ThinkingCapped(cap.cap, cap.fired_at))
        return self._stated(step)

    def answered(self, result: EndResult) -> GiveUp | None:
        """The control call came back, or did not. A refusal that comes too late is moot and no fact."""
        if result == "ended":
            self.cap.answered()
            return None
        cause = CAUSES[result]
        if self.cap.state == "ENDING":
            self._note(ThinkingRefused(cause))
        step = self.cap.refused(cause)
        self._stated(step)
        return step

    def end(self, turn: Turn, counted: int) -> None:
        """The totals. The upstream's own count, where it gives one, replaces ours (`counted`); of one choice alone."""
        cap = self.cap
        told = turn.reasoning_tokens if turn.choices == 1 else None
        cap.totalled(counted if told is None else told)
        turn.thinking_outcome, turn.fired_at, turn.past_cap = cap.outcome, cap.fired_at, cap.past_cap

    def _stated(self, step: Ask | GiveUp | None) -> Ask | GiveUp | None:
        if isinstance(step, GiveUp):
            self._note(ThinkingOverran(step.cause, step.tokens))
        return step
