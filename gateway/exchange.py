"""One judged call, from the request read to the last byte of the answer: performs what the relay decides."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from gateway.answer import Plan
from gateway.caller import Caller
from gateway.calls import Call, HeaderList, header
from gateway.coding import Decoder, Truncated, decoder
from gateway.dialects.base import Additions, Dialect
from gateway.errors import CallError, ThinkingOverrun, UpstreamBroken, UpstreamError
from gateway.events import (
    NAMED,
    AttemptAnswered,
    AttemptEnded,
    AttemptStarted,
    CallAbandoned,
    CallFailed,
    CallFinished,
    Ending,
    Fact,
    Named,
    Observer,
    Turn,
    attributes,
)
from gateway.headers import RawHeaders, to_caller, to_upstream
from gateway.policy import Policy
from gateway.pump import Pump, Stop, Terms
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.rules.thinking_cap import GiveUp
from gateway.sse import comment
from gateway.upstream import Upstream, UpstreamAnswer
from gateway.words import EndResult, UpstreamFault

WHOLE_BYTES: Final = 32 * 1024 * 1024
"""A whole answer above this passes on unjudged."""
GOOD: Final = range(200, 300)
TOO_MANY: Final = 429
"""A status that is counted on its own."""
CLIENT_FAULTS: Final = range(400, 500)
SERVER_FAULTS: Final = range(500, 600)


class Door(Struct, frozen=True, kw_only=True):
    """What came in at the door beside the call: which credentials stay here, which go on, and the path upstream."""

    target: bytes
    """Path and query as they go behind the upstream's address."""
    drop: frozenset[bytes] = frozenset()
    own: HeaderList = ()
    keepalive_seconds: float = 0.0


class Exchange:
    """One call. `run` returns how it ended; what went wrong before the answer's head is raised as CallError."""

    def __init__(self, call: Call, policy: Policy, dialect: Dialect, upstream: Upstream, door: Door) -> None:
        """Take all that is known before the first byte goes out."""
        self._call, self._policy, self._dialect, self._upstream, self._door = call, policy, dialect, upstream, door
        self._stated: list[Named] = []
        self._relay: Relay | None = None
        self._attempts = 0

    async def run(self, caller: Caller, observer: Observer) -> Ending:
        """Send the call and bring back the answer. Raises CallError while nothing has gone out yet."""
        self._caller, self._observer = caller, observer
        added = Additions(usage=self._call.stream and self._policy.ask_usage and not self._call.wants_usage)
        answer = await self._send(self._dialect.upstream_body(self._call, added))
        fault: UpstreamFault | None = fault_of(answer.status)
        try:
            coding = decoder(header(answer.headers, b"content-encoding"))
            if coding is None:
                return await self._through(answer, answer.chunks())
            relay = self._relay = Relay(self._dialect, self._plan(added), self._note, streamed=_is_stream(answer))
            if _is_stream(answer):
                return await self._stream(answer, coding, relay)
            return await self._whole(answer, coding, relay)
        except UpstreamError as error:
            fault = error.fault
            raise
        finally:
            # Shielded: the connection goes even when the caller's leaving comes twice.
            await asyncio.shield(answer.aclose())
            self._ended(answer.status, self._broke or fault)

    def abandoned(self) -> Ending:
        """How the call ends when its caller has left: well, if the turn was over by then."""
        status = self._caller.status
        relay = self._relay
        if relay is not None and relay.over and status is not None:
            return CallFinished(outcome=relay.outcome, status=status, turn=relay.end(by_itself=True))
        return CallAbandoned(status=status, turn=self.turn())

    def turn(self) -> Turn | None:
        """What is known of the turn when something broke off."""
        return self._relay.end(by_itself=False) if self._relay is not None else None

    _broke: UpstreamFault | None = None

    def _plan(self, added: Additions) -> Plan:
        policy = self._policy
        return Plan(output_cap=policy.output_cap, added=added, per_frame=policy.per_frame, promote=policy.promote)

    def _note(self, fact: Fact) -> None:
        if self._call.wishes.facts and isinstance(fact, NAMED):
            self._stated.append(fact)
        self._observer.note(fact)

    async def _send(self, body: bytes) -> UpstreamAnswer:
        upstream, door = self._upstream, self._door
        self._attempts += 1
        self._note(
            AttemptStarted(kind="forward", number=self._attempts, method="POST", host=upstream.host, port=upstream.port)
        )
        own = door.own + (self._observer.trace_headers() if upstream.terms.forward_trace else ())
        headers = to_upstream(self._call.headers, judged=True, drop=door.drop, own=own)
        try:
            answer = await upstream.send("POST", door.target, headers, body)
        except BaseException as error:
            self._ended(None, error.fault if isinstance(error, UpstreamError) else None)
            raise
        self._note(AttemptAnswered(answer.status))
        return answer

    def _ended(self, status: int | None, fault: UpstreamFault | None) -> None:
        self._note(AttemptEnded(kind="forward", number=self._attempts, status=status, fault=fault))

    async def _stream(self, answer: UpstreamAnswer, coding: Decoder, relay: Relay) -> Ending:
        caller = self._caller

        async def start() -> None:
            await caller.start(answer.status, self._headers(answer, length=None))

        await start()
        terms = Terms(
            start=start,
            end_reasoning=self._end_reasoning,
            comments=self._comments if self._call.wishes.facts else None,
            hold_seconds=self._policy.hold_seconds,
            keepalive_seconds=self._door.keepalive_seconds,
            name=self._upstream.terms.name,
        )
        stop = await Pump(relay, Reads(_decoded(answer, coding)), caller, terms).run()
        turn = relay.end(by_itself=stop is None)
        told = self._totals(turn) if self._call.wishes.facts else b""
        if stop is None:
            await caller.end(told)
            return CallFinished(outcome=relay.outcome, status=answer.status, turn=turn)
        error = self._error(stop, turn)
        if isinstance(error, UpstreamError):
            self._broke = error.fault
        await caller.end(told + self._dialect.error_event(error))
        outcome = "stream_error" if isinstance(error, UpstreamBroken) else error.outcome
        return CallFailed(outcome=outcome, status=answer.status, code=error.code, turn=turn)

    def _error(self, stop: Stop, turn: Turn) -> CallError:
        if isinstance(stop, GiveUp):
            limit = self._policy.thinking.cap if self._policy.thinking is not None else 0
            return ThinkingOverrun(
                f"the model was still thinking after {stop.tokens} tokens; its cap of {limit} tokens"
                f" fired at {turn.fired_at} ({stop.cause})"
            )
        assert isinstance(stop, UpstreamError)  # noqa: S101 - a refused level never gets here
        return stop

    async def _end_reasoning(self, completion: str) -> EndResult:
        raise NotImplementedError(completion)

    async def _whole(self, answer: UpstreamAnswer, coding: Decoder, relay: Relay) -> Ending:
        parts: list[bytes] = []
        size = 0
        chunks = _decoded(answer, coding)
        async for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > WHOLE_BYTES:
                return await self._through(answer, _chain(parts, chunks), decoded=True)
        body = b"".join(parts)
        if answer.status not in GOOD:
            self._relay = None
            return await self._finish(answer, self._without_secret(body))
        body = relay.body(body)
        return await self._finish(answer, body, relay)

    async def _finish(self, answer: UpstreamAnswer, body: bytes, relay: Relay | None = None) -> Ending:
        turn = relay.end(by_itself=True) if relay is not None else None
        await self._caller.start(answer.status, self._headers(answer, length=len(body)))
        await self._caller.end(body)
        outcome = relay.outcome if relay is not None else "upstream_error"
        return CallFinished(outcome=outcome, status=answer.status, turn=turn)

    async def _through(self, answer: UpstreamAnswer, chunks: AsyncIterator[bytes], *, decoded: bool = False) -> Ending:
        """An answer that cannot be judged passes as it comes."""
        self._relay = None
        await self._caller.start(answer.status, self._headers(answer, length=None, decoded=decoded))
        async for chunk in chunks:
            await self._caller.write(chunk)
        await self._caller.end()
        return CallFinished(outcome="ok" if answer.status in GOOD else "upstream_error", status=answer.status)

    def _headers(self, answer: UpstreamAnswer, *, length: int | None, decoded: bool = True) -> RawHeaders:
        headers = to_caller(answer.headers, decoded=decoded, length=length, secret=self._upstream.terms.secret)
        if length is None and decoded:
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if header(answer.headers, b"x-request-id") is None:
            headers.append((b"x-request-id", uuid4().hex.encode()))
        if length is not None and self._call.wishes.facts:
            headers.append((b"x-thinkcap-facts", msgspec.json.encode([_told(fact) for fact in self._stated])))
        return headers

    def _without_secret(self, body: bytes) -> bytes:
        """Some providers quote the key in their errors."""
        secret = self._upstream.terms.secret
        return body if secret is None else body.replace(secret, b"[redacted]")

    def _comments(self) -> bytes:
        stated, self._stated = self._stated, []
        return b"".join(comment(b"thinkcap " + msgspec.json.encode(_told(fact))) for fact in stated)

    def _totals(self, turn: Turn) -> bytes:
        totals = {
            "event": "totals",
            "reasoning_tokens": turn.reasoning_tokens,
            "past_cap": turn.past_cap,
            "reported": turn.reported,
            "returned": turn.returned,
            "verdict": turn.verdict,
        }
        return self._comments() + comment(b"thinkcap " + msgspec.json.encode(totals))


def _told(fact: Named) -> dict[str, object]:
    return {"event": fact.name, **attributes(fact)}


def _is_stream(answer: UpstreamAnswer) -> bool:
    kind = header(answer.headers, b"content-type") or b""
    return answer.status in GOOD and kind.split(b";")[0].strip().lower() == b"text/event-stream"


def fault_of(status: int) -> UpstreamFault | None:
    """The label of an answer's status in thinkcap_upstream_errors_total; None for a good one."""
    if status in GOOD:
        return None
    if status == TOO_MANY:
        return "http_429"
    if status in CLIENT_FAULTS:
        return "http_4xx"
    return "http_5xx" if status in SERVER_FAULTS else "protocol"


async def _decoded(answer: UpstreamAnswer, coding: Decoder) -> AsyncIterator[bytes]:
    name = answer.name
    try:
        async for chunk in answer.chunks():
            yield coding.feed(chunk)
        coding.close()
    except Truncated as error:
        raise UpstreamBroken(f"upstream {name}: {error}", "protocol") from None


async def _chain(parts: list[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    async for chunk in chunks:
        yield chunk
