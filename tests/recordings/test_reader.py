"""Every recording can be read, and reads as what it is."""

from pathlib import Path

import msgspec
import pytest

from tests.recordings.reader import LLAMA, read, recording

ALL = sorted(LLAMA.rglob("*.http"))


def test_there_are_recordings() -> None:
    """The suite would be green without a single one."""
    assert len(ALL) > 100


@pytest.mark.parametrize("path", [pytest.param(path, id=f"{path.parent.name} {path.stem}") for path in ALL])
def test_every_recording_is_an_answer(path: Path) -> None:
    """Status, headers and body of each recording are there, and nothing of the machine it was made on."""
    kept = read(path)
    assert 200 <= kept.status < 600
    assert (b"server", b"llama.cpp") in kept.headers
    assert kept.chunks
    assert b"/home/" not in kept.body
    if not kept.streamed:
        msgspec.json.decode(kept.body)


def test_chunks_are_those_of_the_server() -> None:
    """The first chunk of a stream holds two events, the last one the end mark."""
    stream = recording("b11434-smollm2", "a1-stream-reasoning-then-content")
    assert stream.streamed
    assert stream.chunks[0].count(b"\n\n") == 2
    assert stream.chunks[-1] == b"data: [DONE]\n\n"
    assert stream.request.body["max_tokens"] == 120


def test_a_whole_body_is_one_chunk() -> None:
    """An answer with a content length is read as it stands."""
    whole = recording("b11434-smollm2", "d1-nonstream")
    assert (len(whole.chunks), whole.streamed) == (1, False)
    assert msgspec.json.decode(whole.body)["object"] == "chat.completion"


def test_what_is_no_answer_is_refused(tmp_path: Path) -> None:
    """Bytes that are no HTTP/1.1 answer are no recording."""
    path = tmp_path / "x.http"
    path.write_bytes(b"HTTP/2 200\r\n\r\n")
    with pytest.raises(ValueError, match=r"no HTTP/1\.1 answer"):
        read(path)
