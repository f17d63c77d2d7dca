"""Anthropic Messages, as Anthropic, Bedrock, vLLM, llama.cpp, Ollama and the coding plans of others speak it."""

# what                    where it stands
# ----------------------  ------------------------------------------------------------------------------------------
# cap                     max_tokens
# stop sequences          stop_sequences[]
# finish word             delta.stop_reason of message_delta; stop_reason of a whole answer
# words                   end_turn stop_sequence max_tokens model_context_window_exceeded tool_use refusal; pause_turn
#                         is a pause of a server's own tools, no stop: it folds to `other`
# stop evidence           the word stop_sequence, or a stop_sequence that is no null (llama.cpp says end_turn beside
#                         it); a null is evidence of a natural end; a field that is absent is none
# usage                   message_start and message_delta: running totals, the last value replaces
# input                   input_tokens + cache_read_input_tokens + cache_creation_input_tokens: input_tokens alone
#                         leaves out what the cache had, in the other dialects the prompt is told whole
# reasoning               thinking_delta; a signature or a redacted block alone says that thinking came, untold
# reasoning tokens        output_tokens_details.thinking_tokens, inside output_tokens
# tool calls              a block of type tool_use; server_tool_use and mcp_tool_use are the server's own
# errors in a 200         event error; {"type": "error", "error": {type, message}}
#
# Sources: the types of anthropic 2.x; llama.cpp b11434 recorded (its thinking block ends after the text block began,
# so block ends mean nothing here).

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Struct

from gateway import splice, sse
from gateway.calls import Call, HeaderList
from gateway.deltas import Content, Delta, Finish, Identity, Reasoning, ToolCall, Usage
from gateway.dialects.base import (
    FINISH_WORDS,
    UNFINISHED,
    FinishRides,
    Malformed,
    Relabelled,
    count,
    failure,
    read_object,
    read_wishes,
    text_field,
    usable_cap,
)
from gateway.dialects.levels import level_in
from gateway.dialects.reading import (
    ANSWER_ONLY,
    DONE_ONLY,
    NOTHING,
    Untouched,
    identity,
    read,
    read_identity,
    unreadable,
)
from gateway.errors import CallError
from gateway.surrogates import UNREADABLE, reader
from gateway.template import blanks
from gateway.words import DialectName, Reason

KNOWN: Final = frozenset((
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
    "content_block_stop", "ping", "error", "message",
))  # fmt: skip
"""Events whose shape is known; others pass, whatever they hold."""
SERVERS_OWN: Final = frozenset(("server_tool_use", "mcp_tool_use"))
ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    408: "invalid_request_error",  # the type for all 4xx without one of their own
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Anthropic's error type of a status; `api_error` for the others."""


class Piece(Struct):
    """`delta` of a block or of the message, or a content block."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None
    stop_reason: Any = None
    stop_sequence: Any = UNSET


class Message(Struct):
    """`message` of message_start."""

    id: Any = None
    model: Any = None
    usage: Any = None


class Event(Struct):
    """The fields of an event or of a whole answer that a rule looks at; all others are skipped unread."""

    type: Any = None
    index: Any = None
    delta: Piece | None = None
    content_block: Piece | None = None
    message: Message | None = None
    content: list[Piece] | None = None
    stop_reason: Any = None
    stop_sequence: Any = UNSET
    usage: Any = None
    error: Any = None


class Asked(Struct):
    """The fields of a request that a rule looks at."""

    model: Any = None
    stream: Any = None
    max_tokens: Any = None
    stop_sequences: Any = None


_event = reader(Event)
_asked = reader(Asked)


class Messages(Untouched):
    """Messages."""

    name: ClassVar[DialectName] = "messages"
    finish_rides: ClassVar[FinishRides] = "with_usage"
    differs = blanks("text|thinking")
    said: ClassVar[dict[Reason, str]] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "refusal",
    }

    def read_call(self, path: str, query: bytes, headers: HeaderList, body: bytes) -> Call:
        """What the caller asked; raises BadRequest when the body is no object or `model` no string."""
        asked = read_object(_asked, body)
        return Call(
            dialect="messages",
            model=text_field("model", asked.model),
            stream=asked.stream is True,
            body=body,
            path=path,
            query=query,
            headers=headers,
            output_cap=usable_cap(asked.max_tokens),
            level=level_in("messages", body),
            stop_sequences=bool(asked.stop_sequences),
            wishes=read_wishes(headers),
        )

    def read_frame(self, frame: sse.Frame) -> Sequence[Delta]:
        """What one event says."""
        data = frame.data or b""
        try:
            event = _event(data)
        except UNREADABLE:
            return unreadable(frame, KNOWN)
        kind, delta = event.type, event.delta
        if kind == "content_block_delta" and delta is not None:
            if delta.type == "text_delta":
                return ANSWER_ONLY if delta.text else NOTHING
            return _thought(delta, event.index)
        if kind == "message_delta":
            return [*_finish(delta), *_usage(event.usage)] if delta is not None else _usage(event.usage)
        if kind == "content_block_start" and event.content_block is not None:
            return _block(event.content_block, event.index)
        if kind == "message_start" and event.message is not None:
            return _usage(event.message.usage)
        if kind == "message_stop":
            return DONE_ONLY
        if kind == "error" or frame.event == b"error" or (kind is None and event.error):
            return [failure(event.error or {"type": kind}, data)]
        return NOTHING

    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole message says."""
        event = read(_event, body)
        if event.error is not None:
            return [failure(event.error, body)]
        if event.content is None:
            raise Malformed
        blocks = [delta for index, block in enumerate(event.content) for delta in _block(block, index)]
        return [*blocks, *_finish(event), *_usage(event.usage)]

    def identity(self, data: bytes) -> Identity:
        """Id and model, of a whole message or of message_start."""
        try:
            message = _event(data).message
        except UNREADABLE:
            return Identity()
        return identity(message.id, message.model) if message is not None else read_identity(data)

    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:  # noqa: ARG002 - there is one choice
        """`stop_reason`; `stop_sequence` stays."""
        place = ("delta", "stop_reason") if _event(data).delta is not None else ("stop_reason",)
        return Relabelled(splice.replace(data, place, msgspec.json.encode(self.said[reason])))

    def promote(self, body: bytes) -> bytes:
        """A text block behind the thinking; the thinking blocks stay, emptied, for the sake of their signatures."""
        content = _event(body).content or []
        deltas = [delta for block in content for delta in _block(block, 0)]
        text = "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))
        if not text or any(not isinstance(delta, Reasoning) for delta in deltas):
            return body
        for position, block in enumerate(content):
            if isinstance(block.thinking, str):
                body = splice.replace(body, ("content", position, "thinking"), b'""')
        _, end = splice.find(body, ("content",)) or (0, 0)
        return body[: end - 1] + b"," + msgspec.json.encode({"type": "text", "text": text}) + body[end - 1 :]

    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:  # noqa: ARG002 - it stands outside the message
        """A text block of its own, behind the last one that held thinking."""
        head, index = {"type": "text", "text": ""}, block + 1
        return b"".join(
            sse.event(msgspec.json.encode({"type": kind, "index": index, **more}), kind.encode())
            for kind, more in (
                ("content_block_start", {"content_block": head}),
                ("content_block_delta", {"delta": {"type": "text_delta", "text": text}}),
                ("content_block_stop", {}),
            )
        )

    def error_body(self, error: CallError) -> bytes:
        """`{"type": "error", "error": {type, message, code}}`, as Anthropic's own errors, with the code beside."""
        said = {"type": ERROR_TYPES.get(error.status, "api_error"), "message": error.message, "code": error.code}
        return msgspec.json.encode({"type": "error", "error": said})

    def error_event(self, error: CallError) -> bytes:
        """The same object as an `error` event."""
        return sse.event(self.error_body(error), b"error")


def _thought(delta: Piece, index: object) -> Sequence[Delta]:
    """Thinking; a signature without any text before it (thinking that is not told) says that some came."""
    text = delta.thinking if delta.type == "thinking_delta" else ""
    if isinstance(text, str) and (text or (delta.type == "signature_delta" and delta.signature)):
        return [Reasoning(text, block=count(index) or 0)]
    return NOTHING


def _block(block: Piece, index: object) -> Sequence[Delta]:
    """A content block, whole or as it begins."""
    kind = block.type
    if kind == "text":
        return ANSWER_ONLY if block.text else NOTHING
    if kind == "thinking":
        text = block.thinking if isinstance(block.thinking, str) else ""
        return [Reasoning(text, block=count(index) or 0)] if text or block.signature else NOTHING
    if kind == "redacted_thinking":
        return [Reasoning("", block=count(index) or 0)]
    if isinstance(kind, str) and kind.endswith("tool_use") and kind not in SERVERS_OWN:
        return [ToolCall()]
    return [Content()] if block.text else NOTHING


def _finish(said: Piece | Event) -> Sequence[Delta]:
    word, sequence = said.stop_reason, said.stop_sequence
    if not isinstance(word, str) or word in UNFINISHED:
        return NOTHING
    if word == "stop_sequence":
        evidence: bool | None = True
    else:
        evidence = None if sequence is UNSET else sequence is not None
    return [Finish(word, FINISH_WORDS.get(word, "other"), evidence)]


def _usage(said: object) -> Sequence[Delta]:
    if not isinstance(said, dict):
        return NOTHING
    uncached, cached = count(said.get("input_tokens")), count(said.get("cache_read_input_tokens"))
    details = said.get("output_tokens_details")
    return [
        Usage(
            output=count(said.get("output_tokens")),
            input=None
            if uncached is None
            else uncached + (cached or 0) + (count(said.get("cache_creation_input_tokens")) or 0),
            reasoning=count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
            cached=cached,
        )
    ]
