"""The books of the connection pool: synchronous and without I/O; what is to be closed is handed back, not closed.

While a request waits no connection is idle and every slot is taken, so nobody can overtake.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import httpx

from gateway.connection import Connection, Origin


class Pool:
    """Which connection a request gets. Synchronous; every method returns what is to be closed."""

    def __init__(self, max_connections: int, keepalive_expiry: float, make: Callable[[Origin], Connection]) -> None:
        """Take the limits (connections over all origins, seconds of idleness) and how a connection is made."""
        self._make = make
        self._max_connections = max_connections
        self._keepalive_expiry = keepalive_expiry
        self._connections: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._waiters: OrderedDict[asyncio.Future[Connection], Origin] = OrderedDict()

    @property
    def open(self) -> int:
        """Connections that hold a slot: being opened, in an exchange, idle."""
        return len(self._connections)

    @property
    def idle(self) -> int:
        """Connections between two exchanges."""
        return sum(map(len, self._idle.values()))

    def assign(self, origin: Origin, now: float) -> tuple[Connection | None, list[Connection]]:
        """The connection last used, else a new one (not opened yet), else None: the request has to wait."""
        closing: list[Connection] = []
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.closed and now - connection.idle_since < self._keepalive_expiry:
                return connection, closing
            self._connections.discard(connection)
            closing.append(connection)
        if len(self._connections) >= self._max_connections:
            if (oldest := self._oldest()) is None:
                return None, closing
            self.forget(oldest)
            closing.append(oldest)
        return self._new(origin), closing

    def wait(self, origin: Origin) -> asyncio.Future[Connection]:
        """A place in the queue, first come first served. Cancel it to leave."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = origin
        return waiter

    def leave(self, waiter: asyncio.Future[Connection]) -> None:
        """Give up a place in the queue."""
        self._waiters.pop(waiter, None)

    def release(self, connection: Connection, now: float) -> list[Connection]:
        """An exchange is over: the connection goes to whoever waits, or rests, or is given up."""
        waiter = self._next_waiter()
        if connection.reusable:
            connection.rest(now)
            if waiter is None:
                self._idle.setdefault(connection.origin, []).append(connection)
                return []
            if self._waiters[waiter] == connection.origin:
                del self._waiters[waiter]
                waiter.set_result(connection)
                return []
        self._connections.discard(connection)
        if waiter is not None:
            waiter.set_result(self._new(self._waiters.pop(waiter)))
        return [connection]

    def replace(self, connection: Connection) -> Connection:
        """A new connection in the slot of one that turned out to be closed."""
        self._connections.discard(connection)
        return self._new(connection.origin)

    def forget(self, connection: Connection) -> None:
        """An idle connection is gone."""
        idle = self._idle.get(connection.origin, [])
        if connection in idle:
            idle.remove(connection)
            self._connections.discard(connection)
            if not idle:
                del self._idle[connection.origin]

    def expire(self, now: float) -> tuple[list[Connection], float | None]:
        """What has been idle too long, and when to ask again (None: nothing is idle)."""
        closing: list[Connection] = []
        while (oldest := self._oldest()) is not None:
            due = oldest.idle_since + self._keepalive_expiry
            if due > now:
                return closing, due
            self.forget(oldest)
            closing.append(oldest)
        return closing, None

    def clear(self) -> list[Connection]:
        """Everything there is; who waits gets a ConnectError."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(httpx.ConnectError("the transport is closed"))
        closing = list(self._connections)
        for books in (self._waiters, self._idle, self._connections):
            books.clear()
        return closing

    def _new(self, origin: Origin) -> Connection:
        connection = self._make(origin)
        self._connections.add(connection)
        return connection

    def _oldest(self) -> Connection | None:
        return min((idle[0] for idle in self._idle.values() if idle), key=lambda c: c.idle_since, default=None)

    def _next_waiter(self) -> asyncio.Future[Connection] | None:
        while self._waiters:
            waiter = next(iter(self._waiters))
            if not waiter.done():
                return waiter
            del self._waiters[waiter]
        return None
