"""The metrics of the contract, on a registry of their own, every reachable series of a configured model at zero.

A series born at 15 has an increase() of 0, so children are made at the start.
Histograms, 13 to 15 series each, start for the models of the settings only; those of `other` are born when used.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Info, ProcessCollector, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from gateway.words import (
    CAP_OUTCOMES,
    COUNT_SOURCES,
    DIALECTS,
    END_RESULTS,
    KEY_REFUSALS,
    OTHER,
    OUTCOMES,
    OVERRUN_CAUSES,
    REASONS,
    RETRY_OUTCOMES,
    TOKEN_KINDS,
    UPGRADE_KINDS,
    UPSTREAM_FAULTS,
)
from telemetry.children import Children, Key
from telemetry.labels import OVERRUN_VERDICTS, ReasonPair, Series
from telemetry.meters import Counter, Gauge, Histogram

USED_RATIO: Final = (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
THINKING_TOKENS: Final = tuple(64 * 2**n for n in range(12))
PAST_CAP: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
END_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5)
REQUEST_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
FIRST_TOKEN_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
OVERHEAD_SECONDS: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
)  # fmt: skip

PLAIN_REASONS: Final[tuple[ReasonPair, ...]] = (*((reason, reason) for reason in REASONS), ("stop", "length"))
"""What can be reported and returned without an operator's map."""
BEFORE_ROUTING: Final = ("refused", "overloaded", "client_gone")
"""Outcomes of calls that never got an upstream."""

Keys = Iterable[Key]
C = TypeVar("C", bound=Collector)
M = TypeVar("M", bound=MetricWrapperBase)


class Metrics:
    """All metrics of one process. Attribute by attribute a row of the contract's table, keyed by its label values."""

    def __init__(self, series: Series) -> None:
        """Register everything and set every reachable series to zero."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry, self.others = CollectorRegistry(), CollectorRegistry()
        """Everything, and of it what the library counts: the process itself, what other threads move, and names."""
        self.families: list[Children[Any]] = []
        """What is ours."""
        self._library(ProcessCollector(registry=None))
        self._count_turns(series)
        self._count_thinking(series)
        self._count_levels(series)
        self._count_tokens(series)
        self._count_the_gateway(series)

    def _counter(self, name: str, says: str, labels: str, keys: Keys) -> Children[Counter]:
        return self._family(Counter(name, says, labels.split(), registry=self.registry), labels, keys)

    def _histogram(
        self, name: str, says: str, labels: str, buckets: tuple[float, ...], keys: Keys
    ) -> Children[Histogram]:
        made = Histogram(name, says, labels.split(), registry=self.registry, buckets=buckets)
        return self._family(made, labels, keys)

    def _family(self, metric: M, labels: str, keys: Keys) -> Children[M]:
        children = Children(metric, labels.split(), keys)
        self.families.append(children)
        return children

    def _library(self, collector: C) -> C:
        self.registry.register(collector)
        self.others.register(collector)
        return collector

    def _count_turns(self, series: Series) -> None:
        counter, per_model = self._counter, series.per_model
        self.requests = counter(
            "thinkcap_requests_total",
            "Calls, once each, by how they went.",
            "dialect upstream model outcome",
            [
                *series.per_dialect(OUTCOMES),
                *((d, OTHER, OTHER, outcome) for d in (*DIALECTS, OTHER) for outcome in BEFORE_ROUTING),
            ],
        )
        self.finish_reasons = counter(
            "thinkcap_finish_reasons_total",
            "Turns by the finish reason the upstream said and the one the caller got.",
            "upstream model reported returned",
            series.reasons(PLAIN_REASONS),
        )
        self.finish_upgrades = counter(
            "thinkcap_finish_upgrades_total",
            "Clean stops told as length because they used the whole output cap.",
            "upstream model kind",
            per_model(UPGRADE_KINDS),
        )
        self.output_capped = counter(
            "thinkcap_output_capped_requests_total",
            "Turns with a usable output cap and usable usage.",
            "upstream model",
            per_model(),
        )
        self.output_overruns = counter(
            "thinkcap_output_overruns_total",
            "Turns that used more tokens than their output cap, by verdict.",
            "upstream model verdict",
            per_model(OVERRUN_VERDICTS),
        )
        self.output_overrun_tokens = counter(
            "thinkcap_output_overrun_tokens_total", "Tokens past the output cap.", "upstream model", per_model()
        )
        self.cap_used_ratio = self._histogram(
            "thinkcap_output_cap_used_ratio",
            "Output tokens of a turn divided by its output cap.",
            "upstream model",
            USED_RATIO,
            series.listed(),
        )

    def _count_thinking(self, series: Series) -> None:
        histogram, per_model = self._histogram, series.per_model
        self.thinking_capped = self._counter(
            "thinkcap_thinking_capped_total",
            "Turns whose thinking cap fired or could not act.",
            "upstream model method outcome",
            series.per_method(CAP_OUTCOMES),
        )
        self.thinking_overruns = self._counter(
            "thinkcap_thinking_overruns_total",
            "Calls given up because the model went on thinking.",
            "upstream model cause",
            per_model(OVERRUN_CAUSES),
        )
        self.thinking_tokens = histogram(
            "thinkcap_thinking_tokens",
            "Reasoning tokens of a turn that reasoned.",
            "upstream model",
            THINKING_TOKENS,
            series.listed(),
        )
        self.tokens_past_cap = histogram(
            "thinkcap_thinking_tokens_past_cap",
            "Reasoning tokens beyond the thinking cap.",
            "upstream model",
            PAST_CAP,
            series.listed(),
        )
        self.end_reasoning = histogram(
            "thinkcap_end_reasoning_seconds",
            "Time the call that asks an upstream to end the reasoning took.",
            "upstream result",
            END_SECONDS,
            ((up.name, result) for up in series.upstreams if "control" in up.methods for result in END_RESULTS),
        )

    def _count_levels(self, series: Series) -> None:
        self.level_refusals = self._counter(
            "thinkcap_level_refusals_total",
            "Attempts the upstream refused for their thinking level.",
            "upstream model purpose level",
            series.refusals(),
        )
        self.level_retries = self._counter(
            "thinkcap_level_retries_total",
            "Calls re-issued with another thinking level, by how that went.",
            "upstream model purpose refused sent outcome",
            series.retries(RETRY_OUTCOMES),
        )
        self.level_preempted = self._counter(
            "thinkcap_level_preempted_total",
            "Calls sent with another thinking level at once, from memory.",
            "upstream model purpose refused sent",
            series.retries(),
        )

    def _count_tokens(self, series: Series) -> None:
        counter, per_model = self._counter, series.per_model
        self.tokens = counter(
            "thinkcap_tokens_total",
            "Tokens as the upstream counted them; output includes reasoning.",
            "upstream model kind",
            per_model(TOKEN_KINDS),
        )
        self.reasoning_tokens = counter(
            "thinkcap_reasoning_tokens_total",
            "Reasoning tokens, by where the number comes from.",
            "upstream model source",
            per_model(COUNT_SOURCES),
        )
        self.usage_missing = counter(
            "thinkcap_usage_missing_total",
            "Turns that ended by themselves without usable usage.",
            "upstream model",
            per_model(),
        )
        self.reasoning_only = counter(
            "thinkcap_reasoning_only_total", "Answers with no visible text.", "upstream model", per_model()
        )
        self.malformed_events = counter(
            "thinkcap_malformed_events_total",
            "Events that are not what the dialect says.",
            "upstream model",
            per_model(),
        )

    def _count_the_gateway(self, series: Series) -> None:
        histogram = self._histogram
        timed = "dialect upstream model"
        self.request_seconds = histogram(
            "thinkcap_request_seconds",
            "Time from the whole request to the end of the answer.",
            timed,
            REQUEST_SECONDS,
            series.listed_dialects(),
        )
        self.first_token_seconds = histogram(
            "thinkcap_first_token_seconds",
            "Time from the whole request to the first token of a stream.",
            timed,
            FIRST_TOKEN_SECONDS,
            series.listed_dialects(),
        )
        self.overhead_seconds = histogram(
            "thinkcap_overhead_seconds",
            "Time the gateway itself added.",
            "dialect",
            OVERHEAD_SECONDS,
            ((dialect,) for dialect in DIALECTS),
        )
        self.key_refusals = self._counter(
            "thinkcap_key_refusals_total",
            "Calls refused for their gateway key.",
            "reason",
            ((reason,) for reason in KEY_REFUSALS),
        )
        self.spans_dropped = self._library(
            prometheus_client.Counter(  # with its lock: the sender of spans counts here too
                "thinkcap_spans_dropped_total", "Spans the exporter could not send or queue.", registry=None
            )
        )
        names = [up.name for up in series.upstreams]
        inflight = Gauge(
            "thinkcap_inflight_requests", "Calls an upstream is busy with.", ["upstream"], registry=self.registry
        )
        self.inflight = self._family(inflight, "upstream", ((name,) for name in names))
        self.upstream_errors = self._counter(
            "thinkcap_upstream_errors_total",
            "Attempts that failed, by kind.",
            "upstream kind",
            ((name, fault) for name in names for fault in UPSTREAM_FAULTS),
        )
        build = self._library(Info("thinkcap_build", "The version that runs.", registry=None))
        build.info({"version": series.version})
        settings = self._library(Info("thinkcap_settings", "A hash of the settings in force.", registry=None))
        settings.info({"sha256": series.settings_sha256})
