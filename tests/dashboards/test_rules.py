"""The Prometheus rules, their tests and their runbooks: sound in themselves and true to what the gateway exports.

PROMTOOL and AMTOOL name other programs than those on the path: the rules hold on Prometheus 2.42 and 3.x.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gateway.words import DIALECTS, METHODS
from telemetry.labels import CLOSED, ModelSeries, Retry, Series, UpstreamSeries
from telemetry.metrics import Metrics

DASHBOARDS: Final = Path(__file__).resolve().parents[2] / "dashboards"
PROMETHEUS: Final = DASHBOARDS / "prometheus"
RULE_FILES: Final = ("recording.rules.yml", "alerts.rules.yml", "tests/budget.rules.yml")
TEST_FILES: Final = sorted((PROMETHEUS / "tests").glob("*.test.yml"))
RUNBOOKS: Final = "https://github.com/thinkcap/thinkcap/blob/main/dashboards/runbooks.md#"
UIDS: Final = {
    f"thinkcap-{name}" for name in ("overview", "output-cap", "thinking", "levels", "finish-reasons", "gateway")
}

PROMTOOL: Final = os.environ.get("PROMTOOL", "promtool")
AMTOOL: Final = os.environ.get("AMTOOL", "amtool")
needs_promtool = pytest.mark.skipif(
    shutil.which(PROMTOOL) is None, reason=f"{PROMTOOL} is not installed (Debian: apt-get install prometheus)"
)
needs_amtool = pytest.mark.skipif(
    shutil.which(AMTOOL) is None, reason=f"{AMTOOL} is not installed (Debian: apt-get install prometheus-alertmanager)"
)


def loaded(path: Path) -> Any:
    """What a YAML file says."""
    return msgspec.yaml.decode(path.read_bytes())


RULES: Final[list[dict[str, Any]]] = [
    rule for name in RULE_FILES for group in loaded(PROMETHEUS / name)["groups"] for rule in group["rules"]
]
ALERTS: Final = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDED: Final = {rule["record"] for rule in RULES if "record" in rule}
SECTIONS: Final = dict(
    re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", (DASHBOARDS / "runbooks.md").read_text(), re.MULTILINE | re.DOTALL)
)
ALERT_TESTS: Final[list[dict[str, Any]]] = [
    case for path in TEST_FILES for test in loaded(path)["tests"] for case in test.get("alert_rule_test", ())
]


def run(*command: str, seconds: float = 120) -> None:
    """Run a program; what it says is the failure."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)  # noqa: S603 - programs of the test's own choice
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def exported() -> dict[str, dict[str, set[str]]]:
    """Every series name of a gateway at its start, with its labels and the words they may hold (none: a name, any)."""
    retry = Retry(purpose="compaction", refused="minimal", sent="low")
    upstream = UpstreamSeries(name="u", dialects=DIALECTS, methods=METHODS)
    model = ModelSeries(upstream="u", model="m", dialects=DIALECTS, methods=METHODS, retries=(retry,))
    series = Series(upstreams=(upstream,), models=(model,), purposes_in_scope=("compaction",))
    found: dict[str, dict[str, set[str]]] = {}
    for family in Metrics(series).registry.collect():
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).update({value} if label in CLOSED else ())
    found["up"] = {}
    return found


def fits(label: str, operator: str, value: str, words: set[str]) -> bool:
    """Whether a matcher names words that the label may hold."""
    if not words or label == "le":
        return True
    return any(re.fullmatch(value, word) for word in words) if "~" in operator else value in words


def problems(expr: str) -> Iterator[str]:
    """What a query names that is neither exported nor recorded."""
    known = exported()
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expr)
    for name in re.findall(r"(?<![\w:])(?:up\b|thinkcap_\w+|\w+:[\w:]+)", bare):
        if name not in known and name not in RECORDED:
            yield f"no such series: {name}"
    for name, matchers in re.findall(r"(?<![\w:])(up|thinkcap_\w+)\{([^}]*)\}", expr):
        for label, operator, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            if label in {"job", "instance"} or value == "MODEL":
                continue
            if label not in known.get(name, {}):
                yield f"{name} has no label {label}"
            elif not fits(label, operator, value, known[name][label]):
                yield f"{name} never has {label}={value}"
    mine = {label for name, labels in known.items() if name in bare for label in labels} | {"job", "instance"}
    mine |= {label for name in RECORDED if name in bare for label in name.split(":")[0].split("_")}
    for names in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", bare):
        yield from (f"no series here has {label}" for label in re.findall(r"\w+", names) if label not in mine)


@needs_promtool
def test_the_rules_pass_the_strictest_lint() -> None:
    """Promtool finds nothing to say about the rule files."""
    run(PROMTOOL, "check", "rules", "--lint=all", "--lint-fatal", *(str(PROMETHEUS / name) for name in RULE_FILES))


@needs_promtool
@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name.removesuffix(".test.yml"))
def test_the_rules_do_what_their_tests_say(path: Path) -> None:
    """Every promtool test of the file holds."""
    run(PROMTOOL, "test", "rules", str(path))


@needs_promtool
def test_prometheus_takes_its_settings() -> None:
    """The settings and the rule files they name load."""
    run(PROMTOOL, "check", "config", str(PROMETHEUS / "prometheus.yml"))


@needs_amtool
def test_alertmanager_takes_its_settings(tmp_path: Path) -> None:
    """The settings load; an Alertmanager before 0.26, which knows no `url_file`, is given an address in its place."""
    text = (DASHBOARDS / "alertmanager" / "alertmanager.yml").read_text()
    said = subprocess.run([AMTOOL, "--version"], capture_output=True, text=True, check=True)  # noqa: S603 - the test's own choice
    version = re.search(r"version (\d+)\.(\d+)", said.stdout + said.stderr)
    assert version is not None
    if (int(version[1]), int(version[2])) < (0, 26):
        text = re.sub(r"url_file: .*", "url: http://127.0.0.1/", text)
    (tmp_path / "alertmanager.yml").write_text(text)
    run(AMTOOL, "check-config", str(tmp_path / "alertmanager.yml"))


def test_no_receiver_has_its_address_in_the_settings() -> None:
    """A webhook's address is a secret: it comes from a file."""
    receivers = loaded(DASHBOARDS / "alertmanager" / "alertmanager.yml")["receivers"]
    hooks = [hook for receiver in receivers for hook in receiver.get("webhook_configs", ())]
    assert hooks
    assert all("url_file" in hook and "url" not in hook for hook in hooks)


def test_alertmanager_speaks_of_alerts_that_exist() -> None:
    """An inhibition by a misspelt name would inhibit nothing."""
    text = (DASHBOARDS / "alertmanager" / "alertmanager.yml").read_text()
    named = {name for names in re.findall(r'alertname =~? "([^"]*)"', text) for name in names.split("|")}
    assert named
    assert named <= set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_all_that_is_needed_at_night(name: str) -> None:
    """Severity, summary, description with its rounded value, runbook section and dashboard are there."""
    rule = ALERTS[name]
    notes = rule["annotations"]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(notes) == {"summary", "description", "runbook_url", "dashboard"}
    assert '{{ printf "%.0f" $value }}' in notes["description"]
    assert notes["runbook_url"] == RUNBOOKS + name.lower()
    assert notes["dashboard"].removeprefix("/d/") in UIDS
    assert re.search(r"\*\*Means\.\*\*.*\*\*Look at(\.\*\*.*\*\*Do\.|, do\.)\*\*", SECTIONS[name], re.DOTALL)


def test_every_section_of_the_runbooks_is_an_alert() -> None:
    """A section without an alert is found by nobody."""
    assert set(SECTIONS) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_tested_both_ways(name: str) -> None:
    """One test fires it, one keeps it silent."""
    fires = {bool(case["exp_alerts"]) for case in ALERT_TESTS if case["alertname"] == name}
    assert fires == {True, False}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_names_what_is_exported(rule: dict[str, Any]) -> None:
    """Every metric, label and word of a rule exists in a gateway at its start, or is recorded."""
    assert list(problems(rule["expr"])) == []


@pytest.mark.parametrize("name", ALERTS)
def test_a_query_in_an_annotation_or_a_runbook_names_what_is_exported(name: str) -> None:
    """What an on-call engineer pastes must not come back empty for a wrong name."""
    inner = re.findall(r'printf "((?:topk)(?:[^"\\]|\\.)*)"', ALERTS[name]["annotations"]["description"])
    pasted = re.findall(r"^    (.*(?:thinkcap_|up).*)$", SECTIONS[name], re.MULTILINE)
    for query in (*(text.replace('\\"', '"').replace("%q", '"MODEL"') for text in inner), *pasted):
        if not query.startswith("docker"):
            assert list(problems(query.replace('"UPSTREAM"', '"MODEL"'))) == [], query


@pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.name.removesuffix(".test.yml"))
def test_the_tests_feed_series_that_a_gateway_has(path: Path) -> None:
    """A rule tested on a series that nobody exports is not tested."""
    wrong = [
        (problem, entry["series"])
        for test in loaded(path)["tests"]
        for entry in test["input_series"]
        for problem in problems(entry["series"])
    ]
    assert wrong == []


def test_a_wrong_name_would_be_noticed() -> None:
    """The check above finds a metric, a label, a word and a grouping that do not exist."""
    assert list(problems('sum by (job, color) (increase(thinkcap_requests_total{outcome="fine",shape="x"}[5m]))')) == [
        "thinkcap_requests_total never has outcome=fine",
        "thinkcap_requests_total has no label shape",
        "no series here has color",
    ]
    assert list(problems("thinkcap_request_total + job_model:thinkcap_nothing:increase1h")) == [
        "no such series: thinkcap_request_total",
        "no such series: job_model:thinkcap_nothing:increase1h",
    ]


@needs_promtool
def test_planted_faults_are_caught() -> None:
    """Every tenth fault of the mutation script, a while's work; all of them: `python dashboards/prometheus/mutate.py`."""
    run(sys.executable, str(PROMETHEUS / "mutate.py"), "--promtool", PROMTOOL, "--every", "10", seconds=300)
