"""The pure paths whose price is held: each makes its state and gives one step to be counted, again and again."""

import io
from collections.abc import Callable
from typing import Any, Final

import msgspec

from gateway.answer import Plan
from gateway.calls import HeaderList
from gateway.config import parse_settings
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions
from gateway.headers import to_caller, to_upstream
from gateway.memory import Memory
from gateway.policy import Policies
from gateway.relay import Relay
from gateway.rules.output_cap import OutputCap
from gateway.rules.thinking_cap import ThinkingCap
from gateway.thinking import arm
from gateway.whole import Whole
from gateway.words import DialectName, Method
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from tests.bench.systems import SETTINGS
from tests.gateway.plays import sse, text, thought
from tests.telemetry.plays import SERIES, ordinary, play

Step = Callable[[], object]
FAR: Final = 1_000_000
"""A cap that is armed and not reached."""
AT_ONCE: Final = 16
"""Events in one read of a stream that bursts."""
HEADERS: Final[HeaderList] = (
    (b"host", b"gateway"),
    (b"content-type", b"application/json"),
    (b"authorization", b"Bearer sk-made-up"),
    (b"content-length", b"1024"),
    (b"user-agent", b"client/1.0"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip"),
    (b"connection", b"keep-alive"),
)
ANSWERED: Final[HeaderList] = (
    (b"content-type", b"application/json"),
    (b"content-length", b"1024"),
    (b"date", b"Mon, 30 Nov 2026 12:00:00 GMT"),
    (b"server", b"model"),
    (b"connection", b"keep-alive"),
    (b"x-request-id", b"r1"),
)
USAGE: Final = {"prompt_tokens": 9, "completion_tokens": 40, "total_tokens": 49}


def relay(dialect: DialectName = "chat", *, method: Method | None = None, control: bool = False) -> Relay:
    """An answer under an armed output cap, and under a thinking cap where a method for it is named."""
    thinking = ThinkingCap(FAR, 256, method, 1) if method is not None else None
    plan = Plan(output_cap=OutputCap(cap=FAR), thinking=thinking, added=Additions(usage=True, control=control))
    return Relay(DIALECTS[dialect], plan, lambda _fact: None)


def stream(frame: bytes, *, times: int = 1, dialect: DialectName = "chat", **armed: Any) -> Step:
    """One read of a stream under way, with that event so many times in it."""
    passing, read = relay(dialect, **armed), frame * times
    return lambda: passing.feed(read)


def _event(name: str, **said: Any) -> bytes:
    return f"event: {name}\n".encode() + sse({"type": name, **said})


MESSAGES_TEXT: Final = _event("content_block_delta", index=0, delta={"type": "text_delta", "text": " fox"})
RESPONSES_TEXT: Final = _event(
    "response.output_text.delta", sequence_number=5, item_id="m1", output_index=0, content_index=0, delta=" fox"
)
GEMINI_TEXT: Final = sse(
    {
        "candidates": [{"content": {"parts": [{"text": " fox"}], "role": "model"}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13},
        "modelVersion": "m",
        "responseId": "r1",
    }
)


def request(characters: int) -> bytes:
    """A call with that much conversation."""
    messages = [{"role": "user", "content": "x" * characters}]
    return msgspec.json.encode({"model": "fake-model", "messages": messages, "max_tokens": FAR})


def answer(characters: int) -> bytes:
    """A whole answer with that much text and some reasoning."""
    message = {"role": "assistant", "content": "x" * characters, "reasoning_content": "a short thought"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return msgspec.json.encode({"id": "c1", "model": "m", "choices": [choice], "usage": USAGE})


def whole(characters: int = 1000) -> Step:
    """A call that is answered whole: read, given its policy, armed; its answer judged and its totals made."""
    policies = Policies(parse_settings(SETTINGS.format(upstream=1, traces="off"), {}))
    memory, asked, answered = Memory(600, lambda: 0.0), request(characters), answer(characters)

    def step() -> object:
        call = DIALECTS["chat"].read_call("/v1/chat/completions", b"", HEADERS, asked)
        policy = policies.of(call)
        armed = arm(call, policy, memory)
        plan = Plan(output_cap=policy.output_cap, added=armed.caused, thinking=armed.cap(policy))
        passing = Whole(DIALECTS["chat"], plan, lambda _fact: None)
        return DIALECTS["chat"].upstream_body(call, armed.added), passing.body(answered), passing.end(by_itself=True)

    return step


def headers() -> Step:
    """The headers of a request as they go on, and of its answer as they go back."""
    return lambda: (
        to_upstream(HEADERS, judged=True, drop=frozenset(), own=()),
        to_caller(ANSWERED, decoded=True, length=1024, secret=None),
    )


def told() -> Step:
    """The facts of an ordinary stream, counted and logged; no traces."""
    telemetry, facts = Telemetry(SERIES, log=json_log(io.BytesIO())), ordinary()
    return lambda: play(telemetry, facts)


def scraped() -> Step:
    """All metrics as OpenMetrics, after one call."""
    telemetry = Telemetry(SERIES, log=json_log(io.BytesIO()))
    play(telemetry, ordinary())
    return lambda: telemetry.page("application/openmetrics-text")


TEXT: Final = text(" fox")
THOUGHT: Final = thought(" hm")
TIMED: Final = thought(" hm", timings={"predicted_n": 7})
