"""The peers: how each is installed under one folder, pinned, and how it is started. Nothing outside is touched.

    python -m tests.bench.peers FOLDER [nginx tensorzero portkey litellm]

Each gets one process (or the fewest it runs with), no log of calls and no records of spending: what they would cost on
top is not held against them.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.systems import CHAT, MODEL, Ports, System, free_port, nginx, written

LIMIT_SECONDS: Final = 900
NGINX: Final = "1.22.1-9+deb12u11"
"""Debian 12's; other releases carry another one, which is taken instead."""
TENSORZERO: Final = "2026.6.0"
PORTKEY: Final = "1.15.2"
LITELLM: Final = "1.108.7"
_KEY: Final = "sk-bench"

TENSORZERO_CONFIG: Final = """\
[gateway]
observability.enabled = false

[models.fake-model]
routing = ["up"]

[models.fake-model.providers.up]
type = "openai"
model_name = "fake-model"
api_base = "http://127.0.0.1:{upstream}/v1/"
api_key_location = "none"
"""

# The Rust gateway comes in the wheel and starts inside a Python process, on a port of its own choice.
TENSORZERO_START: Final = """\
import sys, threading
from tensorzero import _start_http_gateway
gateway = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False)
print("listening", gateway.base_url, flush=True)
threading.Event().wait()
"""

LITELLM_CONFIG: Final = """\
model_list:
  - model_name: fake-model
    litellm_params:
      model: openai/fake-model
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: sk-bench
litellm_settings:
  telemetry: false
  request_timeout: 120
general_settings:
  disable_spend_logs: true
"""
_LITELLM_ENV: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_TELEMETRY": "False",
    "LITELLM_MASTER_KEY": _KEY,
    "NO_DOCS": "True",
}


def tensorzero(folder: Path, ports: Ports, peers: Path) -> System:
    """TensorZero: Rust, parses and writes anew both ways."""
    config = written(folder, "tensorzero.toml", TENSORZERO_CONFIG.format(upstream=ports.upstream))
    return System(
        name="tensorzero",
        command=(str(peers / "tensorzero/bin/python"), "-c", TENSORZERO_START, config),
        path="/openai" + CHAT,
        announce=r"(?m)^listening (http://[^/\s]+)",
        env={"TOKIO_WORKER_THREADS": "1"},
        model="tensorzero::model_name::" + MODEL,
    )


def portkey(folder: Path, ports: Ports, peers: Path) -> System:  # noqa: ARG001 - it needs no settings
    """Portkey: TypeScript on Node."""
    port, script = free_port(), peers / "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"
    upstream = ("x-portkey-custom-host", f"http://127.0.0.1:{ports.upstream}/v1")
    return System(
        name="portkey",
        command=("node" if script.exists() else str(script), str(script), "--headless", f"--port={port}"),
        url=f"http://127.0.0.1:{port}{CHAT}",
        env={"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost", "NODE_ENV": "production"},
        headers=(("x-portkey-provider", "openai"), upstream),
    )


def litellm(folder: Path, ports: Ports, peers: Path) -> System:
    """LiteLLM's proxy: Python."""
    port = free_port()
    config = written(folder, "litellm.yaml", LITELLM_CONFIG.format(upstream=ports.upstream))
    where = ("--host", "127.0.0.1", "--port", str(port), "--num_workers", "1")
    return System(
        name="litellm",
        command=(str(peers / "litellm/bin/litellm"), "--config", config, *where),
        url=f"http://127.0.0.1:{port}{CHAT}",
        env=_LITELLM_ENV,
    )


PEERS: Final[dict[str, Callable[[Path, Ports, Path], System]]] = {
    "nginx": nginx,
    "tensorzero": tensorzero,
    "portkey": portkey,
    "litellm": litellm,
}


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=LIMIT_SECONDS, stdout=sys.stderr)  # noqa: S603 - ours


def _install_nginx(folder: Path) -> None:
    """The Debian package, unpacked and not installed: no root, no service."""
    try:
        _run(["apt-get", "download", "--quiet", f"nginx={NGINX}"], folder)
    except subprocess.CalledProcessError:
        _run(["apt-get", "download", "--quiet", "nginx"], folder)
    package = max(folder.glob("nginx_*.deb"), key=lambda path: path.stat().st_mtime)
    _run(["dpkg-deb", "-x", str(package), "."], folder)


def _install_venv(folder: Path, requirement: str) -> None:
    _run([sys.executable, "-m", "venv", "."], folder)
    _run(["bin/pip", "install", "--quiet", "--disable-pip-version-check", requirement], folder)


def _install_portkey(folder: Path) -> None:
    wanted = {
        "name": "portkey",
        "version": "1.0.0",
        "private": True,
        "dependencies": {"@portkey-ai/gateway": PORTKEY},
        "overrides": {"@hono/node-server": "1.13.8", "hono": "4.9.7"},  # the newest ones do not start
    }
    (folder / "package.json").write_bytes(msgspec.json.encode(wanted))
    _run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder)


INSTALL: Final[dict[str, Callable[[Path], None]]] = {
    "nginx": _install_nginx,
    "tensorzero": lambda folder: _install_venv(folder, f"tensorzero=={TENSORZERO}"),
    "portkey": _install_portkey,
    "litellm": lambda folder: _install_venv(folder, f"litellm[proxy]=={LITELLM}"),
}
_STAMP: Final = "installed"


def install(peers: Path, names: list[str]) -> list[str]:
    """Install what is not there yet; the names that could not be had, with why on stderr."""
    failed = []
    for name in names:
        folder = peers / name
        if (folder / _STAMP).exists() or (name == "nginx" and shutil.which("nginx") is not None):
            continue
        sys.stderr.write(f"installing {name} into {folder}\n")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            INSTALL[name](folder)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            sys.stderr.write(f"{name} could not be installed: {error}\n")
            failed.append(name)
        else:
            (folder / _STAMP).touch()
    return failed


if __name__ == "__main__":
    sys.exit(bool(install(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(INSTALL))))
