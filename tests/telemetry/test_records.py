"""Who is sampled, by the operator's sampler and the caller's word, and what an SDK provider gets to see."""

import io

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, DEFAULT_OFF, DEFAULT_ON, Sampler, TraceIdRatioBased

from gateway.events import CallStarted
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from tests.telemetry.conftest import Lines
from tests.telemetry.plays import SERIES, ordinary, play

TRACE = "ab" * 16


def started(flags: str | None) -> CallStarted:
    """A call whose caller traces, with these flags, or does not."""
    parent = f"00-{TRACE}-{'cd' * 8}-{flags}" if flags is not None else None
    return CallStarted(dialect="chat", method="POST", route="/x", traceparent=parent)


@pytest.mark.parametrize(
    ("sampler", "flags", "sampled"),
    [
        pytest.param(DEFAULT_ON, None, True, id="the default and a caller who does not trace"),
        pytest.param(DEFAULT_ON, "01", True, id="the default and a caller who samples"),
        pytest.param(DEFAULT_ON, "00", False, id="the default and a caller who does not sample"),
        pytest.param(ALWAYS_ON, None, True, id="always"),
        pytest.param(ALWAYS_ON, "00", True, id="always, whatever the caller says"),
        pytest.param(ALWAYS_OFF, None, False, id="never"),
        pytest.param(ALWAYS_OFF, "01", False, id="never, whatever the caller says"),
        pytest.param(DEFAULT_OFF, None, False, id="only what callers sample, and this one does not trace"),
        pytest.param(DEFAULT_OFF, "01", True, id="only what callers sample"),
        pytest.param(TraceIdRatioBased(0.0), None, False, id="none of a hundred"),
        pytest.param(TraceIdRatioBased(1.0), None, True, id="a hundred of a hundred"),
    ],
)
def test_the_sampler_decides(sampler: Sampler, flags: str | None, sampled: bool) -> None:
    """Three spans or none; the log names the trace either way, the caller's where it has one."""
    kept, lines = InMemorySpanExporter(), Lines()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    play(Telemetry(SERIES, tracer_provider=provider, log=json_log(lines)), ordinary(), started(flags))
    spans = kept.get_finished_spans()
    assert len(spans) == (3 if sampled else 0)
    (line,) = lines.read_all()
    assert line["trace_id"] == TRACE if flags is not None else len(line["trace_id"]) == 32
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} <= {line["trace_id"]}


def test_every_exporter_of_the_sdk_can_read_them() -> None:
    """The console's, for one, which reads everything there is."""
    provider, console = TracerProvider(shutdown_on_exit=False), io.StringIO()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=console)))
    play(Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines())), ordinary(), started("01"))
    said = console.getvalue()
    assert said.count(f'"trace_id": "0x{TRACE}"') == 3
    assert '"gen_ai.usage.output_tokens": 12' in said
