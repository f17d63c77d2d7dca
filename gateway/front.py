"""The door: every request comes in here and leaves exactly one terminal fact, whatever becomes of it.

A raw ASGI application below Litestar's handler stack, which costs a call 50 microseconds.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

from gateway.caller import DEPARTURE, Caller, CallerGone, Receive, Send, new_id
from gateway.calls import HeaderList
from gateway.context import Context, Door
from gateway.dialects import DIALECTS
from gateway.dialects.base import Dialect
from gateway.errors import (
    BodyTooLarge,
    CallError,
    Draining,
    InternalError,
    NotFound,
    Overloaded,
    RequestTimeout,
    Unauthorized,
    UpstreamTimeout,
)
from gateway.events import (
    CallAbandoned,
    CallFailed,
    CallReceived,
    CallRouted,
    CallStarted,
    Ending,
    KeyRefused,
    Observer,
    Recorder,
)
from gateway.exchange import Exchange
from gateway.forward import Forwarding
from gateway.headers import CREDENTIALS, RawHeaders, credential, presented_keys, without_key
from gateway.keys import Keyring
from gateway.limits import Limits
from gateway.memory import Memory
from gateway.models import ModelLists
from gateway.policy import Policies
from gateway.routes import Route, match, upstream_path
from gateway.upstream import Upstream
from gateway.words import OTHER, DialectName, KeyRefusal, Outcome

Scope = Mapping[str, Any]
LOG: Final = logging.getLogger("thinkcap")
QUERY_KEY: Final = b"?key"


class Front:
    """The ASGI application of all paths but the gateway's own."""

    def __init__(
        self,
        policies: Policies,
        upstreams: Mapping[str, Upstream],
        keyring: Keyring,
        recorder: Recorder,
        limits: Limits,
    ) -> None:
        """Take what a call needs."""
        self._policies, self._upstreams, self._keyring = policies, upstreams, keyring
        self._recorder, self._limits = recorder, limits
        self._memory = Memory(policies.remember_seconds, time.monotonic)
        self._models = ModelLists(policies, upstreams)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, Caller(receive, send, scope.get(DEPARTURE)))
        if request.method == "GET" and request.path == "/v1/models":
            await self._list_models(request)
            return
        observer = self._recorder.open(request.started)
        limits = self._limits
        limits.enter()
        ending: Ending = CallFailed(outcome="overloaded", status=0, code="draining")
        try:
            try:
                ending = await self._ending(request, observer)
            finally:
                request.caller.unwatch()
                observer.note(ending)
            room = request.caller.room()
            if room is not None:  # what the caller is yet to take is memory, and holds its place
                request.exchange = None
                await room
        finally:
            limits.leave()

    async def _ending(self, request: "Request", observer: Observer) -> Ending:
        """The answer, or an error in its place; the caller may leave in the middle of either."""
        caller = request.caller
        try:
            try:
                return await self._answer(request, observer)
            except CallError as error:
                return await _refuse(request, error)
            except CallerGone:
                return CallAbandoned(status=caller.status)
            except Exception as error:  # noqa: BLE001 - the last resort: the call is counted and said, the process goes on
                where = traceback.extract_tb(error.__traceback__)[-1]
                LOG.error("unexpected %s in %s line %s", type(error).__name__, where.name, where.lineno)  # noqa: TRY400 - a trace may quote what came over the wire
                return await _refuse(request, InternalError("the gateway failed; the answer is lost"))
        except asyncio.CancelledError:
            if not (caller.gone or self._limits.draining):
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            return await _cut(request)

    async def _answer(self, request: "Request", observer: Observer) -> Ending:
        limits, route = self._limits, request.route
        if route is None:
            raise NotFound("no such path")
        if limits.draining:
            raise Draining("the gateway is about to stop")
        if limits.inflight > limits.max_inflight:
            raise Overloaded(f"more than {limits.max_inflight} calls are running (server.max_inflight)")
        drop = self._let_in(request, observer)
        if not route.judged:
            return await self._forward(request, route, observer, drop)
        length = request.named.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > limits.max_body_bytes:
            raise BodyTooLarge(f"the request body is larger than {limits.max_body_bytes} bytes (server.max_body_bytes)")
        body = await request.caller.body(limits.max_body_bytes)
        request.caller.watch()
        observer.note(CallReceived())
        dialect = DIALECTS[route.dialect]
        call = dialect.read_call(request.path, request.query, request.headers, body)
        policy = self._policies.of(call)
        thinking = policy.thinking
        observer.note(
            CallRouted(
                upstream=policy.upstream,
                provider=policy.provider,
                model=policy.model,
                purpose=policy.purpose,
                call=call,
                output_cap=policy.output_cap.cap or None,
                thinking_cap=thinking.cap if thinking is not None else None,
                thinking_method=thinking.methods[0] if thinking is not None else None,
            )
        )
        upstream = self._upstreams[policy.upstream]
        context = Context(
            call=call,
            policy=policy,
            dialect=dialect,
            upstream=upstream,
            door=self._door(request, route, upstream, drop),
            memory=self._memory,
            caller=request.caller,
            observer=observer,
            note=observer.note,
        )
        request.exchange = Exchange(context)
        return await request.exchange.run()

    async def _forward(self, request: "Request", route: Route, observer: Observer, drop: frozenset[bytes]) -> Ending:
        name = self._policies.default_upstream(route.dialect)
        upstream = self._upstreams[name]
        observer.note(
            CallRouted(
                upstream=name,
                provider=self._policies.targets[name].upstream.kind,
                model=OTHER,
                purpose=self._policies.purpose_of(request.path, request.headers),
            )
        )
        door = self._door(request, route, upstream, drop)
        return await Forwarding(request.method, request.headers, upstream, door).run(request.caller, observer)

    async def _list_models(self, request: "Request") -> None:
        try:
            drop = self._let_in(request, None)
            body = await self._models.listing(request.lister, request.headers, drop)
        except CallError as error:
            await _refuse(request, error)
            return
        await request.caller.whole(200, _json_headers(body), body)

    def _let_in(self, request: "Request", observer: Observer | None) -> frozenset[bytes]:
        """The places a gateway key was found in: what stands there goes no further. Raises Unauthorized."""
        if not self._keyring.required:
            return frozenset()
        presented = presented_keys(request.headers, request.query)
        places = frozenset(place for place, key in presented if self._keyring.holder(key) is not None)
        if not places:
            reason: KeyRefusal = "unknown" if presented else "missing"
            if observer is not None:
                observer.note(KeyRefused(reason))
            said = "the gateway key is not known" if presented else "a gateway key is needed"
            raise Unauthorized(f"{said} (Authorization: Bearer, x-api-key, x-goog-api-key, or ?key=)")
        return places

    def _door(self, request: "Request", route: Route, upstream: Upstream, drop: frozenset[bytes]) -> Door:
        terms = upstream.terms
        own: HeaderList = ()
        if terms.secret is not None:
            drop = CREDENTIALS | {QUERY_KEY}
            own = (credential(route.dialect, terms.secret),)
        query = without_key(request.query) if QUERY_KEY in drop else request.query
        path = upstream_path(request.path, terms.version_path).encode("latin-1")
        return Door(path=path, query=query, drop=drop, own=own, keepalive_seconds=self._limits.keepalive_seconds)


class Request:
    """The head of one request, and who sent it."""

    __slots__ = ("anthropic", "caller", "exchange", "headers", "method", "named", "path", "query", "route")

    def __init__(self, scope: Scope, caller: Caller) -> None:
        """Read the ASGI scope."""
        self.caller = caller
        self.exchange: Exchange | None = None
        self.method: str = scope["method"]
        raw = scope.get("raw_path") or scope["path"].encode()
        self.path: str = raw.decode("latin-1")
        self.query: bytes = scope["query_string"]
        self.headers: HeaderList = tuple(map(tuple, scope["headers"]))
        self.named = dict(reversed(self.headers))
        """The first value of each."""
        self.anthropic = b"anthropic-version" in self.named
        self.route = match(self.method, self.path, anthropic=self.anthropic)

    @property
    def started(self) -> CallStarted:
        """The first fact of the call."""
        parent, state = self.named.get(b"traceparent"), self.named.get(b"tracestate")
        route = self.route
        return CallStarted(
            dialect=route.dialect if route is not None else OTHER,
            method=self.method,
            route=route.template if route is not None else OTHER,
            traceparent=parent.decode("latin-1") if parent is not None else None,
            tracestate=state.decode("latin-1") if state is not None else None,
        )

    @property
    def dialect(self) -> Dialect:
        """The dialect errors are told in."""
        return DIALECTS[self.route.dialect if self.route is not None else "chat"]

    @property
    def lister(self) -> DialectName:
        """Whose client asks for the list of models: they share a path, and tell themselves by their headers."""
        if self.anthropic:
            return "messages"
        return "gemini" if b"x-goog-api-key" in self.named else "chat"


async def _cut(request: "Request") -> Ending:
    """The call is stopped under way: its caller left, or a drain took its time."""
    caller, exchange = request.caller, request.exchange
    if caller.gone:
        return exchange.abandoned() if exchange is not None else CallAbandoned(status=caller.status)
    late = Draining("the gateway stops, and the time for calls that run is over")
    if caller.status is None:
        request.exchange = None  # it has ended
        return await _refuse(request, late)
    if exchange is not None:
        return await exchange.cut(caller.status, late)
    return CallFailed(outcome="stream_error", status=caller.status, code=late.code)


async def _refuse(request: Request, error: CallError) -> Ending:
    """Answer with an error of our own. With an answer under way there is no way to say it: the connection is cut."""
    caller, exchange = request.caller, request.exchange
    turn = exchange.turn() if exchange is not None else None
    if caller.status is not None:
        outcome: Outcome = "timeout" if isinstance(error, UpstreamTimeout) else "stream_error"
        return CallFailed(outcome=outcome, status=caller.status, code=error.code, turn=turn)
    body = request.dialect.error_body(error)
    headers = _json_headers(body)
    if isinstance(error, RequestTimeout):
        headers.append((b"connection", b"close"))
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if exchange is not None:
        headers += exchange.told()
    await caller.whole(error.status, headers, body)
    return CallFailed(outcome=error.outcome, status=error.status, code=error.code, turn=turn)


def _json_headers(body: bytes) -> RawHeaders:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", new_id()),
    ]
