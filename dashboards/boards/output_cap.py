"""Which models overrun their output cap, by how much, and what rule 1 made of it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from dashboards.boards.board import MODEL, Board, quantile, speed, total
from dashboards.boards.panels import BAD, GOOD, NOTICE, PER_MINUTE, PLAIN, Panel, bars, graph, row, stat, table

OVERRAN: Final = "thinkcap_output_overruns_total"
CAPPED: Final = "thinkcap_output_capped_requests_total"
TOKENS_PAST: Final = "thinkcap_output_overrun_tokens_total"
UPGRADED: Final = "thinkcap_finish_upgrades_total"
USED: Final = "thinkcap_output_cap_used_ratio"
BURN: Final = "job_model_upstream:thinkcap_output_overruns_per_output_capped_requests:ratio_increase"
BUDGET: Final = "job_model_upstream:thinkcap_output_overrun_budget:ratio"

EDGES: Final = ("0.25", "0.5", "0.75", "0.9", "1.0", "1.1", "1.25", "1.5", "2.0", "3.0", "5.0", "10.0", "+Inf")
"""The histogram's bounds as Prometheus labels them."""
VERDICT_COLOURS: Final = {
    "upgraded": "orange", "stronger": "green", "tool_calls": "blue", "choices": "light-blue", "override": "purple",
    "stop_sequence": "yellow", "unproven_stop": "red", "unjudged": "#8e8e8e",
}  # fmt: skip


def share_between(low: str, high: str) -> str:
    """Share of turns whose tokens / cap fell between two bounds, over the time range. `low` "0": from nothing."""
    upper = f'sum(increase({USED}_bucket{{{MODEL},le="{high}"}}[$__range]))'
    lower = "" if low == "0" else f' - sum(increase({USED}_bucket{{{MODEL},le="{low}"}}[$__range]))'
    return f"clamp_min({upper}{lower}, 0) / (sum(increase({USED}_count{{{MODEL}}}[$__range])) > 0)"


def bands() -> Iterator[tuple[str, str, str]]:
    """(query, legend, colour) for every bar of the distribution."""
    for low, high in pairwise(("0", *EDGES)):
        legend = f"over {float(low):.0%}" if high == "+Inf" else f"{100 * float(low):.0f} to {float(high):.0%}"
        colour = GOOD if float(high) <= 1 else NOTICE if float(high) <= 1.25 else BAD  # noqa: PLR2004 - a quarter more
        yield share_between(low, high), legend.replace("%", " %"), colour


def distribution() -> Panel:
    """One bar per bucket of tokens / cap."""
    panel = bars(
        "How much of the cap turns used",
        "Share of capped turns by tokens used, in per cent of the cap; everything past 100 % is an overrun.",
        "percentunit",
        10,
    )
    for expr, legend, colour in bands():
        panel.ask(expr, legend).colours({legend: colour})
    return panel.now().at_most(1).decimals(1).tall(11)


def offenders() -> Panel:
    """Models by their overruns."""
    by = "upstream, model"
    overran = total(OVERRAN, by, over="$__range")
    of_them = f"and on ({by}) {overran} > 0"
    return (
        table("Top offenders", "Models that overran in this time range, worst first.", "none", 14)
        .ask(f"{overran} / {total(CAPPED, by, over='$__range')} > 0")
        .ask(f"{overran} > 0")
        .ask(f"{total(CAPPED, by, over='$__range')} {of_them}")
        .ask(f"{total(TOKENS_PAST, by, over='$__range')} / ({overran} > 0)")
        .ask(f"{total(UPGRADED, by, over='$__range')} {of_them}")
        .columns(
            {
                "model": "Model", "upstream": "Upstream", "Value #A": "Overran", "Value #B": "Turns past",
                "Value #C": "Capped turns", "Value #D": "Mean tokens past", "Value #E": "Told as length",
            },
            sort="Overran",
        )
        .decimals(0)
        .field("Overran", "unit", "percentunit")
        .field("Overran", "decimals", 1)
        .shades("Overran", (None, GOOD), (0.05, NOTICE), (0.15, BAD))
        .widths(Upstream=90, Overran=80, Turns_past=90, Capped_turns=105, Mean_tokens_past=130, Told_as_length=115)
        .empty("nothing overran")
        .tall(11)
    )  # fmt: skip


BOARD: Final = Board(
    "output-cap",
    "Output cap",
    "Which models use more tokens than callers allowed, by how much, and what rule 1 made of it?",
    [
        stat("Overruns", "Share of capped turns of this time range that used more than their cap.", "percentunit", 5)
        .ask(f"{total(OVERRAN, over='$__range')} / ({total(CAPPED, over='$__range')} > 0)")
        .now()
        .decimals(1)
        .steps((None, GOOD), (0.05, NOTICE), (0.15, BAD)),
        stat("Turns past their cap", "Turns of this time range with more tokens than the caller allowed.", "none", 5)
        .ask(total(OVERRAN, over="$__range"))
        .now()
        .decimals(0),
        stat("Tokens past caps", "Tokens of this time range that callers had not allowed, and pay for.", "short", 5)
        .ask(total(TOKENS_PAST, over="$__range"))
        .now(),
        stat("Stops told as length", "Clean stops at or past the cap that callers were told as length.", "none", 5)
        .ask(total(UPGRADED, over="$__range"))
        .now()
        .decimals(0),
        stat(
            "Turns with a cap",
            "Share of turns that had a cap and told their usage: what this page can see.",
            "percentunit",
            4,
        )
        .ask(f"{total(CAPPED, over='$__range')} / ({total('thinkcap_finish_reasons_total', over='$__range')} > 0)")
        .now()
        .decimals(0),
        graph(
            "Overruns by model",
            "Share of capped turns past their cap; lines at the budget and at the alert.",
            "percentunit",
        )
        .ask(f"{speed(OVERRAN, 'model')} / ({speed(CAPPED, 'model')} > 0) > 0", "{{model}}", exemplars=True)
        .at_most(1)
        .limits((0.05, NOTICE), (0.15, BAD)),
        graph(
            "What the rule made of overruns",
            "Turns past their cap per minute, by verdict; upgraded was told as length.",
            PER_MINUTE,
        )
        .ask(f"60 * {speed(OVERRAN, 'verdict')} > 0", "{{verdict}}", exemplars=True)
        .stacked()
        .colours(VERDICT_COLOURS),
        distribution(),
        offenders(),
        row("By how much, and how fast the budget burns"),
        graph(
            "Cap used, 95th percentile",
            "One capped turn in twenty used more than this; models above 90 % of the cap.",
            "percentunit",
            8,
        )
        .ask(quantile(0.95, USED, "model") + " > 0.9", "{{model}}", exemplars=True)
        .limits((1, NOTICE)),
        graph("Tokens past the cap", "Tokens per second that callers had not allowed.", "si:tok/s", 8).ask(
            speed(TOKENS_PAST, "model") + " > 0", "{{model}}"
        ),
        graph(
            "Stops told as length", "Relabelled turns per minute: landed exactly at the cap, or past it.", PER_MINUTE, 8
        )
        .ask(f"60 * {speed(UPGRADED, 'kind')}", "{{kind}} the cap", exemplars=True)
        .colours({"at the cap": PLAIN, "over the cap": NOTICE}),
        graph(
            "Budget burn, last hour",
            "Last hour's overruns in budgets; the fast alert fires above 3 if the last 5 minutes agree.",
            "suffix:x",
        )
        .ask(f"{BURN}1h{{{MODEL}}} / {BUDGET}{{{MODEL}}} > 0", "{{model}} on {{upstream}}")
        .limits((1, NOTICE), (3, BAD)),
        graph(
            "Budget burn, last six hours",
            "The same over six hours; the slow alert fires above 2 if the last half hour agrees.",
            "suffix:x",
        )
        .ask(f"{BURN}6h{{{MODEL}}} / {BUDGET}{{{MODEL}}} > 0", "{{model}} on {{upstream}}")
        .limits((1, NOTICE), (2, BAD)),
    ],
)
