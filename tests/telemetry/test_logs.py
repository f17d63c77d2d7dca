"""The log: JSON, one line per named fact and per ended call, and nothing in it that is nobody's business."""

import asyncio
import logging
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import BinaryIO, cast

import msgspec
import pytest
import structlog

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
from telemetry.logs import Lines as LinesOut
from telemetry.logs import TracingWarnings, json_log
from telemetry.observer import Telemetry
from tests.telemetry.conftest import Lines
from tests.telemetry.plays import SERIES, STARTED, Clock, call, ordinary, play, routed, turn


def test_an_ordinary_call_is_one_line(telemetry: Telemetry, lines: Lines, clock: Clock) -> None:
    """Who, where, how long and how it went, once; what is not known is left out."""
    observer = telemetry.open(STARTED)
    for fact in ordinary():
        clock.now += 0.5
        observer.note(fact)
    (line,) = lines.read_all()
    assert list(line)[:3] == ["event", "time", "severity"]
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


def test_times_are_told_to_the_microsecond(telemetry: Telemetry, lines: Lines, clock: Clock) -> None:
    """A line is read by people, too: nobody wants the last bits of a clock."""
    observer = telemetry.open(STARTED)
    for fact in ordinary():
        observer.note(fact)
        clock.now += 1 / 3
    (line,) = lines.read_all()
    assert (line["seconds"], line["first_token_seconds"]) == (2.0, 1.333333)


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
    handler = TracingWarnings(json_log(lines))
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("receiver %s is away", "x" * 500)
        logger.info("not this")
    finally:
        logger.removeHandler(handler)
    (line,) = lines.read_all()
    assert (line["event"], line["severity"], len(line["says"])) == ("tracing.trouble", "warning", 128)


def lines_to(kept: list[bytes], moment: float) -> LinesOut:
    """Lines that are kept, write by write."""
    return LinesOut(cast("BinaryIO", SimpleNamespace(write=kept.append, flush=lambda: None)), moment)


def test_lines_of_one_moment_leave_together() -> None:
    """In a loop they wait for each other and go out in one write; outside each goes at once; none is lost."""
    kept: list[bytes] = []
    lines = lines_to(kept, 0.01)
    lines.msg(b"before")
    assert kept == [b"before\n"]

    async def moments() -> None:
        for moment in (b"first", b"second"):
            lines.msg(b"a")
            lines.msg(moment)
            seen = len(kept)
            async with asyncio.timeout(20):
                while len(kept) == seen:  # noqa: ASYNC110 - a list, which sets no event
                    await asyncio.sleep(0.001)
        lines.msg(b"last")

    asyncio.run(moments())
    assert kept == [b"before\n", b"a\nfirst\n", b"a\nsecond\n"]
    lines.flush()
    lines.flush()
    assert kept[3:] == [b"last\n"]


def test_a_log_of_no_moment_waits_for_nothing() -> None:
    """A stream that was handed in gets each line at once, in a loop too."""
    kept: list[bytes] = []
    lines = lines_to(kept, 0.0)

    async def turn() -> None:
        lines.msg(b"a")
        assert kept == [b"a\n"]

    asyncio.run(turn())


def test_a_thread_beside_the_loop_waits_for_nobody() -> None:
    """What the sender of spans says goes out at once, and what waits stays the loop's own."""
    kept: list[bytes] = []
    lines = lines_to(kept, 3600.0)

    async def turn() -> None:
        lines.msg(b"a call")
        thread = threading.Thread(target=lines.msg, args=(b"a warning",))
        thread.start()
        thread.join()
        assert kept == [b"a warning\n"]

    asyncio.run(turn())
    lines.flush()
    assert kept == [b"a warning\n", b"a call\n"]


def test_the_last_line_of_a_process_is_written() -> None:
    """A loop that is closed runs no timers any more: what waits goes out as the process ends."""
    script = """
import asyncio
from telemetry.logs import json_log
async def main():
    json_log().info("last")
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=60)  # noqa: S603 - this interpreter, and a script of ours
    assert msgspec.json.decode(done.stderr)["event"] == "last"


def test_a_log_with_processors_of_its_own_gets_the_same_line(lines: Lines, clock: Clock) -> None:
    """Whatever pipeline a log has, every line of a call goes through it."""
    seen: list[dict[str, object]] = []

    def keep(_logger: object, severity: str, line: object) -> str:
        seen.append(dict(line) | {"severity": severity})  # type: ignore[call-overload]  # structlog hands a dict
        raise structlog.DropEvent

    foreign = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    play(Telemetry(SERIES, log=foreign, clock=clock), (*ordinary()[:2], LevelRefused("minimal"), *ordinary()[2:]))
    play(
        Telemetry(SERIES, log=json_log(lines), clock=clock), (*ordinary()[:2], LevelRefused("minimal"), *ordinary()[2:])
    )
    plain = [{key: value for key, value in line.items() if key != "time" and value is not None} for line in seen]
    assert plain == [{key: value for key, value in line.items() if key != "time"} for line in lines.read_all()]
