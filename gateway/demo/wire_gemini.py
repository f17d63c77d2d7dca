"""A turn as Gemini's generateContent tells it."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from gateway import sse
from gateway.demo.scripts import Fault
from gateway.demo.turn import PROMPT_TOKENS, TOOL, Piece, Said
from gateway.demo.wire import STATUS_WORDS, Json, Step, Wire, dump
from gateway.words import Reason

SAID: Final[Mapping[Reason, str]] = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",  # it has no word of its own for tool calls
    "content_filter": "SAFETY",
}


class GeminiWire(Wire):
    """Events that are small answers each; the last one carries the finish words and the usage."""

    def opening(self) -> Iterator[bytes]:
        """Nothing comes before the first token."""
        yield b""

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """One event with one part."""
        match piece.kind:
            case "thought":
                part: Json = {"text": piece.text, "thought": True}
            case "tool":
                part = self._tool()
            case _:
                part = {"text": piece.text}
        yield self._event([self._candidate(piece.choice, [part], finish=False)])

    def closing(self) -> Iterator[Step]:
        """One event with the finish words and the usage."""
        candidates = [self._candidate(choice, [{"text": ""}], finish=True) for choice in range(self.turn.asked.choices)]
        yield self._event(candidates, last=True)

    def whole(self) -> Json:
        """One answer."""
        candidates = [
            self._candidate(index, self._parts(said), finish=True) for index, said in enumerate(self.turn.said)
        ]
        return self._answer(candidates, last=True)

    @staticmethod
    def error(fault: Fault) -> Json:
        """Google's error object."""
        word = STATUS_WORDS.get(fault.status, "INTERNAL")
        return {"error": {"code": fault.status, "message": fault.message, "status": word}}

    def _event(self, candidates: list[Json], *, last: bool = False) -> bytes:
        return sse.event(dump(self._answer(candidates, last=last)))

    def _answer(self, candidates: list[Json], *, last: bool) -> Json:
        answer: Json = {"candidates": candidates}
        if last and self.turn.script.usage != "never":
            answer["usageMetadata"] = self._usage()
        return answer | {"modelVersion": self.turn.asked.model, "responseId": self.turn.id}

    def _candidate(self, index: int, parts: list[Json], *, finish: bool) -> Json:
        candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": index}
        if finish and self.turn.reason != "missing":
            word = self.turn.script.word
            candidate["finishReason"] = word.upper() if word else SAID[self.turn.reason]
        return candidate

    def _parts(self, said: Said) -> list[Json]:
        parts: list[Json] = [{"text": said.thought, "thought": True}] if said.thought else []
        parts += [{"text": said.text}] if said.text else []
        return parts + ([self._tool()] if said.tool else [])

    def _tool(self) -> Json:
        name, arguments = TOOL
        return {"functionCall": {"name": name, "args": msgspec.json.decode(arguments)}}

    def _usage(self) -> Json:
        turn = self.turn
        usage = {
            "promptTokenCount": PROMPT_TOKENS,
            "candidatesTokenCount": turn.output_tokens - turn.thought_tokens,
            "totalTokenCount": PROMPT_TOKENS + turn.output_tokens,
        }
        return usage | ({"thoughtsTokenCount": turn.thought_tokens} if turn.thought_tokens else {})
