"""How turns end, and whether they end otherwise than the day before."""

from typing import Final

from dashboards.boards.board import MODEL, Board, speed, total
from dashboards.boards.panels import BAD, GOOD, NOTICE, REASON_COLOURS, graph, row, stat, table, text

REASONS: Final = "thinkcap_finish_reasons_total"
RECORDED: Final = "job_model_upstream:thinkcap_finish_reasons"
SHARES: Final = "job_model_upstream_reported:thinkcap_finish_reasons"
TURNS: Final = f"({total(REASONS, over='$__range')} > 0)"
PAIRS: Final = total(REASONS, "reported, returned", over="$__range")
SAID: Final = total(REASONS, "reported", over="$__range")
WAITING: Final = "needs 6 h of traffic"

BOARD: Final = Board(
    "finish-reasons",
    "Finish reasons",
    "How do turns end, and do they end otherwise than the day before?",
    [
        text(
            "About this page",
            "Drift holds the last hour against the day before it, so its panels stay empty until a model has had "
            "traffic for **6 hours**, **200 turns** before the last hour and **50** in it. *Reported* is the "
            "provider's word, *returned* the one the caller got: drift watches *reported*, so that Thinkcap's own "
            "relabelling is no drift.",
        ).tall(3),
        stat("Largest drift", "Share of turns that end otherwise than the day before, worst model.", "percentunit", 6)
        .ask(f"max({RECORDED}:tvd1h{{{MODEL}}})")
        .empty(WAITING)
        .decimals(1)
        .steps((None, GOOD), (0.1, NOTICE), (0.15, BAD)),
        stat(
            "Ended as length",
            "Share of the turns of this time range that the provider ended at a limit.",
            "percentunit",
            6,
        )
        .ask(f'sum(increase({REASONS}{{{MODEL},reported="length"}}[$__range])) / {TURNS}')
        .now()
        .decimals(1),
        stat("Without a word", "Share of the turns of this time range that ended without any reason.", "percentunit", 6)
        .ask(f'sum(increase({REASONS}{{{MODEL},reported="missing"}}[$__range])) / {TURNS}')
        .now()
        .decimals(1)
        .steps((None, GOOD), (0.01, NOTICE), (0.05, BAD)),
        stat(
            "Told otherwise",
            "Share of turns whose caller got another reason than the provider reported.",
            "percentunit",
            6,
        )
        .ask(
            f"1 - sum({PAIRS} and on (reported, returned) "
            f'label_replace({SAID}, "returned", "$1", "reported", "(.*)")) / {TURNS}'
        )
        .now()
        .decimals(1),
        graph("Reported reasons", "Share of turns by the provider's own word, folded.", "percentunit")
        .ask(f"{speed(REASONS, 'reported')} / on () group_left () ({speed(REASONS)} > 0) > 0", "{{reported}}")
        .stacked()
        .at_most(1)
        .colours(REASON_COLOURS),
        table(
            "Reported and returned", "Turns of this time range: the provider's word down, the caller's across.", "none"
        )
        .ask(f"{PAIRS} > 0")
        .matrix("reported", "returned")
        .decimals(0),
        row("Drift: the last hour against the day before"),
        graph(
            "Distance by model",
            "Share of turns that changed sides; the alert needs more than 15 % and three times the noise.",
            "percentunit",
        )
        .ask(f"{RECORDED}:tvd1h{{{MODEL}}}", "{{model}} on {{upstream}}")
        .ask(f"max(3 * {RECORDED}:tvd1h_noise{{{MODEL}}} and {RECORDED}:tvd1h{{{MODEL}}})", "3 x noise")
        .limits((0.15, BAD))
        .dashes("3 x noise", "#8e8e8e")
        .empty(WAITING),
        graph(
            "What grew and what shrank",
            "Points of share each reason won or lost against the day before, all models.",
            "percentunit",
        )
        .ask(
            f"avg by (reported) ({SHARES}:share_delta1h{{{MODEL}}} and on (job, model, upstream) {RECORDED}:tvd1h)",
            "{{reported}}",
        )
        .signed()
        .colours(REASON_COLOURS)
        .empty(WAITING),
        graph(
            "Distance, last 15 minutes",
            "The same for the last quarter of an hour: whether it still goes on.",
            "percentunit",
            6,
        )
        .ask(f"{RECORDED}:tvd15m{{{MODEL}}}", "{{model}} on {{upstream}}")
        .limits((0.15, BAD))
        .empty(WAITING),
        graph("Turns of the last hour", "What the distance rests on; below the line a model is not judged.", "short", 6)
        .ask(f"{RECORDED}:increase1h{{{MODEL}}} > 0", "{{model}} on {{upstream}}")
        .limits((50, NOTICE)),
        graph(
            "Turns without a word",
            "Share of the last hour's turns that ended without any reason; the line is the alert's.",
            "percentunit",
            6,
        )
        .ask(f'{SHARES}:share1h{{{MODEL},reported="missing"}} > 0', "{{model}} on {{upstream}}")
        .limits((0.05, BAD)),
        table("New in a day", "Reasons of the last hour that the day before did not have once.", "none", 6)
        .ask(
            f"({SHARES}:increase1h{{{MODEL}}} >= 1 unless {SHARES}:increase1d_offset1h{{{MODEL}}} > 0)"
            f" and ignoring (reported) {RECORDED}:increase1d_offset1h{{{MODEL}}} >= 200"
        )
        .empty("none, or no day to compare with")
        .columns({"model": "Model", "reported": "Reported", "Value": "Turns"}, sort="Turns")
        .decimals(0),
    ],
    span="now-3h",
)
