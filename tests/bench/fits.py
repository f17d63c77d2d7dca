"""Straight lines through measured points: what there is at nought, what each further unit adds, whether it bends up."""

import statistics
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

FEWEST: Final = 3
"""Points that a line says something about."""


class Fit(Struct, frozen=True, kw_only=True):
    """y = base + slope * x, by least squares."""

    base: float
    slope: float
    r2: float
    """Share of the spread that the line explains; 1 of points that do not differ."""
    bend: float
    """The slope of the last piece over that of the whole line: above 1 the curve steepens, at 1 it is straight."""


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """The line through these points, in ascending order of x; None of too few."""
    if len(points) < FEWEST:
        return None
    xs, ys = zip(*points, strict=True)
    slope, base = statistics.linear_regression(xs, ys)
    mean = statistics.fmean(ys)
    spread = sum((y - mean) ** 2 for y in ys)
    missed = sum((y - base - slope * x) ** 2 for x, y in points)
    (x1, y1), (x2, y2) = points[-2:]
    last = (y2 - y1) / (x2 - x1)
    return Fit(base=base, slope=slope, r2=1 - missed / spread if spread else 1.0, bend=last / slope if slope else 1.0)
