"""Judges what the gateway told about a step: counters that moved, series that exist, spans and their events."""

import re
from collections.abc import Iterator

from tests.cases.exact import Json
from tests.cases.telemetry_text import Series, Span, SpanEvent

FREE = frozenset(
    f"thinkcap_{name}_total"
    for name in ("requests", "finish_reasons", "tokens", "reasoning_tokens", "output_capped_requests")
)
"""Counters that move in most calls: judged only in a case that names one of their series, or says `exact`."""

SERVER = 2


def movement(before: dict[Series, float], after: dict[Series, float]) -> dict[Series, float]:
    """By how much each counter of ours moved between two scrapes; those that stood still are left out."""
    ours = {series: value for series, value in after.items() if re.fullmatch(r"thinkcap_\w+_total", series.name)}
    return {series: moved for series, value in ours.items() if (moved := value - before.get(series, 0.0))}


def check_counters(expect: Json, before: dict[Series, float], after: dict[Series, float]) -> Iterator[str]:
    """Named series move as said and nothing else moves; series that must exist do; no label says a forbidden word."""
    named = {Series.parse(text): value for text, value in expect.get("counters", {}).items()}
    moved = movement(before, after)
    for pattern, want in named.items():
        have = sum(value for series, value in moved.items() if pattern.covers(series))
        if want not in ("any", have):
            yield f"counter {pattern} moved {have:g}, want {want}"
    told = {pattern.name for pattern in named}
    for series, value in moved.items():
        free = series.name in FREE and series.name not in told and not expect.get("exact")
        if not free and not any(pattern.covers(series) for pattern in named):
            yield f"counter {series} moved {value:g}, want no move"
    zeros = [series for series, value in before.items() if value == 0]
    for text in expect.get("exists_at_zero", []):
        if not any(Series.parse(text).covers(series) for series in zeros):
            yield f"series {text} is not at zero before"
    for word in expect.get("no_series_with", []):
        yield from (f"{word!r} stands in a label: {s}" for s in after if any(word in value for _, value in s.labels))


def check_spans(expect: Json, requests: int, spans: list[Span]) -> Iterator[str]:
    """A SERVER span per request; exactly the named span events of ours; the named attributes on some span."""
    servers, least = sum(span.kind == SERVER for span in spans), expect.get("server_spans", requests)
    if servers < least:
        yield f"{servers} server spans, want {least}"
    yield from _check_events(expect.get("events", ["any"]), spans)
    for key, value in expect.get("span", {}).items():
        seen = [span.attributes[key] for span in spans if key in span.attributes]
        if value not in seen:
            yield f"span attribute {key}: {seen}, want {value!r}"


def _check_events(wanted: list[Json], spans: list[Span]) -> Iterator[str]:
    have = [event for span in spans for event in span.events if event.name.startswith("thinkcap.")]
    for want in wanted:
        if want == "any":
            continue
        hit = next((event for event in have if _carries(want, event)), None)
        if hit:
            have.remove(hit)
        elif not want.get("optional"):
            yield f"span event {want} not among {have}"
    if "any" not in wanted:
        yield from (f"span event {event.name} {event.attributes}, want none" for event in have)


def _carries(want: Json, event: SpanEvent) -> bool:
    """Whether an event has these attributes, by the last part of their keys, in any case."""
    flat = {key.rpartition(".")[2]: str(value).lower() for key, value in event.attributes.items()}
    flat |= {"name": event.name.lower(), "optional": "true"}
    return all(flat.get(key) == str(value).lower() for key, value in want.items())
