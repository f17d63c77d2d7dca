"""The series of one dialect, upstream and model, side by side: a call looks its row up once and moves what is in it."""

from typing import TypeVar

from gateway.words import OTHER
from telemetry.children import Branch, Children
from telemetry.labels import Guard, dialect
from telemetry.meters import Counter, Histogram
from telemetry.metrics import Metrics

M = TypeVar("M", Counter, Histogram)
Where = tuple[str, str, str]
"""Dialect, upstream, model."""


class Row:
    """What an ordinary call moves, and the label values it counts under."""

    __slots__ = (
        "cap_used_ratio", "dialect", "finish_reasons", "first_token_seconds", "model", "output_capped",
        "overhead_seconds", "reasoning_tokens", "request_seconds", "requests", "thinking_tokens", "tokens", "upstream",
        "where",
    )  # fmt: skip

    def __init__(self, metrics: Metrics, spoken: Where) -> None:
        """Look everything up."""
        self.dialect, self.upstream, self.model = spoken
        self.where = where = (self.upstream, self.model)
        self.requests = Branch(metrics.requests, *spoken)
        self.request_seconds = _ahead(metrics.request_seconds, *spoken)
        self.first_token_seconds = _ahead(metrics.first_token_seconds, *spoken)
        self.overhead_seconds = _ahead(metrics.overhead_seconds, self.dialect)
        self.finish_reasons = Branch(metrics.finish_reasons, *where)
        self.output_capped = _ahead(metrics.output_capped, *where)
        self.cap_used_ratio = _ahead(metrics.cap_used_ratio, *where)
        self.tokens = Branch(metrics.tokens, *where)
        self.reasoning_tokens = Branch(metrics.reasoning_tokens, *where)
        self.thinking_tokens = _ahead(metrics.thinking_tokens, *where)


def _ahead(children: Children[M], *key: str) -> M:
    """A child that is there before it moves; one the settings did not foresee is not exported until then."""
    if key not in children:
        children[key].foreseen = False
    return children[key]


class Rows(dict[Where, Row]):
    """The rows of a process. Names the settings do not know share the row `other`, so that there are never many."""

    def __init__(self, metrics: Metrics, guard: Guard) -> None:
        """Rows are made when the first call needs them."""
        super().__init__()
        self._metrics, self._guard = metrics, guard

    def __missing__(self, spoken: Where) -> Row:
        """The row of these names, folded; kept under what they were folded to."""
        name, upstream, model = spoken
        folded = (dialect(name), self._guard.upstream(upstream), self._guard.model(upstream, model))
        if folded not in self:
            self[folded] = Row(self._metrics, folded)
        return self[folded]

    def unrouted(self, name: str) -> Row:
        """The row of a call whose upstream is not known yet."""
        return self[name, OTHER, OTHER]
