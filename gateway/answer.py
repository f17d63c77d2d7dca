"""What one answer has said so far, and what rule 1 makes of it: the bookkeeping both paths of the relay share."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct, field, structs

from gateway.deltas import Content, Delta, Done, Failure, Finish, Identity, Reasoning, ToolCall, Unjudged, Usage
from gateway.dialects.base import NOTHING_ADDED, Additions
from gateway.events import Fact, FinishRaised, FirstToken, OutputOverran, Turn
from gateway.rules.output_cap import OutputCap, Settled
from gateway.rules.thinking_cap import ThinkingCap
from gateway.tokens import ReasoningCount
from gateway.words import WORST_FIRST, Outcome

PROMOTABLE: Final = 256 * 1024
"""Bytes of reasoning kept for `reasoning_only = "promote"`; beyond it the rest is not promoted."""
PIECES: Final = (Reasoning, Content, ToolCall)
"""Of the turn itself."""
UNSAID: Final = Finish("", "missing")
PROMOTED_AT: Final = frozenset({"stop", "length"})
"""Reasoning is promoted when the turn ended in one of these."""


class Plan(Struct, frozen=True, kw_only=True):
    """What the policy says about one answer: plain numbers, no settings."""

    output_cap: OutputCap
    added: Additions = NOTHING_ADDED
    thinking: ThinkingCap | None = None
    per_frame: bool = False
    """The upstream is known to send one token a frame."""
    promote: bool = False
    guarded: bool = False
    """A level may still be refused: nothing goes out before the first delta."""


class Answer(Struct):
    """The state of one answer. Told every delta, asked for the verdict, the outcome and the totals."""

    plan: Plan
    note: Callable[[Fact], None]
    per_frame: bool = False
    """The frames of this answer are tokens."""
    turn: Turn = field(default_factory=Turn)
    finishes: dict[int, Finish] = {}
    settled: Settled | None = None
    failed: Failure | None = None
    block: int = 0
    over: bool = False
    started: bool = False
    reasoned: bool = False
    visible: bool = False
    tool_calls: bool = False
    unjudged: bool = False
    _counts: dict[int, ReasoningCount] = {}
    _text: list[str] = []
    _told: Literal["", "summary", "text"] = ""
    _promoted: bool = False

    def hear(self, deltas: Sequence[Delta], *, again: bool = False) -> list[Finish]:
        """Take what was said; gives the finishes that count. `again`: of several words for one choice the last counts.

        One loop and few calls: this runs for every whole answer and for all of a stream but its long runs.
        """
        finishes: list[Finish] = []
        for delta in deltas:
            if isinstance(delta, PIECES):
                if not self.started:
                    self.started = True
                    self.note(FirstToken())
                if self.finishes:  # a finish said earlier for that choice was none
                    self.finishes.pop(delta.choice, None)
                if isinstance(delta, Reasoning):
                    self.reason(delta)
                else:
                    self._speak(delta)
            elif isinstance(delta, Finish):
                if self._finish(delta, again=again):
                    finishes.append(delta)
            elif isinstance(delta, Usage):
                self._use(delta)
            else:
                self._stop(delta)
        return finishes

    def _stop(self, delta: Failure | Done | Unjudged) -> None:
        """Take what ends the turn, or the judging of it."""
        if isinstance(delta, Failure):
            self.failed = self.failed or delta
        elif isinstance(delta, Done):
            self.over = True
        else:
            self.unjudged = True

    def reason(self, delta: Reasoning) -> None:
        """Count a piece of reasoning. A summary gives way to the text it retells, whichever comes first."""
        self.reasoned, self.block = True, delta.block
        if not delta.text and delta.running is None:  # thinking that is not told
            return
        if delta.summary and self._told == "text":
            return
        if self._told == "summary" and not delta.summary:
            self._counts, self._text = {}, []
        self._told = "summary" if delta.summary else "text"
        if self.plan.promote and len(self._text) < PROMOTABLE and not self.visible:
            self._text.append(delta.text)
        self._count(delta.choice).add(delta.text, delta.running)

    def _speak(self, delta: Content | ToolCall) -> None:
        """Visible text or a tool call came: an exact count of all tokens is no count of reasoning any more."""
        self._count(delta.choice).interrupt()
        if isinstance(delta, Content):
            self.visible = True
        else:
            self.tool_calls = True

    def _count(self, choice: int) -> ReasoningCount:
        count = self._counts.get(choice)
        if count is None:
            count = self._counts[choice] = ReasoningCount(self.per_frame)
        return count

    def _finish(self, finish: Finish, *, again: bool) -> bool:
        """Take a finish word. False: another one was said before, which counts; this one is malformed."""
        if again:
            self.finishes.pop(finish.choice, None)
        first = self.finishes.setdefault(finish.choice, finish)
        if first.raw != finish.raw:
            self.turn.malformed += 1
            return False
        return True

    def _use(self, usage: Usage) -> None:
        """Take a usage: it replaces the last one, save where the server sends one per choice.

        What it does not tell stays as it was told before (messages: the input stands in the first event; some servers
        repeat the input alone at the end).
        """
        last = self.turn.usage
        if last is not None:
            if usage.part and last.part:
                outputs = (last.output, usage.output)
                total = None if None in outputs else sum(n for n in outputs if n is not None)
                usage = structs.replace(usage, output=total)
            if usage.output is None and not usage.part:
                usage = structs.replace(usage, output=last.output)
            if usage.input is None or (usage.cached is None and last.cached):
                usage = structs.replace(usage, input=last.input, cached=last.cached)
            if usage.reasoning is None and last.reasoning is not None:
                usage = structs.replace(usage, reasoning=last.reasoning)
        self.turn.usage = usage

    def identify(self, identity: Identity) -> None:
        """Take who answered."""
        self.turn.response_id, self.turn.response_model = identity.id, identity.model

    @property
    def reasoning_tokens(self) -> int:
        """Reasoning tokens counted so far: what a thinking cap sees, so of several choices the most of one."""
        counts = self._counts
        if len(counts) == 1:  # on every frame of reasoning
            return next(iter(counts.values())).tokens
        return max((count.tokens for count in counts.values()), default=0)

    @property
    def tokens(self) -> int | None:
        """Output tokens as the cap sees them; None when no usable usage was said."""
        return self.turn.usage.output if self.turn.usage is not None else None

    @property
    def worst(self) -> Finish:
        """The finish the turn counts as: the worst of its choices."""
        finishes = self.finishes
        if not finishes:
            return UNSAID
        if len(finishes) == 1:
            return next(iter(finishes.values()))
        return min(finishes.values(), key=lambda finish: WORST_FIRST.index(finish.reason))

    def could_raise(self, finish: Finish) -> bool:
        """Whether a usage yet to come could make this finish `length`."""
        return self.plan.output_cap.could_raise(finish, tool_calls=self.tool_calls)

    def judge(self, finish: Finish) -> Settled:
        """The verdict as of now, without stating it."""
        return self.rule.settle(finish, self.tokens, tool_calls=self.tool_calls)

    @property
    def rule(self) -> OutputCap:
        """Rule 1, for as many choices as there are: some are asked for by fields that nobody here knows."""
        rule = self.plan.output_cap
        return rule if len(self.finishes) <= rule.choices else structs.replace(rule, choices=len(self.finishes))

    def settle(self, *, gone: bool = False) -> Settled:
        """The verdict, stated once. `gone`: the finish went out already as it was, so it cannot be raised any more."""
        if self.settled is None:
            finish = self.worst
            settled = self.judge(finish)
            if gone and settled.verdict == "upgraded":
                settled = Settled(finish.reason, "unjudged", overrun=settled.overrun)
            self.settled = settled
            self._state(settled)
        return self.settled

    def _state(self, settled: Settled) -> None:
        if settled.overrun:
            self.note(OutputOverran(self.plan.output_cap.cap or 0, self.tokens or 0, settled.verdict))
        if settled.kind is not None:
            self.note(FinishRaised(self.worst.reason, settled.returned, settled.kind))

    @property
    def reasoning_only(self) -> bool:
        """Reasoning came, and no visible text and no tool call."""
        return self.reasoned and not self.visible and not self.tool_calls

    @property
    def may_promote(self) -> bool:
        """No answer came so far, and the reasoning would be put in its place."""
        return self.plan.promote and self.reasoning_only and not self._promoted

    def promote(self) -> str:
        """The reasoning to be promoted when no answer came, once; "" when there is nothing to promote."""
        if not self.may_promote or self.worst.reason not in PROMOTED_AT:
            return ""
        self._promoted = True
        return "".join(self._text).encode()[:PROMOTABLE].decode("utf-8", "ignore")

    def outcome(self, *, streamed: bool) -> Outcome:
        """How the answer counts, now that it has ended by itself.

        The word `error` itself is the server's fault. A word that only folds to it may be the model's: Gemini's
        MALFORMED_FUNCTION_CALL is a whole answer, if a bad one.
        """
        if self.failed is not None or self.worst.raw == "error":
            return "stream_error" if streamed else "upstream_error"
        return "ok" if self.finishes or self.unjudged else "incomplete"

    def end(self, *, by_itself: bool) -> Turn:
        """The totals. `by_itself`: the upstream said all it had to say, nobody broke off."""
        turn, usage, rule = self.turn, self.turn.usage, self.rule
        turn.output_cap, turn.choices = rule.cap or None, rule.choices
        if by_itself or self.finishes:
            settled = self.settle(gone=True)
            turn.returned, turn.verdict = settled.returned, settled.verdict
        worst, finishes = self.worst, self.finishes
        turn.reported = worst.reason
        turn.raw_reasons = (worst.raw,) if len(finishes) == 1 else tuple(finishes[n].raw for n in sorted(finishes))
        turn.usage_missing = (by_itself or bool(self.finishes)) and self.failed is None and self.tokens is None
        turn.reasoning_only = by_itself and self.reasoning_only and turn.reported in {"stop", "length"}
        if usage is not None and usage.reasoning is not None and (usage.reasoning or not self.reasoned):
            turn.reasoning_tokens, turn.reasoning_source = usage.reasoning, "upstream"
        elif self._told:
            counts = self._counts.values()
            turn.reasoning_tokens = sum(count.tokens for count in counts)
            turn.reasoning_source = "counted" if any(count.source == "counted" for count in counts) else "estimated"
        return turn
