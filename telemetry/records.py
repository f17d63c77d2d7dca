"""Spans as plain records: started, ended and handed on once, complete.

The SDK's own span locks, copies and checks on every call made to it, which is a tenth of a millisecond a call for three
spans. Here sampler, ids and resource are the SDK's; what lies between is a record that nobody else writes to. Our own
provider takes it as it is; the processors of any other get the SDK's view of it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, structs
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, DEFAULT_ON, Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState, get_current_span

UNSET: Final = Status(StatusCode.UNSET)
FAILED: Final = Status(StatusCode.ERROR)
SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
SERVER: Final[int] = SpanKind.SERVER.value
CLIENT: Final[int] = SpanKind.CLIENT.value
"""Kinds of spans, as numbers: the hash of a word of the SDK's is code in Python."""
NO_CALLER: Final = Context()
"""The context of a caller who sent none."""


class Record:
    """One span of a sampled call. Ids are bytes, as they are sent; times are nanoseconds since the epoch."""

    __slots__ = (
        "end_time", "events", "failed", "id", "kind", "name", "parent", "said", "start_time", "state", "trace",
        "tracing",
    )  # fmt: skip

    def __init__(
        self, tracing: "Tracing", name: str, kind: int, trace: bytes, parent: "Record | SpanContext | None"
    ) -> None:
        """Start now. A parent that is no record is the caller's."""
        self.tracing, self.name, self.kind, self.trace, self.parent = tracing, name, kind, trace, parent
        self.state: TraceState | None = parent.state if isinstance(parent, Record) else None
        self.id = tracing.new_id()
        self.events: Sequence[Event] = ()
        self.start_time = time.time_ns()

    def child(self, name: str) -> "Record":
        """A span within this one."""
        return Record(self.tracing, name, CLIENT, self.trace, self)

    def event(self, name: str, attributes: dict[str, Any]) -> None:
        """Something happened now."""
        self.events = [*self.events, Event(name, attributes, time.time_ns())]

    def end(self, *said: Struct, failed: bool) -> None:
        """End now, with all there is to say: fields by the names of attributes, None of what is not known. Once."""
        self.said, self.failed, self.end_time = said, failed, time.time_ns()
        self.tracing.emit(self)

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """W3C headers that make this span the parent of what is sent with them."""
        parent = (b"traceparent", b"00-%b-%b-01" % (self.trace.hex().encode(), self.id.hex().encode()))
        return (parent, (b"tracestate", self.state.to_header().encode())) if self.state else (parent,)

    @property
    def context(self) -> SpanContext:
        """As the SDK has it."""
        ids = int.from_bytes(self.trace, "big"), int.from_bytes(self.id, "big")
        return SpanContext(*ids, is_remote=False, trace_flags=SAMPLED, trace_state=self.state)

    def readable(self) -> ReadableSpan:
        """As the SDK has it, for its processors."""
        parent = self.parent
        return ReadableSpan(
            name=self.name,
            context=self.context,
            parent=parent.context if isinstance(parent, Record) else parent,
            resource=self.tracing.resource,
            attributes={key: value for part in self.said for key, value in said_by(part)},
            events=self.events,
            kind=SpanKind(self.kind),
            status=FAILED if self.failed else UNSET,
            start_time=self.start_time,
            end_time=self.end_time,
            instrumentation_scope=self.tracing.scope,
        )


class Tracing:
    """Makes records by a provider's sampler and ids."""

    def __init__(self, provider: TracerProvider, scope: InstrumentationScope, emit: Callable[[Record], None]) -> None:
        """Take what the provider was set up with; hand what has ended to `emit`."""
        self._sampler, self._ids = provider.sampler, provider.id_generator
        self._always = provider.sampler in (ALWAYS_ON, DEFAULT_ON)
        """Whoever comes without a context of its own is sampled."""
        self.resource, self.scope, self.emit = provider.resource, scope, emit

    def new_id(self) -> bytes:
        """An id for a span."""
        return self._ids.generate_span_id().to_bytes(8, "big")

    def root(self, name: str, caller: Context | None) -> tuple[Record | None, bytes]:
        """The first span of a call, None when the call is not sampled, and the id of its trace.

        `caller` holds the caller's trace context, if it sent one; the sampler may respect its decision.
        """
        if caller is None and self._always:
            trace = self._ids.generate_trace_id().to_bytes(16, "big")
            return Record(self, name, SERVER, trace, None), trace
        parent = get_current_span(caller or NO_CALLER).get_span_context()
        number = parent.trace_id if parent.is_valid else self._ids.generate_trace_id()
        result = self._sampler.should_sample(caller or NO_CALLER, number, name, SpanKind.SERVER, None, None)
        trace = number.to_bytes(16, "big")
        if result.decision is not Decision.RECORD_AND_SAMPLE:
            return None, trace
        record = Record(self, name, SERVER, trace, parent if parent.is_valid else None)
        record.state = result.trace_state
        return record, trace


def said_by(part: Struct) -> list[tuple[str, Any]]:
    """The attributes that are known, by their names."""
    pairs = zip(part.__struct_encode_fields__, structs.astuple(part), strict=True)
    return [pair for pair in pairs if pair[1] is not None]


def to_processors(provider: TracerProvider) -> Callable[[Record], None]:
    """Hands records to the processors of a provider."""
    # There is no public way to them, and a tracer of the provider would make spans of its own.
    on_end = provider._active_span_processor.on_end  # noqa: SLF001
    return lambda record: on_end(record.readable())
