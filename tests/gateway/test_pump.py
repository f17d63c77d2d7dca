"""The pump: what comes first of a read, a hold that ends, a control call and a silence; and that nothing is left behind."""

import asyncio
import gc
from typing import Any

import pytest

from gateway import pump, sse
from gateway.actions import Action
from gateway.dialects.base import Additions
from gateway.errors import UpstreamBroken, UpstreamError
from gateway.relay import Relay
from gateway.rules.thinking_cap import GiveUp, ThinkingCap
from tests.gateway.door import Step, run, until
from tests.gateway.plays import DONE, chunk, raised, text, thought, usage
from tests.gateway.stage import Sink, Stage

KEEP_ALIVE = b": keep-alive\n\n"
STOP = chunk(finish="stop")


@pytest.fixture(autouse=True, params=[False, True], ids=["read by read", "as it flows"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "flows", request.param)


def test_a_stream_to_its_end() -> None:
    """What one read brought goes out in one write, and the head before it."""
    stage = Stage(text("a") + text("b"), text("c"), STOP, usage(3), DONE)
    assert stage.run() is None
    assert stage.sink.pieces == [text("a") + text("b"), text("c"), STOP + usage(3), DONE]


def test_a_hold_that_is_settled() -> None:
    """A usage that says more than the cap relabels the finish that waited for it."""
    stage = Stage(text("a"), STOP, 0.01, usage(9), DONE)
    assert stage.run() is None
    assert stage.sink.body == text("a") + raised(STOP) + usage(9) + DONE


def test_a_hold_that_is_over() -> None:
    """After its time a finish goes as it came, the rest of the stream behind it."""
    late = asyncio.Event()
    stage = Stage(text("a"), STOP, late, usage(9), DONE)
    stage.terms["hold_seconds"] = 0.01

    async def main() -> None:
        pumping = asyncio.ensure_future(stage.pump())
        await until(lambda: stage.sink.body == text("a") + STOP)
        late.set()
        assert await pumping is None

    run(main())
    assert stage.sink.body == text("a") + STOP + usage(9) + DONE


def test_silence_is_filled_between_events() -> None:
    """A comment of ours never stands inside an event, nor before the head; it goes on while the upstream is silent."""
    begin, middle, end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    stage = Stage(begin, text("a"), middle, text("b")[:9], end, text("b")[9:], DONE)
    stage.terms["keepalive_seconds"] = 0.005

    async def main() -> None:
        pumping = asyncio.ensure_future(stage.pump())
        await asyncio.sleep(0.02)
        assert stage.sink.status is None
        begin.set()
        await until(lambda: stage.sink.body.count(KEEP_ALIVE) > 1)
        middle.set()
        await until(lambda: stage.sink.body.count(KEEP_ALIVE) > 3)
        end.set()
        assert await pumping is None

    run(main())
    assert stage.sink.pieces[0] == text("a")
    assert {*stage.sink.pieces} == {text("a"), KEEP_ALIVE, text("b"), DONE}
    assert stage.sink.body.replace(KEEP_ALIVE, b"") == text("a") + text("b") + DONE


def test_a_body_that_stays_open_behind_its_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given a moment, in which what still comes goes on, and is then over without it."""
    monkeypatch.setattr(pump, "LINGER", 0.05)
    for held in (STOP, chunk(finish="length")):  # the second waits for no usage: what ends the turn comes as it flows
        stage = Stage(text("a"), text("b"), held, DONE, 0.001, b": late\n\n", asyncio.Event())
        assert stage.run() is None
        assert stage.sink.body.endswith(DONE + b": late\n\n")


def test_a_break() -> None:
    """What is whole goes out, also what was held; half an event does not."""
    stage = Stage(text("a"), STOP, text("b")[:5], UpstreamBroken("no", "reset"))
    assert isinstance(stage.run(), UpstreamError)
    assert stage.sink.body == text("a") + STOP


def test_a_break_behind_the_last_event() -> None:
    """It took nothing."""
    stage = Stage(text("a"), STOP, DONE, UpstreamBroken("no", "reset"))
    assert stage.run() is None
    assert stage.sink.body == text("a") + STOP + DONE


def test_an_event_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event above the limit is a broken transport; what was held goes out before."""
    monkeypatch.setattr(sse, "LIMIT", 1000)
    for last in (STOP, text("b")):
        stage = Stage(text("a"), last, b"data: " + b"x" * 600, b"x" * 600)
        stop = stage.run()
        assert isinstance(stop, UpstreamBroken)
        assert "too large" in stop.message
        assert stage.sink.body == text("a") + last


CONTROL: dict[str, Any] = {"added": Additions(control=True)}


def capped(*steps: Step, overrun: int = 4, method: Any = "control") -> Stage:
    """A stage with a thinking cap of two tokens, one a frame."""
    return Stage(*steps, thinking=ThinkingCap(2, overrun, method), per_frame=True, **CONTROL)


def test_the_control_call() -> None:
    """The cap fires, the upstream is asked while the stream flows, and what it then says comes to its end."""
    stage = capped(thought("a"), thought("b"), 0.01, thought("c"), text("d"), STOP, DONE)
    assert stage.run() is None
    assert stage.asked == ["c1"]
    assert stage.sink.body.endswith(text("d") + STOP + DONE)


def test_a_control_call_that_is_refused() -> None:
    """Refused, and still thinking: given up with the cause, and the rest is not read."""
    stage = capped(thought("a"), thought("b"), 0.01, thought("c"), thought("d"), asyncio.Event())
    stage.reply = "refused"
    assert stage.run() == GiveUp("refused", 3)
    assert thought("d") not in stage.sink.body


def test_a_control_call_that_hangs() -> None:
    """The overrun does not wait for it: it is cancelled, and over before the pump is."""
    stage = capped(thought("a"), thought("b"), *[thought("c")] * 4, asyncio.Event())
    stage.reply = asyncio.Event()
    assert stage.run() == GiveUp("kept_thinking", 6)


def test_a_control_call_that_times_out() -> None:
    """It gives the call up by itself, also when the stream is silent."""
    stage = capped(thought("a"), thought("b"), asyncio.Event())
    stage.reply = "timeout"
    assert stage.run() == GiveUp("timeout", 2)


def test_a_slow_caller_delays_no_control_call() -> None:
    """The upstream is asked before the caller has taken the frame that fired."""
    stage = capped(thought("a") + thought("b"), text("c"), DONE)

    async def main() -> None:
        stage.sink.slow = asyncio.Event()
        pumping = asyncio.ensure_future(stage.pump())
        await until(lambda: bool(stage.asked))
        assert not stage.sink.pieces
        stage.sink.slow.set()
        assert await pumping is None

    run(main())


def test_a_caller_who_leaves() -> None:
    """A pump that is cancelled leaves no control call and no read behind."""
    stage = capped(thought("a"), thought("b"), asyncio.Event())
    stage.reply = asyncio.Event()

    async def main() -> None:
        pumping = asyncio.ensure_future(stage.pump())
        await until(lambda: bool(stage.asked))
        pumping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pumping
        assert stage.ended.is_set()
        assert len(asyncio.all_tasks()) <= 2

    run(main())


def test_give_up_without_asking() -> None:
    """Where nobody can be asked the call is dropped past cap and grace."""
    stage = capped(*[thought("a")] * 9, method="give_up")
    assert stage.run() == GiveUp("kept_thinking", 6)


def test_comments_of_facts() -> None:
    """What was stated is told behind the frames of the read that brought it."""
    told = [b"", b": fact\n\n", b""]
    stage = Stage(text("a"), text("b"), DONE)
    stage.terms["comments"] = lambda: told.pop(0) if told else b""
    assert stage.run() is None
    assert stage.sink.pieces == [text("a"), text("b"), b": fact\n\n", DONE]


def test_no_room_for_more() -> None:
    """What came is with the caller; the next is read when there is room again."""
    stage = Stage(text("a"), text("b"), 0.001, text("c"), text("d"))

    async def main() -> None:
        pumping = asyncio.ensure_future(stage.pump())
        await until(lambda: stage.sink.status is not None)
        stage.sink.slow = asyncio.Event()
        await asyncio.sleep(0.01)
        assert text("d") not in stage.sink.body
        stage.sink.slow.set()
        assert await pumping is None

    run(main())
    assert stage.sink.body == text("a") + text("b") + text("c") + text("d")


class Batch(list[Action]):
    """Actions that can be seen to be gone."""


@pytest.mark.parametrize("terms", [{}, {"comments": bytes}], ids=["a forward alone", "any other actions"])
def test_what_went_out_is_not_held_while_there_is_no_room(terms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is let go before the caller is asked for room: an event may be a megabyte, and the wait without an end."""
    held: list[object] = []
    feed = Relay.feed
    monkeypatch.setattr(Relay, "feed", lambda relay, data: Batch(feed(relay, data)))
    monkeypatch.setattr(Sink, "room", lambda _: held.extend(it for it in gc.get_objects() if isinstance(it, Batch)))
    stage = Stage(text("a"), text("b"))
    stage.terms |= terms
    assert stage.run() is None
    assert stage.sink.body == text("a") + text("b")
    assert held == []
