"""Is anything wrong now? One row of lights, then what they stand for."""

from typing import Final

from dashboards.boards.board import JOB, MODEL, UPSTREAM, Board, speed, total
from dashboards.boards.panels import BAD, GOOD, NOTICE, OUTCOME_COLOURS, PER_MINUTE, graph, row, stat, table

SHOWN_ON: Final = {
    "FinishReason.*": "finish-reasons",
    "OutputCap.*": "output-cap",
    "Thinking.*|EndReasoning.*": "thinking",
    "Level.*": "levels",
    "Usage.*|Upstream.*|Gateway.*|Metric.*": "gateway",
}
"""Which alerts (a regular expression) are explained by which dashboard."""

FAILED: Final = "upstream_error|stream_error|incomplete|thinking_overrun|overloaded|timeout"
"""Outcomes that are not the caller's own doing."""
RULE_COLOURS: Final = {
    "stop told as length": "blue", "thinking capped": "yellow", "given up": "red",
    "level retried": "purple", "level preempted": "super-light-purple",
}  # fmt: skip
DRIFT: Final = "job_model_upstream:thinkcap_finish_reasons:tvd1h"
OVERRAN: Final = "thinkcap_output_overruns_total"
CAPPED: Final = "thinkcap_output_capped_requests_total"


def firing() -> str:
    """Firing alerts, each with the dashboard that explains it."""
    expr = f'ALERTS{{alertstate="firing",{JOB}}}'
    for alerts, board in SHOWN_ON.items():
        expr = f'label_replace({expr}, "dashboard", "thinkcap-{board}", "alertname", "{alerts}")'
    return expr


BOARD: Final = Board(
    "overview",
    "Overview",
    "Is anything wrong now?",
    [
        stat("Firing alerts", "Alerts that fire now; the table below names them.", "none")
        .ask(f'count(ALERTS{{alertstate="firing",{JOB}}}) or vector(0)')
        .now()
        .steps((None, GOOD), (1, BAD)),
        stat("Turns", "Calls that ended, per second.", "reqps").ask(speed("thinkcap_requests_total")).spark(),
        stat("In flight", "Calls that upstreams are busy with.", "none")
        .ask(f"sum(thinkcap_inflight_requests{{{UPSTREAM}}})")
        .spark(),
        stat("Errors", "Share of calls that failed for no fault of the caller.", "percentunit")
        .ask(
            f'(sum(rate(thinkcap_requests_total{{{MODEL},outcome=~"{FAILED}"}}[$__rate_interval])) or vector(0))'
            f" / ({speed('thinkcap_requests_total')} > 0)"
        )
        .spark()
        .decimals(1)
        .steps((None, GOOD), (0.02, NOTICE), (0.1, BAD)),
        stat("Overruns", "Share of turns with an output cap that used more than it (budget: 5 %).", "percentunit")
        .ask(f"{speed(OVERRAN)} / ({speed(CAPPED)} > 0)")
        .spark()
        .decimals(1)
        .steps((None, GOOD), (0.05, NOTICE), (0.15, BAD)),
        stat(
            "Largest drift",
            "How far the last hour's finish reasons lie from the day before, worst model.",
            "percentunit",
        )
        .ask(f"max({DRIFT}{{{MODEL}}})")
        .empty("needs 6 h of traffic")
        .steps((None, GOOD), (0.1, NOTICE), (0.15, BAD)),
        row("What the three rules did in this time range"),
        stat("Stops told as length", "Clean stops that had used their whole cap and were told as length.", "none", 6)
        .ask(total("thinkcap_finish_upgrades_total", over="$__range"))
        .now()
        .decimals(0),
        stat("Thinking capped", "Turns whose thinking reached its cap, whatever came of it.", "none", 6)
        .ask(total("thinkcap_thinking_capped_total", over="$__range"))
        .now()
        .decimals(0),
        stat("Given up", "Calls dropped because the model went on thinking past cap and grace.", "none", 6)
        .ask(total("thinkcap_thinking_overruns_total", over="$__range"))
        .now()
        .decimals(0)
        .steps((None, GOOD), (1, NOTICE)),
        stat("Levels changed", "Calls re-issued, or sent at once, with a thinking level the model takes.", "none", 6)
        .ask(
            f"{total('thinkcap_level_retries_total', over='$__range')}"
            f" + {total('thinkcap_level_preempted_total', over='$__range')}"
        )
        .now()
        .decimals(0),
        graph("Turns by outcome", "Calls per second by how they ended.", "reqps")
        .ask(speed("thinkcap_requests_total", "outcome") + " > 0", "{{outcome}}", exemplars=True)
        .stacked()
        .colours(OUTCOME_COLOURS),
        graph(
            "Overruns by model",
            "Share of capped turns past their cap; lines at the budget and at the alert.",
            "percentunit",
        )
        .ask(f"{speed(OVERRAN, 'model')} / ({speed(CAPPED, 'model')} > 0) > 0", "{{model}}", exemplars=True)
        .at_most(1)
        .limits((0.05, NOTICE), (0.15, BAD)),
        table("Alerts", "What fires now; the dashboard column leads to the panels behind it.", "none")
        .ask(firing())
        .columns(
            {
                "alertname": "Alert",
                "severity": "Severity",
                "upstream": "Upstream",
                "model": "Model",
                "dashboard": "Dashboard",
            }
        )
        .widths(Alert=200, Severity=80, Upstream=90, Dashboard=165)
        .empty("nothing fires")
        .field("Dashboard", "links", [{"title": "Open", "url": "/d/${__value.raw}?${__url_time_range}"}]),
        graph("What the rules did", "Interventions per minute, by rule.", PER_MINUTE)
        .ask(f"60 * {speed('thinkcap_finish_upgrades_total')}", "stop told as length", exemplars=True)
        .ask(f"60 * {speed('thinkcap_thinking_capped_total')}", "thinking capped")
        .ask(f"60 * {speed('thinkcap_thinking_overruns_total')}", "given up")
        .ask(f"60 * {speed('thinkcap_level_retries_total')}", "level retried")
        .ask(f"60 * {speed('thinkcap_level_preempted_total')}", "level preempted")
        .colours(RULE_COLOURS),
    ],
)
