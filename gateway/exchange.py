"""One judged call, from the request read to the last byte of the answer: attempt after attempt, one delivery each."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec import Struct, structs

from gateway.caller import Caller
from gateway.calls import Call, HeaderList
from gateway.context import Again, Brought, Context, Kept
from gateway.delivery import GOOD, Delivery
from gateway.dialects.base import Dialect
from gateway.errors import ThinkingOverrun, UpstreamError
from gateway.events import (
    NAMED,
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFinished,
    Ending,
    Fact,
    Named,
    Observer,
    Turn,
)
from gateway.headers import RawHeaders, to_upstream
from gateway.memory import Memory
from gateway.policy import Policy
from gateway.retry import LevelRetry
from gateway.thinking import Control, arm
from gateway.upstream import Upstream, UpstreamAnswer
from gateway.words import UpstreamFault

TOO_MANY: Final = 429
"""A status that is counted on its own."""
CLIENT_FAULTS: Final = range(400, 500)
SERVER_FAULTS: Final = range(500, 600)
ACCEPTED: Final = frozenset({"ok", "incomplete", "thinking_overrun"})
"""Outcomes of a re-issued call whose level was taken."""
MARKER: Final = (b"x-thinkcap-retried", b"1")
"""Tells a Thinkcap further in that this call is a re-issue already."""


class Door(Struct, frozen=True, kw_only=True):
    """What came in at the door beside the call: which credentials stay here, which go on, and the path upstream."""

    path: bytes
    """As it goes behind the upstream's address."""
    query: bytes = b""
    drop: frozenset[bytes] = frozenset()
    own: HeaderList = ()
    keepalive_seconds: float = 0.0

    @property
    def target(self) -> bytes:
        """Path and query."""
        return self.path + b"?" + self.query if self.query else self.path


class Exchange(Struct):
    """One call. `run` returns how it ended; what went wrong before the answer's head is raised as CallError."""

    _call: Call
    _policy: Policy
    _dialect: Dialect
    _upstream: Upstream
    _door: Door
    _memory: Memory
    _delivery: Delivery | None = None
    _attempts: int = 0

    async def run(self, caller: Caller, observer: Observer) -> Ending:
        """Send the call and bring back the answer. Raises CallError while nothing has gone out yet."""
        context = Context(
            call=self._call,
            policy=self._policy,
            dialect=self._dialect,
            caller=caller,
            observer=observer,
            note=observer.note,
            secret=self._upstream.terms.secret,
            keepalive_seconds=self._door.keepalive_seconds,
        )
        if self._call.wishes.facts:
            context.note = partial(_state, observer.note, context.stated)
        retry = LevelRetry(self._call, self._policy, self._memory, context.note)
        body = retry.first(self._call.body)
        first: Kept | None = None
        # No bound method: a cycle would leave the whole call to the collector, which costs a tenth of it.
        headers = partial(_forwarded, self._call, self._door)
        control = Control(self._call, self._upstream, self._door.path, headers, self._memory)
        try:
            while True:
                # Armed anew each time: a budget never stands beside a level, and a retry may bring one in.
                call = self._call if body is self._call.body else structs.replace(self._call, body=body)
                armed = arm(call, self._policy, self._memory)
                self._delivery = Delivery(context, armed, retry, control, body)
                sent = self._dialect.upstream_body(armed.call, armed.added)
                ending = await self._attempt(context, self._delivery, sent, first, retried=retry.retried)
                if not isinstance(ending, Again):
                    retry.settle("ok" if ending.outcome in ACCEPTED else "failed")
                    return ending
                body, first = ending.body, first or ending.kept
        except ThinkingOverrun:
            retry.settle("ok")  # the level was taken, if only to think too long
            raise
        finally:
            retry.settle("ok" if caller.gone and caller.status is not None else "failed")

    def abandoned(self, status: int | None) -> Ending:
        """How the call ends when its caller has left: well, if the turn was over by then. `status`: of the answer."""
        relay = self._delivery.relay if self._delivery is not None else None
        if relay is not None and relay.over and status is not None:
            return CallFinished(outcome=relay.outcome, status=status, turn=self.turn(by_itself=True))
        return CallAbandoned(status=status, turn=self.turn())

    def turn(self, *, by_itself: bool = False) -> Turn | None:
        """What is known of the turn when something broke off."""
        return self._delivery.end(by_itself=by_itself) if self._delivery is not None else None

    def told(self) -> RawHeaders:
        """What the headers of an error of ours tell of the call."""
        return self._delivery.told() if self._delivery is not None else []

    async def _attempt(
        self, context: Context, delivery: Delivery, body: bytes, first: Kept | None, *, retried: bool
    ) -> Brought:
        self._attempts += 1
        note, upstream, number = context.note, self._upstream, self._attempts
        note(AttemptStarted(kind="forward", number=number, method="POST", host=upstream.host, port=upstream.port))
        status: int | None = None
        fault: UpstreamFault | None = None
        try:
            answer = await self._send(context, body, retried=retried)
            status, fault = answer.status, fault_of(answer.status)
            note(AttemptAnswered(status))
            try:
                return await delivery.bring(answer, first)
            finally:
                if not answer.done:  # shielded: the connection goes even when the caller's leaving comes twice
                    await asyncio.shield(answer.aclose())
        except UpstreamError as error:
            fault = error.fault
            raise
        finally:
            note(AttemptEnded(kind="forward", number=number, status=status, fault=delivery.fault or fault))

    def _send(self, context: Context, body: bytes, *, retried: bool) -> Awaitable[UpstreamAnswer]:
        upstream = self._upstream
        own = context.observer.trace_headers() if upstream.terms.forward_trace else ()
        if retried and self._policy.provider == "thinkcap":
            own = (*own, MARKER)
        return upstream.send("POST", self._door.target, _forwarded(self._call, self._door, *own), body)


def _state(note: Callable[[Fact], None], stated: list[Named], fact: Fact) -> None:
    """State a fact, also to a caller who asked for facts."""
    if isinstance(fact, NAMED):
        stated.append(fact)
    note(fact)


def _forwarded(call: Call, door: Door, *own: tuple[bytes, bytes]) -> RawHeaders:
    return to_upstream(call.headers, judged=True, drop=door.drop, own=(*door.own, *own))


def fault_of(status: int) -> UpstreamFault | None:
    """The label of an answer's status in thinkcap_upstream_errors_total; None for a good one."""
    if status in GOOD:
        return None
    if status == TOO_MANY:
        return "http_429"
    if status in CLIENT_FAULTS:
        return "http_4xx"
    return "http_5xx" if status in SERVER_FAULTS else "protocol"
