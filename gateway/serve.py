"""The process: sockets, the ready line, signals, the drain, the end."""

import asyncio
import ctypes
import gc
import logging
import socket
import sys
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final

import uvicorn

from gateway.app import Gateway, series_of
from gateway.config import Settings
from gateway.errors import SettingsError
from gateway.protocol import CallerProtocol
from telemetry.export import serve_metrics, start_tracing
from telemetry.logs import json_log
from telemetry.observer import Telemetry

M_MMAP_THRESHOLD: Final = -3
"""Of glibc's mallopt (malloc.h)."""
LARGE_BLOCK: Final = 256 * 1024
SWITCH_SECONDS: Final = 0.0005
"""How long another thread may keep the interpreter from the event loop. One writes the metrics, one sends the spans:
left alone each holds up every token that comes meanwhile for 5 ms."""


class CuttingServer(uvicorn.Server):
    """uvicorn, save that nothing stays open behind it."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, then cut what is still open: an event loop does not end while a caller leaves bytes unread."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()


class Server(CuttingServer):
    """Also, a signal begins a drain: calls that run may finish, new ones are told to come back."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, ready: str) -> None:
        """`ready` is printed once the socket accepts."""
        super().__init__(config)
        self._gateway, self._ready = gateway, ready
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            # What was built so far lives as long as the process: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)
            gc.enable()
            print(self._ready, flush=True)  # noqa: T201 - the ready line is what the contract says goes to stdout

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is uvicorn's
        """Begin to drain; a second signal ends at once."""
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())
        else:
            self.should_exit = self.force_exit = True

    async def _drain(self) -> None:
        self._gateway.limits.drain()
        try:
            async with asyncio.timeout(self._gateway.settings.server.drain_seconds):
                await self._gateway.limits.idle.wait()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        self.should_exit = True


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens. Raises SettingsError naming the setting when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise SettingsError(setting, f"{host}:{port} cannot be listened on: {error.strerror}") from None
    sock.listen(2048)
    sock.setblocking(False)  # noqa: FBT003 - the standard library takes it so
    return sock


def config_of(gateway: Gateway) -> uvicorn.Config:
    """How uvicorn serves the gateway."""
    server = gateway.settings.server
    return uvicorn.Config(
        gateway,
        interface="asgi3",
        loop="uvloop",
        http=partial(CallerProtocol, body_timeout=server.body_timeout, send_timeout=server.send_timeout),  # type: ignore[arg-type]  # uvicorn calls it, and no more
        proxy_headers=False,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=64 * 1024,
    )


def give_large_blocks_back() -> None:
    """Have glibc take blocks of a quarter of a megabyte and more from the system, and give them back one by one.

    Left to itself it keeps them once it has seen some, in a heap with holes: a large event then costs half as much
    again as it is long. Elsewhere there is no such function, and nothing to be done.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def serve(settings: Settings) -> int:
    """Run the gateway until it is told to stop; the exit status. Raises SettingsError when an address is taken."""
    give_large_blocks_back()
    sys.setswitchinterval(SWITCH_SECONDS)
    server = settings.server
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # uvicorn reports a cut answer as an error of the application; the front has counted and logged it already.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    sock = listen(server.host, server.port, "server.port")
    log = json_log()
    provider, stop_tracing = (
        start_tracing(settings.telemetry.service_name, log)
        if settings.telemetry.traces == "otlp"
        else (None, lambda: None)
    )
    telemetry = Telemetry(series_of(settings), tracer_provider=provider, log=log)
    try:
        metrics_port, stop_metrics = serve_metrics(telemetry.page, server.metrics_host, server.metrics_port)
    except OSError as error:
        sock.close()
        address = f"{server.metrics_host}:{server.metrics_port}"
        problem = f"{address} cannot be listened on: {error.strerror}"
        raise SettingsError("server.metrics_port", problem) from None
    gateway = Gateway(settings, telemetry)
    config = config_of(gateway)
    host, port = _name(server.host), sock.getsockname()[1]
    metrics = f"http://{_name(server.metrics_host)}:{metrics_port}/metrics"
    runner = Server(config, gateway, f"thinkcap ready on http://{host}:{port} metrics on {metrics}")
    try:
        runner.run(sockets=[sock])
    finally:
        stop_metrics()
        stop_tracing()
        sock.close()
    return 0 if runner.started else 1


def _name(host: str) -> str:
    return f"[{host}]" if ":" in host else host
