"""The command `thinkcap demo`: a scripted server, a gateway and callers, and what comes of it."""

import asyncio
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Final, Self

import httpx
from msgspec import Struct
from rich.console import Console
from rich.live import Live

from gateway.demo.child import ChildError, Gateway, gateway
from gateway.demo.counters import Counters, Story
from gateway.demo.llama import real
from gateway.demo.screen import HEADING, Screen, line
from gateway.demo.summary import summary
from gateway.demo.traffic import Callers, Card
from gateway.demo.upstream import running

SETTINGS: Final = "thinkcap.demo.toml"
REFRESH_SECONDS: Final = 0.5
LINE_SECONDS: Final = 5.0
"""Between lines, where the output is no terminal."""
PATIENCE: Final = 20.0
"""Seconds that calls under way have when the time is over."""
SCRAPE_SECONDS: Final = 20.0
PLAIN_WIDTH: Final = 100


class Options(Struct, frozen=True, kw_only=True):
    """What was asked on the command line. Port 0: any free one."""

    seconds: float = 20.0
    port: int = 0
    live: bool = False


class Stage(Struct, frozen=True):
    """The gateway's settings file, and calls beside the usual ones."""

    settings: Path
    extra: tuple[Card, ...] = ()


def demo(options: Options, console: Console | None = None) -> int:
    """Run the demo; the exit status: 0, or 2 with one line on what is missing."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    try:
        with stage(live=options.live) as played:
            story = asyncio.run(_play(played, options, console))
    except (ChildError, real.Missing) as error:
        console.print(f"thinkcap demo: {error}", markup=False, soft_wrap=True)
        return 2
    for text in ("", *summary(story)):
        console.print(text, markup=False, style="bold" if text[:1].isalpha() else "", soft_wrap=True)
    return 0


@contextmanager
def stage(*, live: bool = False) -> Iterator[Stage]:
    """Start the scripted server and, for `live`, a real llama.cpp server beside it. Raises Missing."""
    with ExitStack() as held:
        settings = local_settings(held.enter_context(running()))
        extra: tuple[Card, ...] = ()
        if live:
            settings += real.settings(held.enter_context(real.server()).url)
            extra = real.CARDS
        file = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="thinkcap-demo-")), "thinkcap.toml")
        file.write_text(settings, encoding="utf-8")
        yield Stage(file, extra)


def local_settings(url: str) -> str:
    """The demo's settings for this machine: 127.0.0.1 only, the server at `url`, no traces."""
    text = files("gateway.demo").joinpath(SETTINGS).read_text(encoding="utf-8")
    here = {'"http://upstream:9000"': f'"{url}"', '"0.0.0.0"': '"127.0.0.1"', '"otlp"': '"off"'}
    for there, instead in here.items():
        text = text.replace(there, instead)
    return text


async def _play(played: Stage, options: Options, console: Console) -> Story:
    """The whole of it; what the counters say at the end."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with gateway(played.settings, options.port) as subject, _Watch(subject, console, options.seconds) as watch:
        calling = asyncio.ensure_future(Callers(subject.url, extra=played.extra).call_until(stop))
        asyncio.get_running_loop().call_later(options.seconds, stop.set)
        try:
            return await watch.until(calling)
        finally:
            stop.set()
            calling.cancel()


class _Watch:
    """Reads /metrics again and again, and shows what it says."""

    def __init__(self, subject: Gateway, console: Console, seconds: float) -> None:
        self._subject, self._console, self._seconds = subject, console, seconds
        self._client = httpx.AsyncClient(trust_env=False, timeout=SCRAPE_SECONDS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def until(self, calling: "asyncio.Future[None]") -> Story:
        """Watch until the callers are done and the gateway has counted their last call."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        counters = await self._read()
        with self._shown() as show:
            done = False
            while loop.time() < began + self._seconds + PATIENCE:
                show(Story.of(counters), loop.time() - began)
                if done and not counters.total("thinkcap_inflight_requests"):
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(calling), REFRESH_SECONDS)
                # Asked before the counters are read, so that they are not older than the answer.
                done = calling.done()
                counters = await self._read()
        return Story.of(counters)

    @contextmanager
    def _shown(self) -> Iterator[Callable[[Story, float], None]]:
        addresses = {"metrics": self._subject.metrics, "gateway": self._subject.url}
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False, transient=True) as live:
                yield lambda story, at: live.update(Screen(story, addresses, at, self._seconds), refresh=True)
            return
        for name, address in addresses.items():
            self._console.print(f"{name:8} {address}", markup=False, soft_wrap=True)
        self._console.print(f"\n{HEADING}", markup=False)
        due = 0.0

        def say(story: Story, at: float) -> None:
            nonlocal due
            if at >= due:
                due += LINE_SECONDS
                self._console.print(line(story, at), markup=False, soft_wrap=True)

        yield say

    async def _read(self) -> Counters:
        try:
            answer = await self._client.get(self._subject.metrics)
        except httpx.HTTPError:
            raise ChildError(f"the gateway no longer answers at {self._subject.metrics}") from None
        return Counters(answer.text)
