"""Plays of a whole answer: a stream of one frame, judged by the same rule."""

import pytest

from gateway.events import FinishRaised, OutputOverran
from gateway.rules.output_cap import OutputCap
from tests.gateway.plays import Stage

RAISED_105 = [OutputOverran(64, 105, "upgraded"), FinishRaised("stop", "length", "over")]
BODY = b'{"id":"c1", "choices": [{"index":0,"message":{"content":"Four."},"finish_reason": "stop"}], "usage": {"completion_tokens":105,"prompt_tokens":2.0e1}}'


def test_a_whole_answer_is_judged_by_the_same_rule() -> None:
    """One word changes, every other byte stays."""
    stage = Stage()
    assert stage.whole.body(BODY) == BODY.replace(b'"stop"', b'"length"')
    assert stage.told == RAISED_105
    assert stage.whole.outcome == "ok"


@pytest.mark.parametrize(
    ("body", "outcome", "malformed"),
    [
        (b'{"error": {"message": "no"}}', "upstream_error", 0),
        (b"<html>no</html>", "incomplete", 1),
        (b'{"choices": []}', "incomplete", 0),
        (b"", "incomplete", 1),
        (b'{"choices":[{"index":0,"message":{},"finish_reason":"error"}]}', "upstream_error", 0),
    ],
    ids=["an error in a 200", "a page", "no choice", "nothing", "the word error"],
)
def test_how_a_whole_answer_counts(body: bytes, outcome: str, malformed: int) -> None:
    """What cannot be read passes as it is."""
    stage = Stage()
    assert stage.whole.body(body) == body
    assert stage.whole.outcome == outcome
    assert stage.whole.end(by_itself=True).malformed == malformed


def test_a_whole_answer_of_reasoning_is_promoted() -> None:
    """Moved, not copied."""
    body = b'{"choices":[{"index":0,"message":{"content":null,"reasoning_content":"Four."},"finish_reason":"stop"}]}'
    stage = Stage(promote=True, output_cap=OutputCap())
    assert stage.whole.body(body) == b'{"choices":[{"index":0,"message":{"content":"Four."},"finish_reason":"stop"}]}'
    assert stage.whole.end(by_itself=True).reasoning_only


@pytest.mark.parametrize(
    ("used", "verdict", "overrun"), [(60, "under", 0), (70, "choices", 0), (128, "choices", 0), (129, "choices", 1)]
)
def test_choices_that_nobody_asked_for_share_a_usage(used: int, verdict: str, overrun: int) -> None:
    """Some are asked for by a field unknown here: what is used is a sum all the same, whole and streamed."""
    usage = b'"usage":{"prompt_tokens":1,"completion_tokens":%d}' % used
    choices = [b'{"index":%d,"message":{"content":"a"},"finish_reason":"stop"}' % number for number in range(2)]
    body = b'{"id":"c","choices":[%b],%b}' % (b",".join(choices), usage)
    stage = Stage()
    assert stage.whole.body(body) == body
    turn = stage.whole.end(by_itself=True)
    assert (turn.verdict, turn.choices, turn.returned) == (verdict, 2, "stop")
    assert [fact.used - fact.cap * 2 for fact in stage.told if isinstance(fact, OutputOverran)] == [overrun] * bool(
        overrun
    )
    stream = [b'data: {"id":"c","choices":[%b]}\n\n' % choice.replace(b"message", b"delta") for choice in choices]
    stage = Stage()
    stage.feed(*stream, b'data: {"choices":[],%b}\n\n' % usage)
    turn = stage.close()
    assert (turn.verdict, turn.choices, turn.returned) == (verdict, 2, "stop")
    assert stage.out.count(b'"stop"') == 2
