"""Where records go: spans to an OTLP/HTTP receiver in the background, metrics to whoever scrapes their own port.

No call ever waits for either. Spans queue in memory and a thread sends them; when the receiver is away the oldest are
dropped and counted. The standard OTEL_* variables decide endpoint, headers, batching and sampling.
"""

import logging
import os
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from structlog.typing import FilteringBoundLogger

from telemetry.logs import TracingWarnings
from telemetry.sender import Outlet, Sender

FLUSH_SECONDS: Final = 5.0
"""How long a shutdown waits for the receiver."""
SCRAPE_SECONDS: Final = 10.0
"""How long a scraper may take to say what it wants."""
Page = Callable[[str], tuple[bytes, str]]
"""From an Accept header to the text of all metrics, and its content type."""


class ExportingProvider(TracerProvider):
    """Makes spans that go to an OTLP receiver."""

    def __init__(self, service_name: str, outlet: Outlet) -> None:
        """Sampling by OTEL_TRACES_SAMPLER*, resource by OTEL_RESOURCE_ATTRIBUTES; a caller's decision is respected."""
        name = os.environ.get("OTEL_SERVICE_NAME") or service_name
        super().__init__(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
        self.room = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        """Spans the queue holds."""
        batch = min(self.room, _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512))
        seconds = _number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000
        self.sender = Sender(outlet, room=self.room, batch=batch, seconds=seconds)

    def on_drop(self, report: Callable[[int], None]) -> None:
        """Tell `report` how many spans are lost, whenever some are. It is called from any thread."""
        self.sender.report = report


def _number(name: str, default: int) -> int:
    """What the operator says; the SDK's own default where that is no number above zero."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else default


def start_tracing(
    service_name: str, log: FilteringBoundLogger | None = None
) -> tuple[ExportingProvider, Callable[[], None]]:
    """A provider for `Telemetry`, and the function that flushes and stops it within about 5 seconds.

    With a log, what the exporter and the sender warn of (the receiver is away, the queue is full) become lines of it.
    """
    from telemetry.otlp import LeanExporter  # noqa: PLC0415 - protobuf and an HTTP client, for those alone who export

    stop_telling = _tell(log) if log is not None else lambda: None
    provider = ExportingProvider(service_name, LeanExporter())

    def shutdown() -> None:
        provider.sender.close(FLUSH_SECONDS)
        stop_telling()

    return provider, shutdown


def _tell(log: FilteringBoundLogger) -> Callable[[], None]:
    """Bring what is warned of through `logging` into this log, and nowhere else; the function that ends it."""
    handler = TracingWarnings(log)
    loggers = [logging.getLogger(name) for name in ("opentelemetry", "telemetry")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False

    def stop() -> None:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagated

    return stop


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, page: Page) -> None:
        self.page = page
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
        body, content_type = self.server.page(self.headers.get("Accept", ""))
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """A scrape is no event."""


def serve_metrics(page: Page, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Serve `page` from a thread of its own, which spares the event loop the writing.

    Port 0 picks a free one. Gives the bound port and the function that closes it. Raises OSError when it is taken.
    """
    server = _Server(host, port, page)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="thinkcap-metrics", daemon=True)
    thread.start()

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join(SCRAPE_SECONDS)

    return int(server.server_address[1]), close
