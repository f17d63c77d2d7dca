"""The guest who listens: one observer per call hands each fact to the counters, the spans and the log.

Nothing raised in here reaches a call. A recorder that fails costs its own record of that fact and nothing else.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from gateway.events import CallAbandoned, CallFailed, CallFinished, CallStarted, Ending, Fact
from telemetry.export import ExportingProvider
from telemetry.exposition import Exposition
from telemetry.labels import Guard, Series
from telemetry.logs import CallLog, json_log
from telemetry.metrics import Metrics
from telemetry.records import Tracing, to_processors
from telemetry.rows import Rows
from telemetry.spans import CallSpans
from telemetry.state import CallState, Handler, Keeper, Recorder
from telemetry.tally import CallTally

Handlers = Mapping[Any, tuple[Handler, ...]]
"""Who is told of a fact, by its type, in this order."""
NOBODY: Final[Handlers] = {}


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
        self._exposition = Exposition(self.metrics.registry, self.metrics.families, self.metrics.others)
        self.log = log if log is not None else json_log()
        self.clock = clock
        self.failures = 0
        self._reported: set[tuple[str, str]] = set()
        guard = Guard(series)
        self._rows = Rows(self.metrics, guard)
        recorders: list[Recorder] = [Keeper(self._rows, guard), CallTally(self.metrics), CallLog(self.log)]
        self._untraced = self._traced = _handlers(recorders)
        self._spans: CallSpans | None = None
        if tracer_provider is not None:
            self._spans = CallSpans(self._tracing(tracer_provider, series.version))
            self._traced = _handlers([*recorders, self._spans])

    @property
    def registry(self) -> CollectorRegistry:
        """All metrics."""
        return self.metrics.registry

    def page(self, accept: str) -> tuple[bytes, str]:
        """All metrics as text, in the format this Accept header asks for; and the content type of it."""
        return self._exposition.page(accept)

    def open(self, started: CallStarted) -> "CallObserver":
        """Begin to listen to a call. Never raises."""
        call = CallObserver(self, self._rows, started, self.clock())
        if self._spans is not None:
            self._open_spans(self._spans, call)
        call.handlers = self._untraced if call.exemplar is None else self._traced
        return call

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

    def _tracing(self, provider: TracerProvider, version: str) -> Tracing:
        scope = InstrumentationScope("thinkcap", version)
        if isinstance(provider, ExportingProvider):
            provider.on_drop(self.metrics.spans_dropped.inc)
            return Tracing(provider, scope, provider.sender.put)
        return Tracing(provider, scope, to_processors(provider))

    def _open_spans(self, spans: CallSpans, call: CallState) -> None:
        """Begin the spans of a call that is sampled."""
        try:
            spans.open(call)
        except Exception as error:  # noqa: BLE001 - a tracer that fails must not reach into a call
            self.failed("CallSpans", "CallStarted", error)


class CallObserver(CallState):
    """Listens to one call. What comes after its ending is ignored."""

    __slots__ = ("_clock", "_telemetry", "handlers")

    def __init__(self, telemetry: Telemetry, rows: Rows, started: CallStarted, now: float) -> None:
        """Nobody is told yet."""
        super().__init__(rows, started, now)
        self._telemetry, self._clock = telemetry, telemetry.clock
        self.handlers = NOBODY

    def note(self, fact: Fact) -> None:
        """Stamp the clock and tell every recorder that cares. Never raises."""
        handlers = self.handlers.get(type(fact))
        if handlers is None:
            return
        self.now = self._clock()
        for handle in handlers:
            try:
                handle(self, fact)
            except Exception as error:  # noqa: BLE001 - a recorder must never reach into a call
                self._telemetry.failed(handle.__qualname__.partition(".")[0], type(fact).__name__, error)

    def trace_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C headers of the attempt that runs now; () when none does, or the call is not sampled."""
        if self.exemplar is None:
            return ()
        try:
            return self.spans.headers()
        except Exception as error:  # noqa: BLE001 - a call goes out without a trace rather than not at all
            self._telemetry.failed("CallSpans", "trace_headers", error)
            return ()


def _over(call: CallObserver, _fact: Ending) -> None:
    """After its ending nobody is told of a call any more."""
    call.handlers = NOBODY


def _handlers(recorders: list[Recorder]) -> Handlers:
    handlers = {kind: tuple(r.on[kind] for r in recorders if kind in r.on) for r in recorders for kind in r.on}
    for ending in (CallFinished, CallFailed, CallAbandoned):
        handlers[ending] = (_over, *handlers[ending])
    return handlers
