"""The gateway of the demo: the real `thinkcap serve`, as a process that cannot outlive the demo."""

import asyncio
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

READY: Final = re.compile(rb"thinkcap ready on (\S+) metrics on (\S+)")
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0


class ChildError(Exception):
    """The gateway did not start, or ended before its time. The message says why, in its own words."""


class Gateway(Struct, frozen=True):
    """A running gateway: where calls go, and where its counters are."""

    url: str
    metrics: str
    pid: int


@asynccontextmanager
async def gateway(settings: Path, port: int) -> AsyncIterator[Gateway]:
    """Run a gateway with these settings until the block ends. Raises ChildError when it does not start."""
    serve = ("gateway", "serve", "-c", str(settings), "--port", str(port), "--metrics-port", "0")
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gateway.demo.leash", *serve),
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            process_group=0,  # a Ctrl-C at the keyboard is the demo's to handle
        )
        try:
            ready = await _ready(process)
            if ready is None:
                raise ChildError(_last_line(log))
            yield ready
        finally:
            await _end(process)


async def _ready(process: Process) -> Gateway | None:
    """Its addresses, once it says them; None when it ends or stays silent."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(START_SECONDS):
            async for text in process.stdout:
                found = READY.search(text)
                if found:
                    return Gateway(found[1].decode(), found[2].decode(), process.pid)
    except TimeoutError:
        return None
    return None


async def _end(process: Process) -> None:
    """Let go of the leash; a gateway that does not end by that is killed by its id."""
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = [text for text in log.read().decode(errors="replace").splitlines() if text.strip()]
    return lines[-1] if lines else "the gateway did not start and did not say why"
