"""The guest never breaks anything: a recorder that fails costs its own record and nothing else."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from prometheus_client.exposition import choose_encoder

from gateway.events import Recorder
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from telemetry.records import Tracing
from telemetry.spans import Spans
from telemetry.tally import CallTally
from tests.telemetry.conftest import Lines
from tests.telemetry.plays import SERIES, STARTED, Clock, call, ordinary, play, routed

OK = {"dialect": "chat", "upstream": "up", "model": "m-think", "outcome": "ok"}


def open_metrics(telemetry: Telemetry) -> bytes:
    """What a scraper that takes OpenMetrics gets."""
    encoder, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    return encoder(telemetry.registry)


def explode(*_: object, **__: object) -> None:
    """A fault in a recorder, with words in its message that no log may hold."""
    message = "SECRET-PROMPT"
    raise RuntimeError(message)


def test_it_is_a_recorder(telemetry: Telemetry) -> None:
    """What the composition root hands to the gateway has the gateway's own protocol."""
    recorder: Recorder = telemetry
    assert recorder.open(STARTED).trace_headers() == ()


def test_a_failing_recorder_is_swallowed_and_logged_once(
    telemetry: Telemetry, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every failure counts, the first of each kind is a line that names it, the other recorders go on."""
    monkeypatch.setattr(CallTally, "_close", explode)
    play(telemetry, ordinary())
    play(telemetry, ordinary())
    assert telemetry.failures == 2
    failed, *others = sorted(lines.read_all(), key=lambda line: str(line["event"]), reverse=True)
    assert [line["event"] for line in others] == ["call.ended", "call.ended"]
    said = {"event": "telemetry.failed", "recorder": "CallTally", "fact": "CallFinished", "error": "RuntimeError"}
    assert failed | said == failed
    assert b"SECRET-PROMPT" not in lines.getvalue()


def test_a_broken_log_is_swallowed(clock: Clock) -> None:
    """A stream that cannot be written to stops neither the call nor the counters."""
    stream = Lines()
    telemetry = Telemetry(SERIES, log=json_log(stream), clock=clock)
    stream.close()
    play(telemetry, ordinary())
    assert telemetry.registry.get_sample_value("thinkcap_requests_total", OK) == 1
    assert telemetry.failures > 0


def test_a_tracer_that_cannot_start_a_span_is_swallowed(traced: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call goes on without spans, and still counts."""
    monkeypatch.setattr(Tracing, "root", explode)
    assert play(traced, ordinary()).trace_headers() == ()
    assert traced.registry.get_sample_value("thinkcap_requests_total", OK) == 1
    assert traced.failures == 1


def test_headers_that_cannot_be_made_are_left_out(traced: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call goes out without a trace rather than not at all."""
    monkeypatch.setattr(Spans, "headers", explode)
    observer = traced.open(STARTED)
    assert observer.trace_headers() == ()
    assert traced.failures == 1


def test_a_sampled_call_leaves_its_trace_id_with_the_samples(traced: Telemetry, lines: Lines) -> None:
    """Histograms and counters point to the trace; so does the log."""
    play(traced, ordinary())
    trace_id = lines.read_all()[0]["trace_id"]
    text = open_metrics(traced).decode()
    pointing = [line for line in text.splitlines() if f'# {{trace_id="{trace_id}"}}' in line]
    names = {line.partition("{")[0] for line in pointing}
    assert {"thinkcap_requests_total", "thinkcap_request_seconds_bucket", "thinkcap_thinking_tokens_bucket"} <= names


def test_a_call_sampled_out_leaves_no_exemplar_and_no_headers(clock: Clock, lines: Lines) -> None:
    """A trace nobody will find is not pointed to."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(lines), clock=clock)
    observer = telemetry.open(STARTED)
    observer.note(routed(call()))
    assert observer.trace_headers() == ()
    play(telemetry, ordinary())
    assert b"trace_id" not in open_metrics(telemetry)
    assert telemetry.registry.get_sample_value("thinkcap_requests_total", OK) == 1
