"""Rule 1: a clean stop that used the whole output cap is told as `length`.

On some routes hidden thinking is counted in the output tokens but not bounded by the caller's cap: 105 tokens under a
cap of 64, reported as a clean stop. The rule reports, it never cuts. One function decides, `OutputCap.settle`; streams
and whole bodies both call it. The first line of this table that matches wins:

    the operator mapped the raw word                         override        that reason
    the reason is no clean stop                              stronger        unchanged
    no usable cap, or no usable usage                        unjudged        unchanged
    tokens < cap                                             under           unchanged
    the turn carried a tool call                             tool_calls      unchanged
    more than one choice: the usage is a sum                 choices         unchanged
    the caller's own stop sequence ended it (evidence)       stop_sequence   unchanged
    stop sequences were sent, no evidence either way         unproven_stop   unchanged
    the upstream bounds thinking by the cap, tokens == cap   enforced        unchanged
    else                                                     upgraded        length, kind `at` or `over`
"""

from collections.abc import Mapping

from msgspec import Struct

from gateway.deltas import Finish
from gateway.words import MappedReason, Reason, UpgradeKind, Verdict


class Settled(Struct, frozen=True):
    """What the rule made of one turn. `overrun`: tokens past the cap, counted whatever the verdict; 0 when none."""

    returned: Reason
    verdict: Verdict
    kind: UpgradeKind | None = None
    overrun: int = 0


class OutputCap(Struct, frozen=True, kw_only=True):
    """The rule for one call. `cap` is in tokens per choice; None or 0: no usable one."""

    cap: int | None = None
    choices: int = 1
    stop_sequences: bool = False
    overrides: Mapping[str, MappedReason] = {}
    enforces_cap: bool = False
    upgrade_unproven: bool = False

    def could_raise(self, finish: Finish, *, tool_calls: bool) -> bool:
        """Whether a usage yet to come could turn this finish into `length`, so that it is worth holding."""
        verdict = self._unless_used(finish, tool_calls=tool_calls)
        return verdict is None and bool(self.cap) and self.choices == 1

    def settle(self, finish: Finish, tokens: int | None, *, tool_calls: bool) -> Settled:
        """The verdict on a turn that ended with `finish` after `tokens` output tokens (None: no usable usage)."""
        overrun = self._overrun(tokens)
        mapped = self.overrides.get(finish.raw)
        if mapped is not None:
            return Settled(mapped, "override", overrun=overrun)
        verdict = self._verdict(finish, tokens, tool_calls=tool_calls)
        if verdict != "upgraded":
            return Settled(finish.reason, verdict, overrun=overrun)
        return Settled("length", "upgraded", "over" if overrun else "at", overrun)

    def instead(self, finish: Finish, *, upgraded: bool) -> Reason | None:
        """What the caller is told in place of the word that came; None: that word."""
        mapped = self.overrides.get(finish.raw)
        if mapped is not None:
            return mapped
        return "length" if upgraded and finish.reason == "stop" else None

    def _overrun(self, tokens: int | None) -> int:
        if not self.cap or tokens is None:
            return 0
        return max(0, tokens - self.cap * self.choices)

    def _verdict(self, finish: Finish, tokens: int | None, *, tool_calls: bool) -> Verdict:
        if finish.reason != "stop":
            return "stronger"
        if not self.cap or tokens is None:
            return "unjudged"
        if not tokens >= self.cap:
            return "under"
        kept = self._unless_used(finish, tool_calls=tool_calls)
        if kept is not None:
            return kept
        return "enforced" if self.enforces_cap and tokens == self.cap else "upgraded"

    def _unless_used(self, finish: Finish, *, tool_calls: bool) -> Verdict | None:
        """The verdict that keeps this finish however many tokens were used; None when there is none."""
        if finish.raw in self.overrides:
            return "override"
        if finish.reason != "stop":
            return "stronger"
        if tool_calls:
            return "tool_calls"
        if self.choices > 1:
            return "choices"
        if finish.stop_evidence:
            return "stop_sequence"
        if self.stop_sequences and finish.stop_evidence is None and not self.upgrade_unproven:
            return "unproven_stop"
        return None
