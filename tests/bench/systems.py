"""The systems under test: Thinkcap with everything on, the same without traces, nginx, and no gateway at all."""

import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Final

from msgspec import Struct

CHAT: Final = "/v1/chat/completions"
MODEL: Final = "fake-model"
READY: Final = r"(?m)^thinkcap ready on (http://\S+) metrics on (http://\S+)$"
ROOT: Final = Path(__file__).parents[2]


class Ports(Struct, frozen=True):
    """Where the upstream and the trace receiver listen."""

    upstream: int
    receiver: int


class System(Struct, frozen=True, kw_only=True):
    """One system under test."""

    name: str
    command: tuple[str, ...] = ()
    """Empty: the load goes straight to the upstream."""
    url: str | None = None
    """Where it takes calls; None: it says so itself, see `announce`."""
    path: str = CHAT
    announce: str | None = None
    """Finds its address in what it writes (group 1), and that of its metrics (group 2, if there is one)."""
    env: dict[str, str] = {}
    headers: tuple[tuple[str, str], ...] = ()
    model: str = MODEL

    @property
    def there(self) -> bool:
        """It can be started."""
        return not self.command or shutil.which(self.command[0]) is not None


# All three rules are armed for the model and for a plain call, none acts: no answer uses its whole cap, thinking stays
# far below its own, no level is refused. The report says what the counters say of that.
SETTINGS: Final = """\
[server]
max_inflight = 4000

[upstreams.bench]
url = "http://127.0.0.1:{upstream}"
kind = "generic"
dialects = ["chat"]
ask_usage = true
max_connections = 4000

[models."fake-model"]
upstream = "bench"
levels = ["off", "low", "medium", "high"]
thinking_cap = 100000
thinking_overrun = 256

[level_fallback]
purposes = ["conversation", "compaction", "session-title"]

[telemetry]
traces = "{traces}"
"""

NGINX: Final = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_buffer_size 1m;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
  keepalive_requests 1000000;
  upstream up {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://up;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 120s;
    }}
  }}
}}
"""


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def written(folder: Path, name: str, text: str) -> str:
    """The path of a file with this text."""
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def direct(ports: Ports) -> System:
    """No gateway: what the load itself and the upstream take."""
    return System(name="direct", url=f"http://127.0.0.1:{ports.upstream}{CHAT}")


def nginx(folder: Path, ports: Ports, peers: Path) -> System:
    """A proxy that reads nothing: the practical limit. The one under `peers`, else the one on PATH."""
    port, installed = free_port(), peers / "nginx/usr/sbin/nginx"
    config = written(folder, "nginx.conf", NGINX.format(upstream=ports.upstream, port=port))
    binary = str(installed) if installed.exists() else "nginx"
    command = (binary, "-e", "stderr", "-p", str(folder), "-c", config)
    return System(name="nginx", command=command, url=f"http://127.0.0.1:{port}{CHAT}")


def thinkcap(folder: Path, ports: Ports, *, traced: bool, source: Path = ROOT) -> System:
    """Thinkcap with everything on; `traced`: every call is sampled and its spans go to the receiver."""
    name = "thinkcap" if traced else "thinkcap-untraced"
    settings = SETTINGS.format(upstream=ports.upstream, traces="otlp" if traced else "off")
    # Spans are sent twice a second, not every five seconds: within the load they belong to, not after it.
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{ports.receiver}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    command = (sys.executable, "-m", "gateway", "serve", "-c", written(folder, f"{name}.toml", settings))
    return System(
        name=name,
        command=(*command, "--port", "0", "--metrics-port", "0"),
        announce=READY,
        env={"PYTHONPATH": str(source)} | (env if traced else {}),
    )


def metrics_of(said: str) -> str | None:
    """The address of Thinkcap's metrics, from its ready line."""
    found = re.search(READY, said)
    return found[2] if found else None
