"""Plays of the relay: bytes of an answer go in, actions and facts come out."""

from typing import Any

import pytest

from gateway.deltas import Usage
from gateway.dialects.base import Additions
from gateway.events import FinishRaised, FirstToken, OutputOverran
from gateway.hold import HOLD_BYTES
from gateway.rules.output_cap import OutputCap
from tests.gateway.plays import DONE, Stage, chunk, raised, sse, text, thought, usage

HELLO, STOP, LENGTH = text("Hello"), chunk(finish="stop"), chunk(finish="length")
RAISED_105 = [OutputOverran(64, 105, "upgraded"), FinishRaised("stop", "length", "over")]


def test_a_clean_stop_past_the_cap_leaves_as_length() -> None:
    """The finish waits for the usage, leaves relabelled, and every delta comes before it."""
    stage = Stage()
    assert stage.feed(HELLO) == HELLO
    assert stage.feed(STOP) == b""
    assert stage.relay.holding
    assert stage.feed(usage(105)) == raised(STOP) + usage(105)
    assert stage.feed(DONE) == DONE
    assert stage.told == RAISED_105
    turn = stage.close()
    assert (turn.reported, turn.returned, turn.verdict) == ("stop", "length", "upgraded")
    assert turn.usage == Usage(105, 9)


@pytest.mark.parametrize(
    ("tokens", "facts"), [(64, [FinishRaised("stop", "length", "at")]), (63, [])], ids=["64 of 64", "63 of 64"]
)
def test_the_boundary(tokens: int, facts: list[object]) -> None:
    """On the cap the stop is raised and no overrun is stated; one under it nothing happens."""
    stage = Stage()
    out = stage.feed(HELLO, STOP, usage(tokens), DONE)
    assert out == HELLO + (raised(STOP) if facts else STOP) + usage(tokens) + DONE
    assert stage.told == facts


def test_nothing_waits_without_a_cap() -> None:
    """A caller who named no cap pays for no hold."""
    stage = Stage(output_cap=OutputCap())
    assert stage.feed(STOP) == STOP


def test_length_does_not_wait() -> None:
    """Nothing could change it; its overrun is stated when the usage comes."""
    stage = Stage()
    assert stage.feed(LENGTH) == LENGTH
    assert stage.feed(usage(80)) == usage(80)
    assert stage.told == [OutputOverran(64, 80, "stronger")]


def test_usage_on_the_finish_frame_needs_no_hold() -> None:
    """DeepSeek sends both at once."""
    both = chunk(finish="stop", usage={"completion_tokens": 71, "prompt_tokens": 5})
    assert Stage().feed(HELLO, both) == HELLO + raised(both)


def test_running_usage_replaces() -> None:
    """A running total on every frame is not summed."""
    frames = [chunk({"content": "a"}, usage={"completion_tokens": n}) for n in (40, 50)]
    stage = Stage()
    stage.feed(*frames, chunk(finish="stop", usage={"completion_tokens": 50}), DONE)
    assert stage.close().usage == Usage(50)
    assert stage.told == []


def test_running_usage_counts_when_no_last_one_comes() -> None:
    """The last running total decides at the end mark."""
    frame = chunk({"content": "a"}, usage={"completion_tokens": 70})
    stage = Stage()
    assert stage.feed(frame, STOP, DONE) == frame + raised(STOP) + DONE


def test_two_finish_frames_tell_one_story() -> None:
    """Both are relabelled, the turn is counted once."""
    second = chunk(finish="stop", usage={"completion_tokens": 105})
    stage = Stage()
    assert stage.feed(STOP, second, DONE) == raised(STOP) + raised(second) + DONE
    assert stage.told == RAISED_105
    assert stage.close().raw_reasons == ("stop",)


def test_a_finish_after_the_settlement_tells_the_same() -> None:
    """A finish repeated behind the usage is relabelled too."""
    stage = Stage()
    assert stage.feed(STOP, usage(105), STOP, DONE) == raised(STOP) + usage(105) + raised(STOP) + DONE


def test_a_second_word_is_malformed_and_passes() -> None:
    """The first word counts."""
    stage = Stage()
    assert stage.feed(STOP, LENGTH, usage(10), DONE) == STOP + LENGTH + usage(10) + DONE
    turn = stage.close()
    assert (turn.reported, turn.malformed) == ("stop", 1)


def test_a_stop_in_the_middle_is_let_go() -> None:
    """More of the same choice shows that it was none; the last word counts."""
    stage = Stage()
    assert stage.feed(thought("hm", choice={"finish_reason": "stop"})) == b""
    assert stage.feed(HELLO).endswith(HELLO)
    assert not stage.relay.holding
    stage.feed(LENGTH, usage(5), DONE)
    assert stage.close().reported == "length"


def test_comments_neither_wait_nor_release() -> None:
    """A comment during the hold goes at once and the finish stays held."""
    stage = Stage()
    stage.feed(STOP)
    assert stage.feed(b": ping\n\n") == b": ping\n\n"
    assert stage.relay.holding


def test_what_follows_the_finish_waits_behind_it() -> None:
    """An annotation frame keeps its place."""
    note = sse({"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]})
    stage = Stage()
    assert stage.feed(STOP, note) == b""
    assert stage.feed(usage(105)) == raised(STOP) + note + usage(105)


def test_the_hold_ends_unchanged() -> None:
    """When its time is over the finish goes as it came; a usage that comes later cannot raise it any more."""
    stage = Stage()
    stage.feed(STOP)
    assert stage.take(stage.relay.release()) == STOP
    stage.feed(usage(105), DONE)
    turn = stage.close()
    assert (turn.returned, turn.verdict) == ("stop", "unjudged")
    assert stage.told == [OutputOverran(64, 105, "unjudged")]


def test_the_hold_is_bounded_in_bytes() -> None:
    """Frames without end behind a finish are let go."""
    stage = Stage()
    stage.feed(STOP)
    junk = sse({"choices": [], "junk": "x" * 70_000})
    out = stage.feed(*[junk] * (HOLD_BYTES // 70_000 + 1))
    assert out.startswith(STOP)
    assert not stage.relay.holding


@pytest.mark.parametrize("end", [DONE, b""], ids=["[DONE]", "the end of the body"])
def test_without_usage_the_end_releases_unchanged(end: bytes) -> None:
    """A rule that cannot see says so."""
    stage = Stage()
    stage.feed(STOP, end)
    turn = stage.close()
    assert stage.out == STOP + end
    assert (turn.verdict, turn.usage_missing) == ("unjudged", True)


def test_a_tool_call_is_left_alone() -> None:
    """Relabelling would make agents drop whole calls."""
    call = chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})
    stage = Stage()
    assert stage.feed(call, STOP) == call + STOP
    stage.feed(usage(90), DONE)
    assert stage.close().verdict == "tool_calls"
    assert stage.told == [OutputOverran(64, 90, "tool_calls")]


def test_two_choices_count_as_the_worst() -> None:
    """One turn, one reason; llama.cpp's two usage events add up."""
    timed = sse({"choices": [], "usage": {"completion_tokens": 70, "prompt_tokens": 9}, "timings": {"predicted_n": 70}})
    stage = Stage(output_cap=OutputCap(cap=64, choices=2))
    stage.feed(chunk(finish="stop", choice={"index": 0, "finish_reason": "stop"}), timed)
    stage.feed(chunk(choice={"index": 1, "finish_reason": "length"}), timed, DONE)
    turn = stage.close()
    assert (turn.reported, turn.raw_reasons) == ("length", ("stop", "length"))
    assert turn.usage == Usage(140, 9, part=True)
    assert stage.told == [OutputOverran(64, 140, "stronger")]


def test_an_operators_word_is_written_at_once() -> None:
    """A mapped word waits for nothing, and is no upgrade."""
    stage = Stage(output_cap=OutputCap(cap=64, overrides={"eos": "stop", "odd": "length"}))
    odd = chunk(finish="odd")
    assert stage.feed(odd) == odd.replace(b'"odd"', b'"length"')
    stage.feed(usage(3), DONE)
    turn = stage.close()
    assert (turn.reported, turn.returned, turn.verdict) == ("other", "length", "override")
    assert stage.told == []


def test_our_own_question_leaves_no_trace() -> None:
    """The usage frame our asking caused is taken out, and decides all the same."""
    stage = Stage(added=Additions(usage=True))
    assert stage.feed(HELLO, STOP, usage(105), DONE) == HELLO + raised(STOP) + DONE


def test_other_frames_without_choices_stay() -> None:
    """Azure's filter frames are not of our asking."""
    azure = sse({"choices": [], "prompt_filter_results": []})
    assert Stage(added=Additions(usage=True)).feed(azure, HELLO) == azure + HELLO


def test_timings_of_our_asking_go() -> None:
    """llama.cpp's running count is taken out of the deltas and stays on the finish."""
    stage = Stage(added=Additions(control=True), output_cap=OutputCap())
    timed: dict[str, Any] = {"timings": {"predicted_n": 3}}
    assert stage.feed(thought("a", **timed)) == thought("a")
    assert stage.feed(chunk({"content": "b"}, **timed)) == text("b")
    assert stage.feed(chunk(finish="stop", **timed)) == chunk(finish="stop", **timed)


def test_malformed_frames_pass_and_count() -> None:
    """What is no JSON leaves as it came."""
    stage = Stage()
    assert stage.feed(b"data: {oops\n\n") == b"data: {oops\n\n"
    assert stage.close().malformed == 1


def test_the_first_token_is_told_once() -> None:
    """Role frames are none."""
    stage = Stage()
    stage.feed(chunk({"role": "assistant", "content": ""}))
    assert stage.facts == []
    stage.feed(thought("a"), HELLO)
    assert stage.facts == [FirstToken()]


def test_an_answer_without_text_is_told() -> None:
    """Thinking and nothing else, at a clean end."""
    stage = Stage()
    stage.feed(thought("hm"), STOP, usage(5), DONE)
    turn = stage.close()
    assert turn.reasoning_only
    assert turn.reasoning_source == "estimated"


def test_promoted_reasoning_goes_before_the_finish() -> None:
    """One content delta with the whole text; the finish stays what the rule says."""
    stage = Stage(promote=True)
    stage.feed(thought("The answer "), thought("is four."))
    out = stage.feed(STOP, usage(105), DONE)
    assert b'"delta":{"content":"The answer is four."}' in out
    assert out.index(b"four") < out.index(b'"length"')
    assert stage.close().reasoning_only


def test_nothing_is_promoted_beside_text() -> None:
    """An answer with text stays as it is."""
    stage = Stage(promote=True)
    assert stage.feed(thought("a"), HELLO, STOP, usage(5)) == thought("a") + HELLO + STOP + usage(5)


def test_a_broken_stream_drops_the_torn_event() -> None:
    """Half an event would spoil the error that follows; what was held goes unchanged."""
    stage = Stage()
    stage.feed(HELLO, STOP, b'data: {"choi')
    assert stage.take(stage.relay.broken()) == STOP
    assert stage.relay.end(by_itself=False).reported == "stop"


def test_a_broken_stream_keeps_a_last_event_that_is_whole() -> None:
    """Its blank line is put behind it."""
    stage = Stage()
    stage.feed(HELLO[:-2])
    assert stage.take(stage.relay.broken()) == HELLO


def test_a_last_event_without_blank_line_counts() -> None:
    """The body ended cleanly behind whole JSON."""
    stage = Stage()
    stage.feed(STOP, usage(105)[:-2])
    turn = stage.close()
    assert stage.out == raised(STOP) + usage(105)[:-2]
    assert turn.verdict == "upgraded"


def test_text_between_two_blocks_of_thinking_is_no_thinking() -> None:
    """Where a running count of all tokens is given, the visible ones are not counted as reasoning."""
    stage = Stage(output_cap=OutputCap())
    for number, delta in enumerate(
        [{"reasoning_content": "a"}] * 3 + [{"content": "b"}] * 3 + [{"reasoning_content": "c"}] * 2, 1
    ):
        stage.feed(chunk(delta, timings={"predicted_n": number}))
    turn = stage.close()
    assert (turn.reasoning_tokens, turn.reasoning_source) == (5, "counted")
