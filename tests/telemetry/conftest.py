"""A telemetry with a clock that stands still and a log that can be read, for every test of this folder."""

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from telemetry.logs import json_log
from telemetry.observer import Telemetry
from tests.telemetry.plays import SERIES, Clock


class Lines(io.BytesIO):
    """A log kept in memory."""

    def read_all(self) -> list[dict[str, Any]]:
        """Every line as JSON."""
        return [msgspec.json.decode(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def clock() -> Clock:
    """Stands at 100 seconds."""
    return Clock()


@pytest.fixture
def lines() -> Lines:
    """What was logged."""
    return Lines()


@pytest.fixture
def telemetry(clock: Clock, lines: Lines) -> Telemetry:
    """Counters and log, no spans."""
    return Telemetry(SERIES, log=json_log(lines), clock=clock)


@pytest.fixture
def kept() -> InMemorySpanExporter:
    """The spans that ended."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(kept: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """Samples everything and keeps it."""
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(kept))
    yield made
    made.shutdown()


@pytest.fixture
def traced(clock: Clock, lines: Lines, provider: TracerProvider) -> Telemetry:
    """Counters, log and spans."""
    return Telemetry(SERIES, tracer_provider=provider, log=json_log(lines), clock=clock)
