"""OpenAI Chat Completions, as OpenAI, Azure, OpenRouter, xAI, Groq, Mistral, vLLM, SGLang and llama.cpp speak it."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Struct

from gateway import splice, sse
from gateway.calls import Call, HeaderList
from gateway.deltas import Content, Delta, Done, Finish, Identity, Reasoning, ToolCall, Usage
from gateway.dialects.base import (
    FINISH_WORDS,
    UNFINISHED,
    Additions,
    Dialect,
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
from gateway.errors import CallError
from gateway.words import DialectName, Reason

DONE: Final = b"[DONE]"
CAPS: Final = ("max_completion_tokens", "max_tokens")
"""The caller's cap: the first that is there wins."""
ANSWER_ONLY: Final = (Content(),)
DONE_ONLY: Final = (Done(),)
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Said(Struct):
    """`delta` of a chunk, `message` of a whole answer."""

    content: Any = None
    reasoning_content: Any = None  # llama.cpp, SGLang, DeepSeek
    reasoning: Any = None  # vLLM, Ollama, OpenRouter
    reasoning_details: Any = None  # OpenRouter, often beside `reasoning`
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None


class Choice(Struct):
    """One entry of `choices`."""

    index: int | None = 0
    delta: Said | None = None
    message: Said | None = None
    finish_reason: Any = None
    stop_reason: Any = UNSET  # vLLM: the caller's string, a token id, or null
    matched_stop: Any = UNSET  # SGLang: likewise


class Chunk(Struct):
    """The fields of a chunk or of a whole answer that a rule looks at; all others are skipped unread."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    x_groq: Any = None
    timings: Any = None
    error_type: Any = None  # DeepInfra
    error_message: Any = None


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


_chunk = msgspec.json.Decoder(Chunk).decode
_identity = msgspec.json.Decoder(Identity).decode
_asked = msgspec.json.Decoder(Asked)


class Chat(Dialect):
    """Chat Completions."""

    name: ClassVar[DialectName] = "chat"
    finish_rides: ClassVar[FinishRides] = "before_usage"
    done: ClassVar[bytes | None] = DONE
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
        return Call(
            dialect="chat",
            model=text_field("model", asked.model),
            stream=asked.stream is True,
            body=body,
            path=path,
            query=query,
            headers=headers,
            output_cap=next((usable_cap(v) for name in CAPS if (v := getattr(asked, name)) is not None), None),
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
        choices = chunk.choices
        if choices and len(choices) == 1 and chunk.usage is None and chunk.error is None:
            choice = choices[0]
            said = choice.delta
            if choice.finish_reason is None and not choice.index and said is not None and chunk.x_groq is None:
                content = said.content
                if type(content) is str and content and _only_content(said):
                    return ANSWER_ONLY
        return self._read(chunk, data)

    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole completion says."""
        try:
            chunk = _chunk(body)
        except UNREADABLE as error:
            raise Malformed from error
        deltas = self._read(chunk, body)
        if chunk.choices is None and not deltas:
            raise Malformed
        return deltas

    def identity(self, data: bytes) -> Identity:
        """Id and model."""
        try:
            return _identity(data)
        except UNREADABLE:
            return Identity()

    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:
        """`choices[].finish_reason` of the choice with that index."""
        indices = [c.index or 0 for c in _chunk(data).choices or ()]
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
            return None if added.usage and isinstance(chunk.usage, dict) else frame.raw
        # The finish chunk keeps its timings: the server puts them there unasked.
        if added.control and chunk.timings is not None and all(c.finish_reason in UNFINISHED for c in chunk.choices):
            return sse.rewrite(frame, splice.remove(data, ("timings",)))
        return frame.raw

    def promote(self, body: bytes) -> bytes:
        """`message.content` gets the reasoning of every choice that has nothing else; the reasoning fields go."""
        for position, choice in enumerate(_chunk(body).choices or ()):
            said = choice.message
            text = _reasoning(said) if said is not None else ""
            if said is None or not text or _visible(said) or said.tool_calls or said.function_call:
                continue
            message = ("choices", position, "message")
            body = splice.put(body, (*message, "content"), msgspec.json.encode(text))
            for field in ("reasoning_content", "reasoning", "reasoning_details"):
                body = splice.remove(body, (*message, field))
        return body

    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:  # noqa: ARG002 - there are no blocks
        """A content chunk with the id, model and time of the finish chunk."""
        whole = msgspec.json.decode(like)
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

    def _read(self, chunk: Chunk, data: bytes) -> Sequence[Delta]:
        deltas: list[Delta] = []
        usage = _usage(chunk)
        for choice in chunk.choices or ():
            _read_choice(choice, _running(chunk, usage), deltas)
        error = chunk.error or chunk.error_message or (chunk.object == "error" or None)
        if error:
            deltas.append(failure(error if isinstance(error, dict) else {"type": chunk.error_type}, data))
        if usage is not None:
            deltas.append(usage)
        return deltas


def _only_content(said: Said) -> bool:
    return (
        said.reasoning_content is None
        and said.reasoning is None
        and said.reasoning_details is None
        and said.tool_calls is None
        and said.function_call is None
    )


def _read_choice(choice: Choice, running: int | None, deltas: list[Delta]) -> None:
    index = choice.index or 0
    said = choice.delta or choice.message
    if said is not None:
        text = _reasoning(said)
        if text:
            deltas.append(Reasoning(text, running, index))
        if _visible(said):
            deltas.append(Content(index))
        if said.tool_calls or said.function_call:
            deltas.append(ToolCall(index))
    word = choice.finish_reason
    if isinstance(word, str) and word not in UNFINISHED:
        deltas.append(Finish(word, FINISH_WORDS.get(word, "other"), _evidence(choice), index))


def _visible(said: Said) -> bool:
    content = said.content
    if isinstance(content, list):  # Mistral: parts, some of which are thinking
        return any(
            isinstance(p, dict) and p.get("type") != "thinking" and any(p.get(k) for k in p if k != "type")
            for p in content
        )
    return bool(content) or bool(said.refusal) or bool(said.audio)


def _reasoning(said: Said) -> str:
    """The reasoning of one message, told once: the same text may stand in up to three fields."""
    for value in (said.reasoning_content, said.reasoning):
        if isinstance(value, str) and value:
            return value
    if isinstance(said.reasoning_details, list):
        return "".join(_texts(said.reasoning_details))
    if isinstance(said.content, list):
        return "".join(
            t for p in said.content if isinstance(p, dict) and p.get("type") == "thinking" for t in _thinking(p)
        )
    return ""


def _texts(details: list[Any]) -> list[str]:
    """`reasoning.text` and `reasoning.summary`; `reasoning.encrypted` is no text."""
    parts = (
        d.get("text") or d.get("summary")
        for d in details
        if isinstance(d, dict) and d.get("type") != "reasoning.encrypted"
    )
    return [part for part in parts if isinstance(part, str)]


def _thinking(part: dict[str, Any]) -> list[str]:
    inner = part.get("thinking")
    if isinstance(inner, str):
        return [inner]
    return [p["text"] for p in inner or () if isinstance(p, dict) and isinstance(p.get("text"), str)]


def _evidence(choice: Choice) -> bool | None:
    """Whose stop it was: a string is the caller's own, a token id or null the model's."""
    for value in (choice.stop_reason, choice.matched_stop):
        if value is not UNSET:
            return isinstance(value, str)
    return None


def _running(chunk: Chunk, usage: Usage | None) -> int | None:
    """The exact count of tokens so far where the chunk gives one: llama.cpp's timings, a running usage."""
    if isinstance(chunk.timings, dict):
        return count(chunk.timings.get("predicted_n"))
    return usage.output if usage is not None else None


def _usage(chunk: Chunk) -> Usage | None:
    said = chunk.usage
    if said is None and isinstance(chunk.x_groq, dict):
        said = chunk.x_groq.get("usage")
    if not isinstance(said, dict):
        return None
    output, prompt = count(said.get("completion_tokens")), count(said.get("prompt_tokens"))
    details, prompts = said.get("completion_tokens_details"), said.get("prompt_tokens_details")
    reasoning = count(details.get("reasoning_tokens")) if isinstance(details, dict) else None
    if reasoning is None:
        reasoning = count(said.get("reasoning_tokens"))  # SGLang
    # xAI alone counts reasoning beside the completion: then and only then the three add up to the total.
    if (
        output is not None
        and prompt is not None
        and reasoning
        and said.get("total_tokens") == prompt + output + reasoning
    ):
        output += reasoning
    cached = (
        count(prompts.get("cached_tokens")) if isinstance(prompts, dict) else count(said.get("prompt_cache_hit_tokens"))
    )
    # llama.cpp sends one usage event per choice, with the timings of that choice beside it.
    part = not chunk.choices and isinstance(chunk.timings, dict)
    return Usage(output, prompt, reasoning, cached, part)
