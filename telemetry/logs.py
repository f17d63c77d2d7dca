"""The log: one JSON line per named fact and one per ended call, on stderr. No content, no key, no query, no path.

Nothing is logged per frame. The model stands as the caller wrote it, bounded, for whoever looks for a typing error.
"""

import asyncio
import atexit
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import get_ident
from typing import Any, BinaryIO, Final, cast

import msgspec
import structlog
from msgspec import Struct, to_builtins
from structlog.typing import FilteringBoundLogger

from gateway.events import NAMED, CallAbandoned, CallFailed, CallFinished, Ending, Named, attributes
from telemetry.labels import bounded, count, plain
from telemetry.state import CallState, Handler

MOMENT_SECONDS: Final = 0.01
"""How long a line of the log may wait for others to go out with."""
_encode: Final = msgspec.json.Encoder().encode
_Filtering: Final = structlog.make_filtering_bound_logger(logging.INFO)


class Lines:
    """Writes lines to a binary stream: each at once or, in an event loop, those of a moment together.

    A line a call is a system call a call, which costs as much as all the counters do; under load the calls of a
    hundredth of a second share one.
    """

    def __init__(self, stream: BinaryIO, moment: float = 0.0) -> None:
        """`moment`: seconds a line may wait for others."""
        self._stream, self._moment = stream, moment
        self._waiting: list[bytes] = []
        """Only the thread of the loop comes here: what others say, as the sender of spans, goes out at once."""
        self._thread = 0
        """Whose loop will write what waits."""

    def msg(self, line: bytes) -> None:
        """Write a line."""
        if self._waiting and get_ident() == self._thread:  # to ask for the loop costs a system call
            self._waiting += (line, b"\n")
            return
        try:
            loop = asyncio.get_running_loop() if self._moment else None
        except RuntimeError:  # no loop runs in this thread
            loop = None
        if loop is None:
            self._write(line + b"\n")
            return
        loop.call_later(self._moment, self.flush)
        self._thread = get_ident()
        self._waiting += (line, b"\n")

    info = warning = error = critical = msg

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write(b"".join(waiting))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()


class JsonLog(_Filtering):  # type: ignore[misc, valid-type]  # structlog makes the class
    """structlog's logger; a line that is one value of ours does without its pipeline."""

    def line(self, said: Struct) -> None:
        """Write it."""
        self._logger.msg(_encode(said))


def json_log(stream: BinaryIO | None = None) -> FilteringBoundLogger:
    """A logger that writes one JSON object a line to a binary stream (stderr by default)."""
    if stream is not None:
        lines = Lines(stream)
    else:
        lines = Lines(sys.stderr.buffer, MOMENT_SECONDS)
        atexit.register(lines.flush)  # the loop is closed by then, and its timers with it
    logger = structlog.wrap_logger(lines, processors=[_render], wrapper_class=JsonLog, context_class=dict)
    return cast("FilteringBoundLogger", logger.bind())  # bound once: the lazy proxy would bind again for every line


def _render(_logger: object, severity: str, line: Mapping[str, Any]) -> bytes:
    """Event, time and severity first; what is not known is left out."""
    head = {"event": line["event"], "time": datetime.now(UTC), "severity": severity}
    return _encode(head | {key: value for key, value in line.items() if value is not None})


class Ended(Struct, tag_field="event", tag="call.ended", omit_defaults=True, kw_only=True):
    """The line of a call that ended: who, where, how long and how it went. What is not known is left out."""

    time: datetime
    severity: str
    trace_id: str | None = None
    method: str
    route: str
    dialect: str
    upstream: str
    model: str | None = None
    purpose: str
    outcome: str
    status: int | None = None
    seconds: float
    first_token_seconds: float | None = None
    code: str | None = None
    reported: str | None = None
    returned: str | None = None
    verdict: str | None = None
    output_cap: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    thinking_outcome: str | None = None
    tokens_past_cap: int | None = None


class CallLog:
    """Writes the lines of the calls."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        """Write to this log."""
        self._log = log
        self._line = log.line if isinstance(log, JsonLog) else self._by_pipeline
        self.on: Mapping[Any, Handler] = dict.fromkeys(NAMED, self._on_named) | {
            CallFinished: self._on_ended,
            CallFailed: self._on_ended,
            CallAbandoned: self._on_ended,
        }

    def _by_pipeline(self, line: Ended) -> None:
        """To a log with processors of its own."""
        said = to_builtins(line)
        self._log.info(said.pop("event"), **said)

    def _on_named(self, call: CallState, fact: Named) -> None:
        self._log.info(
            fact.name,
            trace_id=call.trace_id,
            upstream=call.row.upstream,
            model=_raw_model(call),
            purpose=call.purpose,
            **plain(attributes(fact)),
        )

    def _on_ended(self, call: CallState, fact: Ending) -> None:
        started, row, turn = call.started, call.row, fact.turn
        line = Ended(
            time=datetime.now(UTC),
            severity="info",
            trace_id=call.trace_id,
            method=bounded(started.method),
            route=bounded(started.route),
            dialect=row.dialect,
            upstream=row.upstream,
            model=_raw_model(call),
            purpose=call.purpose,
            outcome="client_gone" if isinstance(fact, CallAbandoned) else fact.outcome,
            status=fact.status,
            seconds=_rounded(call.elapsed),
        )
        if call.first_token is not None:
            line.first_token_seconds = _rounded(call.first_token - call.received)
        if isinstance(fact, CallFailed):
            line.code = fact.code
        if turn is not None:
            line.reported, line.returned, line.verdict = turn.reported, turn.returned, turn.verdict
            line.output_cap = count(turn.output_cap)
            if turn.usage is not None:
                line.input_tokens, line.output_tokens = count(turn.usage.input), count(turn.usage.output)
            line.reasoning_tokens = count(turn.reasoning_tokens)
            line.thinking_outcome, line.tokens_past_cap = turn.thinking_outcome, count(turn.past_cap)
        self._line(line)


def _rounded(seconds: float) -> float:
    """To the microsecond; the built-in `round` to so many digits costs ten times as much."""
    return round(seconds * 1e6) / 1e6


def _raw_model(call: CallState) -> str | None:
    routed = call.routed
    return bounded(routed.call.model) if routed is not None and routed.call is not None else None


class TracingWarnings(logging.Handler):
    """Brings the warnings of tracing, the SDK's and our own, which come through `logging`, into the one JSON log."""

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
