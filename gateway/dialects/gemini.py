"""Gemini generateContent, as the Gemini API, Vertex and their proxies speak it."""

# what                    where it stands
# ----------------------  ------------------------------------------------------------------------------------------
# model, stream           in the path: models/MODEL:generateContent, :streamGenerateContent
# cap                     generationConfig.maxOutputTokens; all of it in camel or in snake case
# stop sequences          generationConfig.stopSequences[]; an answer never says which one ended it
# choices                 generationConfig.candidateCount
# finish word             candidates[].finishReason, on the last event or on every one: the last one counts
# words                   BLOCKED, BROKEN and CUT below beside those of base.py; OTHER and new ones fold to `other`;
#                         while FINISH_REASON_UNSPECIFIED is no word yet
# a blocked prompt        promptFeedback.blockReason without candidates: the turn ends as content_filter
# reasoning               parts with thought: true
# usage                   usageMetadata, on any event, running: the last value replaces
# output                  candidatesTokenCount + thoughtsTokenCount, either may be absent; both absent and nothing but
#                         the prompt in totalTokenCount: 0
# input                   promptTokenCount (what the cache had is in it) + toolUsePromptTokenCount
# tool calls              functionCall; toolCall and toolResponse are the server's own
# errors in a 200         {"error": {code, message, status}}
#
# A stream without ?alt=sse is one JSON array. No rule acts in it: it passes as it comes and its turn is not judged.
# Sources: the types of google-genai 1.x to 3.x and their docstrings.

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct, field

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
    usable_cap,
)
from gateway.dialects.levels import level_in
from gateway.dialects.reading import (
    ANSWER_ONLY,
    DONE,
    DONE_ONLY,
    UNJUDGED,
    Untouched,
    error_alone,
    identity,
    read,
)
from gateway.errors import CallError
from gateway.surrogates import UNREADABLE, decoded, reader
from gateway.words import DialectName, Reason

BLOCKED: Final = "IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION MODEL_ARMOR ESCALATION JAILBREAK"
BROKEN: Final = "UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE"
CUT: Final = "CONTINUATION"
WORDS: Final[Mapping[str, Reason]] = {
    **FINISH_WORDS,
    **dict.fromkeys(BLOCKED.split(), "content_filter"),
    **dict.fromkeys(BROKEN.split(), "error"),
    **dict.fromkeys(CUT.split(), "length"),
}
NOT_FINISHED: Final = UNFINISHED | {"FINISH_REASON_UNSPECIFIED"}
NOT_BLOCKED: Final = UNFINISHED | {"BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED"}
BLOCK_WORD: Final = "blockReason:"
"""Stands before the raw word of a blocked prompt: it is no finish word, and no operator's map can rewrite it."""
EVENTS: Final = frozenset((b"alt=sse", b"$alt=sse", b"%24alt=sse"))
"""Queries that ask for a stream of events."""


class Part(Struct, rename="camel"):
    """One entry of `content.parts`."""

    text: Any = None
    thought: Any = None
    function_call: Any = None
    inline_data: Any = None
    file_data: Any = None
    executable_code: Any = None
    code_execution_result: Any = None


class Parts(Struct):
    """`content` of a candidate."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel"):
    """One entry of `candidates`."""

    index: Any = None
    content: Parts | None = None
    finish_reason: Any = None


class Counts(Struct, rename="camel"):
    """`usageMetadata`."""

    prompt_token_count: Any = None
    tool_use_prompt_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    cached_content_token_count: Any = None
    total_token_count: Any = None


class Answer(Struct, rename="camel"):
    """The fields of an event or of a whole answer that a rule looks at; all others are skipped unread."""

    candidates: list[Candidate] | None = None
    usage_metadata: Counts | None = None
    prompt_feedback: Any = None
    error: Any = None


class Head(Struct, rename="camel"):
    """Who answered."""

    response_id: Any = None
    model_version: Any = None


class Asked(Struct):
    """The fields of a request that a rule looks at."""

    camel: Any = field(name="generationConfig", default=None)
    snake: Any = field(name="generation_config", default=None)


_COLON: Final = re.compile(r"%3[aA](?=\w+$)")
"""Between model and action, as some clients escape it."""
_answer = reader(Answer)
_head = reader(Head)
_asked = reader(Asked)


class Gemini(Untouched):
    """generateContent and streamGenerateContent."""

    name: ClassVar[DialectName] = "gemini"
    operation: ClassVar[str] = "generate_content"
    finish_rides: ClassVar[FinishRides] = "every_frame"
    said: ClassVar[dict[Reason, str]] = {
        "stop": "STOP",
        "length": "MAX_TOKENS",
        "content_filter": "SAFETY",
        "error": "OTHER",
    }

    def read_call(self, path: str, query: bytes, headers: HeaderList, body: bytes) -> Call:
        """What the caller asked; raises BadRequest when the body is no object."""
        asked = read_object(_asked, body)
        model, _, action = _COLON.sub(":", path.rpartition("/")[2]).partition(":")
        stream = action == "streamGenerateContent"
        return Call(
            dialect="gemini",
            model=unquote(model),
            stream=stream,
            events=not stream or not EVENTS.isdisjoint(query.split(b"&")),
            body=body,
            path=path,
            query=query,
            headers=headers,
            output_cap=usable_cap(_setting(asked, "maxOutputTokens", "max_output_tokens")),
            level=level_in("gemini", body),
            stop_sequences=bool(_setting(asked, "stopSequences", "stop_sequences")),
            choices=max(1, count(_setting(asked, "candidateCount", "candidate_count")) or 1),
            wishes=read_wishes(headers),
        )

    def read_frame(self, frame: sse.Frame) -> Sequence[Delta]:
        """What one event says."""
        data = frame.data or b""
        try:
            return _read(_answer(data), data)
        except UNREADABLE as error:
            if data.strip() == DONE:
                return DONE_ONLY
            raise Malformed from error

    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole answer says. An array is a stream without events: it is not judged, save for an error alone."""
        if body.lstrip().startswith(b"["):
            return error_alone(body) or UNJUDGED
        answer = read(_answer, body)
        deltas = _read(answer, body)
        if not deltas and answer.candidates is None:
            raise Malformed
        return deltas

    def identity(self, data: bytes) -> Identity:
        """`responseId` and `modelVersion`."""
        try:
            head = _head(data)
        except UNREADABLE:
            return Identity()
        return identity(head.response_id, head.model_version)

    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:
        """`candidates[].finishReason` of the candidate with that index; a blocked prompt has none and stays."""
        indices = [_index(candidate, place) for place, candidate in enumerate(_answer(data).candidates or ())]
        if choice not in indices:
            return Relabelled(data)
        place = ("candidates", indices.index(choice), "finishReason")
        return Relabelled(splice.replace(data, place, msgspec.json.encode(self.said[reason])))

    def promote(self, body: bytes) -> bytes:
        """The thoughts of every candidate that has nothing else become parts without `thought`."""
        for position, candidate in enumerate(_answer(body).candidates or ()):
            parts = candidate.content.parts or [] if candidate.content is not None else []
            if any(_part(part, 0) and part.thought is not True for part in parts):
                continue
            for number, part in enumerate(parts):
                if part.thought is True:
                    body = splice.remove(body, ("candidates", position, "content", "parts", number, "thought"))
        return body

    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:  # noqa: ARG002 - parts have no number
        """An event with one part of text, and id and model of the event that ends the turn."""
        whole = decoded(like)
        head = {key: whole[key] for key in ("responseId", "modelVersion") if key in whole}
        candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
        return sse.event(msgspec.json.encode({"candidates": [candidate], **head}))

    def error_body(self, error: CallError) -> bytes:
        """Google's error object: the HTTP status as `code`, ours as `status` in capitals and in `details[].reason`."""
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": error.code, "domain": "thinkcap"}
        said = {"code": error.status, "message": error.message, "status": error.code.upper(), "details": [info]}
        return msgspec.json.encode({"error": said})

    def error_event(self, error: CallError) -> bytes:
        """The same object as an event."""
        return sse.event(self.error_body(error))


def _setting(asked: Asked, camel: str, snake: str) -> Any:
    """A field of the generation config, in the spelling that is there."""
    configs = (config for config in (asked.camel, asked.snake) if isinstance(config, dict))
    values = (config.get(name) for config in configs for name in (camel, snake))
    return next((value for value in values if value is not None), None)


def _read(answer: Answer, data: bytes) -> Sequence[Delta]:
    deltas: list[Delta] = []
    for position, candidate in enumerate(answer.candidates or ()):
        index = _index(candidate, position)
        for part in (candidate.content.parts or ()) if candidate.content is not None else ():
            deltas.extend(_part(part, index))
        word = candidate.finish_reason
        if isinstance(word, str) and word not in NOT_FINISHED:
            deltas.append(Finish(word, WORDS.get(word, "other"), choice=index))
    if not answer.candidates and isinstance(answer.prompt_feedback, dict):
        blocked = answer.prompt_feedback.get("blockReason")
        if isinstance(blocked, str) and blocked not in NOT_BLOCKED:
            deltas.append(Finish(BLOCK_WORD + blocked, "content_filter"))
    if answer.error is not None:
        deltas.append(failure(answer.error, data))
    if answer.usage_metadata is not None:
        deltas.append(_usage(answer.usage_metadata))
    return deltas


def _index(candidate: Candidate, position: int) -> int:
    """The candidate's number; an index of 0 is often left out, as are all defaults in this JSON."""
    return candidate.index if type(candidate.index) is int else position


def _part(part: Part, index: int) -> Sequence[Delta]:
    text = part.text
    if isinstance(text, str) and text:
        if part.thought is True:
            return (Reasoning(text, choice=index),)
        return (Content(index),) if index else ANSWER_ONLY
    if part.function_call is not None:
        return (ToolCall(index),)
    shown = part.inline_data or part.file_data or part.executable_code or part.code_execution_result
    return (Content(index),) if shown and part.thought is not True else ()


def _usage(said: Counts) -> Usage:
    prompt, tools = count(said.prompt_token_count), count(said.tool_use_prompt_token_count)
    told = prompt if tools is None else (prompt or 0) + tools
    answer, thoughts = count(said.candidates_token_count), count(said.thoughts_token_count)
    given = [n for n in (said.candidates_token_count, said.thoughts_token_count) if n is not None]
    output: int | None = None
    if given:
        output = (answer or 0) + (thoughts or 0) if None not in map(count, given) else None
    elif told is not None and said.total_token_count == told:
        output = 0
    return Usage(output, told, thoughts, count(said.cached_content_token_count))
