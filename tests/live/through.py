"""Calls through a real gateway process to a real server: the gateway's settings, a caller, and a meddler in between."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

import httpx
from msgspec import Struct, field

from gateway.sse import FrameReader
from tests.running import Running, running

CAP, OVERRUN = 50, 256
CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = [{"role": "user", "content": "What is it?"}]
ANSWER: Final = "The answer is 42."
LIMIT_SECONDS: Final = 120.0


class Said(Struct):
    """What a caller got. `facts`: the comments of one who asked for them; `frames`: the events, [DONE] among them."""

    status: int = 0
    frames: list[bytes] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    content: str = ""
    finish: str | None = None
    error: dict[str, Any] | None = None
    body: Any = None

    @property
    def events(self) -> list[str]:
        """The names of the facts, the totals left out."""
        return [fact["event"] for fact in self.facts if fact["event"] != "totals"]

    @property
    def past(self) -> int:
        """Reasoning tokens past the cap, as the totals say."""
        return int(self.facts[-1]["past_cap"])

    def take(self, data: bytes) -> None:
        """Read one event."""
        self.frames.append(data)
        if data == b"[DONE]":
            return
        chunk = json.loads(data)
        self.error = chunk.get("error")
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            if delta.get("reasoning_content"):
                self.reasoning.append(delta["reasoning_content"])
            self.content += delta.get("content") or ""
            self.finish = choice["finish_reason"] or self.finish


@contextmanager
def gateway(url: str, *, overrun: int = OVERRUN, **upstream: Any) -> Iterator[Running]:
    """A gateway before the server at this address, with a cap of 50 tokens for every model."""
    said = {"url": url, "kind": "llama.cpp", "dialects": ["chat", "messages", "responses"], **upstream}
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    settings = "\n".join([f"[thinking]\ncap = {CAP}\noverrun = {overrun}\n[upstreams.llama]", *lines, ""])
    with running(settings) as process:
        yield process


def asked(script: str = "loop", **fields: Any) -> dict[str, Any]:
    """A chat request whose answer follows a script of the model."""
    kwargs = {"script": script}
    return {"model": "m", "messages": MESSAGES, "max_tokens": 900, "chat_template_kwargs": kwargs, **fields}


def stream(
    url: str,
    body: dict[str, Any],
    *,
    at_first: Callable[[], None] | None = None,
    leave_at: str | None = None,
    **headers: str,
) -> Said:
    """Stream a call, with facts; do something at the first piece; leave when a fact of this name was told."""
    said, reader = Said(), FrameReader()
    sent = {"x-thinkcap-facts": "1"} | {name.replace("_", "-"): value for name, value in headers.items()}
    with (
        httpx.Client(timeout=LIMIT_SECONDS, trust_env=False) as client,
        client.stream("POST", url + CHAT, json={**body, "stream": True}, headers=sent) as response,
    ):
        said.status = response.status_code
        for number, data in enumerate(response.iter_raw()):
            if at_first is not None and not number:
                at_first()
            for frame in reader.feed(data):
                if frame.data is not None:
                    said.take(frame.data)
                elif frame.raw.startswith(b": thinkcap "):
                    said.facts.append(json.loads(frame.raw[11:]))
            if leave_at is not None and leave_at in said.events:
                break
    return said


def whole(url: str, body: dict[str, Any], path: str = CHAT) -> Said:
    """A call that is not streamed, with facts."""
    answer = httpx.post(
        url + path, json=body, headers={"x-thinkcap-facts": "1"}, timeout=LIMIT_SECONDS, trust_env=False
    )
    facts = json.loads(answer.headers.get("x-thinkcap-facts", "[]"))
    return Said(status=answer.status_code, body=answer.json(), facts=facts)


def capped(process: Running, method: str, outcome: str) -> float:
    """How many turns came to this."""
    return process.counted("thinkcap_thinking_capped_total", method=method, outcome=outcome)


class Meddler(BaseHTTPRequestHandler):
    """Passes requests on without the opt-in; its control path may be missing or never answer."""

    target: ClassVar[str] = ""
    control: ClassVar[str] = "passes"
    arms: ClassVar[bool] = False
    ended: ClassVar[threading.Event] = threading.Event()

    def do_POST(self) -> None:
        """Pass one request on, and its answer back as it comes."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path.endswith("/control") and self.control == "hangs":
            self.ended.wait(LIMIT_SECONDS)
            return
        if self.path.endswith("/control") and self.control == "missing":
            self.send_error(404)
            return
        said = json.loads(body)
        if not self.arms:
            said.pop("reasoning_control", None)
        with httpx.stream("POST", self.target + self.path, json=said, timeout=LIMIT_SECONDS, trust_env=False) as answer:
            self.send_response(answer.status_code)
            self.send_header("content-type", answer.headers["content-type"])
            self.end_headers()
            for data in answer.iter_raw():
                self.wfile.write(data)

    def handle(self) -> None:
        """A gateway that hangs up is no fault."""
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def meddler(target: str, *, control: str = "passes", arms: bool = False) -> Iterator[str]:
    """Run one before this address; gives its own. Ends its connections when the block does."""
    ended = threading.Event()
    handler = type("Here", (Meddler,), {"target": target, "control": control, "arms": arms, "ended": ended})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        serving.join()
