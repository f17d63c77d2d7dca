"""Sends records in batches, from a thread of its own. No call waits for it, and what is lost is counted to the span."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread
from typing import Final, Protocol

from telemetry.records import Record

LOG: Final = logging.getLogger(__name__)
LAST_WORDS_SECONDS: Final = 1.0
"""How long a sender that was told to give up may take to do so."""


class Outlet(Protocol):
    """Where batches go."""

    def send(self, records: Sequence[Record], /) -> bool:
        """Send one, and wait; whether it arrived."""

    def shutdown(self) -> None:
        """Send no more; what waits gives up."""


class Sender:
    """A bounded queue before an outlet. A full one drops its oldest: the newest are what somebody will look for."""

    def __init__(self, outlet: Outlet, *, room: int, batch: int, seconds: float) -> None:
        """Queue at most `room` records, send `batch` at once, and what there is every `seconds`."""
        self._outlet, self._room, self._batch, self._seconds = outlet, room, batch, seconds
        self._queue: deque[Record] = deque()
        self._lock = Lock()
        self._wake = Event()
        self._stopping = self._said_full = False
        self.report: Callable[[int], None] = lambda _lost: None
        """Told how many are lost, whenever some are; from any thread."""
        self._thread = Thread(target=self._work, name="thinkcap-spans", daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Queue one; never waits."""
        queue = self._queue
        with self._lock:
            queue.append(record)
            waiting = len(queue)
            lost = waiting > self._room
            if lost:
                queue.popleft()
        if waiting == self._batch:
            self._wake.set()
        if lost:
            self._lost_one()

    def flush(self) -> None:
        """Send what is queued, from this thread."""
        while self._send(least=1):
            pass

    def close(self, seconds: float) -> None:
        """Send what is queued, but return after `seconds` or little more; what could not be sent is lost."""
        self._stopping = True
        self._wake.set()
        self._thread.join(seconds)
        self._outlet.shutdown()  # wakes a retry that waits; the rest of the queue then fails at once
        self._thread.join(LAST_WORDS_SECONDS)
        with self._lock:
            self._room, lost = 0, len(self._queue)  # what comes from now on finds none, and is lost
            self._queue.clear()
        if lost:
            self.report(lost)

    def _work(self) -> None:
        while not self._stopping:
            woken = self._wake.wait(self._seconds)
            self._wake.clear()
            more = self._send(least=self._batch if woken else 1)
            while more and not self._stopping:
                more = self._send(least=self._batch)
        self.flush()

    def _send(self, *, least: int) -> bool:
        """Send one batch if so many wait; whether there was one."""
        with self._lock:
            if len(self._queue) < least:
                return False
            size = min(self._batch, len(self._queue))
            records = [self._queue.popleft() for _ in range(size)]
        arrived = False
        try:
            arrived = self._outlet.send(records)
        except Exception as error:  # noqa: BLE001 - whatever cannot be sent, the next batch may be
            LOG.error("a batch of spans could not be sent: %s", type(error).__name__)  # noqa: TRY400 - a trace may quote what a span holds
        if arrived:
            self._said_full = False
        else:
            self.report(size)
        return True

    def _lost_one(self) -> None:
        self.report(1)
        if not self._said_full:
            self._said_full = True
            LOG.warning("spans come faster than the receiver takes them: the oldest are dropped")
