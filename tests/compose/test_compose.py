"""compose.yaml and what it mounts: hardened, pinned, and complete without a file made by hand."""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gateway.config import Settings, parse_settings
from gateway.demo.traffic import MIX

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final[dict[str, Any]] = msgspec.yaml.decode((ROOT / "compose.yaml").read_bytes())
EXAMPLE: Final = (ROOT / ".env.example").read_text(encoding="utf-8")
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SHIPPED: Final = "dashboards/compose/thinkcap.toml"
SERVICES: Final = {"gateway", "lb", "prometheus", "alertmanager", "jaeger", "grafana", "upstream", "traffic"}
DEMO: Final = {"upstream", "traffic"}
DEFAULT: Final = re.compile(r"\$\{(\w+):-([^}]*)\}")


def merged(service: dict[str, Any]) -> dict[str, Any]:
    """A service with what it takes over from an anchor."""
    return {**service.get("<<", {}), **service}


ALL: Final = {name: merged(service) for name, service in COMPOSE["services"].items()}


def plain(text: str) -> str:
    """What compose reads when no variable is set."""
    return DEFAULT.sub(lambda found: found[2], text)


def settings(name: str) -> Settings:
    """Settings that this repository ships."""
    return parse_settings((ROOT / name).read_text(encoding="utf-8"), {}, file=name, read_file=lambda _name: "")


def test_the_services_are_these() -> None:
    """Six by default; the demo adds two."""
    assert set(ALL) == SERVICES
    assert {name for name, service in ALL.items() if service.get("profiles") == ["demo"]} == DEMO


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_can_do_no_more_than_it_must(name: str) -> None:
    """Read-only, without capabilities or new privileges, as a user who is not root, with an end to memory and logs."""
    service = ALL[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "pid", "ipc", "devices"} & service.keys()
    assert service["mem_limit"]
    assert service["pids_limit"] > 0
    assert service["logging"]["options"]["max-size"]
    if "user" in service:
        assert int(plain(service["user"]).split(":")[0]) > 0
    else:
        assert service["image"] == "thinkcap:dev", "its Dockerfile names the user"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_pinned_watched_and_not_named(name: str) -> None:
    """A tag that names a version, a health check, and no name that stands in the way of replicas."""
    service = ALL[name]
    image, _, tag = service["image"].partition(":")
    assert image == "thinkcap" or re.search(r"\d+\.\d+", tag)
    assert "container_name" not in service
    assert "HEALTHCHECK" in DOCKERFILE if name == "gateway" else service["healthcheck"]["test"][0] == "CMD"
    for condition in service.get("depends_on", {}).values():
        assert condition == {"condition": "service_healthy"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_what_is_published_is_published_here_only(name: str) -> None:
    """Ports stand on 127.0.0.1; the gateway has none, so that it can have replicas."""
    for port in ALL[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", plain(port))
    assert ("ports" in ALL[name]) == (name not in DEMO | {"gateway"})


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_nothing_is_mounted_that_is_not_there(name: str) -> None:
    """Files of this repository, read-only, or named volumes; a missing one would become an empty folder of root's."""
    for volume in ALL[name].get("volumes", ()):
        source, target, *mode = plain(volume).split(":")
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert mode == ["ro"], target
        else:
            assert source in COMPOSE["volumes"]
    for secret in ALL[name].get("secrets", ()):
        assert plain(COMPOSE["secrets"][secret]["file"]) == "/dev/null"


def test_no_secret_stands_in_the_file() -> None:
    """Keys and passwords come from files; the names of variables never end in a value."""
    for name, service in ALL.items():
        for key, value in service.get("environment", {}).items():
            assert not re.search(r"PASSWORD$|KEY$|TOKEN$|SECRET$", key), name
            assert not key.endswith("__FILE") or str(value).startswith("/")


def test_grafana_lets_everybody_look_and_nobody_change() -> None:
    """Anonymous callers are viewers; the admin's password is made at the first start, for nobody else to read."""
    grafana = ALL["grafana"]
    environment = grafana["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_USERS_ALLOW_SIGN_UP"] == "false"
    shell, flag, script, path = grafana["entrypoint"]
    assert (shell, flag) == ("sh", "-c")
    assert script.startswith("umask 077;")
    assert "/dev/urandom" in script
    assert script.endswith("exec /run.sh")
    assert path == environment["GF_SECURITY_ADMIN_PASSWORD__FILE"]
    assert path.startswith("/var/lib/grafana/"), "in the volume, so that it stays"


def test_running_streams_may_end() -> None:
    """Compose waits longer than the gateway drains, in the shipped settings and in those of the demo."""
    for name in (SHIPPED, "thinkcap.example.toml"):
        assert settings(name).server.drain_seconds < int(ALL["gateway"]["stop_grace_period"].removesuffix("s"))
    assert ALL["lb"]["stop_grace_period"] == ALL["gateway"]["stop_grace_period"]
    assert ALL["lb"]["stop_signal"] == "SIGQUIT", "nginx ends its streams on that one only"


def test_prometheus_finds_what_compose_starts() -> None:
    """Exemplars are kept, disk use has an end, every target is a service, the gateway is found by DNS."""
    command = ALL["prometheus"]["command"]
    assert "--enable-feature=exemplar-storage" in command
    assert any("retention.time" in part for part in command)
    assert any("retention.size" in part for part in command)
    prometheus = msgspec.yaml.decode((ROOT / "dashboards/prometheus/prometheus.yml").read_bytes())
    hosts = {
        target.split(":")[0]
        for job in prometheus["scrape_configs"]
        for static in job.get("static_configs", ())
        for target in static["targets"]
    }
    assert hosts - {"localhost"} <= SERVICES
    (gateways,) = (job["dns_sd_configs"][0] for job in prometheus["scrape_configs"] if "dns_sd_configs" in job)
    assert gateways["names"] == ["gateway"]
    assert gateways["port"] == settings(SHIPPED).server.metrics_port
    (source, _) = msgspec.yaml.decode(
        (ROOT / "dashboards/grafana/provisioning/datasources/thinkcap.yaml").read_bytes()
    )["datasources"]
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def test_the_shipped_settings_listen_to_the_network_and_trace() -> None:
    """In a container 127.0.0.1 is reached by nobody; traces go to the Jaeger beside it."""
    shipped = settings(SHIPPED)
    assert shipped.server.host == shipped.server.metrics_host == "0.0.0.0"
    assert shipped.telemetry.traces == "otlp"
    assert ALL["gateway"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"].startswith("http://jaeger:")


def test_the_demo_has_the_models_of_the_demo() -> None:
    """What the callers ask for is listed, with the caps and levels of `thinkcap demo`, and goes to no vendor."""
    shipped, demo = settings(SHIPPED), settings("gateway/demo/thinkcap.demo.toml")
    assert set(MIX) <= set(shipped.models)
    for name, model in demo.models.items():
        assert shipped.models[name] == model, name
    for name, upstream in demo.upstreams.items():
        assert shipped.upstreams[name] == upstream, name
    assert shipped.level_fallback == demo.level_fallback
    assert {shipped.models[name].upstream for name in MIX} <= set(demo.upstreams)


def test_a_real_model_goes_to_its_vendor() -> None:
    """Upstreams of the demo come last: what nobody listed is no part of it."""
    names = list(settings(SHIPPED).upstreams)
    assert names[:3] == ["openai", "anthropic", "google"]


def test_the_example_of_the_environment_names_every_variable() -> None:
    """Each variable of compose.yaml is explained, with the default it has, and none that does not exist."""
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    used = dict(DEFAULT.findall(text))
    shown = dict(re.findall(r"^# ([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert set(shown) == set(used)
    for name, value in used.items():
        if name.endswith("_PORT") or name == "DEMO_RATE":
            assert shown[name] == value


def test_the_image_runs_as_nobody_and_holds_only_what_runs() -> None:
    """No root, no shell form, no build tools, and nothing in the context but what is copied."""
    _, *stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert len(stages) == 2
    assert all(stage.startswith("python:3.13-slim-bookworm") for stage in stages)
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", stages[1], re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["thinkcap"\]$', stages[1], re.MULTILINE)
    assert "RUN" not in stages[1]
    assert "--require-hashes" in stages[0]
    assert "# syntax" not in DOCKERFILE
    assert "<<" not in DOCKERFILE
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == kept


def test_the_balancer_holds_nothing_back() -> None:
    """Streams pass unbuffered, replicas are found anew, a call that may have been paid for is not made twice."""
    text = (ROOT / "dashboards/compose/nginx.conf").read_text(encoding="utf-8")
    for line in (
        "proxy_buffering off;",
        "proxy_request_buffering off;",
        "client_max_body_size 0;",
        "server gateway:8080 resolve",
        "least_conn;",
        "proxy_next_upstream error timeout;",
    ):
        assert line in text
    assert "non_idempotent" not in text
    read = re.search(r"proxy_read_timeout (\d+)h;", text)
    assert read is not None
    longest = max(upstream.first_byte_timeout for upstream in settings(SHIPPED).upstreams.values())
    assert int(read[1]) * 3600 > longest


def test_the_settings_are_toml_without_secrets() -> None:
    """Keys are named by a file, if at all."""
    shipped = tomllib.loads((ROOT / SHIPPED).read_text(encoding="utf-8"))
    assert not [name for name, upstream in shipped["upstreams"].items() if "api_key_file" in upstream]
