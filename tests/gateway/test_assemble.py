"""A body put together from a stream, against the server's own body for the same request."""

import json
from typing import Any

import pytest

from gateway.assemble import Assembler
from gateway.sse import FrameReader
from tests.recordings.reader import LLAMA, recording

SMOL, SCRIPTED = "b11434-smollm2", "b11549-scripted"
UNLIKE = {"id", "created", "timings"}
"""Differ from call to call; their presence and place do not."""

PAIRS = [
    pytest.param(SMOL, "a1-stream-reasoning-then-content", "d1-nonstream", id="reasoning, then text"),
    pytest.param(SMOL, "e4-stream-eos-in-reasoning-stop", "e3-nonstream-eos-in-reasoning-stop", id="no text at all"),
    *(
        pytest.param(SCRIPTED, f"{name}-stream", f"{name}-whole", id=sentence)
        for name, sentence in [
            ("w1-short", "scripted reasoning, then text"),
            ("w2-emoji", "a character of several tokens"),
            ("w3-calls", "a tool call"),
            ("w4-logprobs", "logprobs"),
            ("w5-n2", "two choices"),
            ("w6-length", "the cap inside the reasoning"),
            ("w7-thinking-off", "no reasoning"),
            ("w9-logprobs-n2", "logprobs of two choices"),
        ]
    ),
]


def assemble(*pieces: bytes) -> Assembler:
    """Put together what a stream of these pieces says."""
    assembler, reader = Assembler(), FrameReader()
    for piece in pieces:
        for frame in reader.feed(piece):
            assembler.feed(frame)
    for frame in reader.close():
        assembler.feed(frame)
    return assembler


def chunks(*values: dict[str, Any]) -> bytes:
    """A stream of these chunks."""
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + b"data: [DONE]\n\n"


def like(value: Any, name: str = "") -> Any:
    """The value with what differs from call to call taken out, and its fields in the order they stand in."""
    if isinstance(value, dict):
        return [(key, None if key in UNLIKE else like(inner, key)) for key, inner in value.items()]
    if isinstance(value, list):
        return [like(inner) for inner in value if not _untold(inner)]
    return None if name == "cached_tokens" else value


def _untold(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("token") in {"</think>", ""} and "logprob" in entry


@pytest.mark.parametrize(("folder", "streamed", "whole"), PAIRS)
def test_a_body_is_the_servers_own(folder: str, streamed: str, whole: str) -> None:
    """Field by field and in the same order the body is what the server writes when it is not streamed."""
    stream, own = recording(folder, streamed), recording(folder, whole)
    ours = json.loads(assemble(*stream.chunks).body())
    theirs = json.loads(own.body)
    assert like(ours) == like(theirs)
    assert [*ours["timings"]] == [*theirs["timings"]]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("f1-timings-per-token", id="timings on every frame"),
        pytest.param("f12-logprobs-stream", id="logprobs"),
        pytest.param("e5-stop-string-in-reasoning", id="a stop string"),
    ],
)
def test_a_body_of_every_kind_of_stream(name: str) -> None:
    """Whatever the caller asked to be told on the way, the body has the fields of a body and the last timings."""
    stream = recording(SMOL, name)
    body = json.loads(assemble(*stream.chunks).body())
    assert [*body] == ["choices", "created", "model", "system_fingerprint", "object", "usage", "id", "timings"]
    assert body["timings"]["predicted_n"] == body["usage"]["completion_tokens"]


def test_progress_is_for_streams_alone() -> None:
    """What the caller was told of the prompt on the way, and a usage nobody asked for, are not in the body."""
    body = json.loads(assemble(*recording(SMOL, "f2-return-progress").chunks).body())
    assert [*body] == ["choices", "created", "model", "system_fingerprint", "object", "id", "timings"]
    assert body["choices"][0]["message"]["role"] == "assistant"


def test_reads_do_not_matter() -> None:
    """Byte by byte the same body comes out."""
    stream = recording(SCRIPTED, "w3-calls-stream").body
    assert assemble(*(stream[n : n + 1] for n in range(len(stream)))).body() == assemble(stream).body()


def test_numbers_stay_as_written() -> None:
    """No digit of a number is lost or added."""
    stream = recording(SCRIPTED, "w1-short-stream").body
    timings = stream.rpartition(b'"timings":')[2].partition(b"}")[0]
    assert b'"timings":' + timings + b"}}" in assemble(stream).body()


def test_tool_calls_are_merged_by_index() -> None:
    """Calls whose pieces alternate come out whole, in the order of their indices."""
    pieces = [
        {"index": 1, "id": "b", "type": "function", "function": {"name": "two", "arguments": ""}},
        {"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": "{"}},
        {"index": 2, "id": "c", "type": "function", "function": {"name": "three"}},
        {"index": 1, "function": {"arguments": "[]"}},
        {"index": 0, "function": {"arguments": "}"}},
    ]
    stream = chunks(*({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces))
    message = json.loads(assemble(stream).body())["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"type": "function", "function": {"name": "one", "arguments": "{}"}, "id": "a"},
        {"type": "function", "function": {"name": "two", "arguments": "[]"}, "id": "b"},
        {"type": "function", "function": {"name": "three", "arguments": ""}, "id": "c"},
    ]


def test_a_finish_word_stays() -> None:
    """A frame after the finish that says no word takes none away."""
    after = {"choices": [{"index": 0, "delta": {}, "finish_reason": None}]}
    stream = chunks({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}, after)
    assert json.loads(assemble(stream).body())["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="at once"),
        pytest.param([{"choices": [{"index": 0, "delta": {"reasoning_content": "a"}}]}], id="in the middle"),
    ],
)
def test_an_error_is_the_body(before: list[dict[str, Any]]) -> None:
    """An error event instead of an answer, or of the rest of it, is what the caller gets."""
    error = {"error": {"code": 500, "message": "gone", "type": "server_error"}}
    assembler = assemble(chunks(*before, error))
    assert assembler.error == assembler.body() == json.dumps(error).encode()


def test_a_stream_that_broke_off_has_no_finish_word() -> None:
    """No finish reason is invented for an answer that did not end."""
    stream = recording(SCRIPTED, "w1-short-stream").chunks[:6]
    body = json.loads(assemble(*stream).body())
    assert body["choices"][0]["finish_reason"] is None
    assert "usage" not in body


def test_unreadable_frames_say_nothing() -> None:
    """Comments, HTML and JSON of another shape or without a bottom leave the body as it is."""
    stream = recording(SCRIPTED, "w1-short-stream").body
    noise = b': ping\n\ndata: <html>\n\ndata: [1]\n\ndata: {"choices": 3}\n\ndata: \xff\n\n'
    deep = b'data: {"a":' + b"[" * 100_000 + b"\n\n"
    assert assemble(noise, deep, stream).body() == assemble(stream).body()


def test_every_recorded_stream_gives_a_body() -> None:
    """Each chat stream on record comes out as a completion with its text, and a finish word if it had one."""
    names = [(path.parent.name, path.stem) for path in sorted(LLAMA.rglob("*.http"))]
    streams = [kept for folder, name in names if (kept := recording(folder, name)).streamed]
    chats = [kept for kept in streams if kept.request.path == "/v1/chat/completions"]
    assert len(chats) > 40
    for kept in chats:
        body = json.loads(assemble(*kept.chunks).body())
        assert body["object"] == "chat.completion"
        assert body["choices"], kept.name
