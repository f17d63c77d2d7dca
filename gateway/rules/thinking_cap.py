"""Rule 2: a model that thinks too long is told to answer.

    THINKING --- tokens >= cap: fires, once ---> ENDING --- tokens >= at + overrun ----------> GIVEN_UP
        |                                          | `---- refused, and still reasoning ---->
        |                                          |
        `---> DONE <-------------------------------'   visible text, a tool call, or the turn's end

What firing does, and what comes after it, is the method's:

    control   asks the upstream to end the reasoning; gives up when it refuses, or at the firing point + overrun
    give_up   cannot ask: gives up at cap + overrun
    budget    the cap went out with the request and acts over there; here it is counted whether it was honoured
    watch     counts; so does every method that cannot act (`unable`), and both that act here on several choices

The last two never act and never leave THINKING for ENDING. They may be told things in any order, also a total that is
known only at the end.
"""

from typing import Final, Literal

from msgspec import Struct

from gateway.words import CapOutcome, Method, OverrunCause

ACTING: Final = frozenset({"control", "give_up"})
State = Literal["THINKING", "ENDING", "DONE", "GIVEN_UP"]


class Ask(Struct, frozen=True):
    """Ask the upstream to end the reasoning. `at`: the firing point, in reasoning tokens."""

    at: int


class GiveUp(Struct, frozen=True):
    """Drop the call, and a control call that is still under way. `tokens`: reasoning tokens so far."""

    cause: OverrunCause
    tokens: int


class ThinkingCap(Struct):
    """The rule for one completion; tell it what happens in the order it happens.

    Of a frame that carries reasoning and visible text tell the text first: what has ended needs no ending.
    """

    cap: int
    """Tokens of reasoning, at least 1."""
    overrun: int
    """Tokens of grace, at least 0."""
    method: Method
    choices: int = 1
    state: State = "THINKING"
    tokens: int = 0
    """Reasoning tokens so far; counted on after the cap, and after the rule is done."""
    fired_at: int | None = None
    """The firing point; None: it has not fired."""
    _spoke: bool = False
    _agreed: bool = False
    _refusal: OverrunCause | None = None
    _given_up: OverrunCause | None = None

    def __post_init__(self) -> None:
        """The control call ends the first choice alone (measured on llama.cpp), and giving up would drop them all."""
        if self.choices > 1 and self.method in ACTING:
            self.method = "watch"

    def reasoned(self, tokens: int) -> Ask | GiveUp | None:
        """A frame carried reasoning: `tokens` in all so far. A later, better total replaces an earlier one."""
        self.tokens = tokens
        if self.method in ACTING:
            return self._act()
        if self.method == "budget" and self.fired_at is None and tokens >= self.cap:
            self.fired_at = tokens
        return None

    def answered(self) -> None:
        """The control call said success: the upstream will try. Whether it does is judged by what the stream brings."""
        self._agreed = True

    def refused(self, cause: OverrunCause) -> GiveUp | None:
        """The control call was refused or failed (`refused`), or was not answered in time (`timeout`).

        A refusal may mean that the turn has just ended, with its last frames still under way: the next frame that
        carries reasoning decides. Silence means no such thing: a time-out gives up at once.
        """
        if self.state != "ENDING":
            return None  # moot: the aim of the cap is reached, or the call is given up already
        self._refusal = cause
        return self._give_up(cause) if cause == "timeout" else None

    def visible(self) -> None:
        """Visible text or a tool call began."""
        self._spoke = True
        self.ended()

    def ended(self) -> None:
        """The turn is over, however it ended; also: the caller has left."""
        if self.state != "GIVEN_UP":
            self.state = "DONE"

    def unable(self) -> None:
        """The method cannot act on this call (not streamed, no field for a budget): from now on it only counts."""
        if self.fired_at is None:
            self.method = "watch"

    def totalled(self, tokens: int) -> None:
        """The turn is over, and this is its total by the best source. What no frame had shown could not be acted on."""
        self.ended()
        if tokens > self.tokens and self.method != "budget":
            self.unable()
        self.reasoned(tokens)

    @property
    def outcome(self) -> CapOutcome | None:
        """What came of the cap; None: it did not fire, and had no reason to. Final once the turn is over."""
        if self.method == "watch":
            return "unable" if self.tokens >= self.cap else None
        if self.fired_at is None:
            return None
        if self.method == "budget":
            return self._honoured()
        if self._given_up is not None:
            return "overrun" if self._given_up == "kept_thinking" else self._given_up
        return "ended" if self._agreed else "moot"

    @property
    def past_cap(self) -> int | None:
        """Reasoning tokens beyond the cap, 0 when it stopped on it; None: the cap was not reached."""
        return None if self.outcome is None else max(0, self.tokens - self.cap)

    def _act(self) -> Ask | GiveUp | None:
        if self.state == "THINKING" and self.tokens >= self.cap:
            self.state, self.fired_at = "ENDING", self.tokens
            if self.method == "control":
                return Ask(self.tokens)
        if self.state != "ENDING":
            return None
        if self._refusal is not None:
            return self._give_up(self._refusal)
        start = self.cap if self.method == "give_up" or self.fired_at is None else self.fired_at
        return self._give_up("kept_thinking") if self.tokens >= start + self.overrun else None

    def _give_up(self, cause: OverrunCause) -> GiveUp:
        self.state, self._given_up = "GIVEN_UP", cause
        return GiveUp(cause, self.tokens)

    def _honoured(self) -> CapOutcome:
        """Accepted is not honoured: a budget the model thought past could not act, whatever the upstream said."""
        if self.tokens >= self.cap + max(1, self.overrun):
            return "unable"
        return "ended" if self._spoke else "moot"
