"""How streams end, and how they count."""

import pytest

from tests.gateway.plays import DONE, Stage, chunk, sse, text, usage

HELLO, STOP = text("Hello"), chunk(finish="stop")


@pytest.mark.parametrize(
    ("frames", "outcome"),
    [
        ([HELLO, STOP, usage(3), DONE], "ok"),
        ([HELLO, DONE], "incomplete"),
        ([HELLO], "incomplete"),
        ([sse({"error": {"message": "no", "type": "overloaded"}})], "stream_error"),
        ([HELLO, sse({"object": "error", "message": "no"})], "stream_error"),
        ([HELLO, chunk(finish="error"), DONE], "stream_error"),
    ],
    ids=[
        "a whole turn",
        "a turn without a word",
        "a cut turn",
        "an error at once",
        "vLLM's flat error",
        "the word error",
    ],
)
def test_how_a_stream_counts(frames: list[bytes], outcome: str) -> None:
    """The outcome of a stream that ended by itself."""
    stage = Stage()
    stage.feed(*frames)
    stage.close()
    assert stage.relay.outcome == outcome
