"""A turn as Anthropic Messages tells it."""

from collections.abc import Iterator, Mapping
from typing import Final

from gateway import sse
from gateway.demo.scripts import Fault
from gateway.demo.turn import PROMPT_TOKENS, TOOL, Piece, Turn
from gateway.demo.wire import Json, Step, Wire, dump
from gateway.words import Reason

SAID: Final[Mapping[Reason, str | None]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "missing": None,
}
KINDS: Final = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error", 503: "overloaded_error"}


class MessagesWire(Wire):
    """Events by name; a content block for the thinking, one for the text, one for a tool call."""

    def __init__(self, turn: Turn) -> None:
        """No block is open yet."""
        super().__init__(turn)
        self._blocks = 0
        self._open: str | None = None

    def opening(self) -> Iterator[bytes]:
        """message_start, which counts the prompt."""
        yield _event("message_start", {"message": self._message([], None) | {"usage": self._usage(0)}})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """A delta, and the start of its block where it is the first."""
        match piece.kind:
            case "thought":
                yield from self._block("thinking", {"thinking": "", "signature": ""})
                yield self._delta({"type": "thinking_delta", "thinking": piece.text})
            case "tool":
                yield from self._block("tool_use", self._tool({}))
                yield self._delta({"type": "input_json_delta", "partial_json": TOOL[1]})
            case _:
                yield from self._block("text", {"text": ""})
                yield self._delta({"type": "text_delta", "text": piece.text})

    def closing(self) -> Iterator[Step]:
        """message_delta with word and usage, message_stop."""
        yield b"".join(self._shut())
        usage = {} if self.turn.script.usage == "never" else {"usage": self._usage(self.turn.output_tokens)}
        yield _event("message_delta", {"delta": self._finish()} | usage)
        yield _event("message_stop", {})

    def whole(self) -> Json:
        """A message."""
        (said,) = self.turn.said
        content: list[Json] = []
        if said.thought:
            content.append({"type": "thinking", "thinking": said.thought, "signature": "demo"})
        if said.text:
            content.append({"type": "text", "text": said.text})
        if said.tool:
            content.append({"type": "tool_use"} | self._tool({"where": "sky"}))
        usage = {} if self.turn.script.usage == "never" else {"usage": self._usage(self.turn.output_tokens)}
        return self._message(content, self._finish()) | usage

    @staticmethod
    def error(fault: Fault) -> Json:
        """Anthropic's error object."""
        return {"type": "error", "error": {"type": KINDS.get(fault.status, "api_error"), "message": fault.message}}

    @classmethod
    def error_event(cls, fault: Fault) -> bytes:
        """An event named error."""
        return sse.event(dump(cls.error(fault)), b"error")

    def _message(self, content: list[Json], finish: Json | None) -> Json:
        head = {"id": f"msg_{self.turn.id}", "type": "message", "role": "assistant", "model": self.turn.asked.model}
        return head | {"content": content} | (finish or {"stop_reason": None, "stop_sequence": None})

    def _finish(self) -> Json:
        turn, sequence = self.turn, self.turn.stopped_by
        word = "stop_sequence" if sequence is not None else turn.script.word or SAID.get(turn.reason)
        return {"stop_reason": word, "stop_sequence": sequence}

    def _block(self, kind: str, start: Json) -> Iterator[bytes]:
        if self._open == kind:
            return
        yield from self._shut()
        self._open = kind
        yield _event("content_block_start", {"index": self._blocks, "content_block": {"type": kind} | start})

    def _delta(self, delta: Json) -> bytes:
        return _event("content_block_delta", {"index": self._blocks, "delta": delta})

    def _shut(self) -> Iterator[bytes]:
        if self._open == "thinking":
            yield self._delta({"type": "signature_delta", "signature": "demo"})
        if self._open is not None:
            yield _event("content_block_stop", {"index": self._blocks})
            self._open, self._blocks = None, self._blocks + 1

    def _tool(self, arguments: Json) -> Json:
        return {"id": f"toolu_{self.turn.id}", "name": TOOL[0], "input": arguments}

    def _usage(self, output: int) -> Json:
        return {"input_tokens": PROMPT_TOKENS, "output_tokens": output}


def _event(name: str, data: Json) -> bytes:
    return sse.event(dump({"type": name} | data), name.encode())
