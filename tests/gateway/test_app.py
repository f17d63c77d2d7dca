"""The composition root: health, what may become a label value, and the clients that are built of the settings."""

import asyncio
from importlib.metadata import PackageNotFoundError

import pytest
from litestar.testing import TestClient

from gateway import app
from gateway.app import Gateway, clients_of, series_of
from gateway.config import default_settings, parse_settings
from telemetry.labels import Retry
from tests.gateway.door import Facts, House, run

SETTINGS = """
[upstreams.local]
url = "http://local.test"
kind = "llama.cpp"
dialects = ["chat", "messages"]
api_key_env = "KEY"
connect_timeout = 1.5
max_connections = 7
[upstreams.google]
url = "http://google.test"
dialects = ["gemini"]
finish_reasons = { eos = "stop", tired = "length" }
[models.thinker]
upstream = "local"
levels = ["low", "high"]
[models.plain]
upstream = "google"
[level_fallback]
purposes = ["compaction"]
[level_fallback.ceiling]
compaction = "medium"
"""


def test_health_and_documents() -> None:
    """The process answers for itself by Litestar, and all other paths go to the door."""
    facts = Facts()
    gateway = Gateway(default_settings({}), facts)
    with TestClient(gateway.app) as client:
        assert client.get("/health/live").json() == {"status": "ok"}
        assert client.get("/health/ready").status_code == 200
        gateway.limits.drain()
        assert client.get("/health/ready").json() == {"status": "draining"}
        assert client.get("/health/live").status_code == 200
        assert "/health/ready" in client.get("/health/openapi/openapi.json").json()["paths"]
        assert client.get("/nowhere").json()["error"]["code"] == "not_found"
    assert len(facts.facts) == 2  # the last one alone was a call


def test_clients() -> None:
    """One per upstream, with its own limits and its own key."""
    clients = clients_of(parse_settings(SETTINGS, {"KEY": "own-key"}))
    assert list(clients) == ["local", "google"]
    terms = clients["local"].terms
    assert (terms.secret, terms.connect_timeout, terms.max_connections) == (b"own-key", 1.5, 7)
    assert clients["google"].terms.secret is None


def test_clients_are_closed_with_the_application() -> None:
    """The pools end with the process."""
    house = House()
    closed: list[str] = []

    async def close() -> None:
        closed.append("one")

    async def main() -> None:
        house.transport.aclose = close  # type: ignore[method-assign]  # both pools of the upstream
        async with house.gateway.app.lifespan():
            await asyncio.sleep(0)
            assert not closed
        assert closed

    run(main())


def test_series() -> None:
    """What may become a label value: upstreams and models with their methods, words and retries, purposes."""
    settings = parse_settings(SETTINGS, {"KEY": "own-key"})
    series = series_of(settings)
    local, google = series.upstreams
    assert (local.name, local.dialects, local.methods) == ("local", ("chat", "messages"), ("control", "budget"))
    assert google.mapped == (("stop", "stop"), ("other", "length"))
    thinker, plain = series.models
    assert (thinker.levels, plain.levels) == (("low", "high"), None)
    assert thinker.retries == tuple(
        Retry("compaction", level, "low") for level in ("off", "minimal", "medium", "xhigh", "max")
    )
    assert plain.retries == ()
    assert series.purposes == ("conversation", "compaction")
    assert series.settings_sha256 == settings.sha256


@pytest.mark.parametrize("off", ["enabled = false", "max_retries = 0"], ids=["switched off", "without retries"])
def test_series_without_fallback(off: str) -> None:
    """Where no call is re-issued no such series exists."""
    text = SETTINGS.replace("[level_fallback]\n", f"[level_fallback]\n{off}\n")
    assert all(model.retries == () for model in series_of(parse_settings(text, {"KEY": "k"})).models)


def test_a_bare_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an installed distribution the version is not known, which stops nothing."""

    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(app, "version", missing)
    assert app.version_of() == "unknown"
