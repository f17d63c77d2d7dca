"""A turn as OpenAI's Responses tell it."""

from collections.abc import Iterator
from typing import Final

from gateway import sse
from gateway.demo.scripts import Fault
from gateway.demo.turn import PROMPT_TOKENS, TOOL, Piece, Turn
from gateway.demo.wire import NOW, Json, Step, Wire, dump

INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesWire(Wire):
    """Numbered events by name; an output item for the thinking, one for the text, one for a tool call."""

    def __init__(self, turn: Turn) -> None:
        """No item is open yet."""
        super().__init__(turn)
        self._number = 0
        self._items: list[Json] = []
        self._open: Json | None = None
        self._text = ""

    def opening(self) -> Iterator[bytes]:
        """The response so far: empty."""
        yield self._event("response.created", {"response": self._response("in_progress")})
        yield self._event("response.in_progress", {"response": self._response("in_progress")})

    def piece(self, piece: Piece) -> Iterator[bytes]:
        """A delta, and the start of its item where it is the first."""
        match piece.kind:
            case "thought":
                yield from self._begin(self._reasoning("", "in_progress"))
                yield self._delta("response.reasoning_text.delta", piece.text, content_index=0)
            case "tool":
                yield from self._begin(self._call("", "in_progress"))
                yield self._delta("response.function_call_arguments.delta", TOOL[1])
            case _:
                yield from self._begin(self._message(None, "in_progress"))
                yield self._delta("response.output_text.delta", piece.text, content_index=0, logprobs=[])
        self._text += TOOL[1] if piece.kind == "tool" else piece.text

    def closing(self) -> Iterator[Step]:
        """The whole response, under the name of its status. Without a finish word the stream just ends."""
        yield b"".join(self._end())
        if self.turn.reason != "missing":
            response = self._finished(self._items)
            yield self._event(f"response.{response['status']}", {"response": response})

    def whole(self) -> Json:
        """A response."""
        (said,) = self.turn.said
        items = [self._reasoning(said.thought, None)] if said.thought else []
        items += [self._message(said.text, "completed")] if said.text else []
        return self._finished(items + ([self._call(TOOL[1], "completed")] if said.tool else []))

    @staticmethod
    def error(fault: Fault) -> Json:
        """OpenAI's error object."""
        kind = "invalid_request_error" if fault.status in range(400, 500) else "server_error"
        return {"error": {"message": fault.message, "type": kind, "param": None, "code": None}}

    @classmethod
    def error_event(cls, fault: Fault) -> bytes:
        """An event named error, flat."""
        said = {"type": "error", "code": "server_error", "message": fault.message, "param": None, "sequence_number": 99}
        return sse.event(dump(said), b"error")

    def _begin(self, item: Json) -> Iterator[bytes]:
        if self._open is not None and self._open["type"] == item["type"]:
            return
        yield from self._end()
        self._open = item
        yield self._event("response.output_item.added", {"output_index": len(self._items), "item": item})
        if item["type"] != "function_call":
            yield self._part("added", "")

    def _end(self) -> Iterator[bytes]:
        if self._open is None:
            return
        text, place = self._text, {"item_id": self._open["id"], "output_index": len(self._items)}
        match self._open["type"]:
            case "reasoning":
                yield self._event("response.reasoning_text.done", place | {"content_index": 0, "text": text})
                yield self._part("done", text)
                item = self._reasoning(text, None)
            case "message":
                done = {"content_index": 0, "text": text, "logprobs": []}
                yield self._event("response.output_text.done", place | done)
                yield self._part("done", text)
                item = self._message(text, "completed")
            case _:
                done = {"name": TOOL[0], "arguments": text}
                yield self._event("response.function_call_arguments.done", place | done)
                item = self._call(text, "completed")
        yield self._event("response.output_item.done", {"output_index": len(self._items), "item": item})
        self._items.append(item)
        self._open, self._text = None, ""

    def _event(self, name: str, data: Json) -> bytes:
        self._number += 1
        return sse.event(dump({"type": name, "sequence_number": self._number - 1} | data), name.encode())

    def _delta(self, name: str, delta: str, **more: object) -> bytes:
        place = {"item_id": (self._open or {})["id"], "output_index": len(self._items)}
        return self._event(name, place | more | {"delta": delta})

    def _part(self, what: str, text: str) -> bytes:
        item = self._open or {}
        part = {"type": "reasoning_text", "text": text} if item["type"] == "reasoning" else _text_part(text)
        place = {"item_id": item["id"], "output_index": len(self._items), "content_index": 0}
        return self._event(f"response.content_part.{what}", place | {"part": part})

    def _response(self, status: str, **more: object) -> Json:
        asked = self.turn.asked
        head = {"id": f"resp_{self.turn.id}", "object": "response", "created_at": NOW, "status": status}
        sent: Json = {"model": asked.model, "max_output_tokens": asked.cap, "parallel_tool_calls": True, "tools": []}
        rest: Json = {"error": None, "incomplete_details": None, "output": [], "tool_choice": "auto", "usage": None}
        return head | sent | rest | more

    def _finished(self, items: list[Json]) -> Json:
        turn = self.turn
        usage = None if turn.script.usage == "never" else self._usage()
        details = {"reason": INCOMPLETE[turn.reason]} if turn.reason in INCOMPLETE else None
        status = "in_progress" if turn.reason == "missing" else "incomplete" if details else "completed"
        return self._response(status, output=items, incomplete_details=details, usage=usage)

    def _reasoning(self, text: str, status: str | None) -> Json:
        content = [{"type": "reasoning_text", "text": text}] if text else []
        item = {"id": f"rs_{self.turn.id}", "type": "reasoning", "summary": [], "content": content}
        return item | ({"status": status} if status else {})

    def _message(self, text: str | None, status: str) -> Json:
        content = [_text_part(text)] if text is not None else []
        head = {"id": f"msg_{self.turn.id}", "type": "message", "role": "assistant"}
        return head | {"status": status, "content": content}

    def _call(self, arguments: str, status: str) -> Json:
        ids = {"id": f"fc_{self.turn.id}", "call_id": f"call_{self.turn.id}"}
        return {"type": "function_call", "name": TOOL[0], "arguments": arguments, "status": status} | ids

    def _usage(self) -> Json:
        turn = self.turn
        return {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": turn.thought_tokens},
            "total_tokens": PROMPT_TOKENS + turn.output_tokens,
        }


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
