"""Dashboards, rules and gateway speak of the same series: nothing is asked that nobody exports, nothing exported is lost."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gateway.app import series_of
from gateway.config import parse_settings
from telemetry.metrics import Metrics
from tests.dashboards.test_grafana import ASKING, BOARDS, called
from tests.dashboards.test_rules import RECORDED, RULES, exported, problems

ROOT: Final = Path(__file__).resolve().parents[2]
PROMTOOL: Final = os.environ.get("PROMTOOL", "promtool")

OF_PROMETHEUS: Final = {"up", "ALERTS", "scrape_duration_seconds", "scrape_samples_scraped"}
"""Series that Prometheus makes itself."""
OF_ALERTS: Final = {"alertname", "severity", "upstream", "model"}
NOT_GRAPHED: Final = {
    "process_virtual_memory_bytes": "what is mapped says nothing about what is used",
    "process_max_fds": "constant; the graph of open files is read against the machine's own limit",
}
"""Exported, and on no dashboard and in no rule, with the reason."""
MACROS: Final = {
    "$__rate_interval": "1m", "$__range": "30m", "$job": ".*", "$upstream": ".*", "$model": ".*", "$purpose": ".*",
}  # fmt: skip

QUERIES: Final = [
    *((name, target["expr"]) for name, panel in ASKING for target in panel["targets"]),
    *((name, note["expr"]) for name, board in BOARDS.items() for note in board["annotations"]["list"]),
    *(
        (name, re.sub(r"^label_values\((.*), \w+\)$", r"\1", variable["definition"]))
        for name, board in BOARDS.items()
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
    ),
]
"""(dashboard, expression) of everything that Grafana asks."""


def series_of_a_query(expr: str) -> set[str]:
    """Names of the metrics that a query reads."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^\]]*\]', " ", expr)
    bare = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    words = set(re.findall(r"(?<![\w:.])[a-zA-Z_][\w:]*(?!\s*\(|[\w:])", bare))
    return words - {"and", "or", "unless", "bool", "sum", "by", "on", "e"}


@pytest.mark.parametrize(("name", "expr"), QUERIES)
def test_a_query_names_what_exists(name: str, expr: str) -> None:
    """Every metric is exported at the start, recorded, or made by Prometheus; labels and words are those it has."""
    assert list(problems(expr)) == [], name
    unknown = series_of_a_query(expr) - exported().keys() - RECORDED - OF_PROMETHEUS
    assert not unknown, name


@pytest.mark.parametrize(("name", "expr"), QUERIES)
def test_a_recorded_series_is_asked_by_the_labels_it_keeps(name: str, expr: str) -> None:
    """What the first part of its name does not list was summed away."""
    for series, matchers in re.findall(r"(\w+:[\w:]+)\{([^}]*)\}", expr):
        kept = set(series.split(":")[0].split("_"))
        assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers)) <= kept, f"{name}: {series}"


def test_every_exported_metric_is_looked_at() -> None:
    """A metric on no dashboard and in no rule is paid for and seen by nobody: graph it, or say here why not."""
    asked = {series for _, expr in QUERIES for series in series_of_a_query(expr)}
    asked |= {series for rule in RULES for series in series_of_a_query(rule["expr"])}
    unseen = {
        family.name
        for family in metrics_of_the_compose_file().registry.collect()
        if not asked & {family.name, *(sample.name for sample in family.samples)}
        and not family.name.startswith("python_")
    }
    assert unseen == set(NOT_GRAPHED)


@cache
def metrics_of_the_compose_file() -> Metrics:
    """The registry of a gateway that starts with the settings of compose.yaml."""
    path = ROOT / "dashboards" / "compose" / "thinkcap.toml"
    settings = parse_settings(path.read_text(), {}, file=str(path), read_file=lambda _name: "")
    return Metrics(series_of(settings))


def test_the_series_are_there_before_the_first_call() -> None:
    """What the dashboards ask of the demo's models exists at zero when the gateway starts."""
    names = {sample.name for family in metrics_of_the_compose_file().registry.collect() for sample in family.samples}
    asked = {series for _, expr in QUERIES for series in series_of_a_query(expr) if series.startswith("thinkcap_")}
    assert asked <= names


def test_a_name_that_nobody_exports_would_be_noticed() -> None:
    """The check above reads names out of queries, and nothing else."""
    expr = 'sum by (le) (rate(thinkcap_a_bucket{job="x"}[5m])) and on (job) process_b or vector(0) > 1e3'
    assert series_of_a_query(expr) == {"thinkcap_a_bucket", "process_b"}


@pytest.mark.skipif(shutil.which(PROMTOOL) is None, reason=f"{PROMTOOL} is not installed (apt-get install prometheus)")
def test_every_query_is_promql(tmp_path: Path) -> None:
    """Promtool takes each of them as the expression of a rule."""
    rules: list[dict[str, Any]] = []
    for number, (name, query) in enumerate(QUERIES):
        expr = query
        for macro, value in MACROS.items():
            expr = expr.replace(macro, value)
        assert "$" not in expr.replace("$1", ""), name
        rules.append({"record": f"panel:{number}", "expr": expr})
    path = tmp_path / "panels.yml"
    path.write_bytes(msgspec.yaml.encode({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(  # noqa: S603 - a program of the test's own choice
        [PROMTOOL, "check", "rules", "--lint=none", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("name", "panel"), ASKING, ids=called)
def test_a_legend_names_labels_that_the_query_keeps(name: str, panel: dict[str, Any]) -> None:
    """`{{model}}` of a series that has none is an empty legend."""
    for target in panel["targets"]:
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert label == "instance" or re.search(rf"\b{label}\b|\w*_?{label}_\w*:", target["expr"]), (
                f"{name}: {label}"
            )


def test_tables_name_columns_that_their_queries_give() -> None:
    """A column is a label of the query or the value of one of its queries."""
    for name, panel in ASKING:
        for step in panel.get("transformations", ()):
            for column in step["options"].get("renameByName", {}):
                if column.startswith("Value #"):
                    assert column[-1] in {target["refId"] for target in panel["targets"]}, name
                elif column not in ("Value", "instance"):
                    expr = panel["targets"][0]["expr"]
                    labels = OF_ALERTS if "ALERTS" in expr else set()
                    assert column in labels or re.search(rf"{column}\b|_?{column}_\w*:", expr), f"{name}: {column}"
