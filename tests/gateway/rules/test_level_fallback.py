"""Rule 3, the decision: the walk as tables, and one test for each condition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.deltas import Refusal
from gateway.rules.level_fallback import Direction, LevelFallback, walk
from gateway.words import LADDER, Level

ALL: tuple[Level, ...] = LADDER
LMH: tuple[Level, ...] = ("low", "medium", "high")
BEFORE: tuple[Level, ...] = ("minimal",)
MINIMAL = Refusal(level="minimal")
RULE = LevelFallback(purposes=frozenset({"compaction", "session-title"}), declared=LMH)


@pytest.mark.parametrize(
    ("refused", "available", "up", "down"),
    [
        ("minimal", LMH, "low", "low"),
        ("off", LMH, "low", "low"),
        ("max", LMH, "high", "high"),
        ("xhigh", ("low", "medium", "high", "max"), "max", "high"),
        ("medium", ("low", "high", "max"), "high", "low"),
        ("high", ("low", "medium", "xhigh"), "xhigh", "medium"),
        ("minimal", ("off", "low", "medium"), "low", "low"),
        ("low", ("off", "high"), "high", "high"),
        ("max", ("off",), None, None),
        ("minimal", ("high",), "high", "high"),
        ("high", ("high",), None, None),
        ("high", ("max", "low", "medium"), "max", "medium"),
        ("low", (), None, None),
        ("low", ALL, "medium", "minimal"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_walk_finds_the_nearest_level(
    refused: Level, available: tuple[Level, ...], up: Level | None, down: Level | None
) -> None:
    """Up to the top, then down from just below; `down` mirrors it; order means nothing, off is no target."""
    assert walk(refused, available, "up") == up
    assert walk(refused, available, "down") == down


@pytest.mark.parametrize(
    ("refused", "direction", "ceiling", "before", "target"),
    [
        pytest.param("minimal", "up", "medium", (), "low", id="below the ceiling nothing changes"),
        pytest.param("minimal", "up", "medium", ("low",), "medium", id="the ceiling itself may be sent"),
        pytest.param("minimal", "up", "low", ("low",), None, id="above the ceiling is nothing"),
        pytest.param("medium", "up", "low", (), "low", id="a ceiling below the refused level turns the walk"),
        pytest.param("low", "up", None, ("medium", "high"), "xhigh", id="refused levels are passed over"),
        pytest.param("high", "down", None, ("medium",), "low", id="refused levels are passed over downward"),
        pytest.param("low", "up", "off", (), None, id="a ceiling of off leaves nothing"),
    ],
)
def test_the_walk_keeps_to_its_bounds(
    refused: Level, direction: Direction, ceiling: Level | None, before: tuple[Level, ...], target: Level | None
) -> None:
    """The ceiling of a purpose and the levels refused before bound the walk."""
    assert walk(refused, ALL, direction, ceiling=ceiling, refused_before=before) == target


levels = st.sampled_from(LADDER)


@given(refused=levels, available=st.sets(levels), direction=st.sampled_from(["up", "down"]), before=st.sets(levels))
def test_the_walk_never_repeats_and_never_turns_thinking_off(
    refused: Level, available: set[Level], direction: Direction, before: set[Level]
) -> None:
    """A target is offered, is not off, and was not refused; there is one whenever such a level is offered."""
    target = walk(refused, available, direction, refused_before=before)
    left = available - before - {refused, "off"}
    assert target in left if left else target is None


def test_condition_1_the_purpose_is_in_scope() -> None:
    """Only calls of a listed purpose; an ordinary turn only where `conversation` is listed."""
    assert RULE.in_scope("compaction", retried=False)
    assert not RULE.in_scope("conversation", retried=False)
    assert LevelFallback(purposes=frozenset({"conversation"})).in_scope("conversation", retried=False)


def test_condition_2_the_caller_is_still_there() -> None:
    """Nothing is re-issued for nobody."""
    assert RULE.next_level(MINIMAL, 0, caller_gone=True) is None


def test_condition_5_nothing_was_shown() -> None:
    """What the caller saw is not taken back."""
    assert RULE.next_level(MINIMAL, 0, shown=True) is None


def test_condition_6_there_is_a_level_to_send() -> None:
    """The refusal's list wins over the declaration, also when it leaves nothing; with neither there is no retry."""
    assert RULE.next_level(MINIMAL, 0) == "low"
    assert RULE.next_level(Refusal(level="minimal", listed=("high",)), 0) == "high"
    assert RULE.next_level(Refusal(level="medium", listed=("off",)), 0) is None
    assert LevelFallback().next_level(MINIMAL, 0) is None
    assert LevelFallback(declared=("off", "minimal")).next_level(MINIMAL, 0) is None


def test_condition_7_retries_are_counted() -> None:
    """Fewer than `max_retries`; each further one walks on from the level just refused."""
    assert RULE.next_level(Refusal(level="low"), 1, BEFORE) is None
    twice = LevelFallback(declared=("minimal", *LMH), max_retries=2)
    assert twice.next_level(Refusal(level="low"), 1, BEFORE) == "medium"
    assert (
        LevelFallback(declared=LMH, max_retries=2).next_level(Refusal(level="high"), 1, frozenset[Level]({"medium"}))
        == "low"
    )
    assert not LevelFallback(purposes=RULE.purposes, max_retries=0).in_scope("compaction", retried=False)


def test_condition_7_a_thinkcap_further_out_has_done_it() -> None:
    """Once is once over all gateways."""
    assert not RULE.in_scope("compaction", retried=True)


def test_the_rule_can_be_switched_off() -> None:
    """`enabled = false`: no call is in scope."""
    assert not LevelFallback(enabled=False, purposes=RULE.purposes).in_scope("compaction", retried=False)


def test_direction_and_ceiling_are_settings() -> None:
    """The rule hands both to the walk."""
    holes = Refusal(level="high", listed=("low", "medium", "xhigh"))
    assert LevelFallback(direction="down").next_level(holes, 0) == "medium"
    assert LevelFallback(direction="up").next_level(holes, 0) == "xhigh"
    assert LevelFallback(direction="up", ceiling="low").next_level(holes, 0) == "low"


def test_a_pattern_without_a_group_leads_to_the_first_declared_level() -> None:
    """No walk from an unknown place; off, refused levels and those above the ceiling are passed over."""
    rule = LevelFallback(declared=("off", *LMH))
    assert rule.next_level(Refusal(level=None, first_declared=True), 0) == "low"
    assert rule.next_level(Refusal(level="low", first_declared=True), 0) == "medium"
    assert rule.next_level(Refusal(level="high", first_declared=True), 0) == "low"
    assert LevelFallback().next_level(Refusal(level="low", first_declared=True), 0) is None
