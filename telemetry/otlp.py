"""Span records as the bytes of an OTLP request (opentelemetry-proto 1.x, trace_service.proto), without message objects.

The general encoder builds an object per attribute, which costs a traced call more than all its spans do. All spans here
are of one resource and one scope. A test holds these bytes against the general encoder's.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceState

HAS_IS_REMOTE: Final = 0x100
IS_REMOTE: Final = 0x200
SMALL: Final = 0x80
_fixed64: Final = struct.Struct("<Q").pack
_fixed32: Final = struct.Struct("<I").pack
_double: Final = struct.Struct("<d").pack


class LeanExporter(OTLPSpanExporter):
    """The SDK's exporter over OTLP/HTTP with this encoder. OTEL_EXPORTER_OTLP_* decide where, as ever."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch."""
        if self._shutdown or not spans:
            return SpanExportResult.FAILURE if self._shutdown else SpanExportResult.SUCCESS
        sent = self._client.export(encode(spans))
        return SpanExportResult.SUCCESS if sent.success else SpanExportResult.FAILURE


def encode(spans: Sequence[ReadableSpan]) -> bytes:
    """An ExportTraceServiceRequest. The spans are of one resource and one scope: those of the first."""
    first = spans[0]
    scope_spans = _scope(first.instrumentation_scope) + b"".join(_part(2, _span(span)) for span in spans)
    return _part(1, _resource(first.resource) + _part(2, scope_spans))


def _varint(value: int) -> bytes:
    if value < SMALL:
        return _BYTES[value]
    out = bytearray()
    while value >= SMALL:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_BYTES: Final = tuple(bytes((number,)) for number in range(SMALL))


def _part(number: int, data: bytes) -> bytes:
    """A field with a length: bytes, a string, a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


@lru_cache(maxsize=16)
def _resource(resource: Resource) -> bytes:
    url = _part(3, resource.schema_url.encode()) if resource.schema_url else b""
    return _part(1, _attributes(1, resource.attributes)) + url


@lru_cache(maxsize=16)
def _scope(scope: InstrumentationScope | None) -> bytes:
    if scope is None:
        return _part(1, b"")
    return _part(1, _part(1, scope.name.encode()) + (_part(2, scope.version.encode()) if scope.version else b""))


def _span(span: ReadableSpan) -> bytes:
    context, parent = span.context, span.parent
    parts = [
        b"\x0a\x10", context.trace_id.to_bytes(16, "big"), b"\x12\x08", context.span_id.to_bytes(8, "big"),
        _state(context.trace_state),
        b"\x22\x08" + parent.span_id.to_bytes(8, "big") if parent is not None else b"",
        _part(5, _text(span.name)),
        b"\x30", _BYTES[span.kind.value + 1],
        b"\x39", _fixed64(span.start_time or 0), b"\x41", _fixed64(span.end_time or 0),
        _attributes(9, span.attributes or {}),
    ]  # fmt: skip
    parts.extend(_part(11, _event(event)) for event in span.events)
    code = span.status.status_code.value
    parts.append(b"\x7a\x02\x18" + _BYTES[code] if code else b"\x7a\x00")
    parts.append(b"\x85\x01" + _fixed32(_flags(parent)))
    return b"".join(parts)


def _flags(parent: SpanContext | None) -> int:
    return HAS_IS_REMOTE | (IS_REMOTE if parent is not None and parent.is_remote else 0)


def _state(state: TraceState | None) -> bytes:
    return _part(3, ",".join(f"{key}={value}" for key, value in state.items()).encode()) if state else b""


def _event(event: Event) -> bytes:
    return b"\x09" + _fixed64(event.timestamp) + _part(2, _text(event.name)) + _attributes(3, event.attributes or {})


def _attributes(number: int, attributes: Mapping[str, Any]) -> bytes:
    tag = _varint(number << 3 | 2)
    parts: list[bytes] = []
    for key, value in attributes.items():
        pair = _key(key) + _part(2, _value(value))
        parts += (tag, _varint(len(pair)), pair)
    return b"".join(parts)


@lru_cache(maxsize=256)
def _key(key: str) -> bytes:
    return _part(1, key.encode())


def _value(value: Any) -> bytes:
    """An AnyValue. Raises TypeError for a kind that no attribute has."""
    encode_kind = _KINDS.get(type(value))
    if encode_kind is None:
        raise TypeError(f"an attribute holds no {type(value).__name__}")
    return encode_kind(value)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _array(values: Iterable[Any]) -> bytes:
    return _part(5, b"".join(_part(1, _value(value)) for value in values))


_KINDS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: lambda value: _part(1, _text(value)),
    bool: lambda value: b"\x10\x01" if value else b"\x10\x00",
    int: lambda value: b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF),
    float: lambda value: b"\x21" + _double(value),
    tuple: _array,
    list: _array,
}
