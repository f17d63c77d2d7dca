"""One judged call, from the request read to the last byte of the answer: attempt after attempt, one delivery each."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from msgspec import Struct, structs

from gateway.bulk import edited
from gateway.context import Again, Brought, Context, Kept
from gateway.delivery import GOOD, Delivery
from gateway.errors import CallError, ThinkingOverrun, UpstreamError
from gateway.events import (
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFailed,
    CallFinished,
    Ending,
    Turn,
)
from gateway.headers import RawHeaders
from gateway.http1 import Content
from gateway.retry import LevelRetry
from gateway.thinking import arm
from gateway.upstream import UpstreamAnswer
from gateway.words import UpstreamFault

TOO_MANY: Final = 429
"""A status that is counted on its own."""
CLIENT_FAULTS: Final = range(400, 500)
SERVER_FAULTS: Final = range(500, 600)
ACCEPTED: Final = frozenset({"ok", "incomplete", "thinking_overrun"})
"""Outcomes of a re-issued call whose level was taken."""
MARKER: Final = (b"x-thinkcap-retried", b"1")
"""Tells a Thinkcap further in that this call is a re-issue already."""


class Exchange(Struct):
    """One call. `run` gives how it ended; what went wrong before the answer's head is raised as CallError."""

    _context: Context
    _delivery: Delivery | None = None
    _attempts: int = 0

    async def run(self) -> Ending:
        """Send the call and bring back the answer. Raises CallError while nothing has gone out yet."""
        caller = self._context.caller
        retry = LevelRetry(self._context)
        first: Kept | None = None
        try:
            delivery, sent = self._prepare(retry.first(self._context.call.body), retry)
            while True:
                ending = await self._attempt(delivery, sent, first, retried=retry.retried)
                if not isinstance(ending, Again):
                    retry.settle("ok" if ending.outcome in ACCEPTED else "failed")
                    return ending
                first = first or ending.kept
                delivery, sent = self._prepare(ending.body, retry)
                del ending  # its body may be long, and so may the next attempt
        except ThinkingOverrun:
            retry.settle("ok")  # the level was taken, if only to think too long
            raise
        finally:
            retry.settle("ok" if caller.gone and caller.status is not None else "failed")

    def _prepare(self, body: bytes, retry: LevelRetry) -> tuple[Delivery, Content]:
        """A delivery for the answer to this body, and what goes out: neither keeps a copy of what the caller sent.

        Armed anew for each attempt: a budget never stands beside a level, and a retry may bring one in.
        """
        context, asked = self._context, self._context.call
        call = asked if body is asked.body else structs.replace(asked, body=body)
        armed = arm(call, context.policy, context.memory)
        sent = edited(asked.body, context.dialect.upstream_body(armed.call, armed.added))
        if armed.call is not asked:
            armed = structs.replace(armed, call=asked)
        delivery = self._delivery = Delivery(context, armed, retry, edited(asked.body, body))
        return delivery, sent

    def abandoned(self) -> Ending:
        """How the call ends when its caller has left: well, if the turn was over by then."""
        status = self._context.caller.status
        relay = self._delivery.relay if self._delivery is not None else None
        if relay is not None and relay.over and status is not None:
            return CallFinished(outcome=relay.outcome, status=status, turn=self.turn(by_itself=True))
        return CallAbandoned(status=status, turn=self.turn())

    async def cut(self, status: int, error: CallError) -> Ending:
        """End a call that may run no longer, behind the head of its answer: a stream says why, another body breaks.

        Who takes nothing of a stream is told nothing either: there is no time to wait for that.
        """
        delivery = self._delivery
        left = delivery.left() if delivery is not None else None
        ending = self.abandoned()
        if not isinstance(ending, CallFinished):
            ending = CallFailed(outcome="stream_error", status=status, code=error.code, turn=ending.turn)
        if delivery is not None and left is not None and self._context.caller.room() is None:
            await delivery.last(ending.turn, error if isinstance(ending, CallFailed) else None, left)
        return ending

    def turn(self, *, by_itself: bool = False) -> Turn | None:
        """What is known of the turn when something broke off."""
        return self._delivery.end(by_itself=by_itself) if self._delivery is not None else None

    def told(self) -> RawHeaders:
        """What the headers of an error of ours tell of the call."""
        return self._delivery.told() if self._delivery is not None else []

    async def _attempt(self, delivery: Delivery, body: Content, first: Kept | None, *, retried: bool) -> Brought:
        self._attempts += 1
        note, upstream, number = self._context.note, self._context.upstream, self._attempts
        note(AttemptStarted(kind="forward", number=number, method="POST", host=upstream.host, port=upstream.port))
        status: int | None = None
        fault: UpstreamFault | None = None
        try:
            answer = await self._send(body, retried=retried)
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

    def _send(self, body: Content, *, retried: bool) -> Awaitable[UpstreamAnswer]:
        context = self._context
        own = context.observer.trace_headers() if context.upstream.terms.forward_trace else ()
        if retried and context.policy.provider == "thinkcap":
            own = (*own, MARKER)
        return context.upstream.send("POST", context.door.target, context.headers(*own), body)


def fault_of(status: int) -> UpstreamFault | None:
    """The label of an answer's status in thinkcap_upstream_errors_total; None for a good one."""
    if status in GOOD:
        return None
    if status == TOO_MANY:
        return "http_429"
    if status in CLIENT_FAULTS:
        return "http_4xx"
    return "http_5xx" if status in SERVER_FAULTS else "protocol"
