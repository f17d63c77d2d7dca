"""Corners of reading refusals that no provider has been seen to use, and that must hold all the same."""

import json
import re

import pytest

from gateway.calls import Sent
from gateway.rules.envelopes import open_envelope
from gateway.rules.patterns import compile_patterns
from gateway.rules.refusals import read_refusal

MINIMAL = Sent(levels=("minimal",))


def test_a_sentence_told_as_a_reason() -> None:
    """Google puts a code there; where words stand there they are the message."""
    body = json.dumps({"error": {"code": 400, "reason": "Thinking level MINIMAL is not supported for this model."}})
    refusal = read_refusal(400, body.encode(), MINIMAL)
    assert refusal is not None
    assert refusal.level == "minimal"


@pytest.mark.parametrize(
    "text",
    ["no JSON at all", '"{ half"', "[{", "event: {x}"],
    ids=["prose", "half an object", "half an array", "an event"],
)
def test_a_text_without_json_in_it(text: str) -> None:
    """It is what it says and nothing more."""
    said = open_envelope(text.encode())
    assert not said.codes


def test_two_levels_named_blame_none() -> None:
    """Which of them was refused cannot be told."""
    body = json.dumps(
        {"error": {"message": "reasoning_effort 'minimal' is not supported. reasoning_effort 'low' is not supported."}}
    )
    assert read_refusal(400, body.encode(), MINIMAL) is None


def test_a_word_that_is_no_step_names_no_level() -> None:
    """`turbo` stands on no ladder."""
    body = json.dumps({"error": {"message": "Thinking level turbo is not supported for this model."}})
    assert read_refusal(400, body.encode(), MINIMAL) is None


def test_a_pattern_may_set_flags() -> None:
    """A group of flags opens nothing."""
    (pattern,) = compile_patterns(["(?i)dial (\\w+) jammed"])
    assert isinstance(pattern, re.Pattern)
    assert pattern.search("DIAL minimal JAMMED") is not None
