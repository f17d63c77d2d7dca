"""The log: JSON, one line per named fact and per ended call, and nothing in it that is nobody's business."""

import asyncio
import logging
from types import SimpleNamespace
from typing import BinaryIO, cast

import pytest

from gateway.events import (
    CallAbandoned,
    CallFailed,
    CallFinished,
    CallReceived,
    CallStarted,
    Ending,
    FirstToken,
    LevelRefused,
    OutputOverran,
    Turn,
)
from telemetry.logs import OncePerTurn, SdkWarnings, json_log
from telemetry.observer import Telemetry
from tests.telemetry.conftest import Lines
from tests.telemetry.plays import STARTED, Clock, call, ordinary, play, routed, turn


def test_an_ordinary_call_is_one_line(telemetry: Telemetry, lines: Lines, clock: Clock) -> None:
    """Who, where, how long and how it went, once; what is not known is left out."""
    observer = telemetry.open(STARTED)
    for fact in ordinary():
        clock.now += 0.5
        observer.note(fact)
    (line,) = lines.read_all()
    assert line.pop("time").endswith("Z")
    assert line == {
        "event": "call.ended",
        "severity": "info",
        "method": "POST",
        "route": "/v1/chat/completions",
        "dialect": "chat",
        "upstream": "up",
        "model": "m-think",
        "purpose": "conversation",
        "outcome": "ok",
        "status": 200,
        "seconds": 3.0,
        "first_token_seconds": 2.0,
        "reported": "stop",
        "returned": "stop",
        "verdict": "under",
        "output_cap": 64,
        "input_tokens": 9,
        "output_tokens": 12,
        "reasoning_tokens": 5,
    }


def test_a_named_fact_is_a_line_at_its_own_moment(telemetry: Telemetry, lines: Lines) -> None:
    """The name and the attributes are those callers and spans use."""
    observer = telemetry.open(STARTED)
    observer.note(routed(call()))
    observer.note(OutputOverran(64, 80, "upgraded"))
    (line,) = lines.read_all()
    assert (line["event"], line["cap"], line["used"], line["verdict"]) == ("output_cap.overrun", 64, 80, "upgraded")
    assert (line["upstream"], line["model"]) == ("up", "m-think")


@pytest.mark.parametrize(
    ("ending", "outcome", "code"),
    [
        pytest.param(
            CallFailed(outcome="refused", status=413, code="body_too_large"), "refused", "body_too_large", id="failed"
        ),
        pytest.param(CallAbandoned(), "client_gone", None, id="abandoned before any head"),
        pytest.param(CallFinished(outcome="upstream_error", status=503), "upstream_error", None, id="finished badly"),
    ],
)
def test_every_ending_is_a_line(
    telemetry: Telemetry, lines: Lines, ending: Ending, outcome: str, code: str | None
) -> None:
    """However a call ends, it ends in the log."""
    play(telemetry, (CallReceived(), ending))
    (line,) = lines.read_all()
    assert (line["outcome"], line.get("code"), line.get("status")) == (outcome, code, ending.status)


def test_no_line_holds_content_keys_or_the_query(telemetry: Telemetry, lines: Lines) -> None:
    """The call's body, headers and query stay out of every line."""
    play(telemetry, (*ordinary()[:2], LevelRefused("minimal"), *ordinary()[2:]))
    assert len(lines.read_all()) == 2
    assert b"SECRET" not in lines.getvalue()


def test_a_strange_model_is_logged_bounded_and_readable(telemetry: Telemetry, lines: Lines) -> None:
    """A raw name may be long, hold line ends and broken characters; the line stays one line of JSON."""
    name = "m\n\ud800" + "x" * 5000
    play(telemetry, (routed(call(name), model="other"), CallFinished(outcome="ok", status=200, turn=turn())))
    (line,) = lines.read_all()
    assert line["model"] == "m\n?" + "x" * 125


def test_a_monstrous_number_costs_itself_and_not_the_line(telemetry: Telemetry, lines: Lines) -> None:
    """A count beyond 64 bits is left out."""
    play(telemetry, (routed(call()), CallFinished(outcome="ok", status=200, turn=Turn(reasoning_tokens=10**30))))
    (line,) = lines.read_all()
    assert "reasoning_tokens" not in line


def test_the_callers_trace_id_is_logged_without_tracing(telemetry: Telemetry, lines: Lines) -> None:
    """Where the caller traces and we do not, its id still joins the logs; a header that is none does not."""
    for header in (f"00-{'ab' * 16}-{'cd' * 8}-01", f"00-{'0' * 32}-{'cd' * 8}-01", "junk", ""):
        started = CallStarted(dialect="chat", method="POST", route="/x", traceparent=header)
        play(telemetry, (FirstToken(), CallAbandoned()), started)
    assert [line.get("trace_id") for line in lines.read_all()] == ["ab" * 16, None, None, None]


def test_warnings_of_the_sdk_become_lines(lines: Lines) -> None:
    """What the tracing SDK says through `logging` stands in the same log, bounded."""
    logger = logging.getLogger("tests.sdk")
    handler = SdkWarnings(json_log(lines))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("receiver %s is away", "x" * 500)
        logger.info("not this")
    finally:
        logger.removeHandler(handler)
    (line,) = lines.read_all()
    assert (line["event"], line["severity"], len(line["says"])) == ("tracing.trouble", "warning", 128)


def test_lines_of_one_turn_leave_together() -> None:
    """In a loop they wait for its turn to end and go out in one write; outside each goes at once; none is lost."""
    kept: list[bytes] = []
    stream = SimpleNamespace(write=kept.append, flush=lambda: None)
    lines = OncePerTurn(cast("BinaryIO", stream))
    lines.write(b"before\n")
    assert kept == [b"before\n"]

    async def turn() -> None:
        lines.write(b"a\n")
        lines.write(b"b\n")
        assert kept == [b"before\n"]
        await asyncio.sleep(0)
        assert kept == [b"before\n", b"a\nb\n"]
        lines.write(b"last\n")

    asyncio.run(turn())
    assert kept == [b"before\n", b"a\nb\n", b"last\n"]
