"""A whole chat completion from its stream, as llama.cpp's server writes one itself.

Whole bodies under a thinking cap are streamed from the upstream, so that the cap can act, and put together here. Order
and presence of the fields are those of the server's own answers to the same requests, streamed and not (b11549); values
stay as they were written, digit for digit. What no stream tells are the logprobs of tokens that have no text of their
own (the end of the thinking, the end of the turn).
"""

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from gateway.sse import Frame
from gateway.surrogates import UNREADABLE, reader

_CHOICES: Final = "choices"
_FIRST_CHOICES: Final = ("usage", "timings")
"""Told once per choice. The server's whole body has those of the first, for all of them."""
_DROPPED: Final = frozenset({_CHOICES, "object", "error", "prompt_progress"})
_ORDER: Final = ("created", "model", "system_fingerprint", "object", "usage", "id")
_TRAILING: Final = "timings"


class _Function(Struct, omit_defaults=True):
    name: str | None = None
    arguments: str | None = None


class _CallPart(Struct):
    index: int = 0
    id: str | None = None
    type: str | None = None
    function: _Function = field(default_factory=_Function)


class _Delta(Struct):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Logprobs(Struct):
    content: list[Raw] | None = None


class _Part(Struct):
    """One choice of one chunk."""

    delta: _Delta
    index: int = 0
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _ToolCall(Struct, omit_defaults=True):
    type: str | None = None
    function: _Function = field(default_factory=_Function)
    id: str | None = None


class _Message(Struct):
    role: str
    content: str
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[_ToolCall] | UnsetType = UNSET


class _Choice(Struct):
    """One choice of the whole body."""

    finish_reason: str | None
    index: int
    message: _Message
    logprobs: _Logprobs | UnsetType = UNSET


class _Growing:
    """One choice on its way."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._role = "assistant"
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _ToolCall] = {}
        self._arguments: dict[int, list[str]] = {}
        self._logprobs: list[Raw] | None = None

    def take(self, part: _Part) -> None:
        """Add what one chunk says of this choice."""
        delta = part.delta
        self._role = delta.role or self._role
        self.finish = part.finish_reason or self.finish
        if delta.content:
            self._content.append(delta.content)
        if delta.reasoning_content:
            self._reasoning.append(delta.reasoning_content)
        for call in delta.tool_calls or ():
            self._take_call(call)
        if part.logprobs is not None and part.logprobs.content is not None:
            self._logprobs = self._logprobs or []
            self._logprobs += [entry.copy() for entry in part.logprobs.content]

    def _take_call(self, part: _CallPart) -> None:
        call = self._calls.setdefault(part.index, _ToolCall())
        call.id, call.type = call.id or part.id, call.type or part.type
        call.function.name = call.function.name or part.function.name
        self._arguments.setdefault(part.index, []).append(part.function.arguments or "")

    def whole(self, index: int) -> _Choice:
        """The choice as the server's own body has it; text that never came is no field, save the visible one."""
        for number, pieces in self._arguments.items():
            self._calls[number].function.arguments = "".join(pieces)
        message = _Message(self._role, "".join(self._content))
        if self._reasoning:
            message.reasoning_content = "".join(self._reasoning)
        if self._calls:
            message.tool_calls = [call for _, call in sorted(self._calls.items())]
        logprobs = UNSET if self._logprobs is None else _Logprobs(self._logprobs)
        return _Choice(self.finish, index, message, logprobs)


_chunk: Final = reader(dict[str, Raw])
_parts: Final = reader(list[_Part])


class Assembler:
    """Put the frames of one stream together. `error` is what came instead of an answer: JSON, as it was written."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self.error: bytes | None = None
        self._choices: dict[int, _Growing] = {}
        self._fields: dict[str, Raw] = {}
        self._speaking = 0

    def feed(self, frame: Frame) -> None:
        """Take one frame. What is no chunk of a chat completion says nothing that a body could hold."""
        try:
            chunk = _chunk(frame.data or b"")
            parts = _parts(bytes(chunk.get(_CHOICES, b"[]")))
        except UNREADABLE:
            return
        if "error" in chunk and bytes(chunk["error"]) != b"null":
            self.error = frame.data
        for part in parts:
            self._choices.setdefault(part.index, _Growing()).take(part)
            self._speaking = part.index
        for name, value in chunk.items():
            of_another = name in _FIRST_CHOICES and self._speaking != 0 and name in self._fields
            if name not in _DROPPED and not of_another:
                self._fields[name] = value.copy()

    def body(self) -> bytes:
        """The whole body: the answer, or the error that came instead, also when it came late."""
        if self.error is not None:
            return self.error
        fields = {**self._fields, "object": Raw(b'"chat.completion"')}
        ahead = {name: fields.pop(name) for name in _ORDER if name in fields}
        behind = {name: fields.pop(name) for name in (_TRAILING,) if name in fields}
        choices = [choice.whole(index) for index, choice in sorted(self._choices.items())]
        return msgspec.json.encode({_CHOICES: choices, **ahead, **fields, **behind})
