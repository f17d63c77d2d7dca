"""OpenAI Responses, as OpenAI, Azure, OpenRouter, vLLM, Ollama, LM Studio and llama.cpp speak it."""

# what                    where it stands
# ----------------------  ------------------------------------------------------------------------------------------
# cap                     max_output_tokens; there are no stop sequences and no choices
# finish word             `response` of the last event (response.completed, .incomplete, .failed), or the whole answer:
#                         its status, when that is incomplete the reason in incomplete_details
# words                   completed; max_output_tokens (`length` by some), content_filter; failed; cancelled, steered
#                         and new ones fold to `other`; llama.cpp says completed at the cap too
# tool calls              completed with an item of CALLS in `output` folds to tool_calls; a hosted tool's item does not
# not answered yet        a whole answer that is queued or in_progress (`background`): nothing to judge
# usage                   `usage` of that response: output_tokens has output_tokens_details.reasoning_tokens in it
# visible text            output_text, refusal and audio deltas; a message item
# reasoning               reasoning_text deltas, else reasoning_summary_text deltas: the summary tells the text again
# errors in a 200         event error, flat {type, code, message, param} or nested in `error`; response.error
#
# A relabelled turn says so in four places at once: the event's name, `type`, response.status and
# response.incomplete_details. Items keep their own status. Sources: the types of openai 2.x; llama.cpp b11434 recorded.

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Struct

from gateway import splice, sse
from gateway.calls import Call, HeaderList
from gateway.deltas import Content, Delta, Done, Finish, Identity, Reasoning, ToolCall, Usage
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
    NOTHING,
    UNJUDGED,
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

TEXT: Final = "response.output_text.delta"
SHOWN: Final = frozenset((TEXT, "response.refusal.delta", "response.audio.delta", "response.audio.transcript.delta"))
THOUGHT: Final = "response.reasoning_text.delta"
SUMMARY: Final = "response.reasoning_summary_text.delta"
CALLING: Final = frozenset(("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"))
ITEM: Final = "response.output_item.added"
LAST: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
"""The events that end a turn, and the status they stand for."""
ENDED: Final = frozenset((*LAST.values(), "cancelled"))
WAITING: Final = frozenset(("queued", "in_progress"))
CALLS: Final = frozenset((
    "function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call",
    "mcp_approval_request",
))  # fmt: skip
"""Items the caller has to act on: it runs the tool, or allows it. tool_search_call only where the client runs it."""
DRAWN: Final = "image_generation_call"
KNOWN: Final = SHOWN | CALLING | LAST.keys() | {THOUGHT, SUMMARY, ITEM, "error"}
"""Events whose shape is known; others pass, whatever they hold."""
INCOMPLETE: Final[Mapping[Reason, str]] = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Text(Struct):
    """A part of an item: visible text, a refusal, reasoning, or its summary."""

    text: Any = None
    refusal: Any = None


class Item(Struct):
    """One entry of `output`."""

    type: str | None = None
    content: list[Text] | None = None
    summary: list[Text] | None = None
    execution: Any = None


class Response(Struct):
    """The fields of a response, in an event or as the whole answer."""

    id: Any = None
    model: Any = None
    object: Any = None
    status: str | None = None
    incomplete_details: Any = UNSET
    output: list[Item] | None = None
    usage: Any = None
    error: Any = None


class Event(Struct):
    """The fields of an event that a rule looks at; all others are skipped unread."""

    type: str | None = None
    delta: Any = None
    item: Item | None = None
    response: Response | None = None
    code: Any = None
    error: Any = None


class Asked(Struct):
    """The fields of a request that a rule looks at."""

    model: Any = None
    stream: Any = None
    max_output_tokens: Any = None


_json = msgspec.json.encode
_event = reader(Event)
_response = reader(Response)
_asked = reader(Asked)


class Responses(Untouched):
    """Responses."""

    name: ClassVar[DialectName] = "responses"
    finish_rides: ClassVar[FinishRides] = "with_usage"
    differs = blanks("delta|obfuscation", "sequence_number")
    said: ClassVar[dict[Reason, str]] = {"stop": "completed", "error": "failed", **INCOMPLETE}

    def read_call(self, path: str, query: bytes, headers: HeaderList, body: bytes) -> Call:
        """What the caller asked; raises BadRequest when the body is no object or `model` no string."""
        asked = read_object(_asked, body)
        return Call(
            dialect="responses",
            model=text_field("model", asked.model),
            stream=asked.stream is True,
            body=body,
            path=path,
            query=query,
            headers=headers,
            output_cap=usable_cap(asked.max_output_tokens),
            level=level_in("responses", body),
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
        if kind in SHOWN:
            return ANSWER_ONLY if delta else NOTHING
        if kind in (THOUGHT, SUMMARY):
            return [Reasoning(delta, summary=kind == SUMMARY)] if isinstance(delta, str) and delta else NOTHING
        if kind in CALLING or (kind == ITEM and event.item is not None and _calls(event.item)):
            return [ToolCall()]
        if kind is not None and kind in LAST and event.response is not None:
            told = [delta for delta in _output(event.response) if not isinstance(delta, Reasoning)]
            return [*told, *_end(event.response, LAST[kind], data), Done()]
        if kind == "error" or frame.event == b"error" or (kind is None and event.error):
            return [failure(event.error or {"type": event.code}, data)]
        return NOTHING

    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole response says."""
        response = read(_response, body)
        if response.status in WAITING:
            return UNJUDGED
        deltas = [*_output(response), *_end(response, "", body)]
        if not deltas and response.output is None:
            raise Malformed
        return deltas

    def identity(self, data: bytes) -> Identity:
        """Id and model, of a whole response or of an event that holds one."""
        try:
            response = _event(data).response
        except UNREADABLE:
            return Identity()
        return identity(response.id, response.model) if response is not None else read_identity(data)

    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:  # noqa: ARG002 - there is one choice
        """Status and incomplete_details; in an event also its `type` and name."""
        event = _event(data)
        inner: splice.Path = ("response",) if event.response is not None else ()
        response = event.response or _response(data)
        cut = INCOMPLETE.get(reason)
        status = self.said[reason] if cut is None else "incomplete"
        data = splice.put(data, (*inner, "status"), _json(status))
        if cut is not None or response.incomplete_details is not UNSET:
            details = None if cut is None else {"reason": cut}
            data = splice.put(data, (*inner, "incomplete_details"), _json(details))
        if not inner:
            return Relabelled(data)
        name = _json(f"response.{status}")
        return Relabelled(splice.put(data, ("type",), name), name.strip(b'"'))

    def promote(self, body: bytes) -> bytes:
        """A message item behind the reasoning items; those stay, emptied, for the sake of what is encrypted in them."""
        output = _response(body).output or []
        deltas = list(_output(_response(body)))
        text = "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))
        if not text or any(not isinstance(delta, Reasoning) for delta in deltas):
            return body
        for position, item in enumerate(output):
            for field in ("content", "summary"):
                if getattr(item, field):
                    body = splice.replace(body, ("output", position, field), b"[]")
        part = {"type": "output_text", "text": text, "annotations": []}
        head = {"id": f"msg_{read_identity(body).id}", "type": "message", "role": "assistant", "status": "completed"}
        _, end = splice.find(body, ("output",)) or (0, 0)
        return body[: end - 1] + b"," + _json({**head, "content": [part]}) + body[end - 1 :]

    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:  # noqa: ARG002 - see below
        """Nothing: events are numbered without a gap, and the last one holds the whole output again.

        An item put before it would take the number of the event that follows and be missing in what SDKs return.
        """
        return b""

    def error_body(self, error: CallError) -> bytes:
        """`{"error": {message, type, param, code}}`, as OpenAI's own errors."""
        kind = "invalid_request_error" if error.status < 500 else "server_error"  # noqa: PLR2004 - a status class
        return _json({"error": {"message": error.message, "type": kind, "param": None, "code": error.code}})

    def error_event(self, error: CallError) -> bytes:
        """A flat `error` event."""
        said = {"type": "error", "code": error.code, "message": error.message, "param": None, "sequence_number": 0}
        return sse.event(_json(said), b"error")


def _calls(item: Item) -> bool:
    return item.type in CALLS or (item.type == "tool_search_call" and item.execution == "client")


def _output(response: Response) -> Iterator[Delta]:
    """What the items of a response hold."""
    for item in response.output or ():
        if _calls(item):
            yield ToolCall()
        elif item.type == "reasoning":
            content = "".join(_texts(item.content))
            summary = "".join(_texts(item.summary))
            if content or summary:
                yield Reasoning(content or summary, summary=not content)
        elif item.type == DRAWN or any(part.text or part.refusal for part in item.content or ()):
            yield Content()


def _texts(parts: list[Text] | None) -> Iterator[str]:
    return (part.text for part in parts or () if isinstance(part.text, str))


def _end(response: Response, default: str, data: bytes) -> Iterator[Delta]:
    """Finish, failure and usage of a response that has ended."""
    word = response.status if response.status in ENDED else default
    details = response.incomplete_details
    if word == "incomplete":
        told = details.get("reason") if isinstance(details, dict) else None
        word = told if isinstance(told, str) and told not in UNFINISHED else word
    reason = FINISH_WORDS.get(word, "other")
    if reason == "stop" and any(_calls(item) for item in response.output or ()):
        reason = "tool_calls"
    if word:
        yield Finish(word, reason)
    if response.error is not None or response.object == "error" or word == "failed":
        yield failure(response.error, data)
    if isinstance(response.usage, dict):
        yield _usage(response.usage)


def _usage(said: dict[str, Any]) -> Usage:
    outputs, inputs = said.get("output_tokens_details"), said.get("input_tokens_details")
    return Usage(
        output=count(said.get("output_tokens")),
        input=count(said.get("input_tokens")),
        reasoning=count(outputs.get("reasoning_tokens")) if isinstance(outputs, dict) else None,
        cached=count(inputs.get("cached_tokens")) if isinstance(inputs, dict) else None,
    )
