"""The Responses dialect: what its answers come to, what is read of a request, what is written."""

from typing import Any

import msgspec
import pytest

from gateway.deltas import Content, Delta, Reasoning, ToolCall, Unjudged
from gateway.dialects import DIALECTS
from gateway.dialects.base import Malformed
from gateway.errors import BadRequest, Overloaded
from gateway.rules.output_cap import OutputCap
from gateway.sse import Frame
from tests.gateway.dialects.wires import Told, frames, play, told, unlisted, wire

RESPONSES = DIALECTS["responses"]
TABLE = {
    "approval-asked-for.json": Told(
        said="completed", reason="tool_calls", tokens=(90, 30, 0, 0), thought=(0, "upstream")
    ),
    "cancelled.json": Told(said="cancelled", reason="other"),
    "client-runs-tool-search.json": Told(
        said="completed", reason="tool_calls", tokens=(9, 30, 0, 0), thought=(0, "upstream")
    ),
    "completed-that-was-cut.sse": Told(
        said="max_output_tokens", reason="length", tokens=(4, 30, 0, 0), thought=(0, "upstream")
    ),
    "custom-tool-call.sse": Told(said="completed", reason="tool_calls", tokens=(9, 30, 0, 0), thought=(0, "upstream")),
    "cut-at-the-cap.sse": Told(
        said="max_output_tokens", reason="length", tokens=(64, 30, 60, 0), thought=(60, "upstream")
    ),
    "error-flat.sse": Told(reason="missing", outcome="stream_error"),
    "error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "error-nested.sse": Told(reason="missing", outcome="stream_error"),
    "events-of-the-future.sse": Told(said="completed", tokens=(3, 30, 0, 0), thought=(0, "upstream")),
    "failed.json": Told(said="failed", reason="error", outcome="upstream_error"),
    "failed.sse": Told(
        said="failed", reason="error", outcome="stream_error", tokens=(4, 30, 0, 0), thought=(0, "upstream")
    ),
    "filtered.sse": Told(said="content_filter", reason="content_filter", tokens=(4, 30, 0, 0), thought=(0, "upstream")),
    "flat-error-in-200.json": Told(reason="missing", outcome="upstream_error"),
    "function-call.json": Told(said="completed", reason="tool_calls", tokens=(90, 30, 70, 0), thought=(70, "upstream")),
    "function-call.sse": Told(said="completed", reason="tool_calls", tokens=(90, 30, 70, 0), thought=(70, "upstream")),
    "hosted-tool.sse": Told(said="completed", tokens=(70, 30, 0, 0), thought=(0, "upstream")),
    "in-progress.json": Told(reason="missing"),
    "incomplete-said-length.json": Told(
        said="length", reason="length", tokens=(100, 30, 80, 0), thought=(80, "upstream")
    ),
    "incomplete-without-reason.json": Told(
        said="incomplete", reason="length", tokens=(100, 30, 0, 0), thought=(0, "upstream")
    ),
    "known-event-of-no-shape.sse": Told(said="completed", tokens=(3, 30, 0, 0), thought=(0, "upstream"), malformed=1),
    "llama-completed-at-the-cap.json": Told(
        said="completed", tokens=(24, 30, None, 29), thought=(30, "estimated"), only_thought=True
    ),
    "llama-completed-at-the-cap.sse": Told(
        said="completed", tokens=(24, 30, None, 29), thought=(30, "estimated"), only_thought=True
    ),
    "no-deltas.sse": Told(said="completed", tokens=(9, 30, 0, 0), thought=(0, "upstream")),
    "nothing-but-reasoning.json": Told(
        said="completed", tokens=(9, 30, 0, 0), thought=(1, "estimated"), only_thought=True
    ),
    "nothing-but-reasoning.sse": Told(
        said="completed", tokens=(9, 30, 0, 0), thought=(2, "estimated"), only_thought=True
    ),
    "picture.json": Told(said="completed", tokens=(9, 30, 0, 0), thought=(0, "upstream")),
    "queued-then-cut.sse": Told(reason="missing", outcome="incomplete"),
    "queued.json": Told(reason="missing"),
    "refusal.sse": Told(said="completed", tokens=(5, 30, 0, 0), thought=(0, "upstream")),
    "server-runs-tool-search.json": Told(said="completed", tokens=(9, 30, 0, 0), thought=(0, "upstream")),
    "steered.json": Told(said="steered", reason="other", tokens=(100, 30, 0, 0), thought=(0, "upstream")),
    "summary-before-its-text.sse": Told(said="completed", tokens=(60, 30, None, 0), thought=(11, "estimated")),
    "summary.sse": Told(said="completed", tokens=(60, 30, 50, 0), thought=(50, "upstream")),
    "text-and-summary-of-it.sse": Told(said="completed", tokens=(60, 30, None, 0), thought=(11, "estimated")),
    "text.json": Told(said="completed", tokens=(300, 30, 290, 0), thought=(290, "upstream")),
    "text.sse": Told(said="completed", tokens=(300, 30, 290, 16), thought=(290, "upstream")),
}


@pytest.mark.parametrize("name", TABLE)
def test_what_an_answer_comes_to(name: str) -> None:
    """A row per wire file: words, outcome, tokens, reasoning."""
    assert told(wire("responses", name)) == TABLE[name]


def test_every_file_has_a_row() -> None:
    """No file is looked at by the laws alone."""
    assert unlisted("responses", TABLE) == set()


def event(kind: str, **fields: Any) -> list[Delta]:
    """What one event says."""
    data = msgspec.json.encode({"type": kind, **fields})
    return list(RESPONSES.read_frame(Frame(b"", kind.encode(), data)))


def test_a_request() -> None:
    """Model, stream, cap and level."""
    body = b'{"model":"m","stream":true,"max_output_tokens":64,"reasoning":{"effort":"high"},"stop":["."]}'
    read = RESPONSES.read_call("/v1/responses", b"", (), body)
    assert (read.model, read.stream, read.output_cap, read.level) == ("m", True, 64, "high")
    assert (read.stop_sequences, read.choices, read.body) == (False, 1, body)


@pytest.mark.parametrize("body", [b"7", b'{"model":[]}'], ids=["a number", "a model that is no string"])
def test_a_bad_request(body: bytes) -> None:
    """It is refused before any upstream is asked."""
    with pytest.raises(BadRequest):
        RESPONSES.read_call("/v1/responses", b"", (), body)


@pytest.mark.parametrize(
    ("kind", "fields", "deltas"),
    [
        ("response.output_text.delta", {"delta": "Hi"}, [Content()]),
        ("response.output_text.delta", {"delta": ""}, []),
        ("response.refusal.delta", {"delta": "No"}, [Content()]),
        ("response.audio.transcript.delta", {"delta": "Hi"}, [Content()]),
        ("response.reasoning_text.delta", {"delta": "Hm"}, [Reasoning("Hm")]),
        ("response.reasoning_summary_text.delta", {"delta": "Hm"}, [Reasoning("Hm", summary=True)]),
        ("response.reasoning_text.delta", {"delta": {}}, []),
        ("response.reasoning_text.done", {"text": "Hm"}, []),
        ("response.function_call_arguments.delta", {"delta": "{"}, [ToolCall()]),
        ("response.custom_tool_call_input.delta", {"delta": "x"}, [ToolCall()]),
        ("response.mcp_call_arguments.delta", {"delta": "{"}, []),
        ("response.output_item.added", {"item": {"type": "apply_patch_call"}}, [ToolCall()]),
        ("response.output_item.added", {"item": {"type": "mcp_call"}}, []),
        ("response.output_item.added", {}, []),
        ("response.completed", {}, []),
    ],
    ids=[
        "text",
        "empty text",
        "a refusal",
        "speech",
        "reasoning",
        "a summary of it",
        "reasoning that is no text",
        "what was told already",
        "a function call",
        "a custom tool call",
        "a hosted tool",
        "an item the caller acts on",
        "an item of a hosted tool",
        "an item of nothing",
        "an end of nothing",
    ],
)
def test_an_event(kind: str, fields: dict[str, Any], deltas: list[Delta]) -> None:
    """What it says."""
    assert event(kind, **fields) == deltas


def test_an_event_without_a_type() -> None:
    """Nothing is said, nothing is wrong."""
    assert list(RESPONSES.read_frame(Frame(b"", None, b"{}"))) == []


def test_a_stop_past_the_cap_is_written_in_four_places() -> None:
    """Event name, type, status and details; the items keep their own status."""
    answer = wire("responses", "text.sse")
    out = play(answer, cap=OutputCap(cap=256)).out
    *same, last = frames(out)
    assert [frame.raw for frame in same] == [frame.raw for frame in answer.frames[:-1]]
    value = msgspec.json.decode(last.data or b"")
    assert (last.event, value["type"]) == (b"response.incomplete", "response.incomplete")
    assert value["response"]["status"] == "incomplete"
    assert value["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert value["response"]["output"][0]["status"] == "completed"


def test_llama_cpp_gets_the_field_it_leaves_out() -> None:
    """Without incomplete_details a caller could not tell why."""
    answer = wire("responses", "llama-completed-at-the-cap.json")
    value = msgspec.json.decode(play(answer, cap=OutputCap(cap=24)).out)
    assert (value["status"], value["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_an_event_without_a_name_gets_none() -> None:
    """Some cousins leave the event line out; the type says it."""
    answer = wire("responses", "text.sse")
    bare = b"".join(b"data: " + (frame.data or b"") + b"\n\n" for frame in answer.frames)
    out = play(answer, bare, cap=OutputCap(cap=256)).out
    assert b"event:" not in out
    assert b'"type":"response.incomplete"' in out


def test_a_cut_turn_may_be_told_as_whole() -> None:
    """An operator's map takes the details away again."""
    answer = wire("responses", "incomplete-said-length.json")
    value = msgspec.json.decode(play(answer, cap=OutputCap(overrides={"length": "stop"})).out)
    assert (value["status"], value["incomplete_details"]) == ("completed", None)


@pytest.mark.parametrize("name", ["queued.json", "in-progress.json"])
def test_an_answer_that_is_yet_to_come_is_not_judged(name: str) -> None:
    """It was accepted: no turn is missing a word or its usage."""
    answer = wire("responses", name)
    assert list(RESPONSES.read_body(answer.data)) == [Unjudged()]
    assert play(answer).outcome == "ok"


def test_promoted_reasoning_of_a_whole_answer() -> None:
    """A message behind the reasoning items, which keep what is encrypted in them."""
    value = msgspec.json.decode(play(wire("responses", "nothing-but-reasoning.json"), promote=True).out)
    first, second, message = value["output"]
    assert (first["content"], first["summary"], first["encrypted_content"]) == ([], [], "c2VjcmV0")
    assert (second["content"], second["summary"]) == ([], [])
    assert (message["type"], message["content"][0]["text"]) == ("message", "It is blue.")


def test_a_stream_is_not_promoted() -> None:
    """It leaves as it came."""
    answer = wire("responses", "nothing-but-reasoning.sse")
    assert play(answer, promote=True).out == answer.data


@pytest.mark.parametrize("body", [b"{}", b'{"data":[]}', b"[]"], ids=["an empty object", "another answer", "an array"])
def test_what_is_no_answer(body: bytes) -> None:
    """Neither output nor status nor an error."""
    with pytest.raises(Malformed):
        RESPONSES.read_body(body)


def test_an_error_of_our_own() -> None:
    """Whole like OpenAI's, in a stream flat."""
    error = Overloaded("no")
    said = {"message": "no", "type": "server_error", "param": None, "code": "overloaded"}
    assert msgspec.json.decode(RESPONSES.error_body(error)) == {"error": said}
    (frame,) = frames(RESPONSES.error_event(error))
    flat = {"type": "error", "code": "overloaded", "message": "no", "param": None, "sequence_number": 0}
    assert (frame.event, msgspec.json.decode(frame.data or b"")) == (b"error", flat)
