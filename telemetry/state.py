"""What is known of one call so far: its labels, its moments, its trace. The recorders read it, the facts write it."""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

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
from gateway.words import CONVERSATION, OTHER
from telemetry.labels import Guard, dialect

CONTROL: Final = "control"
"""The kind of the attempt beside the call; every other kind is the call itself."""
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

On = Mapping[Any, Callable[[Any, Any], None]]
"""What a recorder does, by the type of the fact; one that is not there does not concern it."""


class CallState:
    """One call. Moments are in seconds of the observer's clock, None while they have not come."""

    __slots__ = (
        "_guard", "choices", "dialect", "exemplar", "first_attempt", "first_token", "last_closed", "level_requested",
        "level_sent", "model", "now", "purpose", "received", "routed", "started", "streamed", "trace_id", "upstream",
    )  # fmt: skip

    def __init__(self, guard: Guard, started: CallStarted, now: float) -> None:
        """Begin at the head of the request. Labels are `other` until it is routed."""
        self._guard = guard
        self.started = started
        self.dialect = dialect(started.dialect)
        self.upstream = self.model = OTHER
        self.purpose = CONVERSATION
        self.routed: CallRouted | None = None
        self.now = self.received = now
        self.first_attempt: float | None = None
        self.last_closed: float | None = None
        self.first_token: float | None = None
        self.level_requested: str | None = None
        self.level_sent: str | None = None
        self.streamed = False
        self.choices = 1
        self.trace_id = _trace_id(started.traceparent)
        self.exemplar: dict[str, str] | None = None

    def sampled(self, trace_id: str) -> None:
        """The call has a span that will be exported: samples may point to it."""
        self.trace_id = trace_id
        self.exemplar = {"trace_id": trace_id}

    @property
    def elapsed(self) -> float:
        """Seconds since the whole request was here, or its head when it never came whole."""
        return max(0.0, self.now - self.received)

    def _on_received(self, _fact: CallReceived) -> None:
        self.received = self.now

    def _on_routed(self, fact: CallRouted) -> None:
        self.routed = fact
        self.upstream = self._guard.upstream(fact.upstream)
        self.model = self._guard.model(fact.upstream, fact.model)
        self.purpose = self._guard.purpose(fact.purpose)
        if fact.call is not None:
            self.streamed, self.choices = fact.call.stream, fact.call.choices
            self.level_requested = self.level_sent = fact.call.level

    def _on_attempt_started(self, fact: AttemptStarted) -> None:
        if self.first_attempt is None and fact.kind != CONTROL:
            self.first_attempt = self.now

    def _on_attempt_ended(self, fact: AttemptEnded) -> None:
        if fact.kind != CONTROL:
            self.last_closed = self.now

    def _on_first_token(self, _fact: FirstToken) -> None:
        self.first_token = self.now

    def _on_other_level(self, fact: LevelRetried | LevelPreempted) -> None:
        self.level_requested = self.level_requested or fact.refused
        self.level_sent = fact.sent

    on: ClassVar[On] = {
        CallReceived: _on_received,
        CallRouted: _on_routed,
        AttemptStarted: _on_attempt_started,
        AttemptEnded: _on_attempt_ended,
        FirstToken: _on_first_token,
        LevelRetried: _on_other_level,
        LevelPreempted: _on_other_level,
    }


def _trace_id(traceparent: str | None) -> str | None:
    """The trace id of the caller's W3C header, 32 hex digits; None when there is no valid one."""
    found = _TRACEPARENT.fullmatch(traceparent.strip()) if traceparent else None
    return found[1] if found else None
