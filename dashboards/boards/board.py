"""A dashboard around its panels: variables, annotations, links to the others, and the grid."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from dashboards.boards.panels import SOURCE, WHOLE_WIDTH, Json, Panel

# Selectors by the labels a metric has. Every query carries one, so that every panel follows the drop-downs.
JOB: Final = 'job=~"$job"'
UPSTREAM: Final = f'{JOB},upstream=~"$upstream"'
MODEL: Final = f'{UPSTREAM},model=~"$model"'
PURPOSE: Final = f'{MODEL},purpose=~"$purpose"'

WINDOW: Final = "$__rate_interval"

QUERIES: Final = {
    "job": "label_values(thinkcap_build_info, job)",
    "upstream": f"label_values(thinkcap_finish_reasons_total{{{JOB}}}, upstream)",
    "model": f"label_values(thinkcap_finish_reasons_total{{{UPSTREAM}}}, model)",
    "purpose": f"label_values(thinkcap_level_refusals_total{{{MODEL}}}, purpose)",
}


class Board(NamedTuple):
    """One dashboard. `span`: how far back it looks when opened."""

    name: str
    title: str
    answers: str
    panels: Sequence[Panel]
    variables: tuple[str, ...] = ("job", "upstream", "model")
    span: str = "now-30m"

    def json(self) -> Json:
        """The dashboard as Grafana provisions it."""
        return {
            "uid": f"thinkcap-{self.name}",
            "title": f"Thinkcap / {self.title}",
            "description": self.answers,
            "tags": ["thinkcap"],
            "editable": False,
            "graphTooltip": 1,
            "timezone": "browser",
            "time": {"from": self.span, "to": "now"},
            "timepicker": {"refresh_intervals": ["5s", "15s", "1m", "5m"]},
            "refresh": "15s",
            "schemaVersion": 42,
            "version": 1,
            "links": [links()],
            "annotations": {"list": [alerts(), restarts()]},
            "templating": {"list": [source(), *(variable(name) for name in self.variables)]},
            "panels": list(arranged(self.panels)),
        }


def arranged(panels: Sequence[Panel]) -> Iterator[Json]:
    """From left to right, a new line when one is full; a line is as high as its highest panel."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WHOLE_WIDTH:
            x, y, height = 0, y + height, 0
        yield panel.place(number, x, y)
        x, height = x + panel.width, max(height, panel.height)


def source() -> Json:
    """Which Prometheus."""
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def variable(name: str) -> Json:
    """A drop-down of label values; several may be chosen, and all of them are at the start."""
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "definition": QUERIES[name],
        "query": {"query": QUERIES[name], "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
    }


def links() -> Json:
    """The way to the other dashboards, with the same choices."""
    return {
        "type": "dashboards", "title": "Thinkcap", "tags": ["thinkcap"], "icon": "external link", "tooltip": "",
        "asDropdown": False, "includeVars": True, "keepTime": True, "targetBlank": False, "url": "",
    }  # fmt: skip


def alerts() -> Json:
    """Where an alert fired."""
    return annotation(
        "Firing alerts",
        "red",
        f'ALERTS{{alertstate="firing",{JOB}}}',
        titleFormat="{{alertname}}",
        textFormat="{{upstream}} {{model}}",
        tagKeys="severity",
    )


def restarts() -> Json:
    """Where a gateway started: the value is the moment."""
    return annotation(
        "Gateway starts",
        "blue",
        f"1000 * process_start_time_seconds{{{JOB}}} and on (job, instance) thinkcap_build_info",
        titleFormat="gateway started",
        textFormat="{{instance}}",
        useValueForTime=True,
    )


def annotation(name: str, colour: str, expr: str, **shape: Any) -> Json:
    """Marks on every graph."""
    return {
        "name": name,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "datasource": SOURCE,
        "expr": expr,
        **shape,
    }


def total(metric: str, by: str = "", where: str = MODEL, over: str = WINDOW) -> str:
    """Events of a counter within a window, of all replicas together: each series first, so that restarts do no harm."""
    return f"sum{f' by ({by}) ' if by else ''}(increase({metric}{{{where}}}[{over}]))"


def speed(metric: str, by: str = "", where: str = MODEL) -> str:
    """Events of a counter per second."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({metric}{{{where}}}[{WINDOW}]))"


def quantile(q: float, histogram: str, by: str = "", where: str = MODEL) -> str:
    """A quantile of a histogram over a short window."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({histogram}_bucket{{{where}}}[{WINDOW}])))"


def quantiles(panel: Panel, histogram: str, where: str = MODEL, of: Sequence[float] = (0.5, 0.95, 0.99)) -> Panel:
    """Several quantiles in one graph, with the way to traces."""
    for q in of:
        panel.ask(quantile(q, histogram, where=where), f"p{q * 100:g}", exemplars=q == of[0])
    return panel
