"""How long models think, and what became of those that thought too long."""

from typing import Final

from dashboards.boards.board import MODEL, UPSTREAM, WINDOW, Board, quantile, quantiles, speed, total
from dashboards.boards.panels import BAD, GOOD, NOTICE, PER_MINUTE, graph, row, stat, table

TOKENS: Final = "thinkcap_thinking_tokens"
FIRED: Final = "thinkcap_thinking_capped_total"
GIVEN_UP: Final = "thinkcap_thinking_overruns_total"
PAST: Final = "thinkcap_thinking_tokens_past_cap"
CONTROL: Final = "thinkcap_end_reasoning_seconds"
UNABLE: Final = "job_model_upstream:thinkcap_thinking_capped_unable_per_thinking_capped:ratio_increase1h"
FAILED: Final = "job_upstream:thinkcap_end_reasoning_failed_per_end_reasoning:ratio_increase1h"
DROPPED: Final = "job_model_upstream:thinkcap_thinking_overruns_per_requests:ratio_increase1h"
OUTCOME_COLOURS: Final = {
    "ended": "green", "moot": "blue", "overrun": "red", "refused": "orange", "timeout": "yellow", "unable": "#8e8e8e",
}  # fmt: skip
CAUSE_COLOURS: Final = {"kept_thinking": "red", "refused": "orange", "timeout": "yellow"}
ACTS: Final = f'{MODEL},method!="watch"'
RESULT_COLOURS: Final = {"ended": "green", "refused": "orange", "timeout": "yellow", "error": "red"}

BOARD: Final = Board(
    "thinking",
    "Thinking",
    "How long do models think, and do the caps on it work?",
    [
        stat("Thinking per turn, median", "Reasoning tokens of a turn that reasoned, in the middle.", "short", 4)
        .ask(f"histogram_quantile(0.5, sum by (le) (increase({TOKENS}_bucket{{{MODEL}}}[$__range])))")
        .now()
        .decimals(0),
        stat("Share of output", "Reasoning tokens in all output tokens.", "percentunit", 4)
        .ask(
            f"{total('thinkcap_reasoning_tokens_total', over='$__range')} / "
            f'(sum(increase(thinkcap_tokens_total{{{MODEL},kind="output"}}[$__range])) > 0)'
        )
        .now()
        .decimals(0),
        stat("Cap reached", "Turns of this time range whose thinking reached its cap.", "none", 4)
        .ask(total(FIRED, over="$__range"))
        .now()
        .decimals(0),
        stat(
            "Ended in time", "Share of capped turns that went on to answer, where the method can act.", "percentunit", 4
        )
        .ask(
            f'sum(increase({FIRED}{{{ACTS},outcome=~"ended|moot"}}[$__range]))'
            f" / (sum(increase({FIRED}{{{ACTS}}}[$__range])) > 0)"
        )
        .now()
        .decimals(0)
        .steps((None, BAD), (0.8, NOTICE), (0.95, GOOD)),
        stat("Given up", "Calls of this time range dropped because the model went on thinking.", "none", 4)
        .ask(total(GIVEN_UP, over="$__range"))
        .now()
        .decimals(0)
        .steps((None, GOOD), (1, NOTICE)),
        stat(
            "Could not act",
            "Turns past their cap that no method could end; those only watched are not among them.",
            "none",
            4,
        )
        .ask(f'sum(increase({FIRED}{{{ACTS},outcome="unable"}}[$__range]))')
        .now()
        .decimals(0)
        .steps((None, GOOD), (1, NOTICE)),
        quantiles(
            graph("Reasoning tokens per turn", "Tokens a turn thought for, of turns that thought.", "short"), TOKENS
        ),
        graph(
            "Cap reached, by outcome",
            "Turns per minute whose thinking reached its cap, by what came of it.",
            PER_MINUTE,
        )
        .ask(f"60 * {speed(FIRED, 'outcome')} > 0", "{{outcome}}", exemplars=True)
        .stacked()
        .colours(OUTCOME_COLOURS),
        graph(
            "Reasoning tokens by model, 95th percentile",
            "One thinking turn in twenty thought longer than this; models above 64 tokens.",
            "short",
        ).ask(quantile(0.95, TOKENS, "model") + " > 64", "{{model}}", exemplars=True),
        quantiles(
            graph("Tokens past the cap", "How far models went on after the cap fired.", "short"), PAST, of=(0.5, 0.95)
        ),
        row("The call that ends thinking"),
        quantiles(
            graph("Control call, latency", "Time the upstream took to answer the call that ends reasoning.", "s", 8),
            CONTROL,
            where=UPSTREAM,
        ),
        graph("Control call, results", "Calls per minute that asked an upstream to end reasoning.", PER_MINUTE, 8)
        .ask(f"60 * sum by (result) (rate({CONTROL}_count{{{UPSTREAM}}}[{WINDOW}])) > 0", "{{result}}")
        .stacked()
        .colours(RESULT_COLOURS),
        graph(
            "Control calls that fail",
            "Share of the last hour's control calls that failed; the line is the alert's.",
            "percentunit",
            8,
        )
        .ask(f"{FAILED}{{{UPSTREAM}}} > 0", "{{upstream}}")
        .limits((0.2, BAD)),
        row("Where a cap does not help"),
        graph("Given up, by cause", "Calls dropped per minute because the model went on thinking.", PER_MINUTE, 8)
        .ask(f"60 * {speed(GIVEN_UP, 'cause')} > 0", "{{cause}}", exemplars=True)
        .stacked()
        .colours(CAUSE_COLOURS),
        graph(
            "Given up, share",
            "Share of the last hour's requests that were given up; the line is the alert's.",
            "percentunit",
            8,
        )
        .ask(f"{DROPPED}{{{MODEL}}} > 0", "{{model}}")
        .limits((0.05, BAD)),
        graph(
            "Could not act",
            "Share of the last hour's caps that no method could enforce; the line is the alert's.",
            "percentunit",
            8,
        )
        .ask(f"{UNABLE}{{{MODEL}}} > 0", "{{model}}")
        .limits((0.1, BAD)),
        table("Caps by model and method", "Turns of this time range whose thinking reached its cap.", "none")
        .ask(f"{total(FIRED, 'upstream, model, method, outcome', over='$__range')} > 0")
        .columns(
            {"model": "Model", "upstream": "Upstream", "method": "Method", "outcome": "Outcome", "Value": "Turns"},
            sort="Turns",
        )
        .decimals(0),
        graph("How reasoning is counted", "Reasoning tokens per second by where the number comes from.", "si:tok/s", 6)
        .ask(speed("thinkcap_reasoning_tokens_total", "source"), "{{source}}")
        .stacked(),
        graph("Answers without visible text", "Turns per minute that thought and said nothing.", PER_MINUTE, 6).ask(
            f"60 * {speed('thinkcap_reasoning_only_total', 'model')} > 0", "{{model}}"
        ),
    ],
)
