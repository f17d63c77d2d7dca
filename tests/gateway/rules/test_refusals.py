"""Rule 3, the reading: 84 refusals and near misses from public reports, and other wordings both ways."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calls import NO_LEVEL_SENT, Sent
from gateway.deltas import Refusal
from gateway.rules.level_fallback import LevelFallback
from gateway.rules.refusals import read_refusal
from gateway.words import LADDER, Level, level_of


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a collection: one JSON object a line; a body is JSON or, where it was none, text."""
    return [json.loads(line) for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()]


ROWS = rows_of("rejections.jsonl")
"""From public reports; `sent` is the level of the request, `target` where the walk ends."""
WORDINGS = rows_of("wordings.jsonl")
"""Of our own."""
UNSUPPORTED = "Unsupported value: 'low' is not supported with the 'gpt-5' model. Supported values are: 'medium'."
MINIMAL = "Thinking level MINIMAL is not supported for this model."


def sent(level: Level | None) -> Sent:
    """A request that carried this level in its one usual place."""
    return Sent(levels=(level,)) if level else NO_LEVEL_SENT


def error(message: str, **more: Any) -> str:
    """OpenAI's envelope."""
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}})


def read(body: Any, level: Level | None, status: int = 400, extra: tuple[re.Pattern[str], ...] = ()) -> Refusal | None:
    """What is made of a body, JSON or text."""
    text = body if isinstance(body, str) else json.dumps(body)
    return read_refusal(status, text.encode(), sent(level), extra)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS if row["retry"]])
def test_a_reported_refusal_is_read_and_leads_to_its_target(row: dict[str, Any]) -> None:
    """Every refusal of the collection is recognised for the level sent, and the walk ends where the report says."""
    level = level_of(row["sent"])
    refusal = read(row["body"], level, row["status"])
    assert refusal is not None
    assert refusal.level == level
    assert LevelFallback(declared=tuple(row["declared"])).next_level(refusal, 0) == row["target"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS if not row["retry"]])
@pytest.mark.parametrize("level", [*LADDER, pytest.param(None, id="no level")])
def test_a_near_miss_is_no_refusal_whatever_was_sent(row: dict[str, Any], level: Level | None) -> None:
    """No near miss of the collection is taken for a refusal, not even by chance of the level sent."""
    assert read(row["body"], level, row["status"]) is None


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["id"]) for row in ROWS if row["retry"] and row["status"] == 400]
)
@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 502, 503])
def test_no_other_status_counts(row: dict[str, Any], status: int) -> None:
    """Condition 2: the very words of a refusal mean nothing under another status."""
    assert read(row["body"], level_of(row["sent"]), status) is None


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in WORDINGS if row["refused"]])
def test_another_wording_is_read(row: dict[str, Any]) -> None:
    """Refusals in words and wrappings of our own: the structure carries them."""
    refusal = read(row["body"], row["sent"], row["status"])
    assert refusal is not None
    assert refusal.level == (row["sent"] or refusal.level)
    assert list(refusal.listed or ()) == (row["listed"] or [])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in WORDINGS if not row["refused"]])
@pytest.mark.parametrize("level", [*LADDER, pytest.param(None, id="no level")])
def test_another_near_miss_is_left_alone(row: dict[str, Any], level: Level | None) -> None:
    """Near misses of our own, under every level that could have been sent: no false retry."""
    assert read(row["body"], level, row["status"]) is None


def test_a_level_in_another_field_makes_an_unnamed_field_doubtful() -> None:
    """A sentence that names no field counts only while no other field holds the same word."""
    body = UNSUPPORTED.encode()
    assert read_refusal(400, body, Sent(levels=("low",))) is not None
    assert read_refusal(400, body, Sent(levels=("low",), elsewhere=frozenset({"low"}))) is None


def test_another_level_than_the_one_sent_is_no_refusal() -> None:
    """Condition 3: what was not sent was not refused."""
    assert read(error(MINIMAL), "low") is None


def test_with_no_level_sent_the_wording_must_be_about_levels() -> None:
    """Condition 3: without a level of ours, a level word alone proves nothing."""
    assert read(error("Invalid value: 'minimal'. Supported values are: 'low', 'high'."), None) is None
    assert (
        read(error("Invalid value: 'minimal'. Supported values are: 'low'.", param="reasoning_effort"), None)
        is not None
    )


def test_a_level_that_is_offered_was_not_refused() -> None:
    """Whatever is wrong, it is not a level that stands in the list."""
    assert read(error("`reasoning_effort` must be one of `low`, `medium`, or `high`"), "low") is None


def test_a_clamped_level_is_refused_as_the_one_sent() -> None:
    """The template names `high` because an adapter made that of `xhigh`; a level below is not what it speaks of."""
    body = error("Unexpected reasoning effort high. Supported types are xhigh (default), medium, and low.")
    refusal = read(body, "xhigh", 500)
    assert refusal is not None
    assert (refusal.level, refusal.listed) == ("xhigh", ("low", "medium"))
    assert read(body, "low", 500) is None


def test_any_of_several_levels_sent_may_be_the_refused_one() -> None:
    """A body with `thinking: disabled` beside an effort carries two; the refusal says which it means."""
    body = error("Thinking cannot be disabled for this model.").encode()
    refusal = read_refusal(400, body, Sent(levels=("low", "off")))
    assert refusal is not None
    assert refusal.level == "off"


@pytest.mark.parametrize(
    ("pattern", "level", "expected"),
    [
        pytest.param(r"dial position (\w+) jammed", "minimal", Refusal(level="minimal"), id="a group names the level"),
        pytest.param(r"dial position (\w+) jammed", None, Refusal(level="minimal"), id="a group, and nothing was sent"),
        pytest.param(r"dial position (\w+) jammed", "high", None, id="a group names another level"),
        pytest.param(r"dial (position)", "minimal", None, id="a group that is no level"),
        pytest.param("jammed", "minimal", Refusal(level="minimal", first_declared=True), id="no group"),
        pytest.param("jammed", None, Refusal(level=None, first_declared=True), id="no group, nothing sent"),
        pytest.param("stuck", "minimal", None, id="no match"),
    ],
)
def test_an_operators_pattern_is_read(pattern: str, level: Level | None, expected: Refusal | None) -> None:
    """`extra_patterns`: the first group is the level; one without a group matches too."""
    assert read('{"fault": "dial position minimal jammed"}', level, extra=(re.compile(pattern),)) == expected


def test_no_pattern_beats_a_deliberate_refusal_or_a_status() -> None:
    """Conditions 2 and 4 hold for the operator's patterns too."""
    extra = (re.compile("jammed"),)
    assert read(error("jammed", code="unsupported_reasoning_effort"), "low", extra=extra) is None
    assert read(error("jammed"), "low", 500, extra) is None
    assert read(error("jammed"), "low", 429, extra) is None


HOSTILE = {
    "64 MB": b'{"error":{"message":"' + b"a" * (64 << 20),
    "deep arrays": b"[" * 60_000,
    "deep objects": b'{"error":' * 7_000,
    "many errors": json.dumps(
        {"errors": [{"message": f"reasoning_effort 'high' invalid {n}"} for n in range(1_000)]}
    ).encode(),
    "quotes": json.dumps({"error": {"message": "'" * 60_000}}).encode(),
    "backslashes": b'{"error":{"message":"' + b"\\" * 60_000,
    "fields": error("reasoning_effort " * 3_500).encode(),
    "levels": error("reasoning effort 'high' is not supported: " + "low, " * 1_500).encode(),
    "spaces": error("thinking level is" + " " * 60_000 + "x").encode(),
    "braces": error("{" * 60_000).encode(),
    "offers": error("must be one of " * 500).encode(),
    "thinking": error("thinking " * 1_000).encode(),
    "prototype": error(
        "reasoning_effort '__proto__' is not supported. Supported values: 'constructor', '__proto__'"
    ).encode(),
    "a number without end": b'{"error":{"code":' + b"9" * 60_000 + b"}}",
    "half a character": b'{"error":"\xff\xfe reasoning_effort \xc3"}',
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in HOSTILE.items()])
@pytest.mark.parametrize("level", ["high", pytest.param(None, id="no level")])
def test_a_hostile_body_is_read_in_bounded_time(body: bytes, level: Level | None) -> None:
    """No refusal, no exception, and a processor time that a regular expression gone wild would pass by far."""
    begun = time.process_time()
    refusal = read_refusal(400, body, sent(level), (re.compile(r"dial .* position (\w+)"),))
    assert time.process_time() - begun < 2
    assert refusal is None or refusal.level == "high"


SCRAPS = """
reasoning_effort effort thinking level 'minimal' 'low' HIGH max not supported is must be one of : ; . , [ ] ( ) { } " \
data: event: error Supported values are Unexpected reasoning effort budget 0 THINKING_LEVEL_LOW types cannot disabled
"""
words = st.sampled_from(SCRAPS.split())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "param", "code", "detail", "loc", "input"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    body=st.binary(max_size=200)
    | st.lists(words, max_size=40).map(lambda found: " ".join(found).encode())
    | json_values.map(lambda value: json.dumps(value).encode()),
    level=st.none() | st.sampled_from(LADDER),
    status=st.sampled_from([200, 400, 422, 500]),
)
def test_any_bytes_give_a_value(body: bytes, level: Level | None, status: int) -> None:
    """Reading is total, and what is refused is what was sent, never something offered."""
    refusal = read_refusal(status, body, sent(level))
    if refusal is not None:
        assert refusal.level is not None
        assert level in (None, refusal.level)
        assert refusal.level not in (refusal.listed or ())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param("m-think", "m-think", id="a name without digits"),
        pytest.param("vendor/deep-thinker", "deep-thinker", id="a name behind its vendor's"),
        pytest.param("deep-low", "'deep-low'", id="a name that ends in a level"),
    ],
)
def test_the_model_that_was_asked_may_be_named(model: str, said: str) -> None:
    """Its name is no condition, whatever words it is made of; that of anything else is one."""
    body = error(f"reasoning_effort=xhigh is not supported for {said}.").encode()
    asked = Sent(levels=("xhigh",), model=model)
    assert read_refusal(400, body, asked) == Refusal(level="xhigh", field="reasoning_effort")
    assert read_refusal(400, body.replace(b"for", b"for batches in"), asked) is None


def test_a_model_called_like_a_level_hides_none() -> None:
    """A name that is a word of the ladder, or of prose, or nothing at all, takes nothing out of the text."""
    body = error("reasoning_effort=high is not supported for this model.").encode()
    for model in ("high", "model", "", "/"):
        assert read_refusal(400, body, Sent(levels=("high",), model=model)) is not None
