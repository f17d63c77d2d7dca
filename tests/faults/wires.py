"""What an upstream says in each dialect, in pieces that a fault can come between, and the request that asks for it."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from gateway import sse
from gateway.words import DIALECTS, DialectName

TEXT: Final = "hello"
JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"
REFUSAL: Final = b'{"error":{"message":"Invalid value: \'minimal\'. Supported values are: \'low\' and \'high\'.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_value"}}'
"""A level is refused; the next one up is named."""
CHAT_ID: Final = "c1"


class Wire(Struct, frozen=True):
    """One dialect. `events`: a stream, event by event; the first `spoken` of them are not the end of the turn."""

    path: str
    streamed_path: str
    body: dict[str, Any]
    streamed: dict[str, Any]
    whole: bytes
    events: tuple[bytes, ...]
    spoken: int
    capped: dict[str, Any]
    """Fields that name an output cap which the turn's usage reaches."""
    levelled: dict[str, Any]
    """Fields that name the level REFUSAL refuses."""


def _event(value: Any, *, named: bool = False) -> bytes:
    return sse.event(msgspec.json.encode(value), value["type"].encode() if named else None)


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _event({"id": CHAT_ID, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


CHAT_USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
RESPONSE: Final = {
    "id": "r1", "object": "response", "model": "m", "status": "completed", "incomplete_details": None,
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": TEXT}]}],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}  # fmt: skip
MESSAGE: Final = {
    "id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": TEXT}],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2},
}  # fmt: skip
GEMINI_USAGE: Final = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def _candidate(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    return {"candidates": [said | ({"finishReason": finish} if finish else {})], "modelVersion": "m", **more}


WIRES: Final[dict[DialectName, Wire]] = {
    "chat": Wire(
        path="/v1/chat/completions",
        streamed_path="/v1/chat/completions",
        body={"messages": [{"role": "user", "content": "hi"}]},
        streamed={"messages": [{"role": "user", "content": "hi"}], "stream": True, "stream_options": {"include_usage": True}},
        whole=msgspec.json.encode({"id": CHAT_ID, "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}], "usage": CHAT_USAGE}),
        events=(
            _chunk({"role": "assistant", "content": ""}), _chunk({"content": "hel"}), _chunk({"content": "lo"}),
            _chunk({}, "stop"), _event({"id": CHAT_ID, "model": "m", "choices": [], "usage": CHAT_USAGE}), b"data: [DONE]\n\n",
        ),
        spoken=3,
        capped={"max_tokens": 2},
        levelled={"reasoning_effort": "minimal"},
    ),
    "responses": Wire(
        path="/v1/responses",
        streamed_path="/v1/responses",
        body={"input": "hi"},
        streamed={"input": "hi", "stream": True},
        whole=msgspec.json.encode(RESPONSE),
        events=(
            _event({"type": "response.created", "response": {"id": "r1", "model": "m", "status": "in_progress", "output": []}}, named=True),
            _event({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hel"}, named=True),
            _event({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo"}, named=True),
            _event({"type": "response.completed", "response": RESPONSE}, named=True),
        ),
        spoken=3,
        capped={"max_output_tokens": 2},
        levelled={"reasoning": {"effort": "minimal"}},
    ),
    "messages": Wire(
        path="/v1/messages",
        streamed_path="/v1/messages",
        body={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1_000_000},
        streamed={"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1_000_000, "stream": True},
        whole=msgspec.json.encode(MESSAGE),
        events=(
            _event({"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 0}}}, named=True),
            _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, named=True),
            _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}}, named=True),
            _event({"type": "content_block_stop", "index": 0}, named=True),
            _event({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}}, named=True),
            _event({"type": "message_stop"}, named=True),
        ),
        spoken=3,
        capped={"max_tokens": 2},
        levelled={"output_config": {"effort": "minimal"}},
    ),
    "gemini": Wire(
        path="/v1beta/models/{model}:generateContent",
        streamed_path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
        body={"contents": [{"parts": [{"text": "hi"}]}]},
        streamed={"contents": [{"parts": [{"text": "hi"}]}]},
        whole=msgspec.json.encode(_candidate(TEXT, "STOP", usageMetadata=GEMINI_USAGE)),
        events=(
            _event(_candidate("hel")), _event(_candidate("lo")), _event(_candidate("", "STOP", usageMetadata=GEMINI_USAGE)),
        ),
        spoken=2,
        capped={"generationConfig": {"maxOutputTokens": 2}},
        levelled={"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}},
    ),
}  # fmt: skip
assert tuple(WIRES) == DIALECTS


def request(
    dialect: DialectName, model: str, *, stream: bool, headers: dict[str, str] | None = None, **fields: Any
) -> bytes:
    """A whole request as bytes. `fields` are added to the body."""
    wire = WIRES[dialect]
    path = (wire.streamed_path if stream else wire.path).replace("{model}", model)
    named = {} if dialect == "gemini" else {"model": model}
    body = msgspec.json.encode(named | (wire.streamed if stream else wire.body) | fields)
    return post(path, body, headers)


def post(path: str, body: bytes, headers: dict[str, str] | None = None, method: str = "POST") -> bytes:
    """A request with a length."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: gateway.test",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
