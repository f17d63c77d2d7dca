"""Brings one answer to the caller: streamed, whole, put together from a stream, or as it is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import Struct

from gateway.actions import Forward, Refused
from gateway.answer import Plan
from gateway.bodies import REDACTED, Chunks, Parts, chain, coding_of, decoded, is_event_stream, sniffed, status_of
from gateway.bulk import Edited, Gathered, joined
from gateway.caller import new_id
from gateway.calls import HeaderList, header
from gateway.context import Again, Brought, Context, Delivered, Kept
from gateway.errors import CallError, ThinkingOverrun, UpstreamBroken, UpstreamError
from gateway.events import CallFailed, CallFinished, Named, Turn, attributes
from gateway.headers import RawHeaders, to_caller
from gateway.pump import Pump, Stop, Terms, pour
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.retry import LevelRetry
from gateway.rules.envelopes import LIMIT
from gateway.rules.thinking_cap import GiveUp
from gateway.sse import comment
from gateway.thinking import Armed, Control
from gateway.upstream import UpstreamAnswer
from gateway.whole import Whole
from gateway.words import EndResult, UpstreamFault

WHOLE_BYTES: Final = 32 * 1024 * 1024
"""A whole answer above this passes on unjudged; an error does above what is read of one."""
GOOD: Final = range(200, 300)


class Delivery(Struct):
    """One attempt's answer on its way. `fault` says what broke, once an answer had begun."""

    _context: Context
    _armed: Armed
    _retry: LevelRetry
    _sent: bytes | Edited
    """The body this is the answer to."""
    relay: Relay | Whole | None = None
    fault: UpstreamFault | None = None
    _again: bytes | None = None

    async def bring(self, answer: UpstreamAnswer, first: Kept | None) -> Brought:
        """Bring the answer, or what is to be sent instead. `first`: the refusal an earlier attempt got."""
        coding = coding_of(answer)
        if coding is None:
            return await self._through(answer, answer.chunks())
        context, call, chunks = self._context, self._context.call, decoded(answer, coding)
        streamed = False
        if answer.status in GOOD:
            streamed = is_event_stream(header(answer.headers, b"content-type"))
            if not streamed and call.events and (call.stream or self._armed.assembled):
                streamed, chunks = await sniffed(chunks)
            if not streamed and not call.events:  # a stream without events is not waited for
                return await self._through(answer, chunks, plain=chunks is not answer)
        if not streamed:
            whole = self.relay = Whole(context.dialect, self._plan(), context.note)
            return await self._whole(answer, chunks, whole, first)
        relay = self.relay = Relay(context.dialect, self._plan(), context.note)
        if self._armed.assembled:
            return await self._assembled(answer, chunks, relay, first)
        return await self._stream(answer, chunks, relay, first)

    def end(self, *, by_itself: bool) -> Turn | None:
        """The totals; None when the answer was not judged."""
        if self.relay is None or self.relay.answer.unjudged:
            return None
        turn = self.relay.end(by_itself=by_itself)
        turn.thinking_method = self._armed.method
        return turn

    def left(self) -> bytes | None:
        """Of a stream that is stopped under way, what came whole and did not go out yet; None: it is no stream."""
        if not isinstance(self.relay, Relay):
            return None
        return b"".join(action.data for action in self.relay.broken() if isinstance(action, Forward))

    async def last(self, turn: Turn | None, error: CallError | None = None, left: bytes = b"") -> None:
        """End a stream: what is left of it, its facts for who asked, and why it ends here if it had not ended."""
        context = self._context
        event = context.dialect.error_event(error) if error is not None else b""
        await context.caller.end(left + self._totals(turn) + event)

    def _plan(self) -> Plan:
        policy, armed = self._context.policy, self._armed
        return Plan(
            output_cap=policy.output_cap,
            added=armed.caused,
            thinking=armed.cap(policy),
            per_frame=policy.per_frame,
            promote=policy.promote and not armed.assembled,
            guarded=self._retry.in_scope and not armed.assembled,
        )

    async def _stream(self, answer: UpstreamAnswer, chunks: Chunks, relay: Relay, first: Kept | None) -> Brought:
        context = self._context
        caller = context.caller

        async def start() -> None:
            await caller.start(answer.status, self._headers(answer.headers, length=None))

        def refused(text: bytes) -> bool:
            self._again = self._retry.refused(answer.status, text, joined(self._sent))
            return self._again is not None or (first is not None and self._retry.recognised)

        if not self._retry.in_scope:
            await start()
        terms = Terms(
            start=start,
            end_reasoning=self._end_reasoning,
            refused=refused,
            comments=self._comments if context.call.wishes.facts else None,
            hold_seconds=context.policy.hold_seconds,
            keepalive_seconds=context.door.keepalive_seconds,
            name=context.policy.upstream,
        )
        stop = await Pump(relay, Reads(chunks, answer if chunks is answer else None), caller, terms).run()
        if isinstance(stop, Refused):
            if self._again is not None:
                return Again(self._again, Kept(answer.status, answer.headers, relay.guarded_bytes))
            return await self.refuse(first or Kept(answer.status, answer.headers, relay.guarded_bytes))
        if stop is None:
            return await self._streamed_whole(answer, relay)
        return await self._broken(answer, relay, stop)

    async def _streamed_whole(self, answer: UpstreamAnswer, relay: Relay) -> Delivered:
        context, failed = self._context, relay.answer.failed
        if context.caller.status is None:  # a guarded body without a single frame
            await context.caller.start(answer.status, self._headers(answer.headers, length=None))
        if failed is not None and not relay.answer.started and not self._retry.in_scope:
            self._retry.refused(answer.status, failed.text, joined(self._sent))  # stated, never retried
        turn = self.end(by_itself=True)
        await self.last(turn)
        return CallFinished(outcome=relay.outcome, status=answer.status, turn=turn)

    async def _broken(self, answer: UpstreamAnswer, relay: Relay, stop: Stop) -> Delivered:
        context = self._context
        error = await self._dropped(answer, stop, relay)
        turn = self.end(by_itself=False)
        if context.caller.status is None:
            raise error
        await self.last(turn, error)
        outcome = "stream_error" if isinstance(error, UpstreamBroken) else error.outcome
        return CallFailed(outcome=outcome, status=answer.status, code=error.code, turn=turn)

    async def _dropped(self, answer: UpstreamAnswer, stop: Stop, relay: Relay) -> CallError:
        """The error to tell. The upstream goes first: a caller who is slow to read must not keep the model thinking."""
        await asyncio.shield(answer.aclose())
        if isinstance(stop, UpstreamError):
            self.fault = stop.fault
            return stop
        thinking, fired = self._context.policy.thinking, relay.fired_at
        limit = thinking.cap if thinking is not None else 0
        tokens, cause = (stop.tokens, stop.cause) if isinstance(stop, GiveUp) else (0, "refused")
        return ThinkingOverrun(
            f"the model was still thinking after {tokens} tokens: its cap of {limit} tokens fired at {fired} ({cause})"
        )

    async def _end_reasoning(self, completion: str) -> EndResult:
        return await Control(self._context).end_reasoning(completion)

    async def _assembled(self, answer: UpstreamAnswer, chunks: Chunks, relay: Relay, first: Kept | None) -> Brought:
        """A whole answer from a stream: nothing goes out before it is whole, so giving up can still be a 502."""
        context, parts = self._context, Parts()
        terms = Terms(
            start=parts.start,
            end_reasoning=self._end_reasoning,
            refused=lambda _: False,
            hold_seconds=context.policy.hold_seconds,
            name=context.policy.upstream,
        )
        stop = await Pump(relay, Reads(chunks), parts, terms).run()
        if stop is not None:
            raise await self._dropped(answer, stop, relay)
        body = parts.body()
        others = tuple(pair for pair in answer.headers if pair[0] != b"content-type")
        headers: HeaderList = (*others, (b"content-type", b"application/json"))
        if parts.error is not None:
            return await self._failed(answer.status, Kept(status_of(parts.error), headers, body), relay, first)
        if context.policy.promote:
            body = context.dialect.promote(body)
        return await self._finish(Kept(answer.status, headers, body), relay)

    async def _failed(self, status: int, kept: Kept, relay: Relay, first: Kept | None) -> Brought:
        """An error came where a whole answer was put together: before the first delta it may be a refused level."""
        if not relay.answer.started:
            again = self._retry.refused(status, kept.body, joined(self._sent))
            if again is not None:
                return Again(again, kept)
            if first is not None and self._retry.recognised:
                return await self.refuse(first)
        return await self._finish(kept, relay)

    async def _whole(self, answer: UpstreamAnswer, chunks: Chunks, whole: Whole, first: Kept | None) -> Brought:
        good = answer.status in GOOD
        body = answer.at_once() if good and chunks is answer else None
        if body is None:
            gathered, most = Gathered(), WHOLE_BYTES if good else LIMIT
            async for chunk in chunks:
                gathered.add(chunk)
                if gathered.size > most:
                    return await self._through(answer, chain([gathered.take()], chunks), plain=True)
            body = gathered.take()
        if good:
            return await self._finish(Kept(answer.status, answer.headers, whole.body(body)), whole)
        self.relay = None
        kept = Kept(answer.status, answer.headers, body)
        again = self._retry.refused(answer.status, body, joined(self._sent))
        if again is not None:
            return Again(again, kept)
        return await self.refuse(first if first is not None and self._retry.recognised else kept)

    async def refuse(self, kept: Kept) -> Delivered:
        """An upstream's error, as it came; save that some providers quote the key in theirs."""
        secret = self._context.secret
        body = kept.body if secret is None else kept.body.replace(secret, REDACTED)
        return await self._finish(Kept(kept.status, kept.headers, body), None)

    async def _finish(self, kept: Kept, relay: Relay | Whole | None) -> Delivered:
        caller = self._context.caller
        turn = self.end(by_itself=True) if relay is not None else None
        await caller.whole(kept.status, self._headers(kept.headers, length=len(kept.body)), kept.body)
        # Whatever came from the upstream as a stream, the caller gets it whole.
        outcome = relay.answer.outcome(streamed=False) if relay is not None else "upstream_error"
        return CallFinished(outcome=outcome, status=kept.status, turn=turn)

    async def _through(self, answer: UpstreamAnswer, chunks: AsyncIterator[bytes], *, plain: bool = False) -> Delivered:
        """An answer that cannot be judged passes as it comes."""
        self.relay = None
        caller = self._context.caller
        await caller.start(answer.status, self._headers(answer.headers, length=None, plain=plain))
        await pour(chunks, caller)
        await caller.end()
        return CallFinished(outcome="ok" if answer.status in GOOD else "upstream_error", status=answer.status)

    def _headers(self, came: HeaderList, *, length: int | None, plain: bool = True) -> RawHeaders:
        headers = to_caller(came, decoded=plain, length=length, secret=self._context.secret)
        if length is None and plain:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if header(came, b"x-request-id") is None:
            headers.append((b"x-request-id", new_id()))
        return headers + self.told(whole=length is not None)

    def told(self, *, whole: bool = True) -> RawHeaders:
        """What the headers tell of the call: another level, and to those who asked, in a `whole` answer, its facts."""
        headers: RawHeaders = []
        if self._retry.said is not None and not self._retry.recognised:
            headers.append((b"x-thinkcap-level", self._retry.said.encode()))
        if whole and self._context.call.wishes.facts:
            facts = [_told(fact) for fact in self._context.stated]
            headers.append((b"x-thinkcap-facts", msgspec.json.encode(facts)))
        return headers

    def _comments(self) -> bytes:
        stated = self._context.stated[:]
        self._context.stated.clear()
        return b"".join(comment(b"thinkcap " + msgspec.json.encode(_told(fact))) for fact in stated)

    def _totals(self, turn: Turn | None) -> bytes:
        """The last comment of a stream whose caller asked for facts."""
        if turn is None or not self._context.call.wishes.facts:
            return b""
        totals = {name: getattr(turn, name) for name in TOTALS}
        return self._comments() + comment(b"thinkcap " + msgspec.json.encode({"event": "totals"} | totals))


TOTALS: Final = ("reasoning_tokens", "past_cap", "reported", "returned", "verdict")
"""Fields of the turn told at the end."""


def _told(fact: Named) -> dict[str, object]:
    return {"event": fact.name, **attributes(fact)}
