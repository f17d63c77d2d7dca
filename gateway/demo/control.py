"""llama.cpp's control path, `POST /v1/chat/completions/control`: ends the thinking of a completion that is running.

Statuses, bodies and their order are those of its server b11549, measured; what the call then brings is the script's.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from gateway.demo.turn import Turn
from gateway.demo.wire import Json

HANG_SECONDS: Final = 30.0
"""How long a call that is never answered is kept."""
UNKNOWN: Final = {"success": False, "message": "no active completion for this id"}


class Completions:
    """The turns under way, by the id their streams carry."""

    def __init__(self) -> None:
        """None yet."""
        self._turns: dict[str, Turn] = {}

    @contextmanager
    def running(self, turn: Turn) -> Iterator[None]:
        """The turn is under way."""
        self._turns[turn.id] = turn
        try:
            yield
        finally:
            del self._turns[turn.id]
            turn.thinking_over.set()
            turn.over.set()

    async def control(self, body: bytes) -> tuple[int, Json]:
        """Status and body of the answer to a control call."""
        try:
            order = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return _refused("the body is no JSON")
        completion = order.get("id") if isinstance(order, dict) else None
        if not isinstance(completion, str) or not completion:
            return _refused("missing completion id")
        if order.get("action") != "reasoning_end":
            return _refused("unknown control action")
        turn = self._turns.get(completion.removeprefix("chatcmpl-"))
        return 200, UNKNOWN if turn is None else await _end_reasoning(turn)


async def _end_reasoning(turn: Turn) -> Json:
    if not turn.asked.armed:
        return {"success": False, "message": "reasoning control not enabled for this completion"}
    match turn.script.control:
        case "obeys":
            turn.told_to_answer = True
            return {"success": True}
        case "ignores":
            return {"success": True}
        case "refuses":
            return {"success": False, "message": "reasoning cannot be ended"}
        case "too_late":
            await turn.thinking_over.wait()
            return UNKNOWN
        case "hangs":
            with suppress(TimeoutError):
                await asyncio.wait_for(turn.over.wait(), HANG_SECONDS)
            return UNKNOWN


def _refused(message: str) -> tuple[int, Json]:
    return 400, {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}
