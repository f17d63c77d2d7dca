"""What the tests of the protocol towards callers share: a connection without a socket, and applications."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from gateway.protocol import CallerProtocol

App = Callable[[dict[str, Any], Any, Any], Coroutine[Any, Any, None]]
GET: Final = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"
POST: Final = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS: Final = (
    b"POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nT: x\r\n\r\n"
)
OK: Final = b"HTTP/1.1 200 OK\r\n"


class Transport(asyncio.Transport):
    """Keeps what was written, one item a write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.calls: list[str] = []

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return "close" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default


class Served:
    """One connection to an application, and the scopes the application got."""

    def __init__(self, app: App, *, patience: float = 60) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.state = ServerState()

        async def kept(scope: dict[str, Any], receive: Any, send: Any) -> None:
            self.scopes.append(scope)
            await app(scope, receive, send)

        config = uvicorn.Config(kept, interface="asgi3", lifespan="off", log_config=None, timeout_keep_alive=1)
        config.load()
        config.timeout_keep_alive = patience  # type: ignore[assignment]  # fractions, so that no test waits
        self.protocol = CallerProtocol(config, self.state, {})
        self.transport = Transport()
        self.protocol.connection_made(self.transport)

    async def feed(self, *pieces: bytes) -> bytes:
        """Bytes come in; what goes out within a few turns of the loop."""
        for piece in pieces:
            self.protocol.data_received(piece)
            await turns()
        return self.out

    def closed(self) -> bool:
        """The connection is given up."""
        return self.transport.is_closing()

    def reads(self) -> bool:
        """Bytes of the caller are taken."""
        return [call for call in self.transport.calls if call != "close"][-1:] != ["pause"]

    @property
    def out(self) -> bytes:
        """All that went out."""
        return b"".join(self.transport.writes)


async def turns(times: int = 8) -> None:
    """Let what is ready run."""
    for _ in range(times):
        await asyncio.sleep(0)


def answers(*pieces: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = (), read: bool = True) -> App:
    """An application that reads the request, if it is to, and answers in these pieces."""

    async def app(_scope: dict[str, Any], receive: Any, send: Any) -> None:
        if read:
            await body(receive)
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def body(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bytes:
    """The whole request body."""
    got, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        got, more = got + message["body"], message["more_body"]
    return got


def length(number: int) -> tuple[tuple[bytes, bytes], ...]:
    """A content-length alone."""
    return ((b"content-length", b"%d" % number),)
