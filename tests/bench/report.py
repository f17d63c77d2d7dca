"""The tables: medians over the rounds with their ranges, ratios and differences taken round by round."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.bench.bars import BARS, IDLE_MB, OPEN_MB, READY_SECONDS, Bar
from tests.bench.figures import Figure, Kept, Standing
from tests.bench.fits import Fit, fit
from tests.bench.loads import LOADS, Quantiles

BASES: Final = ("nginx", "tensorzero")
BY_SIZE: Final = ("plain16", "large5", "large20", "large80", "large320")
BY_STREAMS: Final = ("paced1", "paced32", "paced64", "paced128")
OURS: Final = ("thinkcap", "thinkcap-untraced")

Value = Callable[[Figure], float | None]
By = dict[str, list[Figure]]


def report(kept: Kept) -> str:
    """All there is, in Markdown."""
    parts = [f"Python {kept.python}, Linux {kept.kernel}, commit {kept.commit}"]
    parts += [_load_table(name, by) for name, by in kept.figures.items()]
    parts += [_memory_table(kept.standing)] if kept.standing else []
    parts += [_start_table(kept)] if kept.starts else []
    parts += _curves(kept)
    parts += [_bar_table(kept)] if kept.figures else []
    for system, counted in kept.counted.items():
        said = f"{counted.requests:.0f} calls, {counted.armed:.0f} under an armed cap"
        acted = ", ".join(f"{name} {moved:.0f}" for name, moved in counted.acted.items()) or "none"
        parts.append(f"{system}: {said}, rules that acted: {acted}, spans dropped: {counted.spans_dropped:.0f}")
    return "\n\n".join(parts)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that reads as well in a terminal."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    drawn = ("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)
    return f"### {title}\n\n" + "\n".join(drawn)


def middle(values: Iterable[float | None], digits: int = 1, *, span: bool = True) -> str:
    """The median, and the range beside it; "-" of nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    text = f"{statistics.median(known):.{digits}f}"
    return f"{text} ({min(known):.{digits}f}-{max(known):.{digits}f})" if span and len(known) > 1 else text


def paired(mine: Sequence[Figure], theirs: Sequence[Figure], value: Value) -> list[tuple[float, float]]:
    """A value of both, of the rounds in which both have it."""
    other = {figure.round: value(figure) for figure in theirs}
    both = ((value(figure), other.get(figure.round)) for figure in mine)
    return [(a, b) for a, b in both if a is not None and b is not None]


def ratios(mine: Sequence[Figure], theirs: Sequence[Figure]) -> list[float]:
    """CPU of the one over CPU of the other, round by round."""
    return [a / b for a, b in paired(mine, theirs, _cpu) if b]


def over(mine: Sequence[Figure], theirs: Sequence[Figure], value: Value) -> list[float]:
    """How much more the one has than the other, round by round."""
    return [a - b for a, b in paired(mine, theirs, value)]


def _cpu(figure: Figure) -> float | None:
    return figure.cpu_us


def _ms(pick: Callable[[Figure], Quantiles | None], at: str) -> Value:
    def value(figure: Figure) -> float | None:
        quantiles = pick(figure)
        return None if quantiles is None else float(getattr(quantiles, at)) / 1000

    return value


_LATENCY, _FIRST, _DELAY = (
    {at: _ms(pick, at) for at in ("p50", "p99")}
    for pick in (lambda f: f.result.latency, lambda f: f.result.first_token, lambda f: f.result.delay)
)
VALUES: Final[dict[str, Value]] = {
    "first_token_ms": _FIRST["p50"],
    "delay_p50_ms": _DELAY["p50"],
    "delay_p99_ms": _DELAY["p99"],
}


def _load_table(name: str, by: By) -> str:
    stream = LOADS[name].kind == "stream"
    unit, timed = ("chunk", _DELAY) if stream else ("call", _LATENCY)
    told = "token delay" if stream else "latency"
    head = ["system", f"us CPU a {unit}", *(f"x {base}" for base in BASES), f"{unit}s/s", "core used"]
    head += ["first token over direct ms"] if stream else []
    head += [f"{told} ms p50", f"{told} ms p99", "p50 over direct ms", "spans a call", "bad", "noisy"]
    rows = []
    straight = by.get("direct", [])
    for system, figures in by.items():
        row = [system, middle(map(_cpu, figures))]
        row += [middle(ratios(figures, by.get(base, [])), 2) for base in BASES]
        row += [middle((f.result.rate for f in figures), 0), middle((f.core_used for f in figures), 2, span=False)]
        row += [middle(over(figures, straight, _FIRST["p50"]), 2)] if stream else []
        row += [middle(map(timed[at], figures), 2, span=False) for at in ("p50", "p99")]
        row += [middle(over(figures, straight, timed["p50"]), 2, span=False)]
        row += [middle((f.spans or None for f in figures), 2, span=False)]
        row += [str(sum(f.result.bad for f in figures)), f"{sum(f.noisy for f in figures)} of {len(figures)}"]
        rows.append(row)
    return table(name, head, rows)


def _memory_table(standing: dict[str, Standing]) -> str:
    loads = list(dict.fromkeys(opening.load for one in standing.values() for opening in one.openings))
    head = ["system", "idle MB"] + [title for load in loads for title in (f"{load} MB", "core used")]
    rows = []
    for system, one in standing.items():
        row, openings = [system, f"{one.idle_mb:.0f}"], {opening.load: opening for opening in one.openings}
        for load in loads:
            opening = openings.get(load)
            row += ["-", "-"] if opening is None else [f"{opening.mb:.0f}", f"{opening.core_used:.3f}"]
            if opening is not None and opening.opened != LOADS[load].connections:
                row[-2] += f" ({opening.opened} streams)"
        rows.append(row)
    return table("memory with open streams, a token a second each", head, rows)


def _start_table(kept: Kept) -> str:
    head = ["system", "first answer after s", "CPU s until then", "starts"]
    rows = [
        [system, middle((s.seconds for s in starts), 2), middle((s.cpu for s in starts), 2), str(len(starts))]
        for system, starts in kept.starts.items()
    ]
    return table("start", head, rows)


def _curves(kept: Kept) -> list[str]:
    """Whether cost grows in a straight line: by size of the request, by parallel streams, by open streams."""
    rows: list[list[str]] = []

    def add(what: str, system: str, unit: str, points: list[tuple[float, float]]) -> None:
        line = fit(points)
        if line is not None:
            told = ", ".join(f"{x:.0f}: {y:.0f}" for x, y in points)
            rows.append([what, system, told, _line(line, unit), f"{line.r2:.3f}", f"{line.bend:.2f}"])

    for system in dict.fromkeys((*(s for by in kept.figures.values() for s in by), *kept.standing)):
        sizes = _points(kept, system, BY_SIZE, lambda name: LOADS[name].request_kb, _cpu)
        streams = _points(kept, system, BY_STREAMS, lambda name: LOADS[name].connections, _cpu_ms_a_second)
        add("us CPU a call, by kB of request", system, "kB", sizes)
        add("ms CPU a second, by paced streams", system, "stream", streams)
        one = kept.standing.get(system)
        if one is not None:
            opened = [(0.0, one.idle_mb)] + [(float(o.opened), o.mb) for o in one.openings if o.opened > 1]
            add("MB, by open streams", system, "stream", opened)
    if not rows:
        return []
    head = ["cost", "system", "measured", "straight line", "R2", "last piece over the line"]
    return [table("curves", head, sorted(rows, key=lambda row: row[0]))]


def _cpu_ms_a_second(figure: Figure) -> float | None:
    return None if figure.cpu_us is None else figure.cpu_us * figure.result.rate / 1000


def _points(
    kept: Kept, system: str, names: Sequence[str], at: Callable[[str], float], value: Value
) -> list[tuple[float, float]]:
    points = []
    for name in names:
        known = [v for figure in kept.figures.get(name, {}).get(system, []) if (v := value(figure)) is not None]
        if known:
            points.append((float(at(name)), statistics.median(known)))
    return points


def _line(line: Fit, unit: str) -> str:
    return f"{line.base:.1f} + {line.slope:.3f} a {unit}"


def _bar_table(kept: Kept) -> str:
    rows = [row for bar in BARS if (row := _bar(bar, kept.figures.get(bar.load, {}))) is not None]
    for system in OURS:
        starts = [start.seconds for start in kept.starts.get(system, [])]
        if starts:
            rows.append(_told(f"start, {system}", f"ready in {READY_SECONDS:.1f} s", starts, READY_SECONDS))
        one = kept.standing.get(system)
        if one is not None:
            rows.append(_told(f"idle, {system}", f"{IDLE_MB:.0f} MB", [one.idle_mb], IDLE_MB))
            most = [o.mb for o in one.openings if o.load == "open1000"]
            rows += [_told(f"open1000, {system}", f"{OPEN_MB:.0f} MB", most, OPEN_MB)] if most else []
    return table("bars", ["load", "at most", "measured", "reached"], rows)


def _bar(bar: Bar, by: By) -> list[str] | None:
    mine, theirs = by.get(bar.system, []), by.get(bar.base, [])
    if bar.quantity == "cpu":
        values, limit = ratios(mine, theirs), f"{bar.limit:.3g} x {bar.base}"
    else:
        values, limit = over(mine, theirs, VALUES[bar.quantity]), f"{bar.limit} ms over {bar.base}, {bar.quantity[:-3]}"
    return _told(f"{bar.load}, {bar.system}", limit, values, bar.limit) if values else None


def _told(what: str, limit: str, values: Sequence[float], most: float) -> list[str]:
    return [what, limit, middle(values, 3), "yes" if statistics.median(values) <= most else "NO"]
