"""A stream on its way through one connection to an upstream and one of a caller, without sockets."""

import asyncio
from typing import Any

from gateway.caller import DEPARTURE, Caller
from gateway.connection import READ_BYTES, Connection
from gateway.http1 import Outgoing
from gateway.pump import Pump, Terms
from gateway.reads import Reads
from gateway.relay import Relay
from gateway.transport import Incoming
from tests.gateway.callers import Served, Transport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def transfer_chunk(data: bytes) -> bytes:
    """A piece of a body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Passage:
    """The upstream's connection, and an application that passes the answer on through a relay."""

    def __init__(self, relay: Relay, **limits: float) -> None:
        self.connection = Connection((b"http", b"model", 80), lambda _: None, memoryview(bytearray(READ_BYTES)))
        self.connection.connection_made(Transport())
        self.served = Served(self._answer)
        self._relay, self._limits = relay, limits

    async def _answer(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self.connection.exchange(Outgoing(b"", None, None, bodiless=False), self._limits)
        incoming, caller = Incoming(self.connection, lambda _: None), Caller(receive, send, scope[DEPARTURE])
        terms = Terms(
            start=lambda: caller.start(200, []), end_reasoning=lambda _: asyncio.Future(), refused=lambda _: False
        )
        await Pump(self._relay, Reads(incoming, incoming), caller, terms).run()
        await caller.end()

    @property
    def writes(self) -> list[bytes]:
        """What went out to the caller, a write each."""
        return self.served.transport.writes

    def come(self, data: bytes) -> None:
        """Bytes of the upstream come."""
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))
