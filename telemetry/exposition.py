"""The text of a scrape: what stands before a number is written once, a scrape fills in the numbers.

The library makes an object of every sample and looks at its name letter by letter. For the 7,000 samples of a dozen
models that is a tenth of a second and more in which streams wait for the interpreter, and on a busy machine a scrape
that comes too late is lost. What is ours is written here, what is the library's by the library: a test plays the same
moves to both and compares the bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import add
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import ALLOWUTF8, UNDERSCORES
from prometheus_client.utils import floatToGoString

from telemetry.children import Children, Key
from telemetry.meters import Counter, Gauge, Histogram, Trace

OPEN_METRICS: Final = "application/openmetrics-text"
END: Final = b"# EOF\n"
LEAVES_NAMES_ALONE: Final = (UNDERSCORES, ALLOWUTF8)
"""Of the ways a scraper may want names escaped, those that do nothing to ours."""
_number: Final = lru_cache(4096)(floatToGoString)
Meter = Counter | Gauge | Histogram
Encoder = Callable[[Any], bytes]


class Exposition:
    """All metrics of a process as scrapers want them."""

    def __init__(
        self, registry: CollectorRegistry, families: Iterable[Children[Any]], others: CollectorRegistry
    ) -> None:
        """`registry` has everything: `families`, which are ours, and what is in `others`."""
        self._registry, self._others = registry, others
        self._families = [_Family(children) for children in families]

    def page(self, accept: str) -> tuple[bytes, str]:
        """What is answered to this `Accept` header, Prometheus text or OpenMetrics, and its content type."""
        encoder, content_type = choose_encoder(accept)
        escaping = content_type.partition("escaping=")[2]
        if escaping and escaping not in LEAVES_NAMES_ALONE:
            return encoder(self._registry), content_type
        pointed = content_type.startswith(OPEN_METRICS)
        pages = [family.page(encoder, pointed=pointed) for family in self._families]
        return b"".join([*pages, encoder(self._others)]), content_type


class _Family:
    """One metric, and the text of each of its children with `%s` for the numbers."""

    def __init__(self, children: Children[Any]) -> None:
        self._children = children
        (self._metric,) = children.metric.describe()
        self._texts: dict[Key, str] = {}

    def page(self, encoder: Encoder, *, pointed: bool) -> bytes:
        """Its part of the page, with exemplars where they are `pointed` out."""
        found = [encoder(_Alone(self._metric)).removesuffix(END).decode()]
        for key, child in self._children.copy().items():  # the event loop adds to it meanwhile
            if numbers := child.numbers():
                text = self._texts.get(key) or self._begin(key, child)
                written = map(_number, numbers)
                found.append(text % tuple(map(add, written, map(_exemplar, child.traces())) if pointed else written))
        return "".join(found).encode()

    def _begin(self, key: Key, child: Meter) -> str:
        labels = dict(zip(self._children.labels, key, strict=True))
        lines = (
            f"{self._metric.name}{end}{{{_labels({**labels, **own})}}}".replace("%", "%%") + " %s\n"
            for end, own in child.samples()
        )
        self._texts[key] = text = "".join(lines)
        return text


class _Alone:
    """A registry of one metric, without samples."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        """That metric."""
        yield self._metric


def _exemplar(trace: Trace | None) -> str:
    if trace is None:
        return ""
    labels, amount, time = trace
    return f" # {{{_labels(labels)}}} {_number(amount)} {time}"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
