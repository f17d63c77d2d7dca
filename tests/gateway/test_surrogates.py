"""Half a surrogate pair in JSON: it passes as it came, in both directions, and hides nothing that stands around it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.surrogates import decoded, mended, reader
from tests.gateway.door import House, answers, request, whole
from tests.gateway.plays import DONE, Stage, chunk, text, usage

ANY_TEXT = st.text(st.characters() | st.sampled_from('\ud83d\ude00\udfff\ud800\\u"d8'), max_size=12)


def paired(value: object) -> object:
    """The value by way of UTF-16, which pairs what can be paired; the rest is U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [paired(one) for one in value]
    return {paired(key): paired(one) for key, one in value.items()} if isinstance(value, dict) else value


@given(st.dictionaries(ANY_TEXT, ANY_TEXT | st.lists(ANY_TEXT, max_size=3), max_size=4))
def test_every_text_of_the_grammar_is_read(value: dict[str, str | list[str]]) -> None:
    """No byte more or less, and U+FFFD for each half."""
    written = json.dumps(value).encode()
    assert len(mended(written)) == len(written)
    assert decoded(written) == paired(value)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(rb'{"a":"\ud83"}', id="half an escape"),
        pytest.param(rb'{"a":"\ud83d"', id="an object without end"),
        pytest.param(rb'{"a":"\ud83d\x"}', id="an escape that is none"),
        pytest.param(b"\\ud83d", id="no JSON at all"),
    ],
)
def test_what_is_not_json_stays_so(body: bytes) -> None:
    """The halves are forgiven and nothing else."""
    with pytest.raises(msgspec.DecodeError):
        decoded(body)


def test_a_field_of_another_type_is_told_as_ever() -> None:
    """What a decoder refuses for its type it refuses."""
    with pytest.raises(msgspec.ValidationError):
        reader(dict[str, int])(rb'{"a":"\ud83d"}')


@pytest.mark.parametrize("spelt", [r"\ud83d", r"\uD83D", r"\ude00", r"\ud83d\ud83d", r"\ud83d\u0041", r"\ud83dx"])
def test_a_request_goes_out_as_it_came(spelt: str) -> None:
    """Also where a level is written into it; the caps in it count."""
    body = f'{{"model":"m","messages":[{{"role":"user","content":"cut {spelt} here"}}],"max_tokens":4}}'.encode()
    finished = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
    house = House(whole(finished | {"usage": {"prompt_tokens": 1, "completion_tokens": 4}}))
    caller = house.asks(body)
    assert house.upstream.requests[0].content == body
    assert caller.json["choices"][0]["finish_reason"] == "length"


def test_a_whole_answer_is_judged() -> None:
    """And changed in the one place that says how it ended."""
    body = rb'{"choices":[{"index":0,"message":{"content":"cut \ud83d"},"finish_reason":"stop"}],"usage":{"completion_tokens":70}}'
    house = House(answers(body, media="application/json"))
    caller = house.asks(request(max_tokens=64))
    assert caller.body == body.replace(b'"stop"', b'"length"')
    assert house.facts.outcome == "ok"


def test_a_stream_is_judged() -> None:
    """An emoji may come in two events, half by half."""
    stage = Stage()
    halves = [text("a").replace(b'"a"', half) for half in (rb'"\ud83d"', rb'"\ude00"')]
    finish = chunk({"content": "b"}, finish="stop").replace(b'"b"', rb'"\ud83d"')
    stage.feed(*halves, finish, usage(70), DONE)
    turn = stage.close()
    assert stage.out == b"".join([*halves, finish.replace(b'"stop"', b'"length"'), usage(70), DONE])
    assert (turn.malformed, turn.returned) == (0, "length")
