"""The process: its ready line, ports that are taken, the drain, and how it ends."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.upstream import running as upstream_running
from gateway.errors import SettingsError
from gateway.serve import listen
from tests.running import LIMIT_SECONDS, ROOT, Running, running, until

SETTINGS = """
[server]
drain_seconds = {drain}
[upstreams.demo]
url = "{url}"
dialects = ["chat"]
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """A scripted upstream whose tokens take their time."""
    with upstream_running(pace=0.01) as url:
        yield url


class Stream:
    """A stream that is read in a thread: what came, and whether it came to its end."""

    def __init__(self, url: str, model: str, tokens: int) -> None:
        self._url, self._model, self._tokens = url, model, tokens
        self.body, self.whole = "", False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        body = {"model": self._model, "messages": [], "stream": True, "max_tokens": self._tokens}
        with (
            contextlib.suppress(httpx.TransportError),
            httpx.stream("POST", self._url + "/v1/chat/completions", json=body, timeout=60, trust_env=False) as answer,
        ):
            for text in answer.iter_text():
                self.body += text
            self.whole = True


def ask(gateway: Running) -> httpx.Response:
    """One whole call."""
    body: dict[str, Any] = {"model": "demo-honest", "messages": []}
    return httpx.post(gateway.url + "/v1/chat/completions", json=body, timeout=60, trust_env=False)


def outcomes(gateway: Running) -> list[str]:
    """The outcome of every call, as the log has it."""
    lines = [json.loads(line) for line in gateway.log if line.startswith("{")]
    return [line["outcome"] for line in lines if line["event"] == "call.ended"]


def test_ready(upstream: str) -> None:
    """One line on stdout says where it listens, and then it does; SIGTERM without calls ends it well at once."""
    with running(SETTINGS.format(url=upstream, drain=30)) as gateway:
        assert gateway.stdout == [f"thinkcap ready on {gateway.url} metrics on {gateway.metrics_url}\n"]
        for path in ("live", "ready"):
            answer = httpx.get(f"{gateway.url}/health/{path}", trust_env=False)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert "thinkcap_build_info" in {name for name, _ in gateway.metrics()}
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.wait() == 0


def test_drain(upstream: str) -> None:
    """Running streams come to their end, new calls are told to come back, and then the process ends well."""
    with running(SETTINGS.format(url=upstream, drain=30)) as gateway:
        stream = Stream(gateway.url, "demo-honest-length", tokens=150)
        until(lambda: bool(stream.body))
        gateway.process.send_signal(signal.SIGTERM)
        until(lambda: httpx.get(f"{gateway.url}/health/ready", trust_env=False).status_code == 503)
        late = ask(gateway)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
        assert late.headers["retry-after"]
        assert gateway.wait() == 0
        stream.thread.join(LIMIT_SECONDS)
        assert stream.whole
        assert stream.body.endswith("data: [DONE]\n\n")
        assert sorted(outcomes(gateway)) == ["ok", "overloaded"]


@pytest.mark.parametrize("again", [True, False], ids=["a second signal", "the end of the drain's time"])
def test_a_stream_without_end(again: bool, upstream: str) -> None:
    """What does not end in time is told so, ended and counted; after a second signal cut. The process ends well."""
    with running(SETTINGS.format(url=upstream, drain=30 if again else 0.2)) as gateway:
        stream = Stream(gateway.url, "demo-thinker", tokens=1_000_000)
        until(lambda: bool(stream.body))
        gateway.process.send_signal(signal.SIGTERM)
        if again:
            until(lambda: httpx.get(f"{gateway.url}/health/ready", trust_env=False).status_code == 503)
            gateway.process.send_signal(signal.SIGTERM)
        assert gateway.wait() == 0
        stream.thread.join(LIMIT_SECONDS)
        assert stream.whole is not again
        assert ('"draining"' in stream.body[-300:]) is not again
        assert "[DONE]" not in stream.body
        assert len(outcomes(gateway)) == 1


@pytest.mark.parametrize(("option", "setting"), [("--port", "server.port"), ("--metrics-port", "server.metrics_port")])
def test_a_port_in_use(option: str, setting: str, tmp_path: Path) -> None:
    """The start is refused, and the message names the setting and the address."""
    file = tmp_path / "thinkcap.toml"
    file.write_text('[upstreams.a]\nurl = "http://127.0.0.1:9"\ndialects = ["chat"]\n', encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"--port": "0", "--metrics-port": "0"} | {option: str(port)}
        argv = [
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "-c",
            str(file),
            *(word for pair in ports.items() for word in pair),
        ]
        ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)  # noqa: S603 - it is the gateway under test
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"{setting}: 127.0.0.1:{port} cannot be listened on: Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


LOOKS_AT_THE_INTERPRETER = """
import gc, sys
from gateway import serve
from gateway.cli import main

class Server(serve.Server):
    async def startup(self, sockets=None):
        print(gc.isenabled())
        await super().startup(sockets)
        print(gc.isenabled(), gc.get_freeze_count() > 1000, sys.getswitchinterval())
        self.should_exit = True

serve.Server = Server
main(["serve", "--port", "0", "--metrics-port", "0"])
"""


def test_how_the_interpreter_is_set(tmp_path: Path) -> None:
    """Starting makes no garbage, and what it made is left out later; a thread that writes metrics gives way at once."""
    command = [sys.executable, "-c", LOOKS_AT_THE_INTERPRETER]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run(  # noqa: S603 - our own interpreter, and a script of ours
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True
    )
    before, ready, after = said.stdout.splitlines()
    assert (before, after) == ("False", "True True 0.0005")
    assert ready.startswith("thinkcap ready")


def test_addresses() -> None:
    """Both families of addresses are listened on; one that is not this machine's is refused."""
    for host in ("127.0.0.1", "::1"):
        with listen(host, 0, "server.port") as sock:
            assert sock.getsockname()[0] == host
    with pytest.raises(SettingsError, match=r"server\.port: 192\.0\.2\.1:80 cannot be listened on"):
        listen("192.0.2.1", 80, "server.port")
