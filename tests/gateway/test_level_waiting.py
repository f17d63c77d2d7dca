"""What a stream waits for because its level may be refused: frames before the first delta in scope, nothing out of it."""

import asyncio
from typing import Any, Final, Self

import pytest

from gateway.relay import GUARD_BYTES
from gateway.sse import event
from gateway.words import DialectName
from tests.gateway.door import Caller, House, answers, run, until
from tests.gateway.plays import chunk, sse, text, thought

GEMINI: Final = "/v1beta/models/m:streamGenerateContent"
PATHS: Final[dict[DialectName, str]] = {
    "chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages", "gemini": GEMINI,
}  # fmt: skip
ASK: Final[dict[str, Any]] = {"model": "m", "stream": True, "messages": [], "max_tokens": 9}
COMMENT: Final = b": ping\n\n"


def named(kind: str, **more: Any) -> bytes:
    """An event that bears its name."""
    return event(sse({"type": kind} | more)[6:-2], kind.encode())


def parts(**part: Any) -> bytes:
    """An event of Gemini's with one part, or with none."""
    content = {"role": "model", "parts": [part] if part else []}
    return sse({"candidates": [{"content": content, "index": 0}], "modelVersion": "m"})


def block(**delta: Any) -> bytes:
    """A delta of the messages dialect."""
    return named("content_block_delta", index=0, delta=delta)


START: Final = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "usage": {"input_tokens": 3},
}
CREATED: Final = {"id": "r1", "model": "m", "status": "in_progress", "output": []}
ROLE: Final = COMMENT + chunk({"role": "assistant"})
CREATION: Final = named("response.created", response=CREATED) + named("response.in_progress", response=CREATED)
MESSAGE: Final = named("message_start", message=START) + named("ping")
STREAMS: dict[str, tuple[DialectName, bytes, bytes]] = {
    "chat, text": ("chat", ROLE, text("a")),
    "chat, reasoning": ("chat", ROLE, thought("a")),
    "chat, a tool call": (
        "chat",
        ROLE,
        chunk({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]}),
    ),
    "responses, text": (
        "responses",
        CREATION,
        named("response.output_text.delta", output_index=0, content_index=0, delta="a"),
    ),
    "responses, reasoning": (
        "responses",
        CREATION,
        named("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="a"),
    ),
    "messages, text": ("messages", MESSAGE, block(type="text_delta", text="a")),
    "messages, thinking": ("messages", MESSAGE, block(type="thinking_delta", thinking="a")),
    "messages, a tool call": (
        "messages",
        MESSAGE,
        named("content_block_start", index=0, content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}}),
    ),
    "gemini, text": ("gemini", COMMENT + parts(), parts(text="a")),
    "gemini, thoughts": ("gemini", COMMENT + parts(), parts(text="a", thought=True)),
    "gemini, a function call": ("gemini", COMMENT + parts(), parts(functionCall={"name": "f", "args": {}})),
}


class Play:
    """A stream that stands still behind its first part and behind its second, and what the caller has by then."""

    def __init__(self, dialect: DialectName, first: bytes, second: bytes, purpose: str) -> None:
        self.reached, self.on, self.never = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._script = answers(first, _Setting(self.reached), self.on, second, self.never)
        self._house = House(self._script)
        self.caller: Caller = self._house.caller(ASK, PATHS[dialect], x_thinkcap_purpose=purpose)

    async def __aenter__(self) -> Self:
        self._serving = asyncio.ensure_future(self._house.serve(self.caller))
        await self.reached.wait()
        for _ in range(50):  # all that is ready is done
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.caller.gone.set()
        await self._serving


class _Setting(asyncio.Event):
    """A step of a script that tells of being reached, and does not wait."""

    def __init__(self, reached: asyncio.Event) -> None:
        super().__init__()
        self._reached = reached

    async def wait(self) -> Any:
        """Tell."""
        self._reached.set()


@pytest.mark.parametrize(("dialect", "first", "second"), STREAMS.values(), ids=STREAMS)
def test_in_scope(dialect: DialectName, first: bytes, second: bytes) -> None:
    """Nothing goes out before the first delta; with it all does, while the upstream stands still behind it."""

    async def play() -> None:
        async with Play(dialect, first, second, "compaction") as stream:
            assert stream.caller.messages == []
            stream.on.set()
            await until(lambda: stream.caller.body == first + second)

    run(play())


@pytest.mark.parametrize(("dialect", "first", "second"), STREAMS.values(), ids=STREAMS)
def test_out_of_scope(dialect: DialectName, first: bytes, second: bytes) -> None:
    """The first frames are with the caller while the upstream stands still behind them."""

    async def play() -> None:
        async with Play(dialect, first, second, "nightly") as stream:
            await until(lambda: stream.caller.body == first)
            stream.on.set()
            await until(lambda: stream.caller.body == first + second)

    run(play())


@pytest.mark.parametrize(
    "frame",
    [b": " + b"x" * 1021 + b"\n\n", chunk({"role": "assistant"}, junk="x" * 900)],
    ids=["comments", "frames without a delta"],
)
def test_the_wait_is_bounded(frame: bytes) -> None:
    """Behind 64 KiB nothing waits any more, though no delta has come."""

    async def play() -> None:
        many = frame * (GUARD_BYTES // len(frame) + 1)
        async with Play("chat", many, text("a"), "compaction") as stream:
            await until(lambda: stream.caller.body == many)

    run(play())
