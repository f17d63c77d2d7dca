"""Rule 2, row by row and exact to the token; then any order of events against what must always hold."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.rules.thinking_cap import Ask, GiveUp, ThinkingCap
from gateway.words import METHODS, CapOutcome, Method

Event = int | str
"""A number: a frame brought the reasoning to so many tokens. A word: what else happened."""

TELL: dict[str, Callable[[ThinkingCap], GiveUp | None]] = {
    "success": ThinkingCap.answered,
    "refusal": lambda rule: rule.refused("refused"),
    "time-out": lambda rule: rule.refused("timeout"),
    "text": ThinkingCap.visible,
    "end": ThinkingCap.ended,
    "unable": ThinkingCap.unable,
}


def play(rule: ThinkingCap, *events: Event) -> list[Ask | GiveUp]:
    """Tell the rule what happens; what it wants done, in order."""
    wanted = [rule.reasoned(e) if isinstance(e, int) else TELL[e](rule) for e in events]
    return [w for w in wanted if w is not None]


OVERRAN = GiveUp("kept_thinking", 14)


@pytest.mark.parametrize(
    ("events", "wanted", "outcome"),
    [
        pytest.param([*range(1, 8), "text", "end"], [], None, id="one token short of the cap nothing happens"),
        pytest.param([7, 8], [Ask(8)], "moot", id="on the cap it asks"),
        pytest.param([4, 12], [Ask(12)], "moot", id="a frame that jumps over the cap fires where it lands"),
        pytest.param([8, 9, 10, 13], [Ask(8)], "moot", id="it asks once and lets the margin run"),
        pytest.param(["text", "end"], [], None, id="without reasoning it never fires"),
        pytest.param([8, "success", 9, "text", "end"], [Ask(8)], "ended", id="asked and answered it has ended"),
        pytest.param([8, "success", 13, "text"], [Ask(8)], "ended", id="one token inside the margin is let through"),
        pytest.param([8, "success", 14], [Ask(8), OVERRAN], "overrun", id="success is judged by the stream"),
        pytest.param([8, 13, 14], [Ask(8), OVERRAN], "overrun", id="the margin runs out before the answer"),
        pytest.param(
            [12, 17, 18], [Ask(12), GiveUp("kept_thinking", 18)], "overrun", id="the margin counts from where it fired"
        ),
        pytest.param([8, 9, "refusal"], [Ask(8)], "moot", id="a refusal waits for a frame that still reasons"),
        pytest.param(
            [8, 9, "refusal", 10], [Ask(8), GiveUp("refused", 10)], "refused", id="refused and still reasoning"
        ),
        pytest.param(
            [8, "refusal", 14], [Ask(8), GiveUp("refused", 14)], "refused", id="refused beats the margin as the cause"
        ),
        pytest.param([8, "refusal", "end"], [Ask(8)], "moot", id="refused because the turn had just ended"),
        pytest.param([8, "refusal", "text", 15], [Ask(8)], "moot", id="refused, but text began"),
        pytest.param([8, "text", "refusal", "end"], [Ask(8)], "moot", id="a refusal after text is moot"),
        pytest.param([8, "text", "time-out"], [Ask(8)], "moot", id="a time-out after text is moot"),
        pytest.param([8, 9, "time-out"], [Ask(8), GiveUp("timeout", 9)], "timeout", id="a time-out gives up at once"),
        pytest.param([8, "text", "success"], [Ask(8)], "ended", id="success may come after the text"),
        pytest.param([8, 9, "end"], [Ask(8)], "moot", id="the turn ends before the call is answered"),
        pytest.param([8, "success", "end"], [Ask(8)], "ended", id="the turn ends after success"),
        pytest.param([8, "text", 20, 99], [Ask(8)], "moot", id="thinking again after text fires nothing"),
        pytest.param(["text", 8, 20], [], None, id="of one frame with both the text counts"),
        pytest.param([8, 14, "success", "text", 20], [Ask(8), OVERRAN], "overrun", id="given up is final"),
        pytest.param([8, 14, "time-out"], [Ask(8), OVERRAN], "overrun", id="a late time-out changes nothing"),
        pytest.param([8, "unable", 14], [Ask(8), OVERRAN], "overrun", id="what has been asked can act"),
        pytest.param(["unable", 8, 99], [], "unable", id="unable from the start only counts"),
    ],
)
def test_control(events: list[Event], wanted: list[Ask | GiveUp], outcome: CapOutcome | None) -> None:
    """Method `control` with a cap of 8 and a margin of 6 does what the table says, to the token."""
    rule = ThinkingCap(8, 6, "control", choices=1)
    assert play(rule, *events) == wanted
    assert rule.outcome == outcome


@pytest.mark.parametrize(
    ("events", "wanted", "outcome", "fired_at"),
    [
        pytest.param([7, "text"], [], None, None, id="under the cap it is silent"),
        pytest.param([8, 13, "text", 20], [], "moot", 8, id="it fires on the cap and text inside the margin is kept"),
        pytest.param([8, 13, 14], [OVERRAN], "overrun", 8, id="it gives up at cap + overrun"),
        pytest.param([10, 13, 14], [OVERRAN], "overrun", 10, id="the margin counts from the cap"),
        pytest.param([30], [GiveUp("kept_thinking", 30)], "overrun", 30, id="one frame may fire it and end it"),
        pytest.param(["text", 30], [], None, None, id="an answer is never dropped"),
    ],
)
def test_give_up(
    events: list[Event], wanted: list[Ask | GiveUp], outcome: CapOutcome | None, fired_at: int | None
) -> None:
    """Method `give_up` drops the call at cap + overrun and asks for nothing."""
    rule = ThinkingCap(8, 6, "give_up")
    assert play(rule, *events) == wanted
    assert (rule.outcome, rule.fired_at) == (outcome, fired_at)


@pytest.mark.parametrize(
    ("events", "outcome", "fired_at"),
    [
        pytest.param([7, "text", "end"], None, None, id="a budget that was not used up says nothing"),
        pytest.param([8, 9, "text", 9, "end"], "ended", 8, id="thinking stopped at the budget and text followed"),
        pytest.param(["text", 9, "end"], "ended", 9, id="a whole body tells its total with its text"),
        pytest.param([8, "end"], "moot", 8, id="the turn ended in the budget"),
        pytest.param([8, 13, "text"], "ended", 8, id="one token inside the margin is honoured"),
        pytest.param([8, 14, "text"], "unable", 8, id="past the margin it was accepted and not honoured"),
        pytest.param(["unable", 8, "text"], "unable", None, id="a budget that could not be written never fires"),
    ],
)
def test_budget(events: list[Event], outcome: CapOutcome | None, fired_at: int | None) -> None:
    """Method `budget` acts at the upstream; on the way back it is counted and nothing is ever dropped."""
    rule = ThinkingCap(8, 6, "budget")
    assert play(rule, *events) == []
    assert (rule.outcome, rule.fired_at) == (outcome, fired_at)


def test_budget_without_grace_is_honoured_on_the_cap() -> None:
    """Stopping on the budget honours it, also where no token of grace is given."""
    on, past = ThinkingCap(8, 0, "budget"), ThinkingCap(8, 0, "budget")
    play(on, 8, "text")
    play(past, 9, "text")
    assert (on.outcome, past.outcome) == ("ended", "unable")


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        pytest.param([7, "text", "end"], None, id="under the cap"),
        pytest.param([8, 9, 99, "text", "end"], "unable", id="past the cap counts once"),
        pytest.param([7, "text", "end", 8], "unable", id="a better total that comes last counts"),
        pytest.param([9, "text", "end", 7], None, id="a better total may also be lower"),
    ],
)
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda: ThinkingCap(8, 6, "watch"), id="watch"),
        pytest.param(lambda: ThinkingCap(8, 6, "control", choices=2), id="control of two choices"),
        pytest.param(lambda: ThinkingCap(8, 6, "give_up", choices=2), id="giving up two choices"),
    ],
)
def test_watching(rule: Callable[[], ThinkingCap], events: list[Event], outcome: CapOutcome | None) -> None:
    """Where nothing can act the turn is counted as `unable`, and never fires."""
    watching = rule()
    assert play(watching, *events) == []
    assert (watching.outcome, watching.fired_at) == (outcome, None)


@pytest.mark.parametrize(
    ("tokens", "past"),
    [pytest.param(7, None, id="not reached"), pytest.param(8, 0, id="on it"), pytest.param(11, 3, id="three past it")],
)
def test_past_the_cap(tokens: int, past: int | None) -> None:
    """How far thinking went past the cap is counted on after the firing point, also when the rule is done."""
    rule = ThinkingCap(8, 6, "control")
    play(rule, min(tokens, 8), "success", "text", tokens)
    assert rule.past_cap == past


EVENTS = st.lists(st.one_of(st.integers(0, 20), st.sampled_from(sorted(TELL))), max_size=12)


@given(st.sampled_from(METHODS), st.integers(1, 2), st.integers(0, 6), EVENTS)
def test_whatever_happens(method: Method, choices: int, overrun: int, events: list[Event]) -> None:
    """It asks at most once, gives up at most once and last, never after visible text, and its outcome says so."""
    rule = ThinkingCap(8, overrun, method, choices)
    wanted: list[Ask | GiveUp] = []
    over = False
    for event in events:
        new = play(rule, event)
        assert not (over and new)
        over = over or event in {"text", "end"} or any(isinstance(w, GiveUp) for w in new)
        wanted += new
    asks = [w for w in wanted if isinstance(w, Ask)]
    assert len(asks) <= (method == "control" and choices == 1)
    assert all(ask.at >= 8 and ask.at == rule.fired_at for ask in asks)
    assert (rule.state == "GIVEN_UP") == any(isinstance(w, GiveUp) for w in wanted)
    assert (rule.outcome in {"overrun", "refused", "timeout"}) == (rule.state == "GIVEN_UP")
    assert rule.outcome != "ended" or "success" in events or method == "budget"
    if rule.fired_at is not None:
        assert rule.outcome is not None
    assert (rule.past_cap is None) == (rule.outcome is None)
