"""The guest who listens: one observer per call hands each fact to the counters, the spans and the log.

Nothing raised in here reaches a call. A recorder that fails costs its own record of that fact and nothing else.
"""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from gateway.events import CallAbandoned, CallFailed, CallFinished, CallStarted, Fact
from telemetry.export import ExportingProvider
from telemetry.labels import Guard, Series
from telemetry.logs import CallLog, json_log
from telemetry.metrics import Metrics
from telemetry.records import Tracing
from telemetry.spans import CallSpans, open_spans
from telemetry.state import CallState, On
from telemetry.tally import CallTally

ENDINGS = frozenset({CallFinished, CallFailed, CallAbandoned})


class _Recorder(Protocol):
    on: ClassVar[On]


class Telemetry:
    """Implements gateway.events.Recorder. `failures`: facts a recorder could not record, 0 in a sound program."""

    def __init__(
        self,
        series: Series,
        *,
        tracer_provider: TracerProvider | None = None,
        log: FilteringBoundLogger | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Set every series to zero. Without a provider there are no spans; without a log it goes to stderr."""
        self.metrics = Metrics(series)
        self.log = log if log is not None else json_log()
        self.clock = clock
        self.failures = 0
        self._guard = Guard(series)
        self._reported: set[tuple[str, str]] = set()
        self._tracing = Tracing(tracer_provider, "thinkcap", series.version) if tracer_provider is not None else None
        if isinstance(tracer_provider, ExportingProvider):
            tracer_provider.on_drop(self.metrics.spans_dropped.inc)

    @property
    def registry(self) -> CollectorRegistry:
        """What `serve_metrics` serves."""
        return self.metrics.registry

    def open(self, started: CallStarted) -> "CallObserver":
        """Begin to listen to a call. Never raises."""
        state = CallState(self._guard, started, self.clock())
        spans = None if self._tracing is None else self._open_spans(self._tracing, state)
        recorders: list[_Recorder] = [state, CallTally(self.metrics, state), CallLog(self.log, state)]
        if spans is not None:
            recorders.append(spans)
        return CallObserver(self, state, recorders, spans)

    def failed(self, recorder: str, fact: str, error: Exception) -> None:
        """Note that a recorder failed: counted always, logged once per recorder and fact, never raised."""
        self.failures += 1
        if (recorder, fact) not in self._reported:
            self._reported.add((recorder, fact))
            self._say_failed(recorder, fact, error)

    def _say_failed(self, recorder: str, fact: str, error: Exception) -> None:
        try:  # the type alone: a message might quote what no log may hold
            self.log.warning("telemetry.failed", recorder=recorder, fact=fact, error=type(error).__name__)
        except Exception:  # noqa: BLE001 - the log itself is broken; the count above is all that can be said
            self.failures += 1

    def _open_spans(self, tracing: Tracing, state: CallState) -> CallSpans | None:
        """The spans of a sampled call; None for one that is not."""
        try:
            return open_spans(tracing, state)
        except Exception as error:  # noqa: BLE001 - a tracer that fails must not reach into a call
            self.failed("CallSpans", "CallStarted", error)
            return None


class CallObserver:
    """Listens to one call. What comes after its ending is ignored."""

    __slots__ = ("_over", "_recorders", "_spans", "_state", "_telemetry")

    def __init__(
        self, telemetry: Telemetry, state: CallState, recorders: list[_Recorder], spans: CallSpans | None
    ) -> None:
        """Tell these recorders, the state first."""
        self._telemetry, self._state, self._recorders, self._spans = telemetry, state, recorders, spans
        self._over = False

    def note(self, fact: Fact) -> None:
        """Stamp the clock and tell every recorder that cares. Never raises."""
        if self._over:
            return
        kind: Any = type(fact)
        self._state.now = self._telemetry.clock()
        for recorder in self._recorders:
            handler = recorder.on.get(kind)
            if handler is not None:
                try:
                    handler(recorder, fact)
                except Exception as error:  # noqa: BLE001 - a recorder must never reach into a call
                    self._telemetry.failed(type(recorder).__name__, kind.__name__, error)
        if kind in ENDINGS:
            self._over = True

    def trace_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C headers of the attempt that runs now; () when tracing is off or the call is not sampled."""
        if self._spans is None or self._over:
            return ()
        try:
            return self._spans.headers()
        except Exception as error:  # noqa: BLE001 - a call goes out without a trace rather than not at all
            self._telemetry.failed("CallSpans", "trace_headers", error)
            return ()
