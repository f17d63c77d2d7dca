"""The sender of spans: what it sends together and when, what it drops and says of it."""

import logging
import threading
from collections.abc import Iterator, Sequence
from queue import Queue

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from telemetry.records import Record, Tracing
from telemetry.sender import Outlet, Sender

LIMIT = 60.0
"""Seconds after which a test that waits has failed."""
FOREVER = 3600.0


class Outside:
    """An outlet that keeps what it is sent, and waits before each batch when it is told to."""

    def __init__(self, *, arrives: bool = True) -> None:
        self.arrives = arrives
        self.batches: Queue[list[str]] = Queue()
        self.open = threading.Event()
        self.open.set()
        self.down = 0

    def send(self, records: Sequence[Record], /) -> bool:
        """Take one batch."""
        self.batches.put([record.name for record in records])
        assert self.open.wait(LIMIT)
        return self.arrives

    def shutdown(self) -> None:
        """Let go."""
        self.down += 1
        self.open.set()

    def next(self) -> list[str]:
        """The names of the next batch."""
        return self.batches.get(timeout=LIMIT)


class Broken(Outside):
    """An outlet that fails."""

    def send(self, records: Sequence[Record], /) -> bool:
        """Fail."""
        super().send(records)
        message = "SECRET-PROMPT"
        raise RuntimeError(message)


@pytest.fixture
def senders() -> Iterator[list[Sender]]:
    """Those that a test started; all are closed."""
    started: list[Sender] = []
    yield started
    for sender in started:
        sender.close(LIMIT)


def start(senders: list[Sender], outlet: Outlet, *, room: int = 9, batch: int = 2, seconds: float = FOREVER) -> Sender:
    """A sender that will be closed."""
    senders.append(Sender(outlet, room=room, batch=batch, seconds=seconds))
    return senders[-1]


def put(sender: Sender, names: str) -> None:
    """Queue a record for each letter."""
    tracing = Tracing(TracerProvider(shutdown_on_exit=False), InstrumentationScope("t"), sender.put)
    for name in names:
        Record(tracing, name, 0, b"\1" * 16, None).end(failed=False)


def test_a_whole_batch_goes_at_once(senders: list[Sender]) -> None:
    """Nobody waits for the hour when there is enough to send; what is no whole batch stays."""
    outlet = Outside()
    sender = start(senders, outlet)
    put(sender, "abc")
    assert outlet.next() == ["a", "b"]
    put(sender, "d")
    assert outlet.next() == ["c", "d"]
    assert outlet.batches.empty()


def test_a_part_of_a_batch_goes_when_it_is_time(senders: list[Sender]) -> None:
    """A gateway with little to do is seen too."""
    outlet = Outside()
    sender = start(senders, outlet, seconds=0.01)
    put(sender, "a")
    assert outlet.next() == ["a"]
    put(sender, "b")
    assert outlet.next() == ["b"]


def test_what_comes_while_a_batch_is_sent_follows_it(senders: list[Sender]) -> None:
    """A batch that was full in the meantime waits for no further span."""
    outlet = Outside()
    outlet.open.clear()
    sender = start(senders, outlet)
    put(sender, "ab")
    assert outlet.next() == ["a", "b"]
    put(sender, "cdefg")
    outlet.open.set()
    assert [outlet.next(), outlet.next()] == [["c", "d"], ["e", "f"]]


def test_a_full_queue_drops_its_oldest(senders: list[Sender], caplog: pytest.LogCaptureFixture) -> None:
    """Each is counted, all of them are one line, and there is another line when it happens again later."""
    outlet, lost = Outside(), list[int]()
    outlet.open.clear()
    sender = start(senders, outlet, room=3)
    sender.report = lost.append
    put(sender, "ab")
    assert outlet.next() == ["a", "b"]
    put(sender, "cdefg")
    assert lost == [1, 1]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    outlet.open.set()
    assert outlet.next() == ["e", "f"]
    outlet.open.clear()
    put(sender, "h")
    assert outlet.next() == ["g", "h"]
    put(sender, "ijkl")
    assert (lost, len(caplog.records)) == ([1, 1, 1], 2)
    outlet.open.set()


@pytest.mark.parametrize(
    "outlet", [pytest.param(Outside(arrives=False), id="was not taken"), pytest.param(Broken(), id="failed")]
)
def test_a_batch_that_did_not_arrive_is_counted(
    senders: list[Sender], outlet: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    """All of it; the next one is tried again, and no message is quoted."""
    sender = start(senders, outlet)
    reported: Queue[int] = Queue()
    sender.report = reported.put
    put(sender, "abcd")
    assert [outlet.next(), outlet.next()] == [["a", "b"], ["c", "d"]]
    assert [reported.get(timeout=LIMIT), reported.get(timeout=LIMIT)] == [2, 2]
    assert "SECRET" not in caplog.text


def test_a_close_sends_what_waits(senders: list[Sender]) -> None:
    """In batches, the last one small; nothing is lost, and the outlet is shut."""
    outlet, lost = Outside(), list[int]()
    sender = start(senders, outlet, batch=4)
    sender.report = lost.append
    put(sender, "abc")
    sender.close(LIMIT)
    assert (outlet.next(), lost, outlet.down) == (["a", "b", "c"], [], 1)


def test_after_the_close_everything_is_lost(senders: list[Sender]) -> None:
    """And counted, one by one."""
    outlet, lost = Outside(), list[int]()
    sender = start(senders, outlet)
    sender.report = lost.append
    sender.close(LIMIT)
    put(sender, "ab")
    assert (lost, outlet.batches.empty()) == ([1, 1], True)


def test_a_close_does_not_wait_for_an_outlet_that_hangs(senders: list[Sender], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it never got around to is counted at the end of the wait."""
    outlet, lost = Outside(), list[int]()
    outlet.open.clear()
    sender = start(senders, outlet)
    monkeypatch.setattr(outlet, "shutdown", lambda: None)  # not even then does it let go
    monkeypatch.setattr("telemetry.sender.LAST_WORDS_SECONDS", 0.01)
    sender.report = lost.append
    put(sender, "abcde")
    assert outlet.next() == ["a", "b"]
    sender.close(0.01)
    assert lost == [3]
    outlet.open.set()
