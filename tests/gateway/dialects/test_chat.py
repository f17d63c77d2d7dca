"""The chat dialect and its many cousins: what their answers come to, what is read of a request, what is written."""

from typing import Any

import msgspec
import pytest

from gateway.deltas import Content, Delta, Finish, Reasoning, ToolCall, Usage
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions, Malformed
from gateway.errors import BadRequest, Overloaded
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from tests.gateway.dialects.wires import Told, play, told, unlisted, wire

CHAT = DIALECTS["chat"]
TABLE = {
    "azure-filters-and-annotations.sse": Told(said="stop", tokens=(7, 12, None, None)),
    "cohere-complete.sse": Told(said="COMPLETE", tokens=(5, 12, None, None)),
    "cohere-max-tokens.sse": Told(said="MAX_TOKENS", reason="length", tokens=(6, 12, None, None)),
    "cut-without-word.sse": Told(reason="missing", outcome="incomplete"),
    "deepinfra-error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "deepseek-out-of-resources.sse": Told(
        said="insufficient_system_resource", reason="error", tokens=(1, 12, None, None)
    ),
    "deepseek-usage-on-finish.sse": Told(said="stop", tokens=(21, 12, 16, 6), thought=(16, "upstream")),
    "error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "finish-said-twice.sse": Told(said="stop", tokens=(6, 12, None, None), malformed=1),
    "function-call-of-old.json": Told(said="function_call", reason="tool_calls", tokens=(18, 12, None, None)),
    "groq-usage-twice.sse": Told(said="stop", tokens=(33, 12, None, None), thought=(0, "estimated")),
    "llama-timings.sse": Told(said="stop", tokens=(15, 32, None, 31), thought=(8, "counted")),
    "llama-two-choices.json": Told(said="stop stop", tokens=(15, 32, None, 31), thought=(32, "estimated")),
    "llama-two-choices.sse": Told(
        said="length length", reason="length", tokens=(40, 134, None, 133), thought=(32, "estimated")
    ),
    "mistral-thinking-parts.json": Told(said="stop", tokens=(20, 12, None, None), thought=(1, "estimated")),
    "mistral-thinking-parts.sse": Told(
        said="model_length", reason="length", tokens=(50, 12, None, None), thought=(3, "estimated")
    ),
    "nothing-but-reasoning.sse": Told(
        said="stop", tokens=(9, 12, None, None), thought=(2, "estimated"), only_thought=True
    ),
    "openai-refusal.sse": Told(said="stop", tokens=(9, 12, None, None)),
    "openai-tool-call.json": Told(said="tool_calls", reason="tool_calls", tokens=(18, 12, None, None)),
    "openai-tool-call.sse": Told(said="tool_calls", reason="tool_calls", tokens=(18, 12, None, None)),
    "openai.json": Told(said="stop", tokens=(70, 12, 64, None), thought=(64, "upstream")),
    "openai.sse": Told(said="stop", tokens=(70, 12, 64, 8), thought=(64, "upstream")),
    "openrouter-error-in-band.sse": Told(said="error", reason="error", outcome="stream_error"),
    "openrouter-reasoning-details.json": Told(
        said="stop", tokens=(20, 12, None, None), thought=(2, "estimated"), only_thought=True
    ),
    "openrouter-reasoning-details.sse": Told(said="stop", tokens=(40, 12, 31, None), thought=(31, "upstream")),
    "sglang-token-id.sse": Told(said="stop", tokens=(30, 12, 22, None), thought=(22, "upstream")),
    "torn-json.sse": Told(said="stop", tokens=(6, 12, None, None), malformed=1),
    "vllm-error.sse": Told(reason="missing", outcome="stream_error"),
    "vllm-running-usage.sse": Told(said="stop", tokens=(12, 12, None, None), thought=(9, "counted")),
    "vllm-stop-string.sse": Told(said="stop", tokens=(8, 12, None, None)),
    "word-nobody-knows.sse": Told(said="tired", reason="other", tokens=(6, 12, None, None)),
    "xai-reasoning-beside-completion.sse": Told(said="stop", tokens=(309, 12, 300, None), thought=(300, "upstream")),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_an_answer_comes_to(name: str) -> None:
    """A row per wire file: words, outcome, tokens, reasoning."""
    assert told(wire("chat", name)) == TABLE[name]


def test_every_file_has_a_row() -> None:
    """No file is looked at by the laws alone."""
    assert unlisted("chat", TABLE) == set()


def said(**fields: Any) -> list[Delta]:
    """What a chunk with this delta says."""
    return chunk(choices=[{"index": 0, "delta": fields, "finish_reason": None}])


def chunk(**fields: Any) -> list[Delta]:
    """What one chunk says."""
    return list(CHAT.read_frame(Frame(b"", None, msgspec.json.encode(fields))))


def test_a_request() -> None:
    """Model, stream, caps, stop, choices, level, and what the caller itself asked to see."""
    body = (
        b'{"model":"m","stream":true,"max_tokens":9,"max_completion_tokens":64,"n_predict":5,"stop":".","n":2,'
        b'"reasoning_effort":"high","stream_options":{"include_usage":true},"timings_per_token":true}'
    )
    read = CHAT.read_call("/v1/chat/completions", b"", (), body)
    assert (read.model, read.stream, read.output_cap, read.native_cap) == ("m", True, 64, 5)
    assert (read.stop_sequences, read.choices, read.level) == (True, 2, "high")
    assert (read.wants_usage, read.wants_timings) == (True, True)


def test_a_request_that_asks_for_nothing() -> None:
    """Nothing is made up."""
    read = CHAT.read_call("/v1/chat/completions", b"", (), b'{"max_completion_tokens":null,"max_tokens":7,"n":"2"}')
    assert (read.model, read.stream, read.output_cap, read.native_cap) == ("", False, 7, None)
    assert (read.stop_sequences, read.choices, read.wants_usage, read.wants_timings) == (False, 1, False, False)


def test_a_bad_request() -> None:
    """It is refused before any upstream is asked."""
    with pytest.raises(BadRequest, match="field model"):
        CHAT.read_call("/v1/chat/completions", b"", (), b'{"model":7}')


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (Additions(), {"stream": False}),
        (Additions(usage=True), {"stream": False, "stream_options": {"include_usage": True}}),
        (Additions(stream=True), {"stream": True, "stream_options": {"include_usage": True}}),
        (Additions(control=True), {"stream": False, "reasoning_control": True, "timings_per_token": True}),
    ],
    ids=["nothing", "usage", "a stream", "the control call"],
)
def test_what_a_rule_adds_to_a_request(added: Additions, expected: dict[str, Any]) -> None:
    """The fields it needs and no others."""
    call = CHAT.read_call("/v1/chat/completions", b"", (), b'{"stream":false}')
    assert msgspec.json.decode(CHAT.upstream_body(call, added)) == expected


@pytest.mark.parametrize(
    ("fields", "deltas"),
    [
        ({"content": "Hi"}, [Content()]),
        ({"content": ""}, []),
        ({"content": "Hi", "reasoning": "Hm"}, [Reasoning("Hm"), Content()]),
        ({"reasoning_content": "Hm", "reasoning": "Hm"}, [Reasoning("Hm")]),
        ({"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}, [Reasoning("Hm")]),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm"}, 5]}, [Reasoning("Hm")]),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "text": "x"}, {"type": "reasoning.text"}]}, []),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}, [Reasoning("Hm")]),
        ({"content": [{"type": "thinking", "thinking": 5}, "x"]}, []),
        ({"content": [{"type": "text", "text": "Hi"}]}, [Content()]),
        ({"refusal": "No"}, [Content()]),
        ({"audio": {"data": "x"}}, [Content()]),
        ({"tool_calls": [{}]}, [ToolCall()]),
        ({"function_call": {}}, []),
        ({"function_call": {"name": "look"}}, [ToolCall()]),
    ],
    ids=[
        "text",
        "empty text",
        "text and reasoning",
        "reasoning under two names",
        "reasoning and its details",
        "a summary",
        "nothing readable",
        "Mistral's thinking",
        "thinking of no shape",
        "Mistral's text",
        "a refusal",
        "speech",
        "a tool call",
        "no function call",
        "a function call of old",
    ],
)
def test_a_delta(fields: dict[str, Any], deltas: list[Delta]) -> None:
    """What it says, told once."""
    assert said(**fields) == deltas


@pytest.mark.parametrize(
    ("fields", "evidence"),
    [
        ({"stop_reason": "."}, True), ({"stop_reason": None}, False), ({"stop_reason": 128009}, False),
        ({"matched_stop": "."}, True), ({"matched_stop": 2}, False), ({}, None),
    ],
    ids=["vLLM: the caller's", "vLLM: none", "vLLM: a token", "SGLang: the caller's", "SGLang: a token", "not said"],
)  # fmt: skip
def test_who_ended_the_turn(fields: dict[str, Any], evidence: bool | None) -> None:
    """The caller's stop sequence, the model, or nobody knows."""
    (finish,) = chunk(choices=[{"delta": {}, "finish_reason": "stop", **fields}])
    assert isinstance(finish, Finish)
    assert finish.stop_evidence is evidence


@pytest.mark.parametrize(
    "word", [None, "", "null", [], 5], ids=["null", "empty", "the string null", "an array", "a number"]
)
def test_what_is_no_finish_word(word: Any) -> None:
    """Not finished yet."""
    assert chunk(choices=[{"delta": {}, "finish_reason": word}]) == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 9,
                "total_tokens": 321,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(309, 12, 300),
        ),
        (
            {
                "prompt_tokens": 12,
                "completion_tokens": 309,
                "total_tokens": 321,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(309, 12, 300),
        ),
        ({"prompt_tokens": 12, "completion_tokens": 9, "reasoning_tokens": 7}, Usage(9, 12, 7)),
        ({"prompt_tokens": 12, "completion_tokens": -9}, Usage(None, 12)),
        ({"prompt_tokens": 12, "completion_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, 12, None, 4)),
        (
            {"prompt_tokens": 12, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 12, None, 4),
        ),
    ],
    ids=[
        "xAI: reasoning beside",
        "reasoning within",
        "SGLang: flat",
        "a count that cannot be",
        "DeepSeek's cache",
        "OpenAI's cache",
    ],
)
def test_usage(usage: dict[str, Any], expected: Usage) -> None:
    """Output is what the cap is compared with."""
    assert chunk(choices=[], usage=usage) == [expected]


def test_a_whole_answer_has_no_running_count() -> None:
    """Its usage counts the text as well."""
    (reasoning, *_) = CHAT.read_body(wire("chat", "mistral-thinking-parts.json").data)
    assert reasoning == Reasoning("Waves.")


def test_xai_is_judged_by_the_sum() -> None:
    """9 tokens of text under a cap of 256, with 300 of reasoning beside them."""
    answer = wire("chat", "xai-reasoning-beside-completion.sse")
    played = play(answer, cap=OutputCap(cap=256))
    assert played.out == answer.data.replace(b'"finish_reason":"stop"', b'"finish_reason":"length"')


def test_the_usage_of_both_choices_adds_up() -> None:
    """llama.cpp sends it once per choice."""
    turn = play(wire("chat", "llama-two-choices.sse"), cap=OutputCap(cap=20, choices=2)).turn
    assert (turn.verdict, turn.usage is not None and turn.usage.output) == ("stronger", 40)


def test_what_only_our_asking_brought_is_stripped() -> None:
    """Timings leave every chunk, and the usage chunk goes."""
    answer = wire("chat", "llama-timings.sse")
    out = play(answer, added=Additions(usage=True, control=True)).out
    assert b'"timings"' not in out
    assert b'"usage"' not in out


@pytest.mark.parametrize("body", [b"{}", b'{"data":[]}', b"[]"], ids=["an empty object", "another answer", "an array"])
def test_what_is_no_answer(body: bytes) -> None:
    """Neither choices nor an error nor usage."""
    with pytest.raises(Malformed):
        CHAT.read_body(body)


def test_only_what_holds_nothing_else_is_promoted() -> None:
    """Choices with text or a tool call keep their reasoning."""
    choices = [
        {"index": 0, "message": {"content": "", "reasoning_content": "Four."}},
        {"index": 1, "message": {"content": "Hi", "reasoning_content": "Hm"}},
        {"index": 2, "message": {"content": None, "reasoning": "Hm", "tool_calls": [{}]}},
        {"index": 3},
    ]
    after = msgspec.json.decode(CHAT.promote(msgspec.json.encode({"choices": choices})))["choices"]
    assert after == [{"index": 0, "message": {"content": "Four."}}, *choices[1:]]


def test_an_error_of_our_own() -> None:
    """As OpenAI's."""
    wanted = {"message": "no", "type": "server_error", "param": None, "code": "overloaded"}
    assert msgspec.json.decode(CHAT.error_body(Overloaded("no"))) == {"error": wanted}
    wanted = {"message": "no", "type": "invalid_request_error", "param": None, "code": "bad_request"}
    assert msgspec.json.decode(CHAT.error_body(BadRequest("no"))) == {"error": wanted}


def test_reasoning_is_promoted_once() -> None:
    """Also where the finish is said twice."""
    answer = wire("chat", "nothing-but-reasoning.sse")
    finish = answer.frames[-3].raw
    out = play(answer, *(frame.raw for frame in answer.frames[:-2]), finish, promote=True).out
    assert out.count(b'"content":"It is blue."') == 1
    assert out.index(b'"content":"It is blue."') < out.index(b'"finish_reason":"stop"')
