"""The callers: the same calls every time, all of them, and the settings that go with them."""

import asyncio
import signal
import subprocess
import sys
from importlib.resources import files
from itertools import islice

import pytest

from gateway.config import parse_settings
from gateway.demo.asked import Wish
from gateway.demo.play import SETTINGS, local_settings
from gateway.demo.scripts import SCRIPTS
from gateway.demo.traffic import MIX, Callers, Card, cards
from gateway.demo.upstream import listening, running
from gateway.words import DIALECTS

HAND = sum(habit.weight for habit in MIX.values())


def test_the_same_seed_gives_the_same_calls() -> None:
    """Two runs can be compared; another seed is another run."""
    first, again, other = (list(islice(cards(seed), 2 * HAND)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_hand_has_every_kind_of_call() -> None:
    """Whoever plays one hand has met each model of the mix as often as it says, in all dialects, streamed and whole."""
    hand = list(islice(cards(), HAND))
    assert {card.wish.model for card in hand} == set(MIX)
    assert {card.wish.dialect for card in hand} == set(DIALECTS)
    assert {card.wish.stream for card in hand} == {True, False}
    for model, habit in MIX.items():
        assert sum(card.wish.model == model for card in hand) == habit.weight


def test_a_real_server_gets_its_calls_too() -> None:
    """Extra cards are in each hand."""
    extra = Card(wish=Wish(dialect="chat", model="live"))
    assert extra in list(islice(cards(extra=(extra,)), HAND + 1))


def test_the_settings_hold_for_compose_and_for_one_machine() -> None:
    """The file is valid as it is; here it listens on 127.0.0.1 only, calls our server and sends traces nowhere."""
    shipped = parse_settings(files("gateway.demo").joinpath(SETTINGS).read_text(encoding="utf-8"), {})
    local = parse_settings(local_settings("http://127.0.0.1:1"), {})
    assert {up.url for up in shipped.upstreams.values()} == {"http://upstream:9000"}
    assert {up.url for up in local.upstreams.values()} == {"http://127.0.0.1:1"}
    assert (shipped.server.host, shipped.server.metrics_host, shipped.telemetry.traces) == (
        "0.0.0.0",
        "0.0.0.0",
        "otlp",
    )
    assert (local.server.host, local.server.metrics_host, local.telemetry.traces) == ("127.0.0.1", "127.0.0.1", "off")


def test_settings_and_scripts_agree() -> None:
    """Every model of the settings is one the server has, its upstream speaks every dialect it is called in."""
    settings = parse_settings(local_settings("http://127.0.0.1:1"), {})
    assert set(settings.models) <= set(SCRIPTS)
    for name, model in settings.models.items():
        assert set(SCRIPTS[name].dialects) <= set(settings.upstreams[model.upstream].dialects), name


def test_callers_read_answers_and_leave_some() -> None:
    """A whole hand at once, against the server itself: all calls are answered, endless ones are left in the end."""

    async def call(url: str) -> Callers:
        callers = Callers(url, patience=1.0)
        await callers.call_until(asyncio.Event(), rate=10_000, most=HAND)
        return callers

    with running(pace=0) as url:
        callers = asyncio.run(asyncio.wait_for(call(url), 60))
    assert (callers.calls, callers.unanswered) == (HAND, 0)


def test_a_gateway_that_is_away_is_no_reason_to_stop() -> None:
    """Calls that get no answer are counted, and the next one is made."""

    async def call(url: str) -> Callers:
        callers = Callers(url)
        await callers.call_until(asyncio.Event(), rate=10_000, most=5)
        return callers

    with listening() as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    callers = asyncio.run(asyncio.wait_for(call(url), 60))
    assert (callers.calls, callers.unanswered) == (5, 5)


def test_it_runs_by_itself_until_it_is_told_to_stop() -> None:
    """As a process of its own it ends by a signal with status 0 and says how many calls it made."""
    with running(pace=0) as url:
        command = [sys.executable, "-m", "gateway.demo.traffic", "--gateway", url, "--rate", "50"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own callers
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(3)
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert int(said.split()[0]) > 10


def test_no_rate_is_no_traffic() -> None:
    """A rate of 0 is refused."""
    command = [sys.executable, "-m", "gateway.demo.traffic", "--rate", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own callers
    assert done.returncode == 2
