"""The children of a metric by their label values: made at the start and kept, no `.labels()` on the hot path."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from prometheus_client.metrics import MetricWrapperBase

from gateway.words import OTHER
from telemetry.labels import CLOSED

M = TypeVar("M", bound=MetricWrapperBase)
Key = tuple[str, ...]


class Children(dict[Key, M], Generic[M]):
    """All children of one metric, by their label values in the order of its labels.

    A combination nobody foresaw (a level only the upstream named) is made on its first use, of closed words only.
    Upstream, model and purpose are names of the settings: `Guard` folds them before they get here.
    """

    def __init__(self, metric: M, labels: Iterable[str], keys: Iterable[Key]) -> None:
        """Make the children that exist at zero."""
        super().__init__((key, metric.labels(*key)) for key in keys)
        self.metric, self.labels = metric, tuple(labels)
        self._closed = [CLOSED.get(label) for label in self.labels]

    def __missing__(self, key: Key) -> M:
        """The child of these values, unknown words folded; kept under what it was folded to."""
        folded = tuple(
            value if allowed is None or value in allowed else OTHER
            for value, allowed in zip(key, self._closed, strict=True)
        )
        if folded not in self:
            self[folded] = self.metric.labels(*folded)
        return self[folded]


class Branch(dict[Key, M], Generic[M]):
    """The children whose first label values are given, by the rest of them."""

    def __init__(self, children: Children[M], *first: str) -> None:
        """Look them up once each."""
        super().__init__()
        self._children, self._first = children, first

    def __missing__(self, rest: Key) -> M:
        """The child of these values; kept, unless a word was folded."""
        key = (*self._first, *rest)
        child = self._children[key]
        if key in self._children:
            self[rest] = child
        return child
