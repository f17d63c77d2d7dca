"""Reads what the gateway tells about itself: Prometheus text and OTLP spans, each with a reader of its own."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

SAMPLE = re.compile(r'^(\w+(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?)\s+(\S+)', re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Series(NamedTuple):
    """The name of a metric and its labels."""

    name: str
    labels: frozenset[tuple[str, str]]

    @classmethod
    def parse(cls, text: str) -> "Series":
        """From `name{label="value"}`."""
        return cls(text.partition("{")[0].strip(), frozenset(LABEL.findall(text)))

    def covers(self, other: "Series") -> bool:
        """Whether the other has this name and, under each of these labels, this value (`a|b`: one of them)."""
        theirs = dict(other.labels)
        return self.name == other.name and all(theirs.get(k) in v.split("|") for k, v in self.labels)

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{value}"' for name, value in sorted(self.labels))
        return f"{self.name}{{{labels}}}"


def read_metrics(text: str) -> dict[Series, float]:
    """Every sample of a scrape."""
    return {Series.parse(found[1]): float(found[2]) for found in SAMPLE.finditer(text)}


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    attributes: dict[str, Any]


class Span(NamedTuple):
    """A span as it was exported. `kind` 2 is SERVER, 3 is CLIENT."""

    name: str
    kind: int
    attributes: dict[str, Any]
    events: list[SpanEvent]


def read_spans(request: bytes) -> list[Span]:
    """The spans of an OTLP ExportTraceServiceRequest (opentelemetry-proto, trace/v1/trace.proto)."""
    raws = [span for resource in _all(request, 1) for scope in _all(resource, 2) for span in _all(scope, 2)]
    return [
        Span(
            name=_all(raw, 5)[0].decode(),
            kind=next(iter(_all(raw, 6)), 0),
            attributes=_attributes(raw, 9),
            events=[SpanEvent(_all(event, 2)[0].decode(), _attributes(event, 3)) for event in _all(raw, 11)],
        )
        for raw in raws
    ]


def _all(message: bytes, number: int) -> list[Any]:
    return [value for field, value in _fields(message) if field == number]


def _attributes(message: bytes, number: int) -> dict[str, Any]:
    found = {}
    for pair in _all(message, number):
        kind, value = next(_fields(next(iter(_all(pair, 2)), b"")), (0, None))
        readers: dict[int, Any] = {1: bytes.decode, 2: bool}
        found[_all(pair, 1)[0].decode()] = readers.get(kind, lambda other: other)(value)
    return found


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of one protobuf message: ints, and bytes for every field that has a length."""
    stream = iter(message)
    while tag := _varint(stream):
        match tag & 7:
            case 0:
                yield tag >> 3, _varint(stream)
            case 1:
                yield tag >> 3, bytes(islice(stream, 8))
            case 5:
                yield tag >> 3, bytes(islice(stream, 4))
            case _:
                yield tag >> 3, bytes(islice(stream, _varint(stream)))


def _varint(stream: Iterator[int]) -> int:
    value = shift = 0
    for byte in stream:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value
