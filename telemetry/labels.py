"""Label values come from closed sets: what the settings know, by name, and `other` for the rest.

The composition root fills `Series` from the settings; nothing here reads them. All text that comes from outside is
bounded and made encodable, and counts that no exporter could carry are no counts.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Final

from msgspec import Struct

from gateway.words import (
    CAP_OUTCOMES,
    CONVERSATION,
    COUNT_SOURCES,
    DIALECTS,
    END_RESULTS,
    KEY_REFUSALS,
    LADDER,
    METHODS,
    OTHER,
    OUTCOMES,
    OVERRUN_CAUSES,
    REASONS,
    RETRY_OUTCOMES,
    TOKEN_KINDS,
    UPGRADE_KINDS,
    UPSTREAM_FAULTS,
    VERDICTS,
    DialectName,
    Level,
    Method,
    Reason,
    Verdict,
)

TEXT_LIMIT: Final = 128
"""Characters of a name that came from outside."""
COUNT_LIMIT: Final = 2**63
"""OTLP integers are 64 bits wide; one larger would cost the whole batch of spans."""

CLOSED: Final[Mapping[str, frozenset[str]]] = {
    "dialect": frozenset(DIALECTS),
    "outcome": frozenset((*OUTCOMES, *CAP_OUTCOMES, *RETRY_OUTCOMES)),
    "reported": frozenset(REASONS),
    "returned": frozenset(REASONS),
    "verdict": frozenset(VERDICTS),
    "method": frozenset(METHODS),
    "cause": frozenset(OVERRUN_CAUSES),
    "result": frozenset(END_RESULTS),
    "level": frozenset(LADDER),
    "refused": frozenset(LADDER),
    "sent": frozenset(LADDER),
    "kind": frozenset((*UPGRADE_KINDS, *TOKEN_KINDS, *UPSTREAM_FAULTS)),
    "source": frozenset(COUNT_SOURCES),
    "reason": frozenset(KEY_REFUSALS),
}
"""The words a label may hold; labels that are not here hold names of the settings."""

OVERRUN_VERDICTS: Final[tuple[Verdict, ...]] = (
    "override", "stronger", "unjudged", "tool_calls", "choices", "stop_sequence", "unproven_stop", "upgraded",
)  # fmt: skip
"""Verdicts a turn past its cap can get: `under` and `enforced` are said of tokens <= cap only."""

ReasonPair = tuple[Reason, Reason]


class Retry(Struct, frozen=True):
    """The one target a refused level has for calls of this purpose."""

    purpose: str
    refused: Level
    sent: Level


class UpstreamSeries(Struct, frozen=True, kw_only=True):
    """One upstream of the settings. `mapped`: (reported, returned) pairs its own `finish_reasons` make possible."""

    name: str
    dialects: tuple[DialectName, ...]
    methods: tuple[Method, ...]
    mapped: tuple[ReasonPair, ...] = ()


class ModelSeries(Struct, frozen=True, kw_only=True):
    """One model of the settings. `levels` None: nothing is declared, so any level may be refused."""

    upstream: str
    model: str
    dialects: tuple[DialectName, ...]
    methods: tuple[Method, ...]
    levels: tuple[Level, ...] | None = None
    retries: tuple[Retry, ...] = ()
    mapped: tuple[ReasonPair, ...] = ()


class Series(Struct, frozen=True, kw_only=True):
    """Everything the settings know that may become a label value."""

    upstreams: tuple[UpstreamSeries, ...] = ()
    models: tuple[ModelSeries, ...] = ()
    purposes: tuple[str, ...] = ()
    """Every configured purpose."""
    purposes_in_scope: tuple[str, ...] = ()
    """Those of `level_fallback.purposes`."""
    version: str = "unknown"
    settings_sha256: str = ""

    def rows(self) -> Iterator[ModelSeries]:
        """The configured models, then one row `other` per upstream for the models nobody configured."""
        yield from self.models
        for up in self.upstreams:
            yield ModelSeries(
                upstream=up.name,
                model=OTHER,
                dialects=up.dialects,
                methods=up.methods,
                levels=LADDER,
                mapped=up.mapped,
            )

    def per_model(self, *axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """(upstream, model, ...) for every row and every combination of the axes."""
        for row in self.rows():
            for combination in product(*axes):
                yield (row.upstream, row.model, *combination)

    def per_dialect(self, *axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """(dialect, upstream, model, ...): the dialects are those of the row."""
        for row in self.rows():
            for spoken in row.dialects:
                for combination in product(*axes):
                    yield (spoken, row.upstream, row.model, *combination)

    def listed(self) -> Iterator[tuple[str, ...]]:
        """(upstream, model) of the configured models only: what a dear metric starts with."""
        return ((row.upstream, row.model) for row in self.models)

    def listed_dialects(self) -> Iterator[tuple[str, ...]]:
        """(dialect, upstream, model) of the configured models, each in the first of its dialects.

        Latencies in the others are born with the first call in them: a histogram for each dialect that might be spoken
        is thousands of series that nobody ever fills.
        """
        return ((row.dialects[0], row.upstream, row.model) for row in self.models)

    def per_method(self, *axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """(upstream, model, method, ...): the methods are those of the row."""
        for row in self.rows():
            for combination in product(row.methods, *axes):
                yield (row.upstream, row.model, *combination)

    def reasons(self, plain: tuple[ReasonPair, ...]) -> Iterator[tuple[str, ...]]:
        """(upstream, model, reported, returned): the plain pairs, and those an operator's map adds."""
        for row in self.rows():
            for pair in dict.fromkeys((*plain, *row.mapped)):
                yield (row.upstream, row.model, *pair)

    def refusals(self) -> Iterator[tuple[str, ...]]:
        """(upstream, model, purpose, level) for each level a model does not declare."""
        purposes = dict.fromkeys((*self.purposes_in_scope, CONVERSATION))
        for row in self.rows():
            undeclared = [level for level in LADDER if level not in (row.levels or ())]
            for purpose, level in product(purposes, undeclared):
                yield (row.upstream, row.model, purpose, level)

    def retries(self, *axes: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """(upstream, model, purpose, refused, sent, ...) for each level that has a target."""
        for row in self.rows():
            for retry in row.retries:
                for combination in product(*axes):
                    yield (row.upstream, row.model, retry.purpose, retry.refused, retry.sent, *combination)


class Guard:
    """Folds a value to `other` unless the settings know it. Each question costs one look into a set."""

    __slots__ = ("_models", "_purposes", "_upstreams")

    def __init__(self, series: Series) -> None:
        """Learn the names."""
        self._upstreams = frozenset(up.name for up in series.upstreams) | {row.upstream for row in series.models}
        self._models = frozenset((row.upstream, row.model) for row in series.models)
        self._purposes = frozenset((*series.purposes, *series.purposes_in_scope, CONVERSATION))

    def upstream(self, name: str) -> str:
        """A configured upstream or `other`."""
        return name if name in self._upstreams else OTHER

    def model(self, upstream: str, model: str) -> str:
        """A model configured for this upstream or `other`."""
        return model if (upstream, model) in self._models else OTHER

    def purpose(self, purpose: str) -> str:
        """A configured purpose, `conversation` or `other`."""
        return purpose if purpose in self._purposes else OTHER


def dialect(name: str) -> str:
    """A dialect or `other`."""
    return name if name in DIALECTS else OTHER


def count(value: object) -> int | None:
    """A number of tokens that can be recorded; None for negatives, booleans, fractions and numbers beyond 64 bits."""
    return value if type(value) is int and 0 <= value < COUNT_LIMIT else None


def bounded(text: str) -> str:
    """Text from outside: at most 128 characters, and none that UTF-8 cannot say."""
    text = text[:TEXT_LIMIT]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes every exporter can carry: texts bounded, what is None or too large a number left out."""
    return {key: kept for key, value in values.items() if (kept := _plain(value)) is not None}


def _plain(value: Any) -> Any:
    if type(value) is str:
        return bounded(value)
    return None if type(value) is int and abs(value) >= COUNT_LIMIT else value


def overran(used: int, cap: int, choices: int) -> int:
    """Tokens past the cap, which holds for each of the choices; 0 when none."""
    return max(0, used - cap * max(1, choices))
