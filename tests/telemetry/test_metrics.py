"""The table of the contract: names, labels, zeros, and how many series there are."""

import pytest
from prometheus_client import generate_latest

from gateway.words import DialectName, Level, Method
from telemetry.labels import Guard, ModelSeries, Retry, Series, UpstreamSeries, bounded, count, overran, plain
from telemetry.metrics import Metrics
from tests.telemetry.plays import SERIES, samples

TABLE = {
    "requests_total": "dialect upstream model outcome",
    "finish_reasons_total": "upstream model reported returned",
    "finish_upgrades_total": "upstream model kind",
    "output_capped_requests_total": "upstream model",
    "output_overruns_total": "upstream model verdict",
    "output_overrun_tokens_total": "upstream model",
    "output_cap_used_ratio_count": "upstream model",
    "thinking_capped_total": "upstream model method outcome",
    "thinking_overruns_total": "upstream model cause",
    "thinking_tokens_count": "upstream model",
    "thinking_tokens_past_cap_count": "upstream model",
    "end_reasoning_seconds_count": "upstream result",
    "level_refusals_total": "upstream model purpose level",
    "level_retries_total": "upstream model purpose refused sent outcome",
    "level_preempted_total": "upstream model purpose refused sent",
    "tokens_total": "upstream model kind",
    "reasoning_tokens_total": "upstream model source",
    "usage_missing_total": "upstream model",
    "reasoning_only_total": "upstream model",
    "malformed_events_total": "upstream model",
    "request_seconds_count": "dialect upstream model",
    "first_token_seconds_count": "dialect upstream model",
    "overhead_seconds_count": "dialect",
    "key_refusals_total": "reason",
    "spans_dropped_total": "",
    "inflight_requests": "upstream",
    "upstream_errors_total": "upstream kind",
    "build_info": "version",
    "settings_info": "sha256",
}


def test_the_registry_holds_the_table_of_the_contract_and_nothing_else() -> None:
    """Every metric of the contract has a series at the start, with the labels the contract names."""
    found: dict[str, set[str]] = {}
    for name, labels in samples(Metrics(SERIES).registry):
        if not name.endswith(("_bucket", "_sum")):
            found.setdefault(name.removeprefix("thinkcap_"), set()).update(key for key, _ in labels)
    assert found == {name: set(labels.split()) for name, labels in TABLE.items()}


def test_everything_starts_at_zero_and_tells_no_birthday() -> None:
    """All series but the two info metrics are 0, and no `_created` series is exported."""
    values = samples(Metrics(SERIES).registry)
    assert {name for (name, _), value in values.items() if value} == {"thinkcap_build_info", "thinkcap_settings_info"}
    assert not [name for name, _ in values if name.endswith("_created")]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        pytest.param("requests_total", "chat up m-think thinking_overrun", id="an outcome in the model's dialect"),
        pytest.param("requests_total", "other other other refused", id="a scanner's path"),
        pytest.param("finish_reasons_total", "up m-think stop length", id="a clean stop told as length"),
        pytest.param("finish_reasons_total", "google other stop error", id="what an operator's map makes possible"),
        pytest.param("thinking_capped_total", "up m-think budget unable", id="a method of the upstream"),
        pytest.param("thinking_overruns_total", "google m-flash refused", id="a cause"),
        pytest.param("output_overruns_total", "up other upgraded", id="a model nobody listed"),
        pytest.param("level_refusals_total", "google m-flash conversation max", id="an undeclared level out of scope"),
        pytest.param("level_refusals_total", "up m-think session-title off", id="any level where none is declared"),
        pytest.param("level_retries_total", "google m-flash session-title minimal low ok", id="its one target"),
        pytest.param("level_preempted_total", "google m-flash session-title max high", id="the same from memory"),
        pytest.param("end_reasoning_seconds_count", "up timeout", id="the control call where there is one"),
    ],
)
def test_a_reachable_series_is_at_zero_from_the_start(name: str, labels: str) -> None:
    """What can happen to a configured model stands at zero before it happens."""
    named = dict(zip(TABLE[name].split(), labels.split(), strict=True))
    assert Metrics(SERIES).registry.get_sample_value(f"thinkcap_{name}", named) == 0


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        pytest.param("requests_total", "messages up m-think ok", id="a dialect the upstream does not speak"),
        pytest.param("finish_reasons_total", "up m-think length stop", id="a length told as stop"),
        pytest.param("output_overruns_total", "up m-think under", id="an overrun under the cap"),
        pytest.param("level_refusals_total", "google m-flash session-title low", id="a declared level"),
        pytest.param("level_retries_total", "google m-flash session-title minimal high ok", id="another target"),
        pytest.param("end_reasoning_seconds_count", "google ended", id="a control call where there is none"),
    ],
)
def test_what_cannot_happen_takes_no_room(name: str, labels: str) -> None:
    """A series that no call can reach is not made."""
    named = dict(zip(TABLE[name].split(), labels.split(), strict=True))
    assert Metrics(SERIES).registry.get_sample_value(f"thinkcap_{name}", named) is None


def test_the_series_of_thirty_models_stay_below_eight_thousand() -> None:
    """Thirty models on five upstreams of two dialects, every method, eight level targets each."""
    spoken: tuple[DialectName, ...] = ("chat", "responses")
    methods: tuple[Method, ...] = ("control", "budget", "watch")
    purposes = ("compaction", "session-title")
    refused: tuple[Level, ...] = ("off", "minimal", "xhigh", "max")
    models = tuple(
        ModelSeries(
            upstream=f"up{n % 5}",
            model=f"m{n}",
            dialects=spoken,
            methods=methods,
            levels=("low", "medium", "high"),
            retries=tuple(Retry(purpose, level, "high") for purpose in purposes for level in refused),
        )
        for n in range(30)
    )
    upstreams = tuple(UpstreamSeries(name=f"up{n}", dialects=spoken, methods=methods) for n in range(5))
    series = Series(upstreams=upstreams, models=models, purposes=purposes, purposes_in_scope=purposes)
    assert 5000 < len(samples(Metrics(series).registry)) < 8000


def test_two_registries_do_not_know_of_each_other() -> None:
    """Nothing is registered globally: a second gateway in one process counts for itself."""
    first, second = Metrics(SERIES), Metrics(SERIES)
    first.usage_missing["up", "m-think"].inc()
    labels = {"upstream": "up", "model": "m-think"}
    assert second.registry.get_sample_value("thinkcap_usage_missing_total", labels) == 0


def test_a_word_outside_its_closed_set_becomes_other() -> None:
    """Junk in a label is folded, and the same junk twice makes one series and keeps no key."""
    metrics = Metrics(SERIES)
    for junk in ("ultra", "MAX", "x" * 5000):
        metrics.level_refusals["up", "m-think", "conversation", junk].inc()
    labels = {"upstream": "up", "model": "m-think", "purpose": "conversation", "level": "other"}
    assert metrics.registry.get_sample_value("thinkcap_level_refusals_total", labels) == 3
    assert b"ultra" not in generate_latest(metrics.registry)
    assert not [key for key in metrics.level_refusals if "ultra" in key]


def test_names_are_folded_to_what_the_settings_know() -> None:
    """A model counts only for the upstream it is configured for; purposes and upstreams come from the settings."""
    guard = Guard(SERIES)
    assert (guard.model("up", "m-think"), guard.model("google", "m-think")) == ("m-think", "other")
    assert (guard.upstream("google"), guard.upstream("evil")) == ("google", "other")
    assert [guard.purpose(p) for p in ("nightly", "conversation", "junk")] == ["nightly", "conversation", "other"]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param(7, 7, id="a count"),
        pytest.param(0, 0, id="zero"),
        pytest.param(-1, None, id="a negative"),
        pytest.param(True, None, id="a boolean"),
        pytest.param(1.5, None, id="a fraction"),
        pytest.param("7", None, id="a string"),
        pytest.param(None, None, id="nothing"),
        pytest.param(2**63, None, id="more than 64 bits"),
    ],
)
def test_only_a_usable_number_is_a_count(value: object, kept: int | None) -> None:
    """Token counts are integers of at least zero that every exporter can carry."""
    assert count(value) == kept


def test_text_from_outside_is_bounded_and_can_be_encoded() -> None:
    """Long names are cut at 128 characters, and lone surrogates replaced."""
    assert bounded("m" * 500) == "m" * 128
    assert bounded("caf\u00e9\ud800") == "caf\u00e9?"
    assert plain({"a": None, "b": 2**70, "c": "x\udfff", "d": 1.5, "e": False}) == {"c": "x?", "d": 1.5, "e": False}


def test_an_overrun_is_beyond_the_cap_of_every_choice() -> None:
    """The cap holds for each choice; tokens are a sum."""
    assert (overran(210, 64, 2), overran(128, 64, 2), overran(65, 64, 1), overran(65, 64, 0)) == (82, 0, 1, 1)
