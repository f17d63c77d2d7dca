"""Which thinking levels upstreams refuse, what calls got instead, and whether that helped."""

from typing import Final

from dashboards.boards.board import MODEL, PURPOSE, Board, speed, total
from dashboards.boards.panels import BAD, GOOD, NOTICE, PER_MINUTE, graph, row, stat, table

REFUSED: Final = "thinkcap_level_refusals_total"
RETRIED: Final = "thinkcap_level_retries_total"
PREEMPTED: Final = "thinkcap_level_preempted_total"
UNFIT: Final = "job_level_model_purpose_upstream:thinkcap_level_unfit_requests:increase1h"
FAILED: Final = "job_model_upstream:thinkcap_level_retries_failed_per_level_retries:ratio_increase1h"
OUTCOME_COLOURS: Final = {"ok": "green", "refused_again": "orange", "failed": "red"}
WAY: Final = "upstream, model, purpose, refused, sent"
HELPED: Final = f'sum{{by}}(increase({RETRIED}{{{{{PURPOSE},outcome="ok"}}}}[$__range]))'
HAPPENED: Final = (
    f"and on ({WAY}) {total(RETRIED, WAY, PURPOSE, '$__range')} + {total(PREEMPTED, WAY, PURPOSE, '$__range')} > 0"
)

BOARD: Final = Board(
    "levels",
    "Thinking levels",
    "Which thinking levels are refused, what was sent instead, and did it help?",
    [
        stat("Refused levels", "Attempts of this time range that an upstream refused for their level.", "none", 6)
        .ask(total(REFUSED, where=PURPOSE, over="$__range"))
        .now()
        .decimals(0),
        stat("Sent again", "Calls of this time range that went out once more with another level.", "none", 6)
        .ask(total(RETRIED, where=PURPOSE, over="$__range"))
        .now()
        .decimals(0),
        stat("Retries that helped", "Share of those whose second attempt was answered.", "percentunit", 6)
        .ask(f"{HELPED.format(by=' ')} / ({total(RETRIED, where=PURPOSE, over='$__range')} > 0)")
        .now()
        .decimals(0)
        .steps((None, BAD), (0.8, NOTICE), (0.95, GOOD))
        .empty("no retries"),
        stat("Sent right at once", "Calls whose level was replaced from memory, without a refusal.", "none", 6)
        .ask(total(PREEMPTED, where=PURPOSE, over="$__range"))
        .now()
        .decimals(0),
        table(
            "Refused, and sent instead",
            "Every replacement of this time range: refused, retried, and from memory.",
            "none",
            24,
        )
        .ask(f"{total(RETRIED, WAY, PURPOSE, '$__range')} {HAPPENED}")
        .ask(f"{HELPED.format(by=f' by ({WAY}) ')} {HAPPENED}")
        .ask(f"{total(PREEMPTED, WAY, PURPOSE, '$__range')} {HAPPENED}")
        .columns(
            {
                "model": "Model",
                "upstream": "Upstream",
                "purpose": "Purpose",
                "refused": "Refused",
                "sent": "Sent",
                "Value #A": "Retried",
                "Value #B": "Answered",
                "Value #C": "From memory",
            },
            sort="From memory",
        )
        .decimals(0)
        .empty("none in this time range"),
        graph("Refusals by level", "Refused attempts per minute, by the level that was sent.", PER_MINUTE)
        .ask(f"60 * {speed(REFUSED, 'level', PURPOSE)} > 0", "{{level}}", exemplars=True)
        .stacked(),
        graph("Retries by outcome", "Re-issued calls per minute, by how the second attempt went.", PER_MINUTE)
        .ask(f"60 * {speed(RETRIED, 'outcome', PURPOSE)}", "{{outcome}}", exemplars=True)
        .stacked()
        .colours(OUTCOME_COLOURS),
        graph("Retries by purpose", "Re-issued calls per minute, by what they are for.", PER_MINUTE)
        .ask(f"60 * {speed(RETRIED, 'purpose', PURPOSE)}", "{{purpose}}")
        .stacked(),
        graph("Sent right at once, by purpose", "Calls per minute whose level was replaced from memory.", PER_MINUTE)
        .ask(f"60 * {speed(PREEMPTED, 'purpose', PURPOSE)}", "{{purpose}}", exemplars=True)
        .stacked(),
        row("What the alerts watch"),
        graph(
            "Retries that fail",
            "Share of the last hour's retries that did not help; the line is the alert's.",
            "percentunit",
        )
        .ask(f"{FAILED}{{{MODEL}}} > 0", "{{model}}")
        .limits((0.2, BAD)),
        graph(
            "Clients that keep asking",
            "Calls of the last hour with a level the model does not take; two hours above the line alert.",
            "short",
        )
        .ask(f"{UNFIT}{{{PURPOSE}}} > 0", "{{model}}: {{level}} for {{purpose}}")
        .limits((10, NOTICE)),
    ],
    variables=("job", "upstream", "model", "purpose"),
)
