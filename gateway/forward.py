"""A path no rule looks at: forwarded as it is, streamed both ways, counted once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from gateway.bodies import coding_of, decoded, redacted
from gateway.caller import Caller, new_id
from gateway.calls import HeaderList, header
from gateway.context import Door
from gateway.delivery import GOOD
from gateway.errors import BadRequest, UpstreamBroken, UpstreamError
from gateway.events import AttemptAnswered, AttemptEnded, AttemptStarted, CallFailed, CallFinished, Ending, Observer
from gateway.exchange import fault_of
from gateway.headers import to_caller, to_upstream
from gateway.pump import pour
from gateway.upstream import Upstream, UpstreamAnswer
from gateway.words import UpstreamFault

AT_ONCE: Final = 1024 * 1024
"""A request body of at most this many bytes is read before it goes on; a larger one streams."""
NOT_MODIFIED: Final = range(304, 305)


class Forwarding:
    """One such call."""

    def __init__(self, method: str, headers: HeaderList, upstream: Upstream, door: Door) -> None:
        """Take all that is known before the first byte goes out."""
        self._method, self._headers, self._upstream, self._door = method, headers, upstream, door

    async def run(self, caller: Caller, observer: Observer) -> Ending:
        """Send the request and bring back the answer. Raises CallError while nothing has gone out yet."""
        upstream = self._upstream
        observer.note(
            AttemptStarted(kind="forward", number=1, method=self._method, host=upstream.host, port=upstream.port)
        )
        fault: UpstreamFault | None = None
        status: int | None = None
        try:
            async with _closing(await self._send(caller, observer)) as answer:
                observer.note(AttemptAnswered(answer.status))
                status, fault = answer.status, fault_of(answer.status)
                if answer.status in NOT_MODIFIED:
                    fault = None
                return await self._bring(answer, caller)
        except UpstreamError as error:
            fault = error.fault
            if caller.status is None:
                raise
            outcome = "stream_error" if isinstance(error, UpstreamBroken) else error.outcome
            return CallFailed(outcome=outcome, status=caller.status, code=error.code)
        finally:
            observer.note(AttemptEnded(kind="forward", number=1, status=status, fault=fault))

    async def _send(self, caller: Caller, observer: Observer) -> UpstreamAnswer:
        door, upstream = self._door, self._upstream
        own = door.own + (observer.trace_headers() if upstream.terms.forward_trace else ())
        headers = to_upstream(self._headers, judged=upstream.terms.secret is not None, drop=door.drop, own=own)
        length = header(self._headers, b"content-length")
        if length is not None and not (length.isdigit() and len(length) < 16):  # noqa: PLR2004 - digits of a petabyte
            raise BadRequest("header content-length must be one integer")
        if length is None and header(self._headers, b"transfer-encoding") is None:
            caller.watch()
            return await upstream.send(self._method, door.target, headers, b"")
        if length is not None and int(length) <= AT_ONCE:
            body = await caller.body(AT_ONCE)
            caller.watch()
            return await upstream.send(self._method, door.target, headers, body)
        if length is not None:
            headers.append((b"content-length", length))
        task = asyncio.current_task()

        async def upload() -> AsyncIterator[bytes]:
            async for part in caller.parts(task):
                yield part
            caller.watch(task)

        return await upstream.send(self._method, door.target, headers, upload())

    async def _bring(self, answer: UpstreamAnswer, caller: Caller) -> Ending:
        secret = self._upstream.terms.secret
        good = answer.status in GOOD or answer.status in NOT_MODIFIED
        chunks = answer.chunks()
        if secret is not None and (coding := coding_of(answer)) is not None:
            chunks = decoded(answer, coding)
        headers = to_caller(answer.headers, decoded=chunks is not answer, length=None, secret=secret)
        if secret is not None and not good:
            chunks = redacted(chunks, secret)
        if answer.status in NOT_MODIFIED or chunks is not answer:  # no longer, or never, the length of what goes out
            headers = [pair for pair in headers if pair[0] != b"content-length"]
        if header(answer.headers, b"x-request-id") is None:
            headers.append((b"x-request-id", new_id()))
        await caller.start(answer.status, headers)
        await pour(chunks, caller)
        await caller.end()
        return CallFinished(outcome="ok" if good else "upstream_error", status=answer.status)


class _closing:  # noqa: N801 - reads as a word, like contextlib.aclosing
    """An answer whose connection goes in every path, also when the caller's leaving comes twice."""

    def __init__(self, answer: UpstreamAnswer) -> None:
        self._answer = answer

    async def __aenter__(self) -> UpstreamAnswer:
        return self._answer

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self._answer.aclose())
