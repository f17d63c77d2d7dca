"""The log: one JSON line per named fact and one per ended call, on stderr. No content, no key, no query, no path.

Nothing is logged per frame. The model stands as the caller wrote it, bounded, for whoever looks for a typing error.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any, BinaryIO, ClassVar, cast

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from gateway.events import NAMED, CallAbandoned, CallFailed, CallFinished, Ending, Named, Turn, attributes
from telemetry.labels import bounded, count, plain
from telemetry.state import CallState, On

_encode = msgspec.json.Encoder().encode


class OncePerTurn:
    """A binary stream that is written to once per turn of the event loop, however many lines the turn brought.

    A line a call is a system call a call; calls that end together share one. Outside a loop each goes out at once.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Stand before a stream."""
        self._stream = stream
        self._waiting: list[bytes] = []
        self._lock = Lock()  # the sender of spans warns from a thread of its own

    def write(self, data: bytes) -> int:
        """Write, at the end of this turn."""
        with self._lock:
            self._waiting.append(data)
            first = len(self._waiting) == 1
        if first:
            try:
                asyncio.get_running_loop().call_soon(self._write_out)
            except RuntimeError:  # no loop runs in this thread
                self._write_out()
        return len(data)

    def flush(self) -> None:
        """Lines go out by themselves."""

    def _write_out(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._stream.write(b"".join(waiting))
            self._stream.flush()


def json_log(stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """A logger that writes one JSON object a line to a binary stream (stderr by default)."""
    logger = structlog.wrap_logger(
        structlog.BytesLogger(stream or cast("BinaryIO", OncePerTurn(sys.stderr.buffer))),
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        context_class=dict,
    )
    return cast("FilteringBoundLogger", logger.bind())  # bound once: the lazy proxy would bind again for every line


def _render(_logger: object, severity: str, line: Mapping[str, Any]) -> bytes:
    """Event, time and severity first; what is not known is left out."""
    head = {"event": line["event"], "time": datetime.now(UTC), "severity": severity}
    return _encode(head | {key: value for key, value in line.items() if value is not None})


class CallLog:
    """Writes the lines of one call."""

    __slots__ = ("_at", "_log")

    def __init__(self, log: FilteringBoundLogger, state: CallState) -> None:
        """Write to this log what this state does not know already."""
        self._log, self._at = log, state

    @property
    def _raw_model(self) -> str | None:
        routed = self._at.routed
        return bounded(routed.call.model) if routed is not None and routed.call is not None else None

    def _on_named(self, fact: Named) -> None:
        at = self._at
        self._log.info(
            fact.name,
            trace_id=at.trace_id,
            upstream=at.upstream,
            model=self._raw_model,
            purpose=at.purpose,
            **plain(attributes(fact)),
        )

    def _on_ended(self, fact: Ending) -> None:
        at, turn = self._at, fact.turn
        finished = {} if turn is None else _totals(turn)
        first = None if at.first_token is None else round(at.first_token - at.received, 6)
        self._log.info(
            "call.ended",
            trace_id=at.trace_id,
            method=bounded(at.started.method),
            route=bounded(at.started.route),
            dialect=at.dialect,
            upstream=at.upstream,
            model=self._raw_model,
            purpose=at.purpose,
            outcome="client_gone" if isinstance(fact, CallAbandoned) else fact.outcome,
            status=fact.status,
            code=fact.code if isinstance(fact, CallFailed) else None,
            seconds=round(at.elapsed, 6),
            first_token_seconds=first,
            **finished,
        )

    on: ClassVar[On] = dict.fromkeys(NAMED, _on_named) | {
        CallFinished: _on_ended,
        CallFailed: _on_ended,
        CallAbandoned: _on_ended,
    }


def _totals(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    return {
        "reported": turn.reported,
        "returned": turn.returned,
        "verdict": turn.verdict,
        "output_cap": count(turn.output_cap),
        "input_tokens": count(usage.input) if usage is not None else None,
        "output_tokens": count(usage.output) if usage is not None else None,
        "reasoning_tokens": count(turn.reasoning_tokens),
        "thinking_outcome": turn.thinking_outcome,
        "tokens_past_cap": count(turn.past_cap),
    }


class SdkWarnings(logging.Handler):
    """Brings the warnings of the tracing SDK, which speaks through `logging`, into the one JSON log."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        """Write to this log."""
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line a record, bounded: the text names the receiver, never a span's content."""
        try:
            self._log.warning("tracing.trouble", logger=record.name, says=bounded(record.getMessage()))
        except Exception:  # noqa: BLE001 - as every logging handler: a log that cannot be written stops nobody
            self.handleError(record)
