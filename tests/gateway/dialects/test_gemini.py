"""The Gemini dialect: what its answers come to, what is read of a request, what is written."""

from typing import Any

import msgspec
import pytest

from gateway.calls import Call
from gateway.deltas import Content, Delta, Reasoning, ToolCall, Unjudged, Usage
from gateway.dialects import DIALECTS
from gateway.dialects.base import Malformed
from gateway.errors import BadRequest, ThinkingOverrun
from gateway.events import FinishRaised, OutputOverran
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from tests.gateway.dialects.wires import Told, Wire, frames, leaves, play, told, unlisted, wire
from tests.gateway.plays import Stage

GEMINI = DIALECTS["gemini"]
TABLE = {
    "array-of-events.json": Told(reason="missing"),
    "blocked-answer.sse": Told(said="SAFETY", reason="content_filter", tokens=(2, 11, None, None)),
    "blocked-prompt.json": Told(said="blockReason:OTHER", reason="content_filter", tokens=(0, 9, None, None)),
    "blocked-prompt.sse": Told(
        said="blockReason:PROHIBITED_CONTENT", reason="content_filter", tokens=(0, 9, None, None)
    ),
    "continuation.sse": Told(said="CONTINUATION", reason="length", tokens=(2, 11, None, None)),
    "cut-without-word.sse": Told(reason="missing", outcome="incomplete", tokens=(1, 11, None, None)),
    "done-of-another-dialect.sse": Told(said="STOP", tokens=(2, 11, None, None)),
    "error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "error-in-the-middle.sse": Told(reason="missing", outcome="stream_error", tokens=(1, 11, None, None)),
    "function-call.json": Told(said="STOP", tokens=(21, 11, 9, None), thought=(9, "upstream")),
    "function-call.sse": Told(said="STOP", tokens=(21, 11, 9, None), thought=(9, "upstream")),
    "malformed-call.json": Told(said="MALFORMED_FUNCTION_CALL", reason="error", tokens=(0, 2595, None, None)),
    "no-content-at-the-end.sse": Told(said="STOP", tokens=(49, 11, 45, None), thought=(45, "upstream")),
    "no-index.sse": Told(said="STOP", tokens=(3, 11, None, None)),
    "nothing-but-thoughts.json": Told(said="STOP", tokens=(6, 11, 6, None), thought=(6, "upstream"), only_thought=True),
    "nothing-but-thoughts.sse": Told(said="STOP", tokens=(6, 11, 6, None), thought=(6, "upstream"), only_thought=True),
    "other.json": Told(said="OTHER", reason="other", tokens=(1, 11, None, None)),
    "picture-refused.json": Told(said="IMAGE_SAFETY", reason="content_filter", tokens=(0, 11, None, None)),
    "picture.json": Told(said="STOP", tokens=(30, 11, None, None)),
    "servers-own-tools.sse": Told(said="STOP", tokens=(9, 19, None, None)),
    "stop-and-then-cut.sse": Told(said="MAX_TOKENS", reason="length", tokens=(5, 11, None, None)),
    "stop-on-every-event.sse": Told(said="STOP", tokens=(65, 11, 58, None), thought=(58, "upstream")),
    "text.sse": Told(said="STOP", tokens=(7, 11, None, None)),
    "thoughts.json": Told(said="STOP", tokens=(61, 11, 58, None), thought=(58, "upstream")),
    "thoughts.sse": Told(said="STOP", tokens=(61, 11, 58, 4), thought=(58, "upstream")),
    "two-candidates.json": Told(said="STOP STOP", tokens=(9, 11, 4, None), thought=(4, "upstream")),
    "two-candidates.sse": Told(said="STOP MAX_TOKENS", reason="length", tokens=(9, 11, None, None)),
    "unspecified-is-no-word.sse": Told(said="STOP", tokens=(4, 11, None, None)),
    "usage-that-cannot-be.sse": Told(said="STOP", tokens=(None, 11, 4, None), thought=(4, "upstream")),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_an_answer_comes_to(name: str) -> None:
    """A row per wire file: words, outcome, tokens, reasoning."""
    assert told(wire("gemini", name)) == TABLE[name]


def test_every_file_has_a_row() -> None:
    """No file is looked at by the laws alone."""
    assert unlisted("gemini", TABLE) == set()


def call(path: str, body: Any, query: bytes = b"") -> Call:
    """A request, read."""
    return GEMINI.read_call(path, query, (), msgspec.json.encode(body))


def event(value: Any) -> list[Delta]:
    """What one event says."""
    data = msgspec.json.encode(value)
    return list(GEMINI.read_frame(Frame(b"", None, data)))


def part(**fields: Any) -> list[Delta]:
    """What one part says."""
    return event({"candidates": [{"content": {"parts": [fields]}}]})


@pytest.mark.parametrize(
    ("path", "query", "model", "stream", "events"),
    [
        ("/v1beta/models/m:generateContent", b"", "m", False, True),
        ("/v1/models/m:streamGenerateContent", b"alt=sse", "m", True, True),
        ("/v1beta/models/m:streamGenerateContent", b"key=k&%24alt=sse", "m", True, True),
        ("/v1beta/models/m:streamGenerateContent", b"key=k", "m", True, False),
        ("/v1beta/models/m%201%3A0:generateContent", b"", "m 1:0", False, True),
    ],
    ids=["a whole answer", "a stream", "a stream by another spelling", "an array", "a name in percent codes"],
)
def test_the_path_names_model_and_stream(path: str, query: bytes, model: str, stream: bool, events: bool) -> None:
    """The body names neither."""
    read = call(path, {}, query)
    assert (read.model, read.stream, read.events) == (model, stream, events)
    assert (read.path, read.query) == (path, query)


@pytest.mark.parametrize(
    "body",
    [
        {
            "generationConfig": {
                "maxOutputTokens": 64,
                "stopSequences": ["."],
                "candidateCount": 2,
                "thinkingConfig": {"thinkingLevel": "LOW"},
            }
        },
        {
            "generation_config": {
                "max_output_tokens": 64,
                "stop_sequences": ["."],
                "candidate_count": 2,
                "thinking_config": {"thinking_level": "low"},
            }
        },
        {
            "generationConfig": {
                "max_output_tokens": 64,
                "stop_sequences": ["."],
                "candidate_count": 2,
                "thinking_config": {"thinking_level": "low"},
            }
        },
    ],
    ids=["camel case", "snake case", "both"],
)
def test_a_request(body: dict[str, Any]) -> None:
    """Cap, stop sequences, choices and level, in either spelling."""
    read = call("/v1beta/models/m:generateContent", body)
    assert (read.output_cap, read.stop_sequences, read.choices, read.level) == (64, True, 2, "low")


@pytest.mark.parametrize(
    "config",
    [None, "x", {}, {"candidateCount": 0}, {"candidateCount": "2"}],
    ids=["null", "a string", "empty", "none", "a string of two"],
)
def test_a_request_without_settings(config: Any) -> None:
    """Nothing that can be used is nothing asked."""
    read = call("/v1beta/models/m:generateContent", {"generationConfig": config})
    assert (read.output_cap, read.stop_sequences, read.choices, read.level) == (None, False, 1, None)


def test_a_bad_request() -> None:
    """A body that is no object is refused."""
    with pytest.raises(BadRequest, match="JSON object"):
        call("/v1beta/models/m:generateContent", [])


@pytest.mark.parametrize(
    ("fields", "deltas"),
    [
        ({"text": "Hm", "thought": True}, [Reasoning("Hm")]),
        ({"text": "Hm", "thought": False}, [Content()]),
        ({"text": "", "thoughtSignature": "x"}, []),
        ({"functionCall": {"name": "look"}}, [ToolCall()]),
        ({"toolCall": {"toolType": "X"}}, []),
        ({"inlineData": {"data": "x"}}, [Content()]),
        ({"inlineData": {"data": "x"}, "thought": True}, []),
        ({"fileData": {"fileUri": "x"}}, [Content()]),
        ({"executableCode": {"code": "x"}}, [Content()]),
        ({"codeExecutionResult": {"output": "x"}}, [Content()]),
    ],
    ids=[
        "a thought",
        "text said to be none",
        "a signature",
        "a tool of the caller",
        "a tool of the server",
        "a picture",
        "a picture in a thought",
        "a file",
        "code",
        "its result",
    ],
)
def test_a_part(fields: dict[str, Any], deltas: list[Delta]) -> None:
    """What it says."""
    assert part(**fields) == deltas


def test_a_candidate_has_a_number() -> None:
    """Its own, else its place."""
    texts = {"content": {"parts": [{"text": "Hi"}]}}
    assert event({"candidates": [texts, texts, texts | {"index": 5}]}) == [Content(), Content(1), Content(5)]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 10, "totalTokenCount": 18},
            Usage(13, 5, 10),
        ),
        ({"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8}, Usage(3, 5)),
        ({"promptTokenCount": 5, "thoughtsTokenCount": 10, "totalTokenCount": 15}, Usage(10, 5, 10)),
        ({"promptTokenCount": 5, "totalTokenCount": 5}, Usage(0, 5)),
        ({"promptTokenCount": 5, "toolUsePromptTokenCount": 4, "totalTokenCount": 9}, Usage(0, 9)),
        ({"promptTokenCount": 5, "totalTokenCount": 8}, Usage(None, 5)),
        ({"totalTokenCount": 8}, Usage(None, None)),
        ({"toolUsePromptTokenCount": 4, "candidatesTokenCount": 1}, Usage(1, 4)),
        ({"promptTokenCount": 5, "candidatesTokenCount": -1, "thoughtsTokenCount": 10}, Usage(None, 5, 10)),
        ({"promptTokenCount": 5, "candidatesTokenCount": 3, "cachedContentTokenCount": 4}, Usage(3, 5, None, 4)),
    ],
    ids=[
        "answer and thoughts",
        "no thoughts",
        "nothing but thoughts",
        "the prompt alone is no output",
        "and what tools brought",
        "more than is accounted for",
        "a total alone",
        "tools without a prompt",
        "a count that cannot be",
        "what the cache had",
    ],
)
def test_usage(counts: dict[str, int], usage: Usage) -> None:
    """Output is answer and thoughts, input is prompt and tools."""
    assert event({"usageMetadata": counts}) == [usage]


def test_stop_on_every_event_is_raised_once_on_the_last() -> None:
    """Every event leaves as it came but the one that ends the turn."""
    answer = wire("gemini", "stop-on-every-event.sse")
    *before, last = answer.frames
    played = play(answer, *(frame.raw for frame in answer.frames), cap=OutputCap(cap=60))
    assert played.out == b"".join(frame.raw for frame in before) + last.raw.replace(b"STOP", b"MAX_TOKENS")
    assert played.facts[1:] == [OutputOverran(60, 65, "upgraded"), FinishRaised("stop", "length", "over")]


def test_a_held_event_goes_unchanged_when_another_candidate_event_follows() -> None:
    """The earlier one was none."""
    answer = wire("gemini", "stop-on-every-event.sse")
    stage = Stage(GEMINI, output_cap=OutputCap(cap=61))
    first, second, third = (frame.raw for frame in answer.frames)
    assert stage.feed(first, second) == first
    assert stage.relay.holding
    assert stage.feed(third) == second
    assert stage.take(stage.relay.release()) == third.replace(b"STOP", b"MAX_TOKENS")


def test_an_answer_of_thoughts_is_promoted_at_its_end() -> None:
    """Also where every event says STOP: the text goes once, before the last one."""
    thought = (
        b'{"candidates":[{"content":{"parts":[{"text":"%s","thought":true}]},"finishReason":"STOP"}],"responseId":"r1"}'
    )
    answer = Wire(GEMINI, "", True, b"".join(b"data: " + thought % text + b"\n\n" for text in (b"It is", b" blue.")))
    first, second = (frame.raw for frame in answer.frames)
    out = play(answer, first, second, promote=True).out
    assert out.startswith(first)
    assert out.endswith(second)
    (promoted,) = frames(out[len(first) : -len(second)])
    assert dict(leaves(msgspec.json.decode(promoted.data or b""))) == {
        ".candidates.0.content.parts.0.text": "It is blue.",
        ".candidates.0.content.role": "model",
        ".candidates.0.index": 0,
        ".responseId": "r1",
    }


def test_promoted_thoughts_of_a_whole_answer() -> None:
    """The parts lose `thought` and nothing else; a candidate with an answer keeps its thoughts."""
    answer = wire("gemini", "nothing-but-thoughts.json")
    assert play(answer, promote=True).out == answer.data.replace(b',"thought":true', b"")
    two = wire("gemini", "two-candidates.json").data
    assert GEMINI.promote(two) == two.replace(b',"thought":true', b"")
    mixed = wire("gemini", "thoughts.json").data
    assert GEMINI.promote(mixed) == mixed


def test_a_blocked_prompt_cannot_be_relabelled() -> None:
    """There is no finish word to write over; beside a candidate the word of the candidate counts."""
    assert event({"promptFeedback": {"blockReason": "SAFETY"}, "candidates": [{}]}) == []
    data = wire("gemini", "blocked-prompt.json").data
    assert GEMINI.relabel(data, 0, "stop").data == data


def test_a_stream_without_events_is_not_judged() -> None:
    """It is no malformed answer either, and its outcome is good."""
    answer = wire("gemini", "array-of-events.json")
    assert list(GEMINI.read_body(answer.data)) == [Unjudged()]
    assert play(answer).outcome == "ok"


@pytest.mark.parametrize("body", [b"{}", b'{"models":[]}', b"<p>"], ids=["an empty object", "another answer", "a page"])
def test_what_is_no_answer(body: bytes) -> None:
    """Neither candidates nor a blocked prompt nor an error."""
    with pytest.raises(Malformed):
        GEMINI.read_body(body)


def test_an_error_of_our_own() -> None:
    """The HTTP status as `code`, ours in `status` and as the reason."""
    error = msgspec.json.decode(GEMINI.error_body(ThinkingOverrun("no")))["error"]
    assert (error["code"], error["status"], error["message"]) == (502, "THINKING_OVERRUN", "no")
    assert [detail["reason"] for detail in error["details"]] == ["thinking_overrun"]
