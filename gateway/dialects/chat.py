"""OpenAI Chat Completions, as OpenAI, Azure, OpenRouter, xAI, Groq, Mistral, vLLM, SGLang and llama.cpp speak it."""

# what                    where it stands
# ----------------------  ------------------------------------------------------------------------------------------
# cap                     max_completion_tokens, else max_tokens; n_predict before both on llama.cpp
# stop sequences          stop
# choices                 n
# finish word             choices[].finish_reason, before the usage; the first of two words counts
# stop evidence           stop_reason (vLLM), matched_stop (SGLang): a string is the caller's own sequence, a token id
#                         or a null a natural end; OpenAI and llama.cpp give none
# usage                   a frame of its own behind the finish, asked for by stream_options.include_usage; on the finish
#                         (DeepSeek), on every frame (vLLM running), twice (Groq, also x_groq.usage), once per choice
#                         beside timings (llama.cpp: those add up)
# output                  completion_tokens, reasoning in it; xAI alone counts it beside: then the three are the total
# reasoning               reasoning_content (llama.cpp, SGLang, DeepSeek), reasoning (vLLM, Ollama, OpenRouter),
#                         reasoning_details[] (OpenRouter), content[] of type thinking (Mistral): told once
# reasoning tokens        completion_tokens_details.reasoning_tokens, reasoning_tokens (SGLang)
# tool calls              tool_calls, function_call
# errors in a 200         error beside or without choices, object: error (vLLM), error_message (DeepInfra), an event
#                         named error (DashScope)
#
# Sources: the types of openai 2.x, the vendors' references, llama.cpp b11434 and b11549 recorded.

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Struct

from gateway import splice, sse
from gateway.calls import Call, HeaderList
from gateway.deltas import Delta, Identity
from gateway.dialects.base import (
    Additions,
    Dialect,
    FinishRides,
    Malformed,
    Relabelled,
    read_object,
    read_wishes,
    text_field,
    usable_cap,
)
from gateway.dialects.chunks import Chunk, deltas_of, finished, one_piece, only_reasoning
from gateway.dialects.levels import level_in
from gateway.dialects.reading import DONE, DONE_ONLY, read, read_identity
from gateway.errors import CallError
from gateway.surrogates import UNREADABLE, decoded, reader
from gateway.template import blanks
from gateway.words import DialectName, Reason


class Asked(Struct):
    """The fields of a request that a rule looks at."""

    model: Any = None
    stream: Any = None
    max_completion_tokens: Any = None
    max_tokens: Any = None
    n_predict: Any = UNSET
    n: Any = None
    stop: Any = None
    stream_options: Any = None
    timings_per_token: Any = None


_chunk = reader(Chunk)
_asked = reader(Asked)


class Chat(Dialect):
    """Chat Completions."""

    name: ClassVar[DialectName] = "chat"
    finish_rides: ClassVar[FinishRides] = "before_usage"
    done: ClassVar[bytes | None] = DONE
    differs = blanks("content|reasoning_content|reasoning|obfuscation", counts=("timings", "predicted_n"))
    said: ClassVar[dict[Reason, str]] = {
        "stop": "stop",
        "length": "length",
        "tool_calls": "tool_calls",
        "content_filter": "content_filter",
        "error": "error",
    }

    def read_call(self, path: str, query: bytes, headers: HeaderList, body: bytes) -> Call:
        """What the caller asked; raises BadRequest when the body is no object or `model` no string."""
        asked = read_object(_asked, body)
        options = asked.stream_options
        native = asked.n_predict
        cap = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
        return Call(
            dialect="chat",
            model=text_field("model", asked.model),
            stream=asked.stream is True,
            body=body,
            path=path,
            query=query,
            headers=headers,
            output_cap=usable_cap(cap),
            native_cap=None if native is UNSET else usable_cap(native),
            stop_sequences=bool(asked.stop),
            level=level_in("chat", body),
            choices=asked.n if type(asked.n) is int and asked.n > 1 else 1,
            wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
            wants_timings=asked.timings_per_token is True,
            wishes=read_wishes(headers),
        )

    def upstream_body(self, call: Call, added: Additions) -> bytes:
        """The caller's bytes, with usage asked for and the completion opted in to control where a rule needs it."""
        body = call.body
        if added.stream:
            body = splice.put(body, ("stream",), b"true")
        if added.usage or added.stream:
            with suppress(KeyError):  # what stands there is no object: the upstream will say so in its own words
                body = splice.put(body, ("stream_options", "include_usage"), b"true")
        if added.control:
            body = splice.put(body, ("reasoning_control",), b"true")
            body = splice.put(body, ("timings_per_token",), b"true")
        return body

    def read_frame(self, frame: sse.Frame) -> Sequence[Delta]:
        """What one chunk says."""
        data = frame.data or b""
        try:
            chunk = _chunk(data)
        except UNREADABLE as error:
            if data.strip() == DONE:
                return DONE_ONLY
            raise Malformed from error
        return one_piece(chunk) or deltas_of(chunk, data, named_error=frame.event == b"error")

    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole completion says."""
        chunk = read(_chunk, body)
        deltas = deltas_of(chunk, body)
        if chunk.choices is None and not deltas:
            raise Malformed
        return deltas

    def identity(self, data: bytes) -> Identity:
        """Id and model."""
        return read_identity(data)

    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:
        """`choices[].finish_reason` of the choice with that index."""
        indices = [c.place for c in _chunk(data).choices or ()]
        place = ("choices", indices.index(choice), "finish_reason")
        return Relabelled(splice.replace(data, place, msgspec.json.encode(self.said[reason])))

    def strip(self, frame: sse.Frame, added: Additions) -> bytes | None:
        """Without the usage-only chunk, or without `timings`, where our asking caused them."""
        data = frame.data or b""
        try:
            chunk = _chunk(data)
        except UNREADABLE:
            return frame.raw
        if not chunk.choices:
            ours = added.usage and isinstance(chunk.usage, dict) and not chunk.failed
            return None if ours else frame.raw
        # The finish chunk keeps its timings: the server puts them there unasked.
        if added.control and chunk.timings is not None and not any(map(finished, chunk.choices)):
            return sse.rewrite(frame, splice.remove(data, ("timings",)))
        return frame.raw

    def promote(self, body: bytes) -> bytes:
        """`message.content` gets the reasoning of every choice that has nothing else; the reasoning fields go."""
        for position, choice in enumerate(_chunk(body).choices or ()):
            text = only_reasoning(choice.message) if choice.message is not None else ""
            if not text:
                continue
            message = ("choices", position, "message")
            body = splice.put(body, (*message, "content"), msgspec.json.encode(text))
            for field in ("reasoning_content", "reasoning", "reasoning_details"):
                body = splice.remove(body, (*message, field))
        return body

    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:  # noqa: ARG002 - there are no blocks
        """A content chunk with the id, model and time of the finish chunk."""
        whole = decoded(like)
        head = {key: whole[key] for key in ("id", "object", "created", "model") if key in whole}
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        return sse.event(msgspec.json.encode(head | {"choices": [choice]}))

    def error_body(self, error: CallError) -> bytes:
        """`{"error": {message, type, param, code}}`, as OpenAI's own errors."""
        kind = "invalid_request_error" if error.status < 500 else "server_error"  # noqa: PLR2004 - a status class
        said = {"message": error.message, "type": kind, "param": None, "code": error.code}
        return msgspec.json.encode({"error": said})

    def error_event(self, error: CallError) -> bytes:
        """The same object as a chunk; no `[DONE]` follows."""
        return sse.event(self.error_body(error))
