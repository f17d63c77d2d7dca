"""Where records go: spans to an OTLP/HTTP receiver in the background, metrics to whoever scrapes their own port.

No call ever waits for either. Spans queue in memory and a thread sends them; when the receiver is away the oldest are
dropped and counted. The standard OTEL_* variables decide endpoint, headers, batching and sampling.
"""

import logging
import os
import socket
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from structlog.typing import FilteringBoundLogger

from telemetry.logs import SdkWarnings
from telemetry.otlp import LeanExporter

DEFAULT_QUEUE: Final = 2048
"""Spans; what the SDK takes when OTEL_BSP_MAX_QUEUE_SIZE says nothing usable."""
FLUSH_SECONDS: Final = 5.0
"""How long a shutdown waits for the receiver."""
SCRAPE_SECONDS: Final = 10.0
"""How long a scraper may take to say what it wants."""


class Ledger:
    """Counts the spans that never arrive. The SDK drops the oldest of a full queue without telling its owner."""

    def __init__(self, room: int) -> None:
        """`room`: spans the queue holds."""
        self._room = room
        self._waiting = 0
        self._lock = Lock()
        self.report: Callable[[int], None] = lambda _lost: None

    def queued(self) -> None:
        """One more waits; in a full queue the oldest went."""
        with self._lock:
            lost = self._waiting >= self._room
            self._waiting += not lost
        if lost:
            self.report(1)

    def taken(self, spans: int) -> None:
        """The sender took so many out of the queue."""
        with self._lock:
            self._waiting = max(0, self._waiting - spans)

    def close(self) -> None:
        """Nothing is sent any more: what still waits is lost."""
        with self._lock:
            lost, self._waiting, self._room = self._waiting, 0, 0
        if lost:
            self.report(lost)


class CountingExporter(SpanExporter):
    """Sends through another exporter and books what it could not send."""

    def __init__(self, inner: SpanExporter, ledger: Ledger) -> None:
        """Wrap `inner`."""
        self._inner, self._ledger = inner, ledger
        self._closed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch, in the sender's thread."""
        self._ledger.taken(len(spans))
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self._ledger.report(len(spans))
        return result

    def shutdown(self) -> None:
        """Stop sending; a retry that waits gives up."""
        if not self._closed:
            self._closed = True
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered here."""
        return self._inner.force_flush(timeout_millis)


class CountingProcessor(BatchSpanProcessor):
    """The SDK's batch processor; it also books what goes into the queue."""

    def __init__(self, exporter: SpanExporter, ledger: Ledger, room: int) -> None:
        """Start the sender's thread. OTEL_BSP_* decide the rest."""
        super().__init__(exporter, max_queue_size=room)
        self._ledger = ledger

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a sampled span; never waits."""
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled:
            self._ledger.queued()
        super().on_end(span)


class ExportingProvider(TracerProvider):
    """Makes spans that go to an OTLP receiver."""

    def __init__(self, service_name: str, exporter: SpanExporter) -> None:
        """Sampling by OTEL_TRACES_SAMPLER*, resource by OTEL_RESOURCE_ATTRIBUTES; a caller's decision is respected."""
        name = os.environ.get("OTEL_SERVICE_NAME") or service_name
        super().__init__(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
        self.room = _queue_size()
        """Spans the queue holds."""
        self._ledger = Ledger(self.room)
        self._exporter = CountingExporter(exporter, self._ledger)
        self.add_span_processor(CountingProcessor(self._exporter, self._ledger, self.room))

    def on_drop(self, report: Callable[[int], None]) -> None:
        """Tell `report` how many spans are lost, whenever some are. It is called from any thread."""
        self._ledger.report = report

    def close(self, seconds: float) -> None:
        """Send what waits, but return after `seconds` or little more; what could not be sent is counted as lost."""
        flush = Thread(target=self.shutdown, name="thinkcap-flush", daemon=True)
        flush.start()
        flush.join(seconds)
        if flush.is_alive():
            self._exporter.shutdown()  # wakes a retry that waits; the rest of the queue then fails at once
            flush.join(1.0)
        self._ledger.close()


def _queue_size() -> int:
    text = os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else DEFAULT_QUEUE


def start_tracing(
    service_name: str, log: FilteringBoundLogger | None = None
) -> tuple[ExportingProvider, Callable[[], None]]:
    """A provider for `Telemetry`, and the function that flushes and stops it within about 5 seconds.

    With a log, the SDK's own warnings (the receiver is away, the queue is full) become lines of it.
    """
    sdk, handler = logging.getLogger("opentelemetry"), SdkWarnings(log) if log is not None else None
    propagated = sdk.propagate
    if handler is not None:
        sdk.addHandler(handler)
        sdk.propagate = False
    provider = ExportingProvider(service_name, LeanExporter())

    def shutdown() -> None:
        provider.close(FLUSH_SECONDS)
        if handler is not None:
            sdk.removeHandler(handler)
            sdk.propagate = propagated

    return provider, shutdown


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Scrape)


class _Scrape(BaseHTTPRequestHandler):
    """GET /metrics; Prometheus text or OpenMetrics, as the scraper accepts."""

    server: _Server
    timeout = SCRAPE_SECONDS

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/metrics":
            self.send_error(404)
            return
        encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encoder(self.server.registry)
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """A scrape is no event."""


def serve_metrics(registry: CollectorRegistry, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Serve `registry` from a thread of its own, which spares the event loop the rendering.

    Port 0 picks a free one. Gives the bound port and the function that closes it. Raises OSError when it is taken.
    """
    server = _Server(host, port, registry)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="thinkcap-metrics", daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(SCRAPE_SECONDS)

    return int(server.server_address[1]), close
