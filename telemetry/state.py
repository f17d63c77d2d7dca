"""What is known of one call so far: its labels, its moments, its trace. `Keeper` writes it, other recorders read it.

A recorder lives as long as the process. It says by the type of a fact what it does with it; what differs from call to
call it is handed with the fact.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from gateway.events import (
    AttemptEnded,
    AttemptStarted,
    CallReceived,
    CallRouted,
    CallStarted,
    FirstToken,
    LevelPreempted,
    LevelRetried,
)
from gateway.words import CONVERSATION
from telemetry.labels import Guard, bounded
from telemetry.rows import Rows

if TYPE_CHECKING:
    from telemetry.spans import Spans

CONTROL: Final = "control"
"""The kind of the attempt beside the call; every other kind is the call itself."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


class CallState:
    """One call. Moments are in seconds of the observer's clock, None while they have not come."""

    __slots__ = (
        "busy", "exemplar", "first_attempt", "first_token", "last_closed", "level_requested", "level_sent", "now",
        "purpose", "received", "routed", "row", "spans", "started", "streamed", "trace_id",
    )  # fmt: skip
    spans: "Spans"
    """Only of a call that is sampled."""

    def __init__(self, rows: Rows, started: CallStarted, now: float) -> None:
        """Begin at the head of the request. Labels are `other` until it is routed."""
        self.started = started
        self.row = rows.unrouted(started.dialect)
        self.purpose = CONVERSATION
        self.routed: CallRouted | None = None
        self.busy = False
        """An upstream is busy with it."""
        self.streamed = False
        self.now = self.received = now
        self.first_attempt: float | None = None
        self.last_closed: float | None = None
        self.first_token: float | None = None
        self.level_requested: str | None = None
        self.level_sent: str | None = None
        self.trace_id = None if started.traceparent is None else _trace_id(started.traceparent)
        self.exemplar: dict[str, str] | None = None
        """Only of a call that is sampled: what its samples point to."""

    @property
    def elapsed(self) -> float:
        """Seconds since the whole request was here, or its head when it never came whole."""
        return max(0.0, self.now - self.received)


Handler: TypeAlias = Callable[[Any, Any], None]
"""Takes a call and a fact of it."""


class Recorder(Protocol):
    """Records facts, each by its type; one that is not there does not concern it."""

    on: Mapping[Any, Handler]


class Keeper:
    """Writes the facts into the state of their call."""

    def __init__(self, rows: Rows, guard: Guard) -> None:
        """Label values are what these know."""
        self._rows, self._guard = rows, guard
        self.on: Mapping[Any, Handler] = {
            CallReceived: self._on_received,
            CallRouted: self._on_routed,
            AttemptStarted: self._on_attempt_started,
            AttemptEnded: self._on_attempt_ended,
            FirstToken: self._on_first_token,
            LevelRetried: self._on_other_level,
            LevelPreempted: self._on_other_level,
        }

    def _on_received(self, call: CallState, _fact: CallReceived) -> None:
        call.received = call.now

    def _on_routed(self, call: CallState, fact: CallRouted) -> None:
        call.routed = fact
        call.row = self._rows[call.row.dialect, fact.upstream, fact.model]
        call.purpose = self._guard.purpose(fact.purpose)
        if fact.call is not None:
            call.streamed = fact.call.stream
            call.level_requested = call.level_sent = fact.call.level

    def _on_attempt_started(self, call: CallState, fact: AttemptStarted) -> None:
        if call.first_attempt is None and fact.kind != CONTROL:
            call.first_attempt = call.now

    def _on_attempt_ended(self, call: CallState, fact: AttemptEnded) -> None:
        if fact.kind != CONTROL:
            call.last_closed = call.now

    def _on_first_token(self, call: CallState, _fact: FirstToken) -> None:
        call.first_token = call.now

    def _on_other_level(self, call: CallState, fact: LevelRetried | LevelPreempted) -> None:
        call.level_requested = call.level_requested or bounded(fact.refused)
        call.level_sent = bounded(fact.sent)


def _trace_id(traceparent: str) -> str | None:
    """The trace id of the caller's W3C header, 32 hex digits; None when there is no valid one."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    return found[1] if found else None
