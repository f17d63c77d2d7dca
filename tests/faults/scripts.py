"""What an upstream does, by name: answers well, breaks off, stalls, lies about lengths, repeats what it was told."""

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable
from typing import Final

from tests.faults.link import END, PIECE, Link, chunk
from tests.faults.wires import EVENTS, JSON, REFUSAL, _chunk

OK: Final = b"HTTP/1.1 200 OK\r\n"
HUGE: Final = 64 * 1024 * 1024
LARGE: Final = 1024 * 1024
"""Bytes of text in a large event."""
Script = Callable[[Link], Awaitable[None]]
SCRIPTS: Final[dict[str, Script]] = {}


def script(function: Script) -> Script:
    """A script, by the name of its function."""
    SCRIPTS[function.__name__] = function
    return function


async def well(link: Link) -> None:
    """An answer, piece by piece."""
    await link.send(link.head_of(), *(chunk(part) for part in link.parts), END)


script(well)


@script
async def slow_headers(link: Link) -> None:
    """The head comes byte by byte."""
    head = link.head_of()
    for at in range(0, len(head), 8):
        await link.send(head[at : at + 8])
        await asyncio.sleep(0.01)
    await link.send(chunk(link.body), END)


@script
async def no_headers(link: Link) -> None:
    """Nothing comes."""
    await link.wait()


@script
async def stall_in_headers(link: Link) -> None:
    """Half a head comes."""
    await link.send(OK + b"Content-Ty")
    await link.wait()


@script
async def stall_in_body(link: Link) -> None:
    """The answer begins, then silence."""
    await link.send(link.head_of(), chunk(link.spoken))
    await link.wait()


@script
async def stall_at_end(link: Link) -> None:
    """Everything but what follows the finish word comes, then silence."""
    events = link.wire.events
    ends = {"chat": 4, "messages": len(events), "responses": len(events), "gemini": len(events)}[link.dialect]
    await link.send(link.head_of(), chunk(b"".join(events[:ends])))
    await link.wait()


@script
async def patient(link: Link) -> None:
    """The answer begins, and ends when the test says so."""
    await link.send(link.head_of(), chunk(link.parts[0]))
    await link.seen.go_on.wait()
    await link.send(*(chunk(part) for part in link.parts[1:]), END)


@script
async def reset_before_headers(link: Link) -> None:
    """RST instead of a head."""
    link.reset()


@script
async def reset_before_events(link: Link) -> None:
    """RST behind the head."""
    await link.send(link.head_of())
    await asyncio.sleep(0.05)
    link.reset()


@script
async def reset_inside_event(link: Link) -> None:
    """RST within a piece."""
    await link.send(link.head_of(), chunk(link.spoken + link.parts[-1][:10]))
    await asyncio.sleep(0.05)
    link.reset()


@script
async def reset_between_events(link: Link) -> None:
    """RST behind a piece."""
    await link.send(link.head_of(), chunk(link.spoken))
    await asyncio.sleep(0.05)
    link.reset()


@script
async def end_inside_chunk(link: Link) -> None:
    """A clean end of the connection within a chunk."""
    await link.send(link.head_of(), chunk(link.spoken), b"ff\r\nhalf")
    link.writer.close()


@script
async def gzip_whole(link: Link) -> None:
    """Gzip that nobody asked for."""
    data = gzip.compress(link.body)
    await link.send(link.head_of(more=b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(data)), data)


@script
async def gzip_truncated(link: Link) -> None:
    """Gzip that ends too early, cleanly framed."""
    data = gzip.compress(link.body)[:-12]
    await link.send(link.head_of(more=b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(data)), data)


@script
async def length_short(link: Link) -> None:
    """A length that is less than the body."""
    body = link.body
    await link.send(link.head_of(more=b"Content-Length: %d\r\n" % len(link.spoken)) + body)
    await link.wait()


@script
async def length_long(link: Link) -> None:
    """A length that is more than the body."""
    body = link.spoken
    await link.send(link.head_of(more=b"Content-Length: %d\r\n" % (len(body) + 9)) + body)
    link.writer.close()


@script
async def http_1_0(link: Link) -> None:
    """A body that ends with the connection."""
    await link.send(link.head_of(version=b"1.0", more=b"Connection: close\r\n") + link.body)
    link.writer.close()


@script
async def informational(link: Link) -> None:
    """1xx heads before the answer."""
    await link.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
    await well(link)


@script
async def switching(link: Link) -> None:
    """A protocol that nobody asked for."""
    await link.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
    await link.wait()


@script
async def no_content(link: Link) -> None:
    """204, with a type and a length that it may not have."""
    await link.send(link.head_of(b"204 No Content", more=b"Content-Length: 5\r\n"))
    await link.wait()


@script
async def strange_status(link: Link) -> None:
    """A status outside HTTP's classes."""
    await link.send(link.head_of(b"799 Odd", more=b"Content-Length: 2\r\n") + b"{}")


@script
async def redirect(link: Link) -> None:
    """Somewhere else, on this very server."""
    await link.send(
        link.head_of(
            b"307 Temporary Redirect", media=JSON, more=b"Location: /well.elsewhere/v1\r\nContent-Length: 2\r\n"
        )
        + b"{}"
    )


@script
async def huge_headers(link: Link) -> None:
    """A head without end."""
    await link.send(OK)
    with contextlib.suppress(ConnectionError):
        while True:
            await link.send(b"X-Filler: " + b"x" * 1000 + b"\r\n")
    link.seen.closed_at = asyncio.get_running_loop().time()


@script
async def huge_event(link: Link) -> None:
    """64 MB in one event, or in one body."""
    await link.send(link.head_of())
    with contextlib.suppress(ConnectionError):
        await link.send(chunk(b'data: {"x":"' if link.stream else b'{"x":"'))
        for _ in range(HUGE // PIECE):
            await link.send(chunk(b"x" * PIECE))
        await link.send(chunk(b'"}\n\n' if link.stream else b'"}'), END)
    await link.wait()


@script
async def endless(link: Link) -> None:
    """A stream without end."""
    event = link.wire.events[1] if link.stream else b" " * 4096
    await link.send(link.head_of())
    link.seen.arrived.set()
    with contextlib.suppress(ConnectionError):
        while True:
            await link.send(chunk(event * 16))
            await asyncio.sleep(0)
    link.seen.closed_at = asyncio.get_running_loop().time()


@script
async def endless_large(link: Link) -> None:
    """A stream without end, of events of a megabyte."""
    event = _chunk({"content": "x" * LARGE})
    await link.send(link.head_of())
    link.seen.arrived.set()
    with contextlib.suppress(ConnectionError):
        while True:
            await link.send(chunk(event))


@script
async def refuse_then_stall(link: Link) -> None:
    """A refusal of the level, then silence for the second attempt."""
    if len(link.seen.requests) == 1:
        await link.send(
            link.head_of(b"400 Bad Request", media=JSON, more=b"Content-Length: %d\r\n" % len(REFUSAL)) + REFUSAL
        )
    else:
        await link.wait()


@script
async def think(link: Link) -> None:
    """Reasoning without end; a control call is never answered."""
    if "/control" in link.target:
        link.seen.arrived.set()
        await link.reader.read(1)
        return
    await link.send(link.head_of(media=EVENTS))
    with contextlib.suppress(ConnectionError):
        while True:
            await link.send(chunk(_chunk({"reasoning_content": "hm "})))
            await asyncio.sleep(0.005)
    link.seen.closed_at = asyncio.get_running_loop().time()
