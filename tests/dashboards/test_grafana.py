"""The dashboards as Grafana will read them: up to date, complete, and of a form that it provisions."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

DASHBOARDS: Final = Path(__file__).resolve().parents[2] / "dashboards"
GRAFANA: Final = DASHBOARDS / "grafana"
NAMES: Final = ("overview", "output-cap", "thinking", "levels", "finish-reasons", "gateway")
DRAWN: Final = {"timeseries", "stat", "bargauge", "table", "text", "row"}
"""Panels that can be drawn outside Grafana, for a look at a change."""
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]

BOARDS: Final[dict[str, Json]] = {
    name: json.loads((GRAFANA / f"{name}.json").read_text(encoding="utf-8")) for name in NAMES
}
PANELS: Final = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
ASKING: Final = [(name, panel) for name, panel in PANELS if panel["type"] not in ("row", "text")]
SHOWN_ALERTS: Final = [
    rule
    for group in msgspec.yaml.decode((DASHBOARDS / "prometheus" / "alerts.rules.yml").read_bytes())["groups"]
    for rule in group["rules"]
]


def called(value: object) -> str | None:
    """The id of a panel in a parametrised test."""
    return f"{value.get('title')}" if isinstance(value, dict) else None


def build(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the script that makes the dashboards."""
    command = [sys.executable, str(DASHBOARDS / "build.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own script


def test_the_committed_dashboards_are_what_the_script_makes() -> None:
    """Not a byte differs: a change by hand would be lost with the next build."""
    done = build("--check")
    assert done.returncode == 0, done.stderr


def test_a_change_by_hand_is_noticed(tmp_path: Path) -> None:
    """One byte more in one file, a file too many: both are named."""
    assert build("--target", str(tmp_path)).returncode == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(NAMES)
    (tmp_path / "levels.json").write_text((tmp_path / "levels.json").read_text() + " ")
    (tmp_path / "left-over.json").write_text("{}")
    done = build("--check", "--target", str(tmp_path))
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["left-over.json", "levels.json"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dashboard_is_provisioned_as_it_stands(name: str) -> None:
    """A fixed uid, no editing by hand, the classic form, a title, a question it answers, the way to the others."""
    board = BOARDS[name]
    assert board["uid"] == f"thinkcap-{name}"
    assert board["editable"] is False
    assert "id" not in board
    assert "kind" not in board
    assert "spec" not in board
    assert board["title"].startswith("Thinkcap / ")
    assert board["description"].endswith("?")
    assert board["tags"] == ["thinkcap"]
    assert board["links"][0]["includeVars"]
    assert board["links"][0]["keepTime"]


@pytest.mark.parametrize("name", NAMES)
def test_the_variables_are_those_that_its_queries_use(name: str) -> None:
    """A drop-down that changes nothing misleads; a query with a variable nobody defines shows nothing."""
    variables = {variable["name"]: variable for variable in BOARDS[name]["templating"]["list"]}
    text = json.dumps([BOARDS[name]["panels"], BOARDS[name]["annotations"]])
    used = set(re.findall(r"\$\{?(?!__)([a-z]\w*)", text))
    assert used == set(variables)
    assert variables.pop("datasource")["type"] == "datasource"
    assert {"job", "upstream", "model"} <= set(variables)
    for variable in variables.values():
        assert variable["type"] == "query"
        assert variable["datasource"] == SOURCE
        assert variable["multi"]
        assert variable["includeAll"]
        assert variable["allValue"] == ".*"


@pytest.mark.parametrize("name", NAMES)
def test_alerts_and_starts_are_marked_on_every_graph(name: str) -> None:
    """What fired and what began anew explains most steps in a graph."""
    alerts, starts = BOARDS[name]["annotations"]["list"]
    assert 'alertstate="firing"' in alerts["expr"]
    assert alerts["titleFormat"] == "{{alertname}}"
    assert "process_start_time_seconds" in starts["expr"]
    assert starts["useValueForTime"]
    assert all(note["enable"] and note["datasource"] == SOURCE for note in (alerts, starts))


@pytest.mark.parametrize("name", NAMES)
def test_no_two_panels_are_mistaken_for_each_other(name: str) -> None:
    """Ids differ, titles differ within a kind, nothing lies upon another, all lies within the grid."""
    panels = BOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["type"], panel["title"]) for panel in panels}) == len(panels)
    boxes = [panel["gridPos"] for panel in panels]
    assert all(box["x"] >= 0 and box["x"] + box["w"] <= 24 and box["h"] >= 1 for box in boxes)
    assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether two panels share a cell of the grid."""
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=called)
def test_a_panel_is_of_a_kind_that_can_be_drawn(name: str, panel: Json) -> None:
    """Whoever changes a panel has to be able to look at it without a Grafana."""
    assert panel["type"] in DRAWN, name
    assert panel["title"]


@pytest.mark.parametrize(("name", "panel"), ASKING, ids=called)
def test_a_panel_says_what_it_shows(name: str, panel: Json) -> None:
    """A unit, one sentence, a data source by variable, queries with ids of their own and legends."""
    assert panel["fieldConfig"]["defaults"]["unit"], name
    sentence = panel["description"]
    assert sentence.endswith(".")
    assert not re.search(r"[.?!]\s+[A-Z]", sentence), "one sentence"
    assert panel["datasource"] == SOURCE
    targets = panel["targets"]
    assert targets
    assert len({target["refId"] for target in targets}) == len(targets)
    assert all(target["datasource"] == SOURCE and target["expr"] and target["legendFormat"] for target in targets)
    if panel["type"] in ("timeseries", "bargauge"):
        assert all(target["legendFormat"] != "__auto" for target in targets), "a legend of its own"


@pytest.mark.parametrize(("name", "panel"), ASKING, ids=called)
def test_no_counter_is_shown_raw(name: str, panel: Json) -> None:
    """A counter only ever grows, and falls to zero with a restart: it is read through rate() or increase()."""
    for target in panel["targets"]:
        assert list(raw_counters(target["expr"])) == [], name


def raw_counters(expr: str) -> Iterator[str]:
    """Counters of a query that stand outside rate() and increase()."""
    for found in re.finditer(r"(?<![\w:])thinkcap_\w+(?:_total|_bucket|_count|_sum)\b", expr):
        if not re.search(r"\b(?:rate|increase)\($", expr[: found.start()]):
            yield found[0]


def test_a_raw_counter_would_be_noticed() -> None:
    """The check above finds one beside others that are read well."""
    assert list(raw_counters("sum(rate(thinkcap_a_total[5m])) / sum(thinkcap_b_total)")) == ["thinkcap_b_total"]


@pytest.mark.parametrize(("name", "panel"), ASKING, ids=called)
def test_windows_follow_the_scrape_interval(name: str, panel: Json) -> None:
    """Graphs use $__rate_interval, numbers over the whole range $__range; no window is written by hand."""
    for target in panel["targets"]:
        assert set(re.findall(r"\[([^\]]*)\]", target["expr"])) <= {"$__rate_interval", "$__range"}, name
        if "$__range" in target["expr"]:
            assert target["instant"]
            assert not target["range"]


@pytest.mark.parametrize(("name", "panel"), ASKING, ids=called)
def test_every_query_follows_the_drop_downs(name: str, panel: Json) -> None:
    """Every metric of a query is asked for the chosen job."""
    for target in panel["targets"]:
        for metric, matchers in re.findall(
            r"(?<![\w:])((?:thinkcap_\w+|\w+:[\w:]+|up|ALERTS))\{([^}]*)\}", target["expr"]
        ):
            assert 'job=~"$job"' in matchers, f"{name}: {metric}"


def test_graphs_of_what_has_exemplars_lead_to_traces() -> None:
    """Every dashboard that shows calls has graphs whose dots open a trace, in the Jaeger that is provisioned."""
    with_dots = {name for name, panel in ASKING for target in panel["targets"] if target.get("exemplar")}
    assert with_dots == set(NAMES) - {"finish-reasons"}
    sources = msgspec.yaml.decode((GRAFANA / "provisioning" / "datasources" / "thinkcap.yaml").read_bytes())
    by_uid = {source["uid"]: source for source in sources["datasources"]}
    (way,) = by_uid["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert way["name"] == "trace_id"
    assert by_uid[way["datasourceUid"]]["type"] == "jaeger"
    assert by_uid["prometheus"]["isDefault"]


@pytest.mark.parametrize("rule", SHOWN_ALERTS, ids=lambda rule: rule["alert"])
def test_the_dashboard_of_an_alert_shows_what_the_alert_watches(rule: Json) -> None:
    """The link in an alert leads to a dashboard with a panel on the alert's own series."""
    name = rule["annotations"]["dashboard"].removeprefix("/d/thinkcap-")
    shown = " ".join(target["expr"] for panel in BOARDS[name]["panels"] for target in panel.get("targets", ()))
    watched = re.findall(r"(?<![\w:])(?:up\b|thinkcap_\w+|\w+:thinkcap_[\w:]+)", rule["expr"])
    assert any(re.search(rf"(?<![\w:]){re.escape(series)}", shown) for series in watched)


@pytest.mark.parametrize("rule", SHOWN_ALERTS, ids=lambda rule: rule["alert"])
def test_the_list_of_alerts_leads_to_the_same_dashboard(rule: Json) -> None:
    """The overview's table sends an alert where its own link leads."""
    (panel,) = (
        panel for panel in BOARDS["overview"]["panels"] if (panel["type"], panel["title"]) == ("table", "Alerts")
    )
    pairs = re.findall(r'"dashboard", "([\w-]+)", "alertname", "([^"]*)"', panel["targets"][0]["expr"])
    assert [f"/d/{uid}" for uid, names in pairs if re.fullmatch(names, rule["alert"])] == [
        rule["annotations"]["dashboard"]
    ]


def test_the_dashboards_are_found_where_they_are_mounted() -> None:
    """One folder, read from files, never written by Grafana."""
    (provider,) = msgspec.yaml.decode((GRAFANA / "provisioning" / "dashboards" / "thinkcap.yaml").read_bytes())[
        "providers"
    ]
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
    assert provider["allowUiUpdates"] is False
