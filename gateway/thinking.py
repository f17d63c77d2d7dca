"""Rule 2 for one call: which way the cap can act here, what that adds to the request, and the control call."""

import asyncio
import time

import msgspec
from msgspec import Struct

from gateway.calls import Call
from gateway.context import Context
from gateway.dialects.base import NOTHING_ADDED, Additions
from gateway.dialects.budgets import write_budget
from gateway.errors import UpstreamError
from gateway.events import AttemptEnded, AttemptStarted, EndReasoningAnswered
from gateway.memory import Memory
from gateway.policy import Policy
from gateway.rules.thinking_cap import ThinkingCap
from gateway.words import EndResult, Method, UpstreamFault

OK, NOT_FOUND = 200, 404
REPLY_BYTES = 64 * 1024
"""A control call's reply is a line; more is no reply."""


class Armed(Struct, frozen=True, kw_only=True):
    """How a call goes out. `assembled`: a whole answer is streamed upstream, so that the cap can act on it."""

    call: Call
    added: Additions
    method: Method | None = None
    acts: bool = True
    """False: the method cannot act on this call, so the cap is only counted."""
    assembled: bool = False

    @property
    def caused(self) -> Additions:
        """What our asking causes in the answer and the caller did not ask for: it is taken out again."""
        if self.assembled:
            return NOTHING_ADDED
        return Additions(usage=self.added.usage, control=self.added.control and not self.call.wants_timings)

    def cap(self, policy: Policy) -> ThinkingCap | None:
        """A fresh machine for one attempt."""
        thinking = policy.thinking
        if thinking is None or self.method is None:
            return None
        cap = ThinkingCap(thinking.cap, thinking.overrun, self.method, policy.output_cap.choices)
        if not self.acts:
            cap.unable()
        return cap


def arm(call: Call, policy: Policy, memory: Memory) -> Armed:
    """Take the first method that can act on this call; where none can, the last one counts."""
    usage = call.stream and policy.ask_usage and not call.wants_usage
    plain = Armed(call=call, added=Additions(usage=usage))
    thinking = policy.thinking
    if thinking is None:
        return plain
    for method in thinking.methods:
        armed = _try(method, call, policy, memory, plain.added)
        if armed is not None:
            return armed
    return msgspec.structs.replace(plain, method=thinking.methods[-1], acts=False)


def _try(method: Method, call: Call, policy: Policy, memory: Memory, added: Additions) -> Armed | None:
    choices = policy.output_cap.choices
    if method == "watch":
        return Armed(call=call, added=added, method="watch")
    if method == "give_up":
        return Armed(call=call, added=added, method="give_up") if call.stream and choices == 1 else None
    if method == "budget":
        cap = policy.thinking.cap if policy.thinking is not None else 0
        body = write_budget(call.dialect, policy.provider, call.body, cap, model=call.model)
        return (
            None if body is None else Armed(call=msgspec.structs.replace(call, body=body), added=added, method="budget")
        )
    if call.dialect != "chat" or not memory.has_control(policy.upstream):
        return None
    if choices > 1:  # it would end the first choice alone (measured): none is ended, and it counts
        return Armed(call=call, added=added, method="control", acts=False)
    if call.stream:
        return Armed(call=call, added=msgspec.structs.replace(added, control=True), method="control")
    return Armed(call=call, added=Additions(control=True, stream=True), method="control", assembled=True)


class Control(Struct):
    """The control call of one completion, on a pool of its own, within a time limit of its own."""

    _context: Context

    async def end_reasoning(self, completion: str) -> EndResult:
        """Ask the upstream to end the reasoning. Whatever goes wrong is a refusal with a cause, never an error."""
        note, upstream, began = self._context.note, self._context.upstream, time.perf_counter()
        note(AttemptStarted(kind="control", number=1, method="POST", host=upstream.host, port=upstream.port))
        status: int | None = None
        fault: UpstreamFault | None = None
        result: EndResult = "error"
        body = msgspec.json.encode({"id": completion, "action": "reasoning_end", "model": self._context.call.model})
        try:
            async with asyncio.timeout(upstream.terms.control_timeout):
                status, reply = await self._ask(body)
            result = read_reply(status, reply)
        except TimeoutError:
            result, fault = "timeout", "timeout"
        except UpstreamError as error:
            result, fault = ("timeout" if error.fault == "timeout" else "error"), error.fault
        finally:
            note(AttemptEnded(kind="control", number=1, status=status, fault=fault))
        if status == NOT_FOUND:
            self._context.memory.no_control(upstream.terms.name)
        note(EndReasoningAnswered(result, time.perf_counter() - began))
        return result

    async def _ask(self, body: bytes) -> tuple[int, bytes]:
        headers = [pair for pair in self._context.headers() if pair[0] != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        answer = await self._context.upstream.send(
            "POST", self._context.door.path + b"/control", headers, body, beside=True
        )
        try:
            reply = b""
            async for chunk in answer.chunks():
                reply += chunk
                if len(reply) > REPLY_BYTES:
                    break
            return answer.status, reply
        finally:
            await asyncio.shield(answer.aclose())


def read_reply(status: int, reply: bytes) -> EndResult:
    """A reply of llama.cpp's control path: `{"success": true}` means live and armed, and no more than that."""
    if status != OK:
        return "refused"
    try:
        said = msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "error"
    success = said.get("success") if isinstance(said, dict) else None
    if not isinstance(success, bool):
        return "error"
    return "ended" if success else "refused"
