"""The counters, gauges and histograms of prometheus_client, moved by one thread: without its locks and checks.

The event loop alone moves them, a dozen for each call; the thread that answers a scrape reads one number at a time.
What is exported, and how, is the library's: a test plays the same moves to its own and compares the bytes.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final

import prometheus_client
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

Pointer = dict[str, str] | None
"""The labels of an exemplar: the trace in which it happened. At most 128 characters, which nobody checks here."""
Trace = tuple[dict[str, str], float, float]
"""An exemplar: its labels, the amount of the move, and when it was (seconds since 1970)."""
Part = tuple[str, dict[str, str]]
"""Of a sample what is its own among those of its metric: the end of the name, and the label of a bucket."""
BOUND: Final[Callable[[float], str]] = floatToGoString
NOW: Final = attrgetter("now")
TRACE: Final = attrgetter("trace")


class Number:
    """A value, and the trace of its last move, as the library wants to read them."""

    __slots__ = ("now", "trace")

    def __init__(self) -> None:
        """Begin at zero."""
        self.now = 0.0
        self.trace: Trace | None = None

    def get(self) -> float:
        """The value."""
        return self.now

    def get_exemplar(self) -> Exemplar | None:
        """Where its last move can be looked at."""
        return Exemplar(*self.trace) if self.trace is not None else None


class Counter(prometheus_client.Counter):
    """Counts up."""

    foreseen = True
    """False: it is not exported before it has moved."""

    def _metric_init(self) -> None:
        self._value = Number()
        self._created = 0.0

    def inc(self, amount: float = 1, exemplar: Pointer = None) -> None:
        """Add an amount, which is not negative."""
        value = self._value
        value.now += amount
        if exemplar is not None:
            value.trace = exemplar, amount, time.time()

    def samples(self) -> Sequence[Part]:
        """What is exported of it."""
        return (("_total", {}),)

    def numbers(self) -> Sequence[float]:
        """Its value, or nothing yet."""
        value = self._value.now
        return (value,) if self.foreseen or value else ()

    def traces(self) -> Sequence[Trace | None]:
        """Of its last move."""
        return (self._value.trace,)

    def _child_samples(self) -> Iterable[Sample]:
        return super()._child_samples() if self.numbers() else ()


class Gauge(prometheus_client.Gauge):
    """Goes up and down."""

    def _metric_init(self) -> None:
        self._value = Number()

    def inc(self, amount: float = 1) -> None:
        """Up."""
        self._value.now += amount

    def dec(self, amount: float = 1) -> None:
        """Down."""
        self._value.now -= amount

    def samples(self) -> Sequence[Part]:
        """What is exported of it."""
        return (("", {}),)

    def numbers(self) -> Sequence[float]:
        """Its value."""
        return (self._value.now,)

    def traces(self) -> Sequence[Trace | None]:
        """None: it is not moved by one call."""
        return (None,)


class Histogram(prometheus_client.Histogram):
    """Counts what was observed, by bounds."""

    foreseen = True
    """False: it is not exported before something was observed."""

    def _metric_init(self) -> None:
        self._sum = Number()
        self._buckets = [Number() for _ in self._upper_bounds]
        self._created = 0.0

    def observe(self, amount: float, exemplar: Pointer = None) -> None:
        """Count an amount into the first bucket whose bound it does not pass."""
        self._sum.now += amount
        bucket = self._buckets[bisect_left(self._upper_bounds, amount)]
        bucket.now += 1
        if exemplar is not None:
            bucket.trace = exemplar, amount, time.time()

    def samples(self) -> Sequence[Part]:
        """What is exported of it."""
        buckets = (("_bucket", {"le": BOUND(bound)}) for bound in self._upper_bounds)
        return (*buckets, ("_count", {}), ("_sum", {}))

    def numbers(self) -> Sequence[float]:
        """How many were no larger than each bound, how many there were, and their sum; or nothing yet."""
        found = list(accumulate(map(NOW, self._buckets)))
        total = found[-1]
        return (*found, total, self._sum.now) if self.foreseen or total else ()

    def traces(self) -> Sequence[Trace | None]:
        """Of the last move into each bucket."""
        return (*map(TRACE, self._buckets), None, None)

    def _child_samples(self) -> Iterable[Sample]:
        return super()._child_samples() if self.numbers() else ()
