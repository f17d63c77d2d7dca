"""Rows: what a call moves, looked up once; never more rows than the settings have names."""

from telemetry.labels import Guard
from telemetry.metrics import Metrics
from telemetry.rows import Rows
from tests.telemetry.plays import SERIES, samples


def test_names_nobody_configured_share_a_row() -> None:
    """However many a scanner tries, and whatever they are spelt like, and their own names are kept nowhere."""
    rows = Rows(Metrics(SERIES), Guard(SERIES))
    junk = [rows["chat", "up", f"junk-{n}"] for n in range(100)]
    assert {(row.dialect, row.upstream, row.model) for row in junk} == {("chat", "up", "other")}
    assert rows["gopher", "evil", "m-think"] is rows["telnet", "worse", "m-flash"] is rows.unrouted("gopher")
    assert set(rows) == {("chat", "up", "other"), ("other", "other", "other")}


def test_a_row_alone_exports_nothing_new() -> None:
    """What it holds ready is told from the start, or once it has moved; in a second dialect too."""
    metrics = Metrics(SERIES)
    rows, before = Rows(metrics, Guard(SERIES)), samples(metrics.registry)
    row, again = rows["chat", "up", "other"], rows["messages", "up", "other"]
    rows.unrouted("chat")
    assert samples(metrics.registry) == before
    row.thinking_tokens.observe(5)
    again.thinking_tokens.observe(7)
    moved = samples(metrics.registry)
    labels = frozenset({("upstream", "up"), ("model", "other")})
    assert moved["thinkcap_thinking_tokens_sum", labels] == 12
    assert {name for name, _ in moved.keys() - before.keys()} == {
        "thinkcap_thinking_tokens_bucket", "thinkcap_thinking_tokens_count", "thinkcap_thinking_tokens_sum",
    }  # fmt: skip


def test_a_row_moves_the_series_of_its_metrics() -> None:
    """A branch gives the very children the metric has, and keeps no word it had to fold."""
    metrics = Metrics(SERIES)
    row = Rows(metrics, Guard(SERIES))["chat", "up", "m-think"]
    assert row.requests["ok",] is metrics.requests["chat", "up", "m-think", "ok"]
    assert row.finish_reasons["stop", "length"] is metrics.finish_reasons["up", "m-think", "stop", "length"]
    assert row.reasoning_tokens["junk",] is row.reasoning_tokens["other",]
    assert set(row.reasoning_tokens) == {("other",)}
