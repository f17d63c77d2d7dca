"""The Messages dialect: what its answers come to, what is read of a request, what is written."""

import msgspec
import pytest

from gateway.calls import Call
from gateway.deltas import Content, Delta, Finish, Reasoning, ToolCall
from gateway.dialects import DIALECTS
from gateway.errors import (
    BadRequest,
    BodyTooLarge,
    CallError,
    NotFound,
    Overloaded,
    RequestTimeout,
    ThinkingOverrun,
    Unauthorized,
)
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from tests.gateway.dialects.wires import Told, frames, play, told, unlisted, wire

MESSAGES = DIALECTS["messages"]
TABLE = {
    "context-window.sse": Told(said="model_context_window_exceeded", reason="length", tokens=(8, 25, None, 0)),
    "cut-without-word.sse": Told(reason="missing", outcome="incomplete", tokens=(1, 25, None, 0)),
    "done-of-another-dialect.sse": Told(said="end_turn", tokens=(5, 25, None, 0)),
    "error-after-text.sse": Told(reason="missing", outcome="stream_error", tokens=(1, 25, None, 0)),
    "error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "events-of-the-future.sse": Told(said="end_turn", tokens=(5, 25, None, 0)),
    "input-told-at-the-end.sse": Told(said="end_turn", tokens=(5, 31, None, None)),
    "known-event-of-no-shape.sse": Told(said="end_turn", tokens=(5, 25, None, 0), malformed=1),
    "llama-blocks-overlap.sse": Told(said="end_turn", tokens=(25, 30, None, 29), thought=(8, "estimated")),
    "llama-cut-in-thinking.json": Told(
        said="max_tokens", reason="length", tokens=(24, 30, None, 29), thought=(30, "estimated"), only_thought=True
    ),
    "llama-cut-in-thinking.sse": Told(
        said="max_tokens", reason="length", tokens=(24, 30, None, 29), thought=(30, "estimated"), only_thought=True
    ),
    "llama-stop-sequence.json": Told(
        said="end_turn", tokens=(17, 30, None, 29), thought=(19, "estimated"), only_thought=True
    ),
    "no-word-yet.json": Told(reason="missing", outcome="incomplete", tokens=(40, 25, None, None)),
    "nothing-but-thinking.json": Told(
        said="end_turn", tokens=(40, 25, None, None), thought=(2, "estimated"), only_thought=True
    ),
    "nothing-but-thinking.sse": Told(
        said="end_turn", tokens=(9, 25, None, 0), thought=(2, "estimated"), only_thought=True
    ),
    "redacted-thinking.sse": Told(said="max_tokens", reason="length", tokens=(90, 25, None, 0), only_thought=True),
    "refusal.json": Told(said="refusal", reason="content_filter", tokens=(40, 25, None, None)),
    "refusal.sse": Told(said="refusal", reason="content_filter", tokens=(2, 25, None, 0)),
    "servers-own-tool-pauses.sse": Told(said="pause_turn", reason="other", tokens=(40, 25, None, 0)),
    "stop-sequence.sse": Told(said="stop_sequence", tokens=(8, 25, None, 0)),
    "text.json": Told(said="end_turn", tokens=(40, 25, None, None)),
    "text.sse": Told(said="end_turn", tokens=(20, 25, None, 0)),
    "thinking-and-cache.sse": Told(said="end_turn", tokens=(90, 42, 80, 30), thought=(80, "upstream")),
    "thinking-not-told.sse": Told(said="end_turn", tokens=(90, 25, None, 0)),
    "thinking.json": Told(said="end_turn", tokens=(40, 35, 30, 10), thought=(30, "upstream")),
    "tool-use.json": Told(said="tool_use", reason="tool_calls", tokens=(40, 25, None, None)),
    "tool-use.sse": Told(said="tool_use", reason="tool_calls", tokens=(40, 25, None, 0)),
    "usage-that-cannot-be.sse": Told(said="end_turn", tokens=(None, 25, None, 0)),
    "word-and-usage-apart.sse": Told(said="end_turn", tokens=(50, 25, None, 0)),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_an_answer_comes_to(name: str) -> None:
    """A row per wire file: words, outcome, tokens, reasoning."""
    assert told(wire("messages", name)) == TABLE[name]


def test_every_file_has_a_row() -> None:
    """No file is looked at by the laws alone."""
    assert unlisted("messages", TABLE) == set()


def event(data: bytes) -> list[Delta]:
    """What one event says."""
    return list(MESSAGES.read_frame(Frame(b"", None, data)))


def call(body: bytes, **headers: str) -> Call:
    """A request, read."""
    pairs = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return MESSAGES.read_call("/v1/messages", b"beta=true", pairs, body)


def test_a_request() -> None:
    """Model, stream, cap, stop sequences, level and wishes."""
    body = b'{"model":"m", "stream":true, "max_tokens":64, "stop_sequences":["."], "output_config":{"effort":"high"}}'
    read = call(body, x_thinkcap_purpose="compaction")
    assert (read.model, read.stream, read.output_cap, read.stop_sequences) == ("m", True, 64, True)
    assert (read.level, read.choices, read.events, read.query) == ("high", 1, True, b"beta=true")
    assert (read.wishes.purpose, read.body) == ("compaction", body)


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"[]", "JSON object"), (b'{"model":7}', "field model"), (b"", "JSON object")],
    ids=["an array", "a model that is no string", "nothing"],
)
def test_a_bad_request_names_what_is_wrong(body: bytes, said: str) -> None:
    """It is refused before any upstream is asked."""
    with pytest.raises(BadRequest, match=said):
        call(body)


@pytest.mark.parametrize(
    ("value", "cap"),
    [(b"0", 0), (b"-1", 0), (b"64.0", 0), (b'"64"', 0), (b"true", 0), (b"null", None)],
    ids=["zero", "negative", "a fraction", "a string", "a boolean", "null"],
)
def test_a_cap_that_is_none(value: bytes, cap: int | None) -> None:
    """What is no positive integer is no usable cap."""
    assert call(b'{"max_tokens":%s}' % value).output_cap == cap


@pytest.mark.parametrize(
    ("end", "evidence"),
    [
        (b'"stop_reason":"stop_sequence","stop_sequence":"."', True),
        (b'"stop_reason":"stop_sequence"', True),
        (b'"stop_reason":"end_turn","stop_sequence":"."', True),
        (b'"stop_reason":"end_turn","stop_sequence":null', False),
        (b'"stop_reason":"end_turn"', None),
    ],
    ids=["the word", "the word alone", "llama.cpp: the sequence alone", "a null", "no field"],
)
def test_who_ended_the_turn(end: bytes, evidence: bool | None) -> None:
    """The caller's stop sequence, the model, or nobody knows."""
    (finish,) = event(b'{"type":"message_delta","delta":{%s}}' % end)
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.stop_evidence) == ("stop", evidence)


@pytest.mark.parametrize(
    ("data", "deltas"),
    [
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Bl"}}', [Content()]),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}', []),
        (
            b'{"type":"content_block_start","index":2,"content_block":{"type":"thinking","thinking":"Hm"}}',
            [Reasoning("Hm", block=2)],
        ),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}', []),
        (
            b'{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"x"}}',
            [Reasoning("", block=1)],
        ),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"look"}}', [ToolCall()]),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_use","name":"look"}}', []),
        (b'{"type":"content_block_start","index":0,"content_block":{"type":"essay","text":"Bl"}}', [Content()]),
        (
            b'{"type":"content_block_delta","index":3,"delta":{"type":"thinking_delta","thinking":"Hm"}}',
            [Reasoning("Hm", block=3)],
        ),
        (
            b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"x"}}',
            [Reasoning("")],
        ),
        (b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}', []),
        (b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}', []),
        (b'{"type":"content_block_delta","index":0}', []),
        (b'{"type":"message_delta"}', []),
        (b'{"type":"message_start"}', []),
    ],
    ids=[
        "a block that begins with text",
        "an empty text block",
        "a block that begins with thinking",
        "an empty thinking block",
        "redacted thinking",
        "a tool of the caller",
        "a tool of the server",
        "an unknown block with text",
        "thinking",
        "a signature",
        "an empty signature",
        "empty text",
        "a delta of nothing",
        "a message_delta of nothing",
        "a message_start of nothing",
    ],
)
def test_an_event(data: bytes, deltas: list[Delta]) -> None:
    """What it says."""
    assert event(data) == deltas


def test_input_is_the_whole_prompt() -> None:
    """What the cache had is in it, as in the other dialects; a last usage without the cache does not take it away."""
    start = b'{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_read_input_tokens":29,"output_tokens":0}}}'
    end = b'{"type":"message_delta","delta":{},"usage":{"input_tokens":1,"output_tokens":9}}'
    answer = wire("messages", "text.sse")
    usage = play(answer, b"data: " + start + b"\n\n", b"data: " + end + b"\n\n").turn.usage
    assert usage is not None
    assert (usage.output, usage.input, usage.cached) == (9, 30, 29)


def test_a_stop_past_the_cap_is_written_in_its_place() -> None:
    """The event says max_tokens, its stop_sequence and usage stay."""
    answer = wire("messages", "text.sse")
    assert play(answer, cap=OutputCap(cap=20)).out == answer.data.replace(b'"end_turn"', b'"max_tokens"')


def test_a_word_without_usage_waits_for_it() -> None:
    """Some servers send two message_delta events."""
    answer = wire("messages", "word-and-usage-apart.sse")
    played = play(answer, cap=OutputCap(cap=40))
    assert played.out == answer.data.replace(b'"end_turn"', b'"max_tokens"')
    assert played.turn.verdict == "upgraded"


@pytest.mark.parametrize(
    "usages",
    [
        pytest.param([b'{"output_tokens":20}', b'{"input_tokens":5}'], id="the input alone, later"),
        pytest.param([b'{"output_tokens":20}', b'{"output_tokens":null}'], id="a null, later"),
        pytest.param([b'{"output_tokens":20}', b'{"output_tokens":-1}'], id="a number that is none, later"),
        pytest.param([b'{"input_tokens":5}', b'{"output_tokens":20}'], id="the input first"),
    ],
)
@pytest.mark.parametrize("last", [0, 1], ids=["beside the first", "beside the last"])
def test_an_output_that_was_told_stays_told(usages: list[bytes], last: int) -> None:
    """The last one seen counts, and what says nothing of it takes nothing away, wherever the word stands."""
    word = [b'"end_turn"' if number == last else b"null" for number in range(2)]
    events = [
        b'data: {"type":"message_delta","delta":{"stop_reason":%b},"usage":%b}\n\n' % pair
        for pair in zip(word, usages, strict=True)
    ]
    played = play(wire("messages", "text.sse"), *events, b'data: {"type":"message_stop"}\n\n', cap=OutputCap(cap=10))
    assert (played.turn.verdict, played.turn.usage_missing) == ("upgraded", False)
    assert played.out.count(b"max_tokens") == 1


def test_promoted_thinking_is_a_block_of_its_own() -> None:
    """It stands behind the thinking block, before the end, and has the number that follows."""
    answer = wire("messages", "nothing-but-thinking.sse")
    events = [(frame.event, msgspec.json.decode(frame.data or b"")) for frame in frames(play(answer, promote=True).out)]
    assert [name for name, _ in events[-5:]] == [
        b"content_block_start", b"content_block_delta", b"content_block_stop", b"message_delta", b"message_stop",
    ]  # fmt: skip
    assert {value["index"] for _, value in events[-5:-2]} == {1}
    assert events[-4][1]["delta"] == {"type": "text_delta", "text": "It is blue."}


def test_promoted_thinking_of_a_whole_answer() -> None:
    """The text is moved into a block behind; the signatures stay where they were."""
    content = msgspec.json.decode(play(wire("messages", "nothing-but-thinking.json"), promote=True).out)["content"]
    assert [block["type"] for block in content] == ["thinking", "redacted_thinking", "thinking", "text"]
    assert (content[0]["thinking"], content[0]["signature"], content[3]["text"]) == ("", "c2ln", "It is blue.")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("no"), "invalid_request_error"), (Unauthorized("no"), "authentication_error"),
        (NotFound("no"), "not_found_error"), (BodyTooLarge("no"), "request_too_large"), (RequestTimeout("no"), "invalid_request_error"),
        (ThinkingOverrun("no"), "api_error"), (Overloaded("no"), "overloaded_error"),
    ],
    ids=["400", "401", "404", "413", "408", "502", "503"],
)  # fmt: skip
def test_an_error_of_our_own(error: CallError, kind: str) -> None:
    """Anthropic's type of the status, our code beside it; in a stream an `error` event."""
    said = {"type": "error", "error": {"type": kind, "message": "no", "code": error.code}}
    assert msgspec.json.decode(MESSAGES.error_body(error)) == said
    assert MESSAGES.error_event(error) == b"event: error\ndata: " + MESSAGES.error_body(error) + b"\n\n"
