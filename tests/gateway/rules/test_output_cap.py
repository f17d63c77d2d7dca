"""The table of rule 1, row by row, exact to the token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.deltas import Finish
from gateway.rules.output_cap import OutputCap, Settled
from gateway.words import REASONS, VERDICTS

STOP = Finish("stop", "stop")
OWN_STOP = Finish("stop", "stop", stop_evidence=True)
NATURAL_STOP = Finish("stop", "stop", stop_evidence=False)
LENGTH = Finish("length", "length")
CAP = OutputCap(cap=64)
MAPPED = OutputCap(cap=64, overrides={"stop": "length", "eos": "stop"})
STOPS = OutputCap(cap=64, stop_sequences=True)

ROWS = [
    ("105 tokens under a cap of 64 become length", CAP, STOP, 105, False, Settled("length", "upgraded", "over", 41)),
    ("landing on the cap is length and no overrun", CAP, STOP, 64, False, Settled("length", "upgraded", "at", 0)),
    ("one token past the cap is an overrun of one", CAP, STOP, 65, False, Settled("length", "upgraded", "over", 1)),
    ("one token under the cap stays stop", CAP, STOP, 63, False, Settled("stop", "under")),
    ("no tokens at all stay stop", CAP, STOP, 0, False, Settled("stop", "under")),
    ("length is never downgraded, its overrun is counted", CAP, LENGTH, 80, False, Settled("length", "stronger", None, 16)),
    ("length under the cap stays", CAP, LENGTH, 37, False, Settled("length", "stronger")),
    ("length without usage is stronger, not unjudged", CAP, LENGTH, None, False, Settled("length", "stronger")),
    ("length without a cap is stronger", OutputCap(), LENGTH, 9, False, Settled("length", "stronger")),
    ("a filter stays", CAP, Finish("SAFETY", "content_filter"), 64, False, Settled("content_filter", "stronger")),
    ("an error stays", CAP, Finish("error", "error"), 99, False, Settled("error", "stronger", None, 35)),
    ("a word nobody knows stays", CAP, Finish("pause_turn", "other"), 64, False, Settled("other", "stronger")),
    ("no word said stays missing", CAP, Finish("", "missing"), 65, False, Settled("missing", "stronger", None, 1)),
    ("tool calls said as such stay", CAP, Finish("tool_calls", "tool_calls"), 64, True, Settled("tool_calls", "stronger")),
    ("a stop with a tool call stays", CAP, STOP, 105, True, Settled("stop", "tool_calls", None, 41)),
    ("a tool call under the cap is under", CAP, STOP, 63, True, Settled("stop", "under")),
    ("no cap", OutputCap(), STOP, 105, False, Settled("stop", "unjudged")),
    ("a cap of zero is no usable cap", OutputCap(cap=0), STOP, 105, False, Settled("stop", "unjudged")),
    ("no usage", CAP, STOP, None, False, Settled("stop", "unjudged")),
    ("two choices: the sum proves nothing", OutputCap(cap=64, choices=2), STOP, 128, False, Settled("stop", "choices")),
    ("two choices: one overran for certain", OutputCap(cap=64, choices=2), STOP, 129, False, Settled("stop", "choices", None, 1)),
    ("two choices with few tokens are under", OutputCap(cap=64, choices=2), STOP, 63, False, Settled("stop", "under")),
    ("a tool call wins over two choices", OutputCap(cap=64, choices=2), STOP, 64, True, Settled("stop", "tool_calls")),
    ("the caller's own stop sequence stays", STOPS, OWN_STOP, 80, False, Settled("stop", "stop_sequence", None, 16)),
    ("evidence counts though no stop was seen in the request", CAP, OWN_STOP, 64, False, Settled("stop", "stop_sequence")),
    ("stops sent and no evidence stay", STOPS, STOP, 105, False, Settled("stop", "unproven_stop", None, 41)),
    ("stops sent and a natural end go on", STOPS, NATURAL_STOP, 80, False, Settled("length", "upgraded", "over", 16)),
    ("stops sent, under the cap", STOPS, STOP, 63, False, Settled("stop", "under")),
    (
        "unproven stops are raised where the operator says so",
        OutputCap(cap=64, stop_sequences=True, upgrade_unproven=True),
        STOP, 105, False, Settled("length", "upgraded", "over", 41),
    ),
    (
        "a proven stop stays even then",
        OutputCap(cap=64, stop_sequences=True, upgrade_unproven=True),
        OWN_STOP, 105, False, Settled("stop", "stop_sequence", None, 41),
    ),
    ("a server that enforces its cap may stop on it", OutputCap(cap=12, enforces_cap=True), STOP, 12, False, Settled("stop", "enforced")),
    (
        "past the cap the declaration was wrong",
        OutputCap(cap=12, enforces_cap=True), STOP, 15, False, Settled("length", "upgraded", "over", 3),
    ),
    ("enforcing, under the cap", OutputCap(cap=12, enforces_cap=True), STOP, 11, False, Settled("stop", "under")),
    ("the operator's map wins under the cap", MAPPED, STOP, 1, False, Settled("length", "override")),
    ("the operator's map wins without usage", MAPPED, STOP, None, False, Settled("length", "override")),
    ("the operator's map wins over a tool call", MAPPED, STOP, 99, True, Settled("length", "override", None, 35)),
    ("a word mapped to stop stays stop past the cap", MAPPED, Finish("eos", "stop"), 99, False, Settled("stop", "override", None, 35)),
    ("a map that speaks of another word changes nothing", MAPPED, Finish("end", "stop"), 80, False, Settled("length", "upgraded", "over", 16)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "finish", "tokens", "tool_calls", "settled"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_row(rule: OutputCap, finish: Finish, tokens: int | None, tool_calls: bool, settled: Settled) -> None:
    """Every line of the rule's table gives its verdict."""
    assert rule.settle(finish, tokens, tool_calls=tool_calls) == settled


def test_every_verdict_has_a_row() -> None:
    """No verdict is left untested."""
    assert {row[5].verdict for row in ROWS} == set(VERDICTS)


HOLDS = [
    ("a clean stop under a cap", CAP, STOP, False, True),
    ("a natural stop though stops were sent", STOPS, NATURAL_STOP, False, True),
    ("an enforcing server may still overrun", OutputCap(cap=9, enforces_cap=True), STOP, False, True),
    ("an unproven stop where the operator raises those", OutputCap(cap=9, stop_sequences=True, upgrade_unproven=True), STOP, False, True),
    ("nothing without a cap", OutputCap(), STOP, False, False),
    ("nothing under a cap of zero", OutputCap(cap=0), STOP, False, False),
    ("nothing for length", CAP, LENGTH, False, False),
    ("nothing after a tool call", CAP, STOP, True, False),
    ("nothing for two choices", OutputCap(cap=9, choices=2), STOP, False, False),
    ("nothing for the caller's own stop", CAP, OWN_STOP, False, False),
    ("nothing for an unproven stop", STOPS, STOP, False, False),
    ("nothing for a mapped word", MAPPED, STOP, False, False),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "finish", "tool_calls", "worth"), [r[1:] for r in HOLDS], ids=[r[0] for r in HOLDS])
def test_what_is_worth_holding(rule: OutputCap, finish: Finish, tool_calls: bool, worth: bool) -> None:
    """A finish is held only when a usage yet to come could raise it."""
    assert rule.could_raise(finish, tool_calls=tool_calls) is worth


RULES = st.builds(
    OutputCap,
    cap=st.none() | st.integers(0, 100),
    choices=st.integers(1, 3),
    stop_sequences=st.booleans(),
    overrides=st.dictionaries(st.sampled_from(["stop", "end"]), st.sampled_from(["stop", "length", "error"])),
    enforces_cap=st.booleans(),
    upgrade_unproven=st.booleans(),
)
FINISHES = st.builds(
    Finish,
    raw=st.sampled_from(["stop", "end", "x"]),
    reason=st.sampled_from(REASONS),
    stop_evidence=st.none() | st.booleans(),
)


@given(rule=RULES, finish=FINISHES, tokens=st.none() | st.integers(0, 400), tool_calls=st.booleans())
def test_the_two_questions_agree(rule: OutputCap, finish: Finish, tokens: int | None, tool_calls: bool) -> None:
    """What is raised was worth holding; nothing but stop is raised, and only to length; overruns are never negative."""
    settled = rule.settle(finish, tokens, tool_calls=tool_calls)
    assert (settled.kind is not None) == (settled.verdict == "upgraded")
    assert settled.overrun >= 0
    if settled.verdict == "upgraded":
        assert rule.could_raise(finish, tool_calls=tool_calls)
        assert (finish.reason, settled.returned) == ("stop", "length")
    elif settled.verdict != "override":
        assert settled.returned == finish.reason
