"""The counters' words in the words of people who meet them for the first time, for the live table and the summary."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from gateway.words import CapOutcome, Outcome, RetryOutcome, Verdict


class Phrase(Struct, frozen=True):
    """The same thing for a narrow column and for a line of its own behind a number, be it one or many."""

    short: str
    long: str


VERDICTS: Final[Mapping[Verdict, Phrase]] = {
    "upgraded": Phrase(
        "said `stop`, told as `length`", "said `stop`, as if nothing were missing; the caller was told `length`"
    ),
    "tool_calls": Phrase("left: called a tool", "called a tool; told as `length`, an agent would throw the call away"),
    "choices": Phrase("left: several choices", "gave several choices; the usage is their sum and blames none of them"),
    "stop_sequence": Phrase("left: caller's stop sequence", "ended on the caller's own stop sequence"),
    "unproven_stop": Phrase("left: may be a stop sequence", "may have ended on a stop sequence of the caller's"),
    "stronger": Phrase("left: says more than `length`", "ended for a reason that says more than `length` would"),
    "override": Phrase("left: the operator's word", "ended on a word about which the operator's settings decide"),
    "unjudged": Phrase("left: not judged", "could not be judged"),
}
"""Of a turn past its output cap."""

THINKING: Final[Mapping[CapOutcome, Phrase]] = {
    "ended": Phrase("told to answer, answered", "told to answer, and answered"),
    "overrun": Phrase("given up: kept thinking", "went on thinking past the cap and its grace: given up"),
    "refused": Phrase("given up: refused to end", "not told to answer, as the upstream refused to: given up"),
    "timeout": Phrase("given up: no reply", "not told to answer in time, as the upstream did not reply: given up"),
    "moot": Phrase("moot: was done by itself", "done thinking before anything came of it"),
    "unable": Phrase("only watched", "only watched: nothing is known that ends thinking over there"),
}
"""Of a turn that reached its thinking cap."""

RETRIES: Final[Mapping[RetryOutcome, Phrase]] = {
    "ok": Phrase("answered", "and answered"),
    "refused_again": Phrase("refused again", "refused again: the caller got the first refusal"),
    "failed": Phrase("failed", "and failed for another reason"),
}
"""Of a call that was re-issued with another level."""

OUTCOMES: Final[Mapping[Outcome, str]] = {
    "ok": "went well",
    "upstream_error": "got the upstream's own error",
    "stream_error": "broke off in the middle",
    "incomplete": "ended without a finish word",
    "client_gone": "left by the caller midway",
    "thinking_overrun": "given up while thinking",
    "refused": "refused by the gateway itself",
    "overloaded": "came when the gateway was full",
    "timeout": "took too long",
}
"""Of a call."""


def times(number: int, one: str) -> str:
    """A number and its noun: `1 call`, `1,204 calls`."""
    return f"{number:,} {one if number == 1 else one + 's'}"
