"""Whole answers under a thinking cap: streamed upstream, put together here, given up as a 502 when need be."""

from typing import Any

import httpx
import pytest

from gateway.events import AttemptEnded, CallFailed, LevelAnswered, ThinkingRefused
from tests.gateway.door import House, Script, answers, fails, request, whole
from tests.gateway.plays import DONE, chunk, refusal, text, thought, usage

SETTINGS = """
[upstreams.local]
url = "http://local.test"
kind = "llama.cpp"
dialects = ["chat"]
control_timeout = 0.05
[models.m]
upstream = "local"
thinking_cap = 2
thinking_overrun = 2
levels = ["low", "high"]
"""
SUCCESS = whole({"success": True})
THOUGHTS: list[Any] = [thought("a"), thought("b"), 0.5, *[thought("c")] * 9]
"""They reach the cap, leave the control call its time, and go on."""
END = (chunk(finish="stop"), usage(9), DONE)


def house(*scripts: Script, more: str = "") -> House:
    """A gateway whose upstream answers the call with the first script, the control call with the second."""
    return House(*scripts, settings=SETTINGS + more)


def test_an_answer() -> None:
    """The caller gets one JSON body; the upstream was asked for a stream that can be controlled."""
    h = house(answers(thought("a"), text("b"), *END, headers={"x-served-by": "7"}))
    caller = h.asks(request(max_tokens=4))
    sent = h.upstream.bodies[0]
    assert (sent["stream"], sent["reasoning_control"]) == (True, True)
    message = caller.json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("a", "b")
    assert caller.json["choices"][0]["finish_reason"] == "length"
    assert caller.headers[b"content-type"] == b"application/json"
    assert caller.headers[b"x-served-by"] == b"7"
    assert h.facts.outcome == "ok"


def test_promoted() -> None:
    """Reasoning alone becomes the answer where the settings say so."""
    h = house(answers(thought("a"), *END), more='reasoning_only = "promote"\n')
    message = h.asks().json["choices"][0]["message"]
    assert (message.get("reasoning_content"), message["content"]) == (None, "a")


@pytest.mark.parametrize(
    ("control", "cause"),
    [(whole({"success": False}), "refused"), (whole({"ok": 1}), "refused"), (answers(b"{", status=500), "refused"),
     (fails(httpx.ConnectError("x")), "refused"), (fails(httpx.ReadTimeout("x")), "timeout"),
     (answers(30.0), "timeout"), (SUCCESS, None)],
    ids=["refuses", "makes no sense", "fails", "cannot be reached", "times out", "hangs", "agrees and does nothing"],
)  # fmt: skip
def test_given_up(control: Script, cause: str | None) -> None:
    """A model that thinks on is dropped; nothing has gone out, so the caller reads a 502 that names the figures."""
    h = house(answers(*THOUGHTS), control)
    caller = h.asks(x_thinkcap_facts="1")
    error = caller.json["error"]
    assert (caller.status, error["code"]) == (502, "thinking_overrun")
    assert "cap of 2 tokens fired at 2" in error["message"]
    assert f"({cause or 'kept_thinking'})" in error["message"]
    assert b'"thinking_overrun"' in caller.headers[b"x-thinkcap-facts"]
    assert h.facts.of(ThinkingRefused) == ([ThinkingRefused(cause)] if cause else [])  # type: ignore[arg-type]
    ending = h.facts.ending
    assert isinstance(ending, CallFailed)
    assert (ending.outcome, ending.turn and ending.turn.fired_at) == ("thinking_overrun", 2)
    assert h.upstream.left == 0


def test_an_upstream_that_does_not_stream() -> None:
    """JSON in place of the stream is the answer, whole as it is."""
    body = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}
    h = house(whole(body))
    assert h.asks().json == body
    assert h.facts.outcome == "ok"


def test_an_error_in_the_stream() -> None:
    """It is told whole, under its own status, and is the upstream's."""
    event = b'data: {"error":{"code":503,"message":"busy"}}\n\n'
    h = house(answers(thought("a"), event))
    caller = h.asks()
    assert (caller.status, caller.json["error"]["message"]) == (503, "busy")
    assert h.facts.outcome == "upstream_error"


@pytest.mark.parametrize("error", [httpx.ReadError("x"), httpx.ReadTimeout("x")], ids=["breaks", "falls silent"])
def test_a_broken_stream(error: Exception) -> None:
    """Half an answer is none: the caller reads an error of ours."""
    h = house(answers(thought("a"), text("b"), error))
    caller = h.asks()
    assert caller.status in {502, 504}
    assert b"upstream_" in caller.body
    assert h.facts.of(AttemptEnded)[-1].fault in {"reset", "timeout"}


def test_a_refused_level() -> None:
    """An error before the first delta may be a refused level, and is re-issued; twice refused is the first refusal."""
    refused = answers(b"data: " + httpx.Request("POST", "http://a", json=refusal("minimal")).content + b"\n\n")
    again = answers(b"data: " + httpx.Request("POST", "http://a", json=refusal("low")).content + b"\n\n")
    asked: dict[str, Any] = {"body": request(reasoning_effort="minimal"), "x_thinkcap_purpose": "compaction"}
    h = house(refused, answers(text("b"), *END))
    assert h.asks(**asked).json["choices"][0]["message"]["content"] == "b"
    assert h.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "ok")]
    h = house(refused, again)
    assert "'minimal'" in h.asks(**asked).json["error"]["message"]
    assert h.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "refused_again")]


def test_a_retried_call_that_is_given_up() -> None:
    """Its level was taken, whatever it then did."""
    h = house(whole(refusal("minimal"), 400), answers(*THOUGHTS), whole({"success": False}))
    caller = h.asks(request(reasoning_effort="minimal"), x_thinkcap_purpose="compaction")
    assert (caller.status, caller.headers[b"x-thinkcap-level"]) == (502, b"minimal->low")
    assert h.facts.of(LevelAnswered) == [LevelAnswered("minimal", "low", "ok")]
