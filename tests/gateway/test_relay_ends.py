"""How streams end, and how they count."""

import pytest

from gateway.dialects import DIALECTS
from gateway.rules.thinking_cap import GiveUp, ThinkingCap
from tests.gateway.plays import DONE, Stage, chunk, sse, text, thought, usage

HELLO, STOP = text("Hello"), chunk(finish="stop")


@pytest.mark.parametrize(
    ("frames", "outcome"),
    [
        ([HELLO, STOP, usage(3), DONE], "ok"),
        ([HELLO, DONE], "incomplete"),
        ([HELLO], "incomplete"),
        ([sse({"error": {"message": "no", "type": "overloaded"}})], "stream_error"),
        ([HELLO, sse({"object": "error", "message": "no"})], "stream_error"),
        ([HELLO, chunk(finish="error"), DONE], "stream_error"),
    ],
    ids=[
        "a whole turn",
        "a turn without a word",
        "a cut turn",
        "an error at once",
        "vLLM's flat error",
        "the word error",
    ],
)
def test_how_a_stream_counts(frames: list[bytes], outcome: str) -> None:
    """The outcome of a stream that ended by itself."""
    stage = Stage()
    stage.feed(*frames)
    stage.close()
    assert stage.relay.outcome == outcome


def test_what_a_call_that_was_given_up_still_holds_is_dropped() -> None:
    """Half an event behind the firing point goes nowhere."""
    stage = Stage(thinking=ThinkingCap(1, 0, "give_up"), per_frame=True)
    stage.feed(thought("a") + HELLO[:-9])
    assert stage.actions == [GiveUp("kept_thinking", 1)]
    assert stage.take(stage.relay.close()) == b""
    assert stage.out == thought("a")


def test_a_control_call_nobody_made_changes_nothing() -> None:
    """Without a cap there is nothing to tell."""
    assert Stage().relay.control_answered("ended") == []


@pytest.mark.parametrize("every", [False, True], ids=["chat", "gemini"])
def test_a_finish_does_not_wait_where_another_choice_goes_on(every: bool) -> None:
    """What is used is a sum then, which nobody can tell apart: the held frame goes as it was, with what follows it."""
    if every:
        said = b'data: {"candidates":[{"index":%d,"content":{"parts":[{"text":"a"}]}%b}],"usageMetadata":{"candidatesTokenCount":70}}\n\n'
        first, other = said % (0, b',"finishReason":"STOP"'), said % (1, b"")
        stage = Stage(DIALECTS["gemini"])
    else:
        first, other, stage = STOP, chunk({"content": "b"}, choice={"index": 1}), Stage()
    assert stage.feed(first) == b""
    assert stage.relay.holding
    assert stage.feed(other) == first + other
    assert not stage.relay.holding
