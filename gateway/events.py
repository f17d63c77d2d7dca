"""What happened: typed facts in the past tense, one class each, and the observer who is told.

A call states CallStarted first and exactly one of CallFinished, CallFailed, CallAbandoned last. Facts with a `name`
are also told as span events, as log lines and to callers who ask; their fields are the attributes, spelt as there.
"""

from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import Struct, field, structs

from gateway.calls import Call
from gateway.deltas import Usage
from gateway.words import (
    CapOutcome,
    CountSource,
    EndResult,
    KeyRefusal,
    Method,
    Outcome,
    OverrunCause,
    Reason,
    RetryOutcome,
    UpgradeKind,
    UpstreamFault,
    Verdict,
)


class CallStarted(Struct, frozen=True, kw_only=True):
    """The head of a request is here. `dialect` may be `other`; `route` is a template, never a raw path."""

    dialect: str
    method: str
    route: str
    traceparent: str | None = None
    tracestate: str | None = None


class CallReceived(Struct, frozen=True):
    """The whole request is here: from now on the time is the gateway's."""


class CallRouted(Struct, frozen=True, kw_only=True):
    """It is known where the call goes. `call` is None where a path is forwarded without being judged."""

    upstream: str
    """A configured name."""
    provider: str
    """The kind of the upstream."""
    model: str
    """A configured name or `other`: the metric label. The raw name is `call.model`."""
    purpose: str
    """A configured purpose, `conversation` or `other`."""
    call: Call | None = None
    output_cap: int | None = None
    thinking_cap: int | None = None
    thinking_method: Method | None = None


class AttemptStarted(Struct, frozen=True, kw_only=True):
    """A request goes out. `kind`: the call itself, or the control call beside it. `number` counts from 1 per kind."""

    kind: str
    number: int
    method: str
    host: str
    port: int


class AttemptAnswered(Struct, frozen=True):
    """The head of the answer of the running forward attempt is here."""

    status: int


class AttemptEnded(Struct, frozen=True, kw_only=True):
    """Its body is closed. `fault` None: nothing was wrong with it. Status None: none came."""

    kind: str
    number: int
    status: int | None
    fault: UpstreamFault | None = None


class FirstToken(Struct, frozen=True):
    """The first piece of reasoning, text or tool call of the kept attempt is here."""


class OutputOverran(Struct, frozen=True):
    """More tokens than the cap."""

    name: ClassVar[str] = "output_cap.overrun"
    cap: int
    used: int
    verdict: Verdict


class FinishRaised(Struct, frozen=True):
    """Rule 1 relabelled the turn."""

    name: ClassVar[str] = "finish_reason.upgraded"
    reported: Reason = field(name="from")
    returned: Reason = field(name="to")
    kind: UpgradeKind


class ThinkingCapped(Struct, frozen=True):
    """The thinking cap fired: `tokens` is the firing point."""

    name: ClassVar[str] = "thinking_cap.fired"
    cap: int
    tokens: int


class ThinkingRefused(Struct, frozen=True):
    """The upstream did not end the reasoning when asked."""

    name: ClassVar[str] = "thinking_cap.refused"
    cause: OverrunCause


class EndReasoningAnswered(Struct, frozen=True):
    """The control call came back, or did not, after `seconds`."""

    result: EndResult
    seconds: float


class ThinkingOverran(Struct, frozen=True):
    """The call was given up: the model went on thinking."""

    name: ClassVar[str] = "thinking_overrun"
    cause: OverrunCause
    tokens: int


class LevelRefused(Struct, frozen=True):
    """The upstream refused a thinking level, whether or not the call is re-issued."""

    name: ClassVar[str] = "level.refused"
    level: str


class LevelRetried(Struct, frozen=True):
    """The call goes out again with another level."""

    name: ClassVar[str] = "level.retried"
    refused: str
    sent: str


class LevelAnswered(Struct, frozen=True):
    """How a re-issued call went."""

    refused: str
    sent: str
    outcome: RetryOutcome


class LevelPreempted(Struct, frozen=True):
    """The level was refused lately: the target went out at once."""

    name: ClassVar[str] = "level.preempted"
    refused: str
    sent: str


class KeyRefused(Struct, frozen=True):
    """The caller brought no gateway key, or one nobody knows."""

    reason: KeyRefusal


class Turn(Struct, kw_only=True):
    """What one answer came to: the totals stated once, at the end. Only of answers that a dialect could read."""

    response_id: str | None = None
    response_model: str | None = None
    raw_reasons: tuple[str, ...] = ()
    reported: Reason = "missing"
    returned: Reason = "missing"
    verdict: Verdict = "unjudged"
    output_cap: int | None = None
    choices: int = 1
    usage: Usage | None = None
    usage_missing: bool = False
    """The turn ended by itself and gave no usable usage."""
    reasoning_tokens: int | None = None
    reasoning_source: CountSource | None = None
    reasoning_only: bool = False
    malformed: int = 0
    thinking_outcome: CapOutcome | None = None
    """Set when a cap fired or could not act."""
    thinking_method: Method | None = None
    fired_at: int | None = None
    past_cap: int | None = None
    """Reasoning tokens beyond the cap, 0 when it stopped on it."""


class CallFinished(Struct, frozen=True, kw_only=True):
    """The caller got the whole answer. The outcome may still be bad: it is the upstream's answer, as it came."""

    outcome: Outcome
    status: int
    turn: Turn | None = None


class CallFailed(Struct, frozen=True, kw_only=True):
    """The gateway answered with an error of its own, or broke off. `code` is one of the contract's."""

    outcome: Outcome
    status: int
    code: str
    turn: Turn | None = None


class CallAbandoned(Struct, frozen=True, kw_only=True):
    """The caller left. Status None: before any head was sent."""

    status: int | None = None
    turn: Turn | None = None


Named: TypeAlias = (
    OutputOverran
    | FinishRaised
    | ThinkingCapped
    | ThinkingRefused
    | ThinkingOverran
    | LevelRefused
    | LevelRetried
    | LevelPreempted
)
NAMED: tuple[type[Named], ...] = (
    OutputOverran,
    FinishRaised,
    ThinkingCapped,
    ThinkingRefused,
    ThinkingOverran,
    LevelRefused,
    LevelRetried,
    LevelPreempted,
)
Ending: TypeAlias = CallFinished | CallFailed | CallAbandoned
Fact: TypeAlias = (
    Named
    | CallStarted
    | CallReceived
    | CallRouted
    | AttemptStarted
    | AttemptAnswered
    | AttemptEnded
    | FirstToken
    | EndReasoningAnswered
    | LevelAnswered
    | KeyRefused
    | Ending
)


def attributes(fact: Named) -> dict[str, Any]:
    """The attributes of a named fact, by the names callers, spans and logs use."""
    return {f.encode_name: getattr(fact, f.name) for f in structs.fields(fact)}


class Observer(Protocol):
    """Listens to one call. Both methods are synchronous, stamp their own clock and never raise."""

    def note(self, fact: Fact) -> None:
        """Take one fact of this call."""

    def trace_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C trace headers for the attempt that runs now; empty when tracing is off or the call is not sampled."""


class Recorder(Protocol):
    """Opens an observer per call."""

    def open(self, started: CallStarted) -> Observer:
        """Begin to listen to a call."""
