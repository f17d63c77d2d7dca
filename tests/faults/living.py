"""A gateway in this process, on real sockets, with nothing of it hidden: its tasks, connections, counters and spans."""

import asyncio
import contextlib
import gc
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeVar

import structlog
import uvloop
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from gateway.app import Gateway, clients_of, series_of
from gateway.config import parse_settings
from gateway.line import LeanLine
from gateway.serve import CuttingServer, config_of, listen
from telemetry.observer import Telemetry
from telemetry.records import Record
from tests.faults.caller import Answer, ask

LIMIT_SECONDS: Final = 300.0
OURS: Final = re.compile(r"[/\\](?:gateway|telemetry|uvicorn|litestar)[/\\](?!.*tests)")
Result = TypeVar("Result")


class Ended(SpanProcessor):
    """Counts the spans that were ended; those that were not are found among the living objects."""

    def __init__(self) -> None:
        self.count = 0

    def on_end(self, span: ReadableSpan) -> None:  # noqa: ARG002 - the SDK's signature
        """One more."""
        self.count += 1


class _Server(CuttingServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Living:
    """The running gateway. `sent` counts the calls of `ask`, for the conservation check at the end."""

    def __init__(self, settings: str, **environ: str) -> None:
        self.settings = parse_settings(settings, environ)
        self.spans = Ended()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.spans)
        self.log: list[dict[str, Any]] = []
        self.telemetry = Telemetry(series_of(self.settings), tracer_provider=provider, log=_keeping(self.log))
        self.clients = clients_of(self.settings)
        self._requests: defaultdict[str, list[tuple[tuple[str, ...], Any]]] = defaultdict(list)
        for key, child in self.telemetry.metrics.requests.items():
            self._requests[key[2]].append((key, child))
        self.gateway = Gateway(self.settings, self.telemetry, self.clients)
        self.sock = listen("127.0.0.1", 0, "server.port")
        self.port: int = self.sock.getsockname()[1]
        self.server = _Server(config_of(self.gateway))
        self.sent = 0
        self.uncaught: list[str] = []
        """What was raised in a callback or a task that nobody waits for."""

    async def ask(self, request: bytes, **how: Any) -> Answer:
        """Send one call and read its answer (tests.faults.caller)."""
        self.sent += 1
        return await ask(self.port, request, **how)

    async def peek(self, request: bytes) -> Answer:
        """Ask for something that is not counted: health, the list of models."""
        return await ask(self.port, request)

    def outcomes(self, model: str | None = None) -> dict[str, int]:
        """How many calls ended in each way, of one model or of all; ways that did not happen are left out."""
        requests = self.telemetry.metrics.requests
        return _sums(requests.items() if model is None else self._requests[model])

    def faults(self, upstream: str | None = None) -> dict[str, int]:
        """How many upstream errors of each kind."""
        errors = self.telemetry.metrics.upstream_errors
        return _sums((key, child) for key, child in errors.items() if upstream is None or key[0] == upstream)

    @property
    def busy(self) -> int:
        """Upstream connections in an exchange."""
        lines = [line for client in self.clients.values() for line in (client._line, client._beside)]
        transports = [line._transport for line in lines if isinstance(line, LeanLine)]
        return sum(transport.open - transport.idle for transport in transports)

    @property
    def ended(self) -> int:
        """Calls that have ended, whichever way."""
        return sum(self.outcomes().values())

    @property
    def log_errors(self) -> list[dict[str, Any]]:
        """Lines of the log that say something went wrong in the gateway itself."""
        return [line for line in self.log if line["level"] in {"error", "critical"}]

    async def settle(self) -> None:
        """Wait until every call has ended, then hold the gateway to what it must leave behind: nothing."""
        await until(lambda: self.ended == self.sent and not self.busy and not self.gateway.limits.inflight)
        await until(lambda: not self.server.server_state.tasks)
        assert self.spans.count >= self.sent
        assert left(Record) == []
        assert not _sums(self.telemetry.metrics.inflight.items())
        assert self.telemetry.failures == 0
        assert not self.log_errors
        assert not self.uncaught


@contextlib.asynccontextmanager
async def living(settings: str, **environ: str) -> AsyncIterator[Living]:
    """Serve until the block ends; then no task, connection, span or call may be left."""
    house = Living(settings, **environ)
    asyncio.get_running_loop().set_exception_handler(lambda _, what: house.uncaught.append(str(what)))
    serving = asyncio.ensure_future(house.server.serve(sockets=[house.sock]))
    try:
        await until(lambda: house.server.started)
        quiet = _tasks()
        yield house
        await house.settle()
        await until(lambda: _tasks() <= quiet)
    finally:
        house.server.should_exit = True
        await serving
        house.sock.close()
    await until(lambda: not _tasks())


def _tasks() -> set[asyncio.Task[Any]]:
    """The gateway's own, by where their code stands."""
    coros = [(task, task.get_coro()) for task in asyncio.all_tasks()]
    return {task for task, coro in coros if OURS.search(getattr(coro, "cr_code", _tasks.__code__).co_filename)}


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a test on the loop that production uses, in bounded time; what is left for the collector is a warning."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(asyncio.wait_for(main, LIMIT_SECONDS))
    gc.collect()
    return result


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - sockets and counters, which set no event
            await asyncio.sleep(0.002)


def _sums(children: Iterable[tuple[tuple[str, ...], Any]]) -> dict[str, int]:
    """By the last label. The children themselves are read: collecting some hundred models takes a second."""
    sums: Counter[str] = Counter()
    for key, child in children:
        if value := int(child._value.get()):
            sums[key[-1]] += value
    return dict(sums)


def left(*kinds: type) -> list[object]:
    """Objects of these kinds that are still alive."""
    gc.collect()
    return [found for found in gc.get_objects() if isinstance(found, kinds)]


def _keeping(lines: list[dict[str, Any]]) -> Any:
    def keep(_logger: Any, level: str, line: Any) -> str:
        lines.append(dict(line) | {"level": level})
        raise structlog.DropEvent

    return structlog.wrap_logger(
        structlog.PrintLogger(), processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(0)
    )
