"""Plays of rule 2: frames go in, exact to the token; out come the call to end the reasoning, giving up, the facts."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest

from gateway.actions import Action, EndReasoning
from gateway.dialects.base import Additions
from gateway.events import Fact, ThinkingCapped, ThinkingOverran, ThinkingRefused, Turn
from gateway.rules.output_cap import OutputCap
from gateway.rules.thinking_cap import GiveUp, ThinkingCap
from gateway.words import CapOutcome, EndResult, Method
from tests.gateway.plays import DONE, Stage, chunk, sse, text, thought, usage

CAP, OVERRUN = 8, 6
STOP: Final = chunk(finish="stop")
ASK: Final = EndReasoning("c1")
TOOL: Final = chunk({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]})
NAMED: Final = (ThinkingCapped, ThinkingRefused, ThinkingOverran)
Step = int | bytes | str
"""So many frames of reasoning, one token each; a frame; how the control call came back."""


def stage(method: Method = "control", choices: int = 1, **plan: Any) -> Stage:
    """A relay with a cap of 8 and a margin of 6, on a server that sends one token a frame."""
    plan.setdefault("output_cap", OutputCap(choices=choices))
    plan.setdefault("per_frame", True)
    return Stage(thinking=ThinkingCap(CAP, OVERRUN, method, choices), **plan)


def play(on: Stage, steps: Iterable[Step]) -> tuple[Turn, list[Fact]]:
    """Let it happen, to the end of the body; what it came to, and the facts of the rule."""
    for step in steps:
        if isinstance(step, int):
            on.feed(*[thought("t")] * step)
        elif isinstance(step, bytes):
            on.feed(step)
        else:
            on.take(on.relay.control_answered(RESULTS[step]))
    turn = on.close()
    return turn, [fact for fact in on.facts if isinstance(fact, NAMED)]


RESULTS: Final[dict[str, EndResult]] = {
    "success": "ended", "refusal": "refused", "time-out": "timeout", "nonsense": "error",
}  # fmt: skip
FIRED: Final = ThinkingCapped(CAP, CAP)
KEPT: Final = ThinkingOverran("kept_thinking", CAP + OVERRUN)
GIVEN: Final = GiveUp("kept_thinking", CAP + OVERRUN)
REFUSED: Final = [FIRED, ThinkingRefused("refused")]


@pytest.mark.parametrize(
    ("steps", "actions", "facts", "outcome"),
    [
        pytest.param([7, text("a"), STOP], [], [], None, id="one token short of the cap"),
        pytest.param([8, text("a"), STOP], [ASK], [FIRED], "moot", id="on the cap, and the answer comes by itself"),
        pytest.param([8, "success", 5, text("a"), STOP], [ASK], [FIRED], "ended", id="asked, agreed, ended"),
        pytest.param([8, "success", 5, TOOL, STOP], [ASK], [FIRED], "ended", id="a tool call is an answer"),
        pytest.param([8, "success", 6], [ASK, GIVEN], [FIRED, KEPT], "overrun", id="agreed, and thought on"),
        pytest.param([8, 5, STOP], [ASK], [FIRED], "moot", id="one token inside the margin without a reply"),
        pytest.param([8, 6], [ASK, GIVEN], [FIRED, KEPT], "overrun", id="the margin runs out without a reply"),
        pytest.param(
            [8, "refusal", 1],
            [ASK, GiveUp("refused", 9)],
            [*REFUSED, ThinkingOverran("refused", 9)],
            "refused",
            id="refused, and one more token of reasoning",
        ),
        pytest.param(
            [8, "nonsense", 1],
            [ASK, GiveUp("refused", 9)],
            [*REFUSED, ThinkingOverran("refused", 9)],
            "refused",
            id="a reply that makes no sense is a refusal",
        ),
        pytest.param([8, "refusal", text("a"), STOP], [ASK], REFUSED, "moot", id="refused, and text follows"),
        pytest.param([8, "refusal", STOP], [ASK], REFUSED, "moot", id="refused, and the turn ends"),
        pytest.param([8, text("a"), "refusal", STOP], [ASK], [FIRED], "moot", id="refused after text: no failure"),
        pytest.param([8, chunk(finish="length"), "refusal"], [ASK], [FIRED], "moot", id="refused after the end"),
        pytest.param(
            [8, 2, "time-out"],
            [ASK, GiveUp("timeout", 10)],
            [FIRED, ThinkingRefused("timeout"), ThinkingOverran("timeout", 10)],
            "timeout",
            id="a time-out gives up at once",
        ),
        pytest.param([8, text("a"), "time-out", STOP], [ASK], [FIRED], "moot", id="a time-out after text"),
        pytest.param([text("a"), STOP], [], [], None, id="no reasoning, no call"),
    ],
)
def test_control(steps: list[Step], actions: list[Action], facts: list[Fact], outcome: CapOutcome | None) -> None:
    """The table of the rule, row by row, through the relay."""
    on = stage()
    turn, told = play(on, steps)
    assert on.actions == actions
    assert told == facts
    assert turn.thinking_outcome == outcome


@pytest.mark.parametrize(
    ("steps", "actions", "outcome", "past"),
    [
        pytest.param([13, text("a"), STOP], [], "moot", 5, id="one token inside the margin"),
        pytest.param([14], [GIVEN], "overrun", 6, id="at cap + overrun"),
        pytest.param([7, STOP], [], None, None, id="one token short of the cap"),
    ],
)
def test_give_up(steps: list[Step], actions: list[Action], outcome: CapOutcome | None, past: int | None) -> None:
    """Where nobody can be asked the call is dropped at cap + overrun."""
    on = stage("give_up")
    turn, _ = play(on, steps)
    assert (on.actions, turn.thinking_outcome, turn.past_cap) == (actions, outcome, past)


@pytest.mark.parametrize(
    ("method", "choices", "facts", "outcome"),
    [
        pytest.param("watch", 1, [], "unable", id="watch"),
        pytest.param("control", 2, [], "unable", id="control of two choices"),
        pytest.param("budget", 1, [FIRED], "unable", id="a budget that was not honoured"),
    ],
)
def test_who_only_counts(method: Method, choices: int, facts: list[Fact], outcome: CapOutcome) -> None:
    """Past the cap the turn is counted once, nothing is asked and nothing is dropped."""
    on = stage(method, choices)
    turn, told = play(on, [20, text("a"), STOP])
    assert on.actions == []
    assert (told, turn.thinking_outcome, turn.past_cap) == (facts, outcome, 12)


@pytest.mark.parametrize("method", ["control", "give_up", "watch"])
def test_choices_are_counted_apart(method: Method) -> None:
    """A cap holds for each of several choices: what they think in all is not past it."""
    on = stage(method, choices=2)
    frames = [chunk({"reasoning_content": "t"}, choice={"index": n % 2}) for n in range(2 * 7)]
    turn, _ = play(on, frames)
    assert (on.actions, turn.thinking_outcome, turn.reasoning_tokens) == ([], None, 14)
    on = stage(method, choices=2)
    turn, _ = play(on, [*frames, *frames])
    assert (on.actions, turn.thinking_outcome, turn.past_cap) == ([], "unable", 6)


def test_it_is_asked_once() -> None:
    """Whatever follows: thinking goes on, ends, begins again."""
    on = stage()
    play(on, [8, "success", 2, text("a"), 30, text("b"), 30, STOP])
    assert on.actions == [ASK]


def test_a_frame_with_both() -> None:
    """Reasoning and text on one frame: the text counts, for what has ended needs no ending."""
    on = stage()
    turn, told = play(on, [7, chunk({"reasoning_content": "t", "content": "a"}), STOP])
    assert (on.actions, told, turn.reasoning_tokens) == ([], [], 8)


def test_nothing_follows_giving_up() -> None:
    """The frame that went over goes out still; what stands behind it in the same read does not."""
    on = stage()
    out = on.feed(b"".join([thought("t")] * 20 + [text("a"), STOP, usage(30), DONE]))
    assert out == thought("t") * 14
    assert on.actions == [ASK, GIVEN]


def test_a_completion_without_a_name() -> None:
    """Nobody can be asked about a completion that has no id: that is a refusal."""
    on = stage()
    frame = sse({"choices": [{"index": 0, "delta": {"reasoning_content": "t"}}]})
    turn, told = play(on, [frame] * 9)
    assert on.actions == [GiveUp("refused", 9)]
    assert (told[:2], turn.thinking_outcome) == (REFUSED, "refused")


def test_the_exact_count_beats_frames() -> None:
    """llama.cpp's own running count decides, and is taken out again."""
    on = stage(added=Additions(control=True))
    on.feed(thought("t", timings={"predicted_n": 7}))
    assert on.actions == []
    assert on.feed(thought("t", timings={"predicted_n": 9})) == thought("t")
    assert (on.actions, on.facts[-1]) == ([ASK], ThinkingCapped(CAP, 9))


@pytest.mark.parametrize(
    ("method", "outcome"),
    [("control", "unable"), ("give_up", "unable"), ("watch", "unable"), ("budget", "ended")],
    ids=["control", "give_up", "watch", "budget"],
)
def test_thinking_nobody_saw(method: Method, outcome: CapOutcome) -> None:
    """Where only the usage at the end tells of thinking past the cap, the cap could not act, and that is counted."""
    last = sse(
        {
            "choices": [],
            "usage": {
                "completion_tokens": 40,
                "prompt_tokens": 1,
                "completion_tokens_details": {"reasoning_tokens": 9},
            },
        }
    )
    on = stage(method)
    turn, _ = play(on, [text("a"), STOP, last, DONE])
    assert (on.actions, turn.thinking_outcome, turn.past_cap) == ([], outcome, 1)


@pytest.mark.parametrize("method", ["control", "give_up"])
def test_a_whole_body_instead_of_a_stream(method: Method) -> None:
    """A whole answer that thought past the cap was out of reach."""
    on = stage(method, per_frame=False)
    on.whole.body(
        b'{"id":"c","choices":[{"message":{"reasoning_content":"%s","content":"a"},"finish_reason":"stop"}]}'
        % (b"t" * 40)
    )
    assert on.whole.end(by_itself=True).thinking_outcome == "unable"


@pytest.mark.parametrize("read", [1, 7, 64], ids=["byte by byte", "seven bytes a read", "64 bytes a read"])
def test_reads_do_not_matter(read: int) -> None:
    """However the bytes come, the same is asked at the same token, and the same bytes go out."""
    frames = [*[thought("t")] * 10, text("a"), STOP, usage(11), DONE]
    stream, on = b"".join(frames), stage()
    for at in range(0, len(stream), read):
        on.feed(stream[at : at + read])
    assert (on.out, on.actions) == (stream, [ASK])
    assert on.close().fired_at == CAP


CALLS: Final[dict[str, Callable[[Stage], object]]] = {
    "the answer": lambda on: on.feed(text("a")),
    "the end": lambda on: on.close(),
    "giving up": lambda on: on.feed(*[thought("t")] * 6),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("late", RESULTS)
def test_a_reply_that_comes_too_late(late: str, what: str) -> None:
    """After the answer began, the turn ended or the call was given up no reply does anything."""
    on = stage()
    on.feed(*[thought("t")] * 8)
    CALLS[what](on)
    before = [*on.actions]
    on.take(on.relay.control_answered(RESULTS[late]))
    assert on.actions == before
