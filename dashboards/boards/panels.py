"""Panels as Grafana's classic JSON has them. Plain dicts from a small vocabulary: six files need no SDK.

A panel is built in one sentence: what it is, what it asks, how it looks. Every method gives the panel back.
"""

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any, Final, Literal, Self

Json = dict[str, Any]
Kind = Literal["timeseries", "stat", "bargauge", "table", "text", "row"]

SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
WHOLE_WIDTH: Final = 24
"""Columns of Grafana's grid."""
HEIGHTS: Final[Mapping[Kind, int]] = {"timeseries": 8, "stat": 4, "bargauge": 9, "table": 8, "text": 2, "row": 1}

PER_MINUTE: Final = "suffix:/min"
GOOD, NOTICE, BAD, PLAIN = "green", "orange", "red", "blue"
OUTCOME_COLOURS: Final = {
    "ok": "green", "client_gone": "#8e8e8e", "refused": "purple", "upstream_error": "red", "stream_error": "dark-red",
    "timeout": "orange", "incomplete": "yellow", "overloaded": "dark-orange", "thinking_overrun": "semi-dark-purple",
}  # fmt: skip
REASON_COLOURS: Final = {
    "stop": "green", "length": "orange", "tool_calls": "blue", "content_filter": "purple",
    "error": "red", "missing": "dark-red", "other": "#8e8e8e",
}  # fmt: skip

LAST: Final[Json] = {"calcs": ["lastNotNull"], "fields": "", "values": False}
OPTIONS: Final[Mapping[Kind, Json]] = {
    "timeseries": {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": LAST, "orientation": "auto", "textMode": "auto", "wideLayout": True,
        "colorMode": "value", "graphMode": "none", "justifyMode": "auto",
    },
    "bargauge": {
        "reduceOptions": LAST, "orientation": "horizontal", "displayMode": "basic",
        "valueMode": "color", "namePlacement": "left", "showUnfilled": True,
    },
    "table": {"showHeader": True, "cellHeight": "sm", "sortBy": []},
    "text": {"mode": "markdown", "content": ""},
}  # fmt: skip
LINES: Final[Json] = {
    "drawStyle": "line", "lineWidth": 2, "fillOpacity": 4, "showPoints": "auto", "pointSize": 4,
    "spanNulls": False, "axisSoftMin": 0,
    "stacking": {"mode": "none", "group": "A"}, "thresholdsStyle": {"mode": "off"},
}  # fmt: skip


class Panel:
    """One panel under construction."""

    def __init__(self, kind: Kind, title: str, says: str, unit: str = "", width: int = 12) -> None:
        """`says` is the one sentence behind the (i); `unit` is one of Grafana's, `width` in columns of 24."""
        self.width, self.height = width, HEIGHTS[kind]
        self.json: Json = {"type": kind, "title": title, "description": says}
        self._overrides: dict[str, list[Json]] = {}
        if kind == "row":
            self.json = {"type": kind, "title": title, "collapsed": False, "panels": []}
        elif kind == "text":
            self.json = {"type": kind, "title": title, "options": {"mode": "markdown", "content": says}}
        else:
            self._defaults: Json = {"unit": unit, "color": {"mode": "thresholds"}}
            self.json |= {"datasource": SOURCE, "targets": [], "options": dict(OPTIONS[kind])}
            self.steps((None, PLAIN))
        if kind == "timeseries":
            self._defaults |= {"custom": dict(LINES), "color": {"mode": "palette-classic"}, "min": 0}

    # ---- what it asks

    def ask(self, expr: str, legend: str = "", *, exemplars: bool = False) -> Self:
        """One query over the time range; in a table only its end. `exemplars`: dots that lead to traces."""
        table = self.json["type"] == "table"
        target: Json = {
            "refId": ascii_uppercase[len(self.json["targets"])],
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": " ".join(expr.split()),
            "legendFormat": legend or "__auto",
            "format": "table" if table else "time_series",
            "instant": table,
            "range": not table,
        }
        if expr.endswith("> 0"):  # what only shows when something happened
            self.empty("none in this time range")
        self.json["targets"].append(target | ({"exemplar": True} if exemplars else {}))
        return self

    def now(self) -> Self:
        """Ask for the end of the time range only: for counts over the whole of it."""
        for target in self.json["targets"]:
            target |= {"instant": True, "range": False}
        return self

    # ---- how it looks

    def tall(self, height: int) -> Self:
        """Another height, in rows of the grid."""
        self.height = height
        return self

    def steps(self, *steps: tuple[float | None, str]) -> Self:
        """Colours from a value on; the first value is None."""
        self._defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"value": value, "color": colour} for value, colour in steps],
        }
        return self

    def limits(self, *steps: tuple[float, str]) -> Self:
        """Dashed lines at values that matter, as in an alert."""
        highest = max(value for value, _ in steps)
        self._defaults["custom"] |= {"thresholdsStyle": {"mode": "dashed"}, "axisSoftMax": 1.25 * highest}
        return self.steps((None, "transparent"), *steps)

    def stacked(self) -> Self:
        """Areas upon each other."""
        self._defaults["custom"] |= {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 45, "lineWidth": 1}
        return self

    def signed(self) -> Self:
        """Values below zero exist."""
        del self._defaults["min"]
        self._defaults["custom"] |= {"axisCenteredZero": True, "axisSoftMin": -0.1, "axisSoftMax": 0.1}
        return self

    def spark(self) -> Self:
        """The course of the value behind it."""
        self.json["options"]["graphMode"] = "area"
        self._defaults["min"] = 0
        return self

    def at_most(self, value: float) -> Self:
        """The end of the scale."""
        self._defaults["max"] = value
        return self

    def empty(self, text: str) -> Self:
        """What stands there while there is no value."""
        self._defaults["noValue"] = text
        return self

    def decimals(self, places: int) -> Self:
        """Digits after the point."""
        self._defaults["decimals"] = places
        return self

    def colours(self, by_name: Mapping[str, str]) -> Self:
        """The same word in the same colour, wherever it stands."""
        for name, colour in by_name.items():
            self.field(name, "color", {"mode": "fixed", "fixedColor": colour})
        return self

    def dashes(self, name: str, colour: str) -> Self:
        """One series as a dashed line without an area: a limit that moves."""
        self.field(name, "color", {"mode": "fixed", "fixedColor": colour})
        self.field(name, "custom.lineStyle", {"fill": "dash", "dash": [6, 6]})
        return self.field(name, "custom.fillOpacity", 0)

    def field(self, name: str, key: str, value: Any) -> Self:
        """An override for one series or column."""
        self._overrides.setdefault(name, []).append({"id": key, "value": value})
        return self

    # ---- tables

    def columns(self, names: Mapping[str, str], sort: str = "") -> Self:
        """The columns in this order, label or `Value #A` -> heading; the others go. `sort`: heading, largest first."""
        order = {name: place for place, name in enumerate(names)}
        self.json["transformations"] = [
            *([{"id": "merge", "options": {}}] if len(self.json["targets"]) > 1 else []),
            {"id": "filterFieldsByName", "options": {"include": {"names": list(names)}}},
            {"id": "organize", "options": {"indexByName": order, "renameByName": dict(names), "excludeByName": {}}},
        ]
        if sort:
            self.json["options"]["sortBy"] = [{"displayName": sort, "desc": True}]
        return self

    def matrix(self, row: str, column: str) -> Self:
        """One label down, another across, counts where they meet."""
        options = {"rowField": row, "columnField": column, "valueField": "Value", "emptyValue": "zero"}
        self.json["transformations"] = [{"id": "groupingToMatrix", "options": options}]
        return self

    def widths(self, **pixels: int) -> Self:
        """Columns of a fixed width; `_` stands for a blank."""
        for name, width in pixels.items():
            self.field(name.replace("_", " "), "custom.width", width)
        return self

    def shades(self, name: str, *steps: tuple[float | None, str]) -> Self:
        """A column whose cells are coloured by their value."""
        self.field(name, "custom.cellOptions", {"type": "color-text"})
        thresholds = {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in steps]}
        return self.field(name, "thresholds", thresholds)

    # ---- done

    def place(self, number: int, x: int, y: int) -> Json:
        """The panel as it stands in the file."""
        made = {"id": number, "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height}, **self.json}
        if self.json["type"] in ("row", "text"):
            return made
        overrides = [
            {"matcher": {"id": "byName", "options": name}, "properties": properties}
            for name, properties in self._overrides.items()
        ]
        return made | {"fieldConfig": {"defaults": self._defaults, "overrides": overrides}}


def row(title: str) -> Panel:
    """A heading over the panels that follow."""
    return Panel("row", title, "", width=WHOLE_WIDTH)


def text(title: str, says: str) -> Panel:
    """A note across the whole width."""
    return Panel("text", title, says, width=WHOLE_WIDTH)


def graph(title: str, says: str, unit: str, width: int = 12) -> Panel:
    """Lines over time."""
    return Panel("timeseries", title, says, unit, width)


def stat(title: str, says: str, unit: str, width: int = 4) -> Panel:
    """One number."""
    return Panel("stat", title, says, unit, width)


def bars(title: str, says: str, unit: str, width: int = 12) -> Panel:
    """Numbers side by side."""
    return Panel("bargauge", title, says, unit, width)


def table(title: str, says: str, unit: str, width: int = 12) -> Panel:
    """Rows and columns; `unit` is that of columns without their own."""
    return Panel("table", title, says, unit, width)
