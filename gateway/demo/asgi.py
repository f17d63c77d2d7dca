"""The little of ASGI that the scripted server needs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from msgspec import Struct

from gateway.demo.wire import dump

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Request(Struct, frozen=True):
    """One request, read whole."""

    method: str
    path: str
    body: bytes

    @classmethod
    async def read(cls, scope: Scope, receive: Receive) -> Self:
        """Read to the end of the body."""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return cls(scope["method"], scope["path"], body)


@asynccontextmanager
async def left(receive: Receive) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the caller leaves."""
    gone = asyncio.Event()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        gone.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield gone
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def start(send: Send, status: int, media: str, *, length: int | None = None) -> None:
    """Begin an answer."""
    headers = [(b"content-type", media.encode())]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_whole(
    send: Send, status: int, media: str, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    """A whole answer."""
    fields = {"content-type": media, "content-length": str(len(body))} | dict(headers or {})
    raw = [(name.encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
    """A whole answer in JSON."""
    await send_whole(send, status, "application/json", dump(body), headers)
