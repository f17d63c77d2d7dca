"""Spans as plain records: started, ended and handed to the SDK's processor once, complete.

The SDK's own span locks, copies and checks on every call made to it, which is a tenth of a millisecond a call for three
spans. Here sampler, ids, resource, processor and exporter are the SDK's; what lies between is a record that nobody else
writes to.
"""

import time
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState, get_current_span

UNSET: Final = Status(StatusCode.UNSET)
FAILED: Final = Status(StatusCode.ERROR)


class Record:
    """One span. Times are nanoseconds since the epoch."""

    __slots__ = ("_events", "_kind", "_name", "_parent", "_start", "_tracing", "context")

    def __init__(
        self, tracing: "Tracing", name: str, kind: SpanKind, context: SpanContext, parent: SpanContext | None
    ) -> None:
        """Start now."""
        self._tracing, self._name, self._kind, self.context, self._parent = tracing, name, kind, context, parent
        self._events: list[Event] = []
        self._start = time.time_ns()

    def child(self, name: str, kind: SpanKind) -> "Record":
        """A span within this one."""
        return self._tracing.within(self.context, name, kind)

    def event(self, name: str, attributes: dict[str, Any]) -> None:
        """Something happened now."""
        self._events.append(Event(name, attributes, time.time_ns()))

    def end(self, attributes: dict[str, Any], *, failed: bool) -> None:
        """End now, with all there is to say. Exactly once."""
        self._tracing.emit(
            ReadableSpan(
                name=self._name,
                context=self.context,
                parent=self._parent,
                resource=self._tracing.resource,
                attributes=attributes,
                events=self._events,
                kind=self._kind,
                status=FAILED if failed else UNSET,
                start_time=self._start,
                end_time=time.time_ns(),
                instrumentation_scope=self._tracing.scope,
            )
        )


class Tracing:
    """Makes records by a provider's sampler and ids, and hands them to its processors."""

    def __init__(self, provider: TracerProvider, name: str, version: str) -> None:
        """Take what the provider was set up with."""
        self._sampler, self._ids = provider.sampler, provider.id_generator
        self.resource, self.scope = provider.resource, InstrumentationScope(name, version)
        # There is no public way to a provider's processors, and a tracer of its would make spans of its own.
        self.emit = provider._active_span_processor.on_end  # noqa: SLF001

    def root(self, name: str, kind: SpanKind, caller: Context) -> tuple[Record | None, SpanContext]:
        """The first span of a call, None when the call is not sampled, and its context.

        `caller` holds the caller's trace context, if it sent one; the sampler may respect its decision.
        """
        parent = get_current_span(caller).get_span_context()
        trace = parent.trace_id if parent.is_valid else self._ids.generate_trace_id()
        result = self._sampler.should_sample(caller, trace, name, kind, None, None)
        sampled = result.decision is Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
        context = self._context(trace, flags, result.trace_state)
        if not sampled:
            return None, context
        return Record(self, name, kind, context, parent if parent.is_valid else None), context

    def within(self, parent: SpanContext, name: str, kind: SpanKind) -> Record:
        """A span of the same trace."""
        return Record(self, name, kind, self._context(parent.trace_id, parent.trace_flags, parent.trace_state), parent)

    def _context(self, trace: int, flags: TraceFlags, state: TraceState | None) -> SpanContext:
        return SpanContext(trace, self._ids.generate_span_id(), is_remote=False, trace_flags=flags, trace_state=state)
