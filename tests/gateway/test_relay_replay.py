"""Recorded streams of real llama.cpp servers through the relay: bytes, counts, firing points, however the reads fall."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from gateway.actions import EndReasoning
from gateway.dialects import DIALECTS
from gateway.dialects.base import Additions
from gateway.rules.output_cap import OutputCap
from gateway.rules.thinking_cap import GiveUp, ThinkingCap
from gateway.thinking import read_reply
from gateway.words import CapOutcome, EndResult
from tests.gateway.plays import Stage
from tests.recordings.reader import LLAMA, Recording, read, recording

SMOL, NEWER, SCRIPTED = "b11434-smollm2", "b11549-smollm2", "b11549-scripted"
STREAMS: Final = [kept for path in sorted(LLAMA.rglob("*.http")) if (kept := read(path)).streamed]
DIALECT_OF: Final = {"/v1/chat/completions": "chat", "/v1/messages": "messages", "/v1/responses": "responses"}
NEVER: Final = 10_000_000


def stage(kept: Recording, cap: int = NEVER, overrun: int = 256, **plan: Any) -> Stage:
    """A relay as the gateway would make it for this request."""
    choices = kept.request.body.get("n") or 1
    thinking = ThinkingCap(cap, overrun, "control", choices)
    dialect = DIALECTS[DIALECT_OF[kept.request.path]]  # type: ignore[index]
    return Stage(dialect, thinking=thinking, per_frame=True, output_cap=OutputCap(choices=choices), **plan)


def cut(body: bytes, size: int) -> Iterator[bytes]:
    """The body in reads of this many bytes."""
    return (body[at : at + size] for at in range(0, len(body), size))


def fields(event: bytes) -> dict[str, Any]:
    """The JSON of one event."""
    found: dict[str, Any] = msgspec.json.decode(event.partition(b"data: ")[2])
    return found


@pytest.mark.parametrize("kept", STREAMS, ids=lambda kept: kept.name)
def test_nothing_changes_on_the_way(kept: Recording) -> None:
    """Under a cap that is never reached every byte goes out as it came, byte by byte and in the server's own writes."""
    for reads in (kept.chunks, cut(kept.body, 1), cut(kept.body, 1021)):
        on = stage(kept)
        on.feed(*reads)
        turn = on.close()
        assert on.out == kept.body
        assert (on.actions, turn.malformed) == ([], 0)


def test_every_split() -> None:
    """Cut in two anywhere in its first twelve events, the stream fires at the same token and loses no byte."""
    kept = recording(SCRIPTED, "t2-loop-control")
    events = [event + b"\n\n" for event in kept.body.split(b"\n\n")[:12]]
    body, ask = b"".join(events), EndReasoning(fields(events[0])["id"])
    for at in range(len(body)):
        on = stage(kept, cap=5)
        on.feed(body[:at], body[at:])
        assert (on.out, on.actions, on.relay.fired_at) == (body, [ask], 5)


# From the stream and the control call that was made beside it: how many tokens were thought in all, what came of it.
@pytest.mark.parametrize(
    ("folder", "name", "cap", "reply", "outcome", "tokens"),
    [
        pytest.param(SCRIPTED, "t2-loop-control", 68, "ended", "ended", 199, id="the generated model is ended"),
        pytest.param(
            SCRIPTED, "t9-overrun-success-but-thinks-on", 100, "ended", "overrun", None, id="success, thinks on"
        ),
        pytest.param(SCRIPTED, "t1-short-natural", 8, "ended", "ended", None, id="thinks little"),
        pytest.param(SCRIPTED, "t3-loop-length", 30, "refused", "refused", 31, id="refused, and thinks on"),
        pytest.param(SMOL, "b1-control-ends-reasoning", 20, "ended", "ended", None, id="SmolLM2 is ended"),
        pytest.param(NEWER, "b1-control-ends-reasoning", 20, "ended", "ended", None, id="SmolLM2 on a newer build"),
        pytest.param(SMOL, "b11-control-n2", 10, "ended", "unable", None, id="two choices"),
        pytest.param(SMOL, "b10-control-thinking-disabled", 1, "ended", None, 0, id="no thinking, no call"),
    ],
)
def test_the_cap_on_recorded_streams(
    folder: str, name: str, cap: int, reply: EndResult, outcome: CapOutcome | None, tokens: int | None
) -> None:
    """The cap fires on the first frame that reaches it; what the server did then is judged as it was."""
    kept = recording(folder, name)
    on = stage(kept, cap=cap)
    for piece in kept.chunks:
        asked = len(on.actions)
        on.feed(piece)
        if len(on.actions) > asked and isinstance(on.actions[-1], EndReasoning):
            on.take(on.relay.control_answered(reply))
    turn = on.close()
    assert turn.thinking_outcome == outcome
    if outcome not in {None, "unable"}:
        assert turn.fired_at == cap
        assert sum(isinstance(action, EndReasoning) for action in on.actions) == 1
    if tokens is not None:
        assert (turn.reasoning_tokens or 0) == tokens
    if outcome == "overrun":
        assert on.actions[-1] == GiveUp("kept_thinking", cap + 256)


def test_timings_of_a_recorded_stream_are_stripped() -> None:
    """With the running count on every frame the caller gets what the stream without it has."""
    kept = recording(SCRIPTED, "w1-short-stream-timings")
    on = stage(kept, cap=5, added=Additions(control=True))
    on.feed(kept.body)
    turn = on.close()
    assert turn.fired_at == 5
    events = [event for event in on.out.split(b"\n\n") if b'"choices":[{' in event]
    timed = [event for event in events if b'"timings"' in event]
    assert all(fields(event)["choices"][0]["finish_reason"] for event in timed)
    assert kept.body.count(b'"timings"') > len(timed)


REPLIES: Final = [
    (SMOL, "b1-control-ends-reasoning.control1", "ended"),
    (SMOL, "b2-control-not-armed.control1", "refused"),
    (SMOL, "c1-control-unknown-id", "refused"),
    (SMOL, "c2-control-finished-id", "refused"),
    (SMOL, "c3-control-unknown-action", "refused"),
    (SMOL, "c7-control-bad-json", "refused"),
    (SMOL, "c10-control-get", "refused"),
    (SMOL, "c13-alias-v1-completions-control", "refused"),
    (SMOL, "m3-loading-control", "refused"),
    (SCRIPTED, "t9-overrun-success-but-thinks-on.control1", "ended"),
    (NEWER, "c1-control-unknown-id", "refused"),
]


@pytest.mark.parametrize(("folder", "name", "result"), REPLIES, ids=[f"{name} {folder}" for folder, name, _ in REPLIES])
def test_recorded_replies(folder: str, name: str, result: EndResult) -> None:
    """What the control path really says is read for what it is."""
    kept = recording(folder, name)
    assert read_reply(kept.status, kept.body) == result
