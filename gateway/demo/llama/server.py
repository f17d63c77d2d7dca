"""A real llama.cpp server as a child process: what it needs, how it starts, how it ends."""

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

HERE: Final = Path(__file__).parent
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0


class LlamaServer(Struct, frozen=True):
    """A running server. `url` has no path."""

    url: str
    alias: str
    pid: int


def missing() -> str | None:
    """Why no live server can run here; None when it can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "the extra `live` is not installed (pip install 'thinkcap[live]')"
    if platform.machine() not in {"x86_64", "AMD64"}:
        return f"the xllamacpp wheel needs an x86-64 processor, this is {platform.machine()}"
    information = Path("/proc/cpuinfo")
    if information.exists() and "avx2" not in information.read_text().split():
        return "the xllamacpp wheel needs AVX2, which this processor has not"
    return None


@contextmanager
def llama_server(
    model: Path, *, slots: int = 2, http_threads: int = 16, context: int = 4096, api_key: str | None = None
) -> Iterator[LlamaServer]:
    """Run a server with this model on a free port of 127.0.0.1. Its name for the model is the file's stem.

    Raises RuntimeError, with what the server said on standard error, when it does not start.
    """
    command = [sys.executable, str(HERE / "host.py"), "--model", str(model), "--template", str(HERE / "scripted.jinja")]
    command += ["--alias", model.stem, "--slots", str(slots), "--http-threads", str(http_threads)]
    command += ["--context", str(context), *(["--api-key", api_key] if api_key else [])]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_ARG_")}
    with tempfile.TemporaryFile() as log:
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=environment, process_group=0) as child:  # noqa: S603 - our own host
            try:
                url = _address(child)
                if url is None:
                    log.seek(0)
                    raise RuntimeError(f"llama.cpp did not start: {log.read().decode(errors='replace')[-2000:]}")
                yield LlamaServer(url, model.stem, child.pid)
            finally:
                _end(child)


def _address(child: subprocess.Popen[bytes]) -> str | None:
    """The address the child prints, None when it ends or says nothing in time."""
    watchdog = threading.Timer(START_SECONDS, child.kill)
    watchdog.start()
    try:
        for line in child.stdout or ():
            if line.startswith(b"listening on "):
                return line.removeprefix(b"listening on ").decode().strip()
    finally:
        watchdog.cancel()
        watchdog.join()
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close its input, then wait; a child that goes on is killed by its own id."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
