"""A turn as Chat Completions tells it."""

from collections.abc import Iterator
from typing import Final

from gateway import sse
from gateway.demo.scripts import Fault
from gateway.demo.turn import PROMPT_TOKENS, TOOL, Piece, Said
from gateway.demo.wire import NOW, Json, Step, Wire, dump

SAID: Final = {"error": "error", "other": "other"} | {
    word: word for word in ("stop", "length", "tool_calls", "content_filter")
}


class ChatWire(Wire):
    """Chunks: a role, the tokens, a finish frame for each choice, then the usage where it was asked for, `[DONE]`."""

    def opening(self) -> Iterator[bytes]:
        """The role of each choice."""
        for choice in range(self.turn.asked.choices):
            yield self._chunk(choice, {"role": "assistant", "content": None})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """One chunk."""
        match piece.kind:
            case "thought":
                delta: Json = {"reasoning_content": piece.text}
            case "tool":
                delta = {"tool_calls": [{"index": 0} | self._tool()]}
            case _:
                delta = {"content": piece.text}
        yield self._chunk(piece.choice, delta)

    def closing(self) -> Iterator[Step]:
        """Finish frames, then the usage in the way the script has it."""
        script, asked = self.turn.script, self.turn.asked
        for choice in range(asked.choices):
            last = choice == asked.choices - 1
            usage = self._usage() if script.usage == "with_finish" and last else None
            if self.turn.reason != "missing":
                yield self._chunk(choice, {}, finish=True, usage=usage)
        if script.usage == "late":
            yield script.late
        if script.usage in {"after", "late"} and asked.usage:
            yield sse.event(dump(self._head("chat.completion.chunk") | {"choices": [], "usage": self._usage()}))
        yield sse.event(b"[DONE]")

    def whole(self) -> Json:
        """A chat.completion."""
        choices = [
            {"index": index, "message": self._message(said)} | self._finish()
            for index, said in enumerate(self.turn.said)
        ]
        usage = {} if self.turn.script.usage == "never" else {"usage": self._usage()}
        return self._head("chat.completion") | {"choices": choices} | usage

    @staticmethod
    def error(fault: Fault) -> Json:
        """OpenAI's error object."""
        kind = "invalid_request_error" if fault.status in range(400, 500) else "server_error"
        return {"error": {"message": fault.message, "type": kind, "param": None, "code": None}}

    def _chunk(self, choice: int, delta: Json, *, finish: bool = False, usage: Json | None = None) -> bytes:
        said: Json = {"index": choice, "delta": delta, "finish_reason": None} | (self._finish() if finish else {})
        chunk = self._head("chat.completion.chunk") | {"choices": [said]}
        if usage is not None:
            chunk["usage"] = usage
        if self.turn.asked.timings:
            chunk["timings"] = {"prompt_n": PROMPT_TOKENS, "predicted_n": self.turn.output_tokens}
        return sse.event(dump(chunk))

    def _head(self, kind: str) -> Json:
        return {"id": f"chatcmpl-{self.turn.id}", "object": kind, "created": NOW, "model": self.turn.asked.model}

    def _finish(self) -> Json:
        turn = self.turn
        word = None if turn.reason == "missing" else turn.script.word or SAID[turn.reason]
        return {"finish_reason": word} | ({"stop_reason": turn.stopped_by} if turn.script.evidence else {})

    def _message(self, said: Said) -> Json:
        message: Json = {"role": "assistant", "content": said.text or None}
        if said.thought:
            message["reasoning_content"] = said.thought
        if said.tool:
            message["tool_calls"] = [self._tool()]
        return message

    def _tool(self) -> Json:
        name, arguments = TOOL
        return {"id": f"call_{self.turn.id}", "type": "function", "function": {"name": name, "arguments": arguments}}

    def _usage(self) -> Json:
        turn = self.turn
        return {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": turn.output_tokens,
            "total_tokens": PROMPT_TOKENS + turn.output_tokens,
            "completion_tokens_details": {"reasoning_tokens": turn.thought_tokens},
        }
