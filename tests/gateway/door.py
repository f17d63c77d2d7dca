"""A gateway without sockets: callers are ASGI channels, upstreams are scripts behind httpx's seam, facts are kept."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import httpx
import msgspec

from gateway.app import Gateway
from gateway.caller import Message
from gateway.config import parse_settings
from gateway.events import CallAbandoned, CallFailed, CallFinished, CallStarted, Ending, Fact
from gateway.upstream import Terms, Upstream

LIMIT_SECONDS: Final = 60.0
TRACE: Final = ((b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)
EVENTS: Final = "text/event-stream; charset=utf-8"
Headers = dict[str, str]
Step = bytes | float | BaseException | asyncio.Event
"""A piece of a body; a pause; how the transport breaks; something to wait for."""
Script = Callable[[httpx.Request], Awaitable[httpx.Response]]
Result = TypeVar("Result")
FACT = TypeVar("FACT", bound=Fact)


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a test, in bounded time."""
    return asyncio.run(asyncio.wait_for(main, LIMIT_SECONDS))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true; `run` bounds the wait."""
    while not condition():  # noqa: ASYNC110 - counters, which set no event
        await asyncio.sleep(0.001)


class Upstreams:
    """One scripted upstream: request n gets script n, further ones the last. `left`: answers nobody is done with."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = scripts
        self.requests: list[httpx.Request] = []
        self.left = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer the next request."""
        self.requests.append(request)
        response = await self.scripts[min(len(self.requests), len(self.scripts)) - 1](request)
        body = response.stream
        assert isinstance(body, httpx.AsyncByteStream)
        response.stream = _Watched(body, self)
        self.left += 1
        return response

    @property
    def bodies(self) -> list[Any]:
        """What was sent, decoded."""
        return [msgspec.json.decode(request.content) for request in self.requests]


class _Watched(httpx.AsyncByteStream):
    """A body that says when it was read to its end or closed."""

    def __init__(self, body: httpx.AsyncByteStream, upstreams: Upstreams) -> None:
        self._body, self._upstreams, self._open = body, upstreams, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            yield piece
        await self.aclose()

    async def aclose(self) -> None:
        self._upstreams.left -= self._open
        self._open = False


async def body_of(steps: Iterable[Step]) -> AsyncIterator[bytes]:
    """A body, step by step."""
    for step in steps:
        if isinstance(step, bytes):
            yield step
        elif isinstance(step, BaseException):
            raise step
        elif isinstance(step, asyncio.Event):
            await step.wait()
        else:
            await asyncio.sleep(step)


def answers(*steps: Step, status: int = 200, headers: Headers | None = None, media: str = EVENTS) -> Script:
    """A script that answers with this body, step by step."""

    async def script(_: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"content-type": media} | (headers or {}), content=body_of(steps))

    return script


def whole(value: Any, status: int = 200, headers: Headers | None = None) -> Script:
    """A script that answers with one JSON body."""
    return answers(msgspec.json.encode(value), status=status, headers=headers, media="application/json")


def fails(error: BaseException) -> Script:
    """A script that gives no answer at all."""

    async def script(_: httpx.Request) -> httpx.Response:
        raise error

    return script


def hangs(begun: asyncio.Event) -> Script:
    """A script that sets `begun` and never answers."""

    async def script(_: httpx.Request) -> httpx.Response:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    return script


class Facts:
    """A recorder that keeps everything; also the observer of every call."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def open(self, started: CallStarted) -> "Facts":
        """Listen to a call."""
        self.facts.append(started)
        return self

    def note(self, fact: Fact) -> None:
        """Keep a fact."""
        self.facts.append(fact)

    def trace_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """One trace for all."""
        return TRACE

    def of(self, kind: type[FACT]) -> list[FACT]:
        """The facts of one kind, in order."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    @property
    def ending(self) -> Ending:
        """The one terminal fact, which is the last one of the call."""
        endings = [fact for fact in self.facts if isinstance(fact, CallFinished | CallFailed | CallAbandoned)]
        assert len(endings) == len(self.of(CallStarted)) == 1
        assert endings[0] is self.facts[-1]
        return endings[0]

    @property
    def outcome(self) -> str:
        """Of the one call."""
        return "client_gone" if isinstance(self.ending, CallAbandoned) else self.ending.outcome


class Caller:
    """One request over ASGI. `gone` is theirs to set; `stuck` set to an event makes every send wait for it."""

    def __init__(self, method: str, target: str, headers: Headers, parts: Iterable[bytes]) -> None:
        path, _, query = target.partition("?")
        self.scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "state": {},
        }  # fmt: skip
        self._parts = list(parts)
        self.whole = True
        """False: after these parts more is announced, and never comes."""
        self.gone = asyncio.Event()
        self.stuck: asyncio.Event | None = None
        self.messages: list[Message] = []

    async def receive(self) -> Message:
        """A part of the request, then word that the caller left."""
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts) or not self.whole}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        if self.stuck is not None:
            await self.stuck.wait()
        self.messages.append(message)

    @property
    def status(self) -> int | None:
        """Of the answer; None: none came."""
        return self.messages[0]["status"] if self.messages else None

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Of the answer."""
        return dict(self.messages[0]["headers"])

    @property
    def body(self) -> bytes:
        """What came of the answer."""
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)

    @property
    def complete(self) -> bool:
        """The last piece of the answer was sent as such."""
        return len(self.messages) > 1 and not self.messages[-1].get("more_body")


CHAT: Final = "/v1/chat/completions"
SETTINGS: Final = """
[upstreams.one]
url = "http://one.test/base"
dialects = ["chat", "messages", "gemini", "responses"]
"""
LEVELS: Final = """
[upstreams.one]
url = "http://one.test"
dialects = ["chat"]
[models.m]
upstream = "one"
levels = ["low", "high"]
"""
"""A model with levels, for refusals to be retried."""


class House:
    """A gateway, its scripted upstreams and what it stated."""

    def __init__(self, *scripts: Script, settings: str = SETTINGS, **environ: str) -> None:
        self.upstream = Upstreams(*scripts)
        self.facts = Facts()
        parsed = parse_settings(settings, environ)
        self.transport = httpx.MockTransport(self.upstream)
        terms = [
            Terms(
                name=name,
                url=upstream.url,
                secret=upstream.api_key.reveal().encode() if upstream.api_key else None,
                version_path=upstream.version_path,
                forward_trace=upstream.forward_trace,
                control_timeout=upstream.control_timeout,
            )
            for name, upstream in parsed.upstreams.items()
        ]
        self.gateway = Gateway(parsed, self.facts, {t.name: Upstream(t, self.transport) for t in terms})

    def caller(self, body: Any = None, target: str = CHAT, method: str = "POST", **headers: str) -> Caller:
        """A caller with a request; a body that is no bytes goes as JSON. `_` in names of headers stands for `-`."""
        sent = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else request())
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if method in {"POST", "PUT"}:
            named.setdefault("content-length", str(len(sent)))
        return Caller(method, target, named, [sent] if method in {"POST", "PUT"} else [b""])

    async def serve(self, caller: Caller) -> Caller:
        """Answer one request."""
        await self.gateway.app(caller.scope, caller.receive, caller.send)  # type: ignore[arg-type]  # a scope as uvicorn makes it
        return caller

    async def ask(self, body: Any = None, target: str = CHAT, method: str = "POST", **headers: str) -> Caller:
        """The same for a request made here."""
        return await self.serve(self.caller(body, target, method, **headers))

    def asks(self, body: Any = None, target: str = CHAT, method: str = "POST", **headers: str) -> Caller:
        """The same, on a loop of its own."""
        return run(self.ask(body, target, method, **headers))


def request(**fields: Any) -> dict[str, Any]:
    """A chat request."""
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
