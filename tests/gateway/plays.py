"""What the plays of the relay share: chunks, a plan, and a stage on which bytes go in and actions and facts come out."""

from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.actions import Action, Forward
from gateway.answer import Plan
from gateway.dialects import DIALECTS
from gateway.dialects.base import Dialect
from gateway.events import Fact, FirstToken, Turn
from gateway.relay import Relay
from gateway.rules.output_cap import OutputCap
from gateway.whole import Whole

CHAT = DIALECTS["chat"]
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chat event with one choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish} | more.pop("choice", {})
    return sse({"id": "c1", "model": "m", "choices": [choice], **more})


def usage(completion: int, prompt: int = 9, **more: Any) -> bytes:
    """A usage-only chat event."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}
    return sse({"id": "c1", "model": "m", "choices": [], "usage": counts})


def sse(value: Any) -> bytes:
    """One event."""
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def text(words: str) -> bytes:
    """A chat event with visible text."""
    return chunk({"content": words})


def thought(words: str, **more: Any) -> bytes:
    """A chat event with reasoning."""
    return chunk({"reasoning_content": words}, **more)


def timed(
    words: str, running: object, *, field: str = "reasoning_content", created: int = 7, **measured: object
) -> bytes:
    """A token of llama.cpp that was asked to tell how many there were."""
    timings = {"cache_n": 0, "prompt_ms": 0.434, "predicted_n": running, "predicted_ms": 104.291, **measured}
    return chunk({field: words}, created=created, timings=timings)


def refusal(level: str, listed: str = "") -> dict[str, Any]:
    """OpenAI's words for a level it does not take."""
    supported = f" Supported values are: {listed}." if listed else ""
    message = f"Unsupported value: 'reasoning_effort' does not support '{level}' with this model.{supported}"
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": "reasoning_effort",
            "code": "unsupported_value",
        }
    }


def cut(stream: bytes, sizes: Iterable[int]) -> list[bytes]:
    """The stream in reads of these sizes, and what is left of it in one more."""
    reads: list[bytes] = []
    for size in sizes:
        reads.append(stream[:size])
        stream = stream[size:]
    return [*reads, stream]


class Stage:
    """A relay, or what judges a whole answer, and what has come of it: `out` bytes, `actions` besides, `facts`."""

    def __init__(self, dialect: Dialect = CHAT, **plan: Any) -> None:
        """A plan has a cap of 64 unless it says otherwise."""
        self.facts: list[Fact] = []
        self.out = b""
        self.actions: list[Action] = []
        plan.setdefault("output_cap", OutputCap(cap=64))
        self.relay = Relay(dialect, Plan(**plan), self.facts.append)
        self.whole = Whole(dialect, Plan(**plan), self.facts.append)

    def take(self, actions: Iterable[Action]) -> bytes:
        """Keep what these actions say; the bytes they forward."""
        new = b""
        for action in actions:
            if isinstance(action, Forward):
                new += action.data
            else:
                self.actions.append(action)
        self.out += new
        return new

    def feed(self, *pieces: bytes) -> bytes:
        """Bytes come in, one read each; the bytes that go out."""
        return b"".join(self.take(self.relay.feed(piece)) for piece in pieces)

    def close(self) -> Turn:
        """The body ends."""
        self.take(self.relay.close())
        return self.relay.end(by_itself=True)

    @property
    def told(self) -> list[Fact]:
        """The facts, save that a first token came."""
        return [fact for fact in self.facts if not isinstance(fact, FirstToken)]


def raised(event: bytes) -> bytes:
    """The event with its stop told as length."""
    return event.replace(b'"finish_reason":"stop"', b'"finish_reason":"length"')
