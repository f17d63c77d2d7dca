"""Where records go: a real receiver over HTTP, one that is away, one that never answers, and the metrics' own port."""

import http.client
import logging
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.events import CallAbandoned
from telemetry.export import ExportingProvider, serve_metrics, start_tracing
from telemetry.logs import json_log
from telemetry.observer import Telemetry
from telemetry.records import Record
from tests.telemetry.conftest import Lines
from tests.telemetry.plays import SERIES, ordinary, play

LIMIT = 60.0
"""Seconds after which a test that waits has failed."""


class Receiver(ThreadingHTTPServer):
    """An OTLP receiver that keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: Queue[tuple[str, str | None, bytes]] = Queue()
        super().__init__(("127.0.0.1", 0), _Keep)


class _Keep(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.put((self.path, self.headers["Content-Type"], body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class Stuck:
    """A receiver that accepts and never answers, until it is told to stop."""

    def __init__(self) -> None:
        self.entered, self.stop = threading.Event(), threading.Event()
        self.freed = False

    def send(self, _records: Sequence[Record], /) -> bool:
        """Wait until shutdown."""
        self.entered.set()
        self.freed = self.stop.wait(LIMIT)
        return False

    def shutdown(self) -> None:
        """Let go."""
        self.stop.set()


@pytest.fixture(autouse=True)
def sdk_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Only the variables a test sets decide; the SDK's own warnings go nowhere."""
    for name in ("OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setattr(logging.getLogger("opentelemetry"), "propagate", False)
    sink = logging.NullHandler()
    logging.getLogger("opentelemetry").addHandler(sink)
    yield
    logging.getLogger("opentelemetry").removeHandler(sink)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Listens on a free port."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(LIMIT)


def dropped(telemetry: Telemetry) -> float | None:
    """Spans that never arrived."""
    return telemetry.registry.get_sample_value("thinkcap_spans_dropped_total")


def test_a_real_receiver_gets_the_spans_of_a_call(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """OTLP over HTTP in protobuf, three spans of one trace, the service by its name, nothing dropped."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
    provider, shutdown = start_tracing("my-gateway")
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines()))
    play(telemetry, ordinary())
    shutdown()
    spans = []
    while not receiver.requests.empty():  # one, or more where time went by in between
        path, content_type, body = receiver.requests.get()
        assert (path, content_type) == ("/v1/traces", "application/x-protobuf")
        (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
        spans += [span for scope in resource.scope_spans for span in scope.spans]
        names = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
        assert names["service.name"] == "my-gateway"
    assert [span.name for span in spans] == ["POST", "chat m-think", "POST /v1/chat/completions"]
    assert len({span.trace_id for span in spans}) == 1
    assert dropped(telemetry) == 0


def test_spans_go_out_by_themselves(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every OTEL_BSP_SCHEDULE_DELAY milliseconds, however few there are."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
    provider, shutdown = start_tracing("my-gateway")
    play(Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines())), ordinary())
    assert receiver.requests.get(timeout=LIMIT)[0] == "/v1/traces"
    shutdown()


def test_a_small_queue_is_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the queue holds less than a batch has, a full queue is sent."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    stuck = Stuck()
    provider = ExportingProvider("my-gateway", stuck)
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines()))
    for _ in range(2):
        play(telemetry, (CallAbandoned(),))
    assert stuck.entered.wait(LIMIT)
    provider.sender.close(0.1)


def test_the_sampler_is_the_operators(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """OTEL_TRACES_SAMPLER decides; what is sampled out is neither sent nor dropped."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{receiver.server_port}")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    provider, shutdown = start_tracing("my-gateway")
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines()))
    play(telemetry, ordinary())
    shutdown()
    assert receiver.requests.empty()
    assert dropped(telemetry) == 0


def test_a_receiver_that_is_away_costs_spans_and_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens: the calls are recorded, the shutdown returns, every span is counted, the log says why."""
    closed = Receiver()
    closed.server_close()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{closed.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    lines = Lines()
    provider, shutdown = start_tracing("my-gateway", json_log(lines))
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(lines))
    for _ in range(3):
        play(telemetry, ordinary())
    shutdown()
    assert dropped(telemetry) == 9
    assert "tracing.trouble" in {line["event"] for line in lines.read_all()}


def test_what_tracing_warns_of_is_told_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The exporter's words and the sender's, until the end; then `logging` has them again."""
    lines = Lines()
    _, shutdown = start_tracing("my-gateway", json_log(lines))
    names = ("opentelemetry.exporter", "telemetry.sender")
    for name in names:
        logging.getLogger(name).warning("the receiver is away")
    assert [(line["event"], line["logger"]) for line in lines.read_all()] == [("tracing.trouble", n) for n in names]
    shutdown()
    logging.getLogger("telemetry.sender").warning("after")
    assert [record.message for record in caplog.records if record.name == "telemetry.sender"] == ["after"]
    assert len(lines.read_all()) == 2


def test_a_receiver_that_never_answers_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the sender hangs, calls end at once, the queue drops its oldest, and the close is bounded and exact."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")  # only a full batch wakes the sender
    stuck = Stuck()
    provider = ExportingProvider("my-gateway", stuck)
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines()))
    for _ in range(2):
        play(telemetry, (CallAbandoned(),))
    assert stuck.entered.wait(LIMIT)  # the sender holds two spans and hangs
    for _ in range(10):
        play(telemetry, (CallAbandoned(),))
    assert not stuck.stop.is_set()  # nobody waited for it
    assert dropped(telemetry) == 6  # four of the ten found room
    provider.sender.close(0.1)
    assert stuck.freed  # by the close, not by its own patience
    assert dropped(telemetry) == 12


def test_spans_that_come_after_the_close_are_counted_too() -> None:
    """A stream that outlives the drain loses its spans, and the counter says so."""
    stuck = Stuck()
    stuck.stop.set()
    provider = ExportingProvider("my-gateway", stuck)
    telemetry = Telemetry(SERIES, tracer_provider=provider, log=json_log(Lines()))
    provider.sender.close(LIMIT)
    play(telemetry, (CallAbandoned(),))
    assert dropped(telemetry) == 1


@pytest.mark.parametrize(
    ("text", "room"),
    [
        pytest.param("7", 7, id="a number"),
        pytest.param("0", 2048, id="zero"),
        pytest.param("many", 2048, id="a word"),
        pytest.param("", 2048, id="nothing"),
    ],
)
def test_the_size_of_the_queue_is_the_operators(monkeypatch: pytest.MonkeyPatch, text: str, room: int) -> None:
    """OTEL_BSP_MAX_QUEUE_SIZE, where it is usable."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", text)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")
    stuck = Stuck()
    stuck.stop.set()
    provider = ExportingProvider("my-gateway", stuck)
    provider.sender.close(LIMIT)
    assert provider.room == room


def scrape(port: int, path: str, accept: str = "", method: str = "GET") -> tuple[int, str, str]:
    """Status, content type and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        connection.request(method, path, headers={"Accept": accept} if accept else {})
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


@pytest.fixture
def port(telemetry: Telemetry) -> Iterator[int]:
    """Where the metrics are served."""
    bound, close = serve_metrics(telemetry.page, "127.0.0.1", 0)
    yield bound
    close()


def test_metrics_are_served_as_text_or_open_metrics(port: int) -> None:
    """What the scraper accepts decides; only OpenMetrics ends in a marker."""
    status, content_type, body = scrape(port, "/metrics?x=1")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert "thinkcap_usage_missing_total{" in body
    status, content_type, body = scrape(port, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert (status, content_type.split(";")[0]) == (200, "application/openmetrics-text")
    assert body.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        pytest.param("/", "GET", 404, id="the root"),
        pytest.param("/metrics/x", "GET", 404, id="a path below"),
        pytest.param("/metrics", "POST", 501, id="another method"),
    ],
)
def test_nothing_else_is_served(port: int, path: str, method: str, status: int) -> None:
    """GET /metrics is all there is."""
    assert scrape(port, path, method=method)[0] == status


def test_a_closed_port_is_free_again(telemetry: Telemetry) -> None:
    """Closing ends the thread and gives the port back; one that is taken says so."""
    port, close = serve_metrics(telemetry.page, "127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        serve_metrics(telemetry.page, "127.0.0.1", port)
    close()
    again, close_again = serve_metrics(telemetry.page, "127.0.0.1", port)
    close_again()
    assert again == port
