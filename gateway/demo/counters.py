"""What a gateway's /metrics says, and the story it tells: every number of the demo comes from here and nowhere else."""

import re
from collections.abc import Mapping
from typing import Final, Self

from msgspec import Struct

_SAMPLE: Final = re.compile(r'(\w+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)')
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


LLAMA_SERVER: Final = "llama-server"
"""The name of the upstream that `--live` adds."""


class Counters:
    """One scrape, in Prometheus' text format."""

    def __init__(self, text: str) -> None:
        """Read what is not zero, without the buckets of histograms: a hundredth of the text."""
        lines = [
            line
            for line in text.split("\n")
            if line[:1] not in {"", "#"} and line[-4:] != " 0.0" and "_bucket{" not in line
        ]
        samples = filter(None, map(_SAMPLE.match, lines))
        self._samples = [(sample[1], dict(_LABEL.findall(sample[2] or "")), float(sample[3])) for sample in samples]

    def total(self, name: str, **where: str) -> int:
        """The sum over all series of this name that have these labels."""
        return round(sum(self._values(name, where)))

    def mean(self, name: str, **where: str) -> float:
        """The mean of a histogram; 0 when it is empty."""
        seen = sum(self._values(f"{name}_count", where))
        return sum(self._values(f"{name}_sum", where)) / seen if seen else 0.0

    def by(self, label: str, name: str, **where: str) -> dict[str, int]:
        """The sums by the values of a label, those at zero left out, largest first."""
        return {words[0]: value for words, value in self.by_all((label,), name, **where).items()}

    def by_all(self, labels: tuple[str, ...], name: str, **where: str) -> dict[tuple[str, ...], int]:
        """The same for several labels at once."""
        sums: dict[tuple[str, ...], float] = {}
        for found, known, value in self._samples:
            if found == name and value and where.items() <= known.items():
                words = tuple(known[label] for label in labels)
                sums[words] = sums.get(words, 0.0) + value
        return {words: round(value) for words, value in sorted(sums.items(), key=lambda item: -item[1])}

    def _values(self, name: str, where: Mapping[str, str]) -> list[float]:
        return [value for found, labels, value in self._samples if found == name and where.items() <= labels.items()]


class Story(Struct, frozen=True, kw_only=True):
    """What the counters say, gathered for people."""

    calls: int
    outcomes: dict[str, int]
    dialects: dict[str, int]
    capped: int
    """Turns with a usable output cap and usage to judge it by."""
    verdicts: dict[str, int]
    """Turns past their output cap, by what the rule said."""
    past_output_cap: int
    """Tokens."""
    on_the_cap: int
    """Clean stops exactly on the cap, told as `length`."""
    usage_missing: int
    reasoning_only: int
    thinking: dict[str, int]
    """Turns whose thinking cap fired or could not act, by what came of it."""
    given_up: dict[str, int]
    """By cause."""
    past_thinking_cap: float
    """Tokens a turn, of those that reached their thinking cap."""
    on_llama_server: dict[str, int]
    """As `thinking`, on the real llama.cpp server of `--live` alone."""
    past_thinking_cap_there: float
    refusals: dict[str, int]
    """Attempts refused for their thinking level, by purpose."""
    retries: dict[tuple[str, ...], int]
    """By level refused, level sent, outcome."""
    preempted: dict[tuple[str, ...], int]
    """By level refused before and level sent at once."""
    overhead_seconds: float

    @property
    def overran(self) -> int:
        """Turns past their output cap."""
        return sum(self.verdicts.values())

    @property
    def told_length(self) -> int:
        """Overruns told as `length`."""
        return self.verdicts.get("upgraded", 0)

    @classmethod
    def of(cls, counters: Counters) -> Self:
        """Gather it from one scrape."""
        total, by, by_all = counters.total, counters.by, counters.by_all
        return cls(
            calls=total("thinkcap_requests_total"),
            outcomes=by("outcome", "thinkcap_requests_total"),
            dialects=by("dialect", "thinkcap_requests_total"),
            capped=total("thinkcap_output_capped_requests_total"),
            verdicts=by("verdict", "thinkcap_output_overruns_total"),
            past_output_cap=total("thinkcap_output_overrun_tokens_total"),
            on_the_cap=total("thinkcap_finish_upgrades_total", kind="at"),
            usage_missing=total("thinkcap_usage_missing_total"),
            reasoning_only=total("thinkcap_reasoning_only_total"),
            thinking=by("outcome", "thinkcap_thinking_capped_total"),
            given_up=by("cause", "thinkcap_thinking_overruns_total"),
            past_thinking_cap=counters.mean("thinkcap_thinking_tokens_past_cap"),
            on_llama_server=by("outcome", "thinkcap_thinking_capped_total", upstream=LLAMA_SERVER),
            past_thinking_cap_there=counters.mean("thinkcap_thinking_tokens_past_cap", upstream=LLAMA_SERVER),
            refusals=by("purpose", "thinkcap_level_refusals_total"),
            retries=by_all(("refused", "sent", "outcome"), "thinkcap_level_retries_total"),
            preempted=by_all(("refused", "sent"), "thinkcap_level_preempted_total"),
            overhead_seconds=counters.mean("thinkcap_overhead_seconds"),
        )
