"""Counting reasoning tokens, source by source."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.tokens import ReasoningCount

VISIBLE = None
Step = tuple[str, int | None] | None


def told(steps: list[Step], *, per_frame: bool) -> tuple[list[int], str]:
    """The count after each piece of reasoning, and its source; VISIBLE steps are visible text in between."""
    count, after = ReasoningCount(per_frame), []
    for step in steps:
        if step is VISIBLE:
            count.interrupt()
        else:
            after.append(count.add(*step))
            assert after[-1] == count.tokens
    return after, count.source


FRAMES, BYTES = True, False  # what stands in for a running count
ROWS: dict[str, tuple[bool, list[Step], list[int], str]] = {
    "a running count beats one per frame": (FRAMES, [("a", 4), ("b", 8)], [4, 8], "counted"),
    "a running count beats the estimate": (BYTES, [("a" * 80, 4)], [4], "counted"),
    "one per frame": (FRAMES, [("a", None), ("word word", None)], [1, 2], "counted"),
    "four bytes are a token": (BYTES, [("abcd", None), ("abcdefgh", None)], [1, 3], "estimated"),
    "rounding does not add up": (BYTES, [("a", None)] * 9, [0, 0, 0, 1, 1, 1, 1, 2, 2], "estimated"),
    "bytes and not letters are counted": (BYTES, [("\u4e2d\u6587", None)], [1], "estimated"),
    "half a surrogate pair is no fault of ours": (BYTES, [("\ud83d", None)], [0], "estimated"),
    "the first exact count replaces an estimate": (BYTES, [("a" * 40, None), ("b", 6)], [10, 6], "counted"),
    "frames fill a gap of the running count": (FRAMES, [("a", 4), ("b", None), ("c", None)], [4, 5, 6], "counted"),
    "the next running count closes the gap": (FRAMES, [("a", 4), ("b", None), ("c", 9)], [4, 5, 9], "counted"),
    "bytes fill a gap of the running count": (BYTES, [("a", 4), ("b" * 8, None)], [4, 6], "counted"),
    "a running count that falls is not followed": (FRAMES, [("a", 8), ("b", 3)], [8, 8], "counted"),
    "a running zero is a count": (FRAMES, [("a", 0)], [0], "counted"),
    "visible text before is not counted": (FRAMES, [VISIBLE, ("a", 40), ("b", 42)], [1, 3], "counted"),
    "visible text between is not counted": (FRAMES, [("a", 5), VISIBLE, ("b", 30), ("c", 31)], [5, 6, 7], "counted"),
    "each block counts": (FRAMES, [("a", 5), VISIBLE, VISIBLE, ("b", 30), VISIBLE, ("c", 90)], [5, 6, 7], "counted"),
    "a block may begin with many tokens": (BYTES, [("a", 5), VISIBLE, ("b" * 16, 30)], [5, 9], "counted"),
    "a new block may begin a new count": (FRAMES, [("a", 8), VISIBLE, ("b", 3), ("c", 4)], [8, 9, 10], "counted"),
    "frames count through visible text": (FRAMES, [("a", None), VISIBLE, ("b", None)], [1, 2], "counted"),
}


@pytest.mark.parametrize(("per_frame", "steps", "after", "source"), ROWS.values(), ids=ROWS)
def test_counts(*, per_frame: bool, steps: list[Step], after: list[int], source: str) -> None:
    """Each source, and each way they mix."""
    assert told(steps, per_frame=per_frame) == (after, source)


def test_nothing_was_said() -> None:
    """Without reasoning there are no tokens."""
    assert (ReasoningCount(per_frame=False).tokens, ReasoningCount(per_frame=False).source) == (0, "estimated")


@settings(deadline=None)
@given(gaps=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_visible_text_is_never_counted(gaps: list[tuple[int, bool]]) -> None:
    """However text and reasoning alternate under a running count, it is not over-counted and little under."""
    count, running, reasoned, blocks, visible = ReasoningCount(per_frame=True), 0, 0, 0, False
    for step, thinks in gaps:
        running += step
        if thinks and step:
            reasoned += step
            blocks += visible
            visible = False
            count.add("x", running)
        elif not thinks:
            count.interrupt()
            visible = True
    assert reasoned - 4 * blocks <= count.tokens <= reasoned
