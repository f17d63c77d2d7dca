"""Records as the bytes of an OTLP request (opentelemetry-proto 1.x, trace_service.proto), without message objects.

The general encoder builds an object per attribute, which costs a traced call more than all its spans do. What many
spans say in the same words is encoded once. All records are of one resource and one scope. A test holds these bytes
against the general encoder's.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, StatusCode

from telemetry.records import Record, said_by

HAS_IS_REMOTE: Final = 0x100
IS_REMOTE: Final = 0x200
SIZED: Final = (b"\x0a", b"\x2a")
"""Kinds of values whose size is written before them: texts and lists."""
SMALL: Final = 0x80
_fixed64: Final = struct.Struct("<Q").pack
_fixed32: Final = struct.Struct("<I").pack
_double: Final = struct.Struct("<d").pack
_times: Final = struct.Struct("<cQcQ").pack


class LeanExporter(OTLPSpanExporter):
    """The SDK's exporter over OTLP/HTTP with this encoder. OTEL_EXPORTER_OTLP_* decide where, as ever."""

    def send(self, records: Sequence[Record]) -> bool:
        """Send one batch; whether it arrived."""
        return not self._shutdown and self._client.export(encode(records)).success


def encode(records: Sequence[Record]) -> bytes:
    """An ExportTraceServiceRequest. Put together once: what is copied twice is a quarter of a megabyte."""
    tracing = records[0].tracing
    spans: list[bytes] = []
    for record in records:
        span = _span(record)
        spans += (b"\x12", _varint(len(span)), span)
    scope, resource = _scope(tracing.scope), _resource(tracing.resource)
    size = len(scope) + sum(map(len, spans))
    head = resource + b"\x12" + _varint(size) + scope
    return b"".join((b"\x0a", _varint(len(head) - len(scope) + size), head, *spans))


def _varint(value: int) -> bytes:
    if value < SMALL:
        return _BYTES[value]
    if value < SMALL * SMALL:
        return bytes((value & 0x7F | 0x80, value >> 7))
    return bytes((value & 0x7F | 0x80,)) + _varint(value >> 7)


_BYTES: Final = tuple(bytes((number,)) for number in range(SMALL))


def _part(tag: bytes, data: bytes) -> bytes:
    """A field with a length: bytes, a string, a message."""
    return tag + _varint(len(data)) + data


@lru_cache(maxsize=16)
def _resource(resource: Resource) -> bytes:
    url = _part(b"\x1a", resource.schema_url.encode()) if resource.schema_url else b""
    return _part(b"\x0a", _attributes(b"\x0a", resource.attributes.items())) + url


@lru_cache(maxsize=16)
def _scope(scope: InstrumentationScope) -> bytes:
    version = _part(b"\x12", scope.version.encode()) if scope.version else b""
    return _part(b"\x0a", _part(b"\x0a", scope.name.encode()) + version)


def _span(record: Record) -> bytes:
    parent, state = record.parent, record.state
    remote = isinstance(parent, SpanContext) and parent.is_remote
    parts = [b"\x0a\x10", record.trace, b"\x12\x08", record.id]
    if state:
        parts.append(_part(b"\x1a", state.to_header().encode()))
    if parent is not None:
        parts += (b"\x22\x08", parent.id if isinstance(parent, Record) else parent.span_id.to_bytes(8, "big"))
    parts += (_named(record.name, record.kind), _times(b"\x39", record.start_time, b"\x41", record.end_time))
    parts += [_shared(said) if said.__struct_config__.frozen else _said(said) for said in record.said]
    parts += [_part(b"\x5a", _event(event)) for event in record.events]
    parts.append(_ends(record.failed, remote))
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _named(name: str, kind: int) -> bytes:
    return _part(b"\x2a", _text(name)) + b"\x30" + _BYTES[kind + 1]


@lru_cache
def _ends(failed: bool, remote: bool) -> bytes:  # noqa: FBT001 - cached by both
    """Status and flags."""
    status = b"\x7a\x02\x18" + _BYTES[StatusCode.ERROR.value] if failed else b"\x7a\x00"
    return status + b"\x85\x01" + _fixed32(HAS_IS_REMOTE | (IS_REMOTE if remote else 0))


def _event(event: Event) -> bytes:
    said = _attributes(b"\x1a", (event.attributes or {}).items())
    return b"\x09" + _fixed64(event.timestamp) + _part(b"\x12", _text(event.name)) + said


def _said(said: Struct) -> bytes:
    return _attributes(b"\x4a", said_by(said))


_shared: Final = lru_cache(maxsize=4096)(_said)
"""What many spans say in the same words."""


def _attributes(tag: bytes, attributes: Iterable[tuple[str, Any]]) -> bytes:
    """Raises TypeError for a value that no attribute has."""
    parts: list[bytes] = []
    for key, value in attributes:
        kind, data = _value(value)
        parts += (_head(tag, key, kind, len(data)), data)
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _head(tag: bytes, key: str, kind: bytes, size: int) -> bytes:
    """All of an attribute but its value, which has this size."""
    opened = kind + _varint(size) if kind in SIZED else kind
    pair = _part(b"\x0a", key.encode()) + b"\x12" + _varint(len(opened) + size) + opened
    return tag + _varint(len(pair) + size) + pair


def _value(value: Any) -> tuple[bytes, bytes]:
    """The field of AnyValue that holds a value of this kind, and what is in it."""
    kind = type(value)
    if kind is int:
        return b"\x18", _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if kind is str:
        return b"\x0a", _text(value)
    if kind is bool:
        return b"\x10", _BYTES[value]
    if kind is float:
        return b"\x21", _double(value)
    if kind is tuple or kind is list:
        return b"\x2a", b"".join([_part(b"\x0a", _any(one)) for one in value])
    raise TypeError(f"an attribute holds no {kind.__name__}")


def _any(value: Any) -> bytes:
    kind, data = _value(value)
    return _part(kind, data) if kind in SIZED else kind + data


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")
