"""An upstream that repeats the key it got: in headers, errors, whole bodies and streams, coded, and as encoders write it."""

import gzip
import re
import zlib
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import zstandard

from tests.faults.link import END, Link, chunk
from tests.faults.wires import JSON

KEY: Final = re.compile(rb"sk-upstream-[0-9a-f/+=]+")
HOW: Final = re.compile(rb"\r\nx-echo: (\w+)", re.IGNORECASE)
CODINGS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"zstd": zstandard.compress,
    b"br": lambda body: body[::-1],  # stands for one that the gateway cannot undo
}
SPELLINGS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"slashes": lambda key: key.replace(b"/", b"\\/"),
    b"escapes": lambda key: key.replace(b"/", b"\\/").replace(b"+", b"\\u002B").replace(b"=", b"\\u003D"),
    b"percents": lambda key: quote(key, safe="").encode(),
}


async def echo(link: Link) -> None:
    """An answer that repeats the credentials it got: `x-echo` says how."""
    found, how = KEY.search(link.head), HOW.search(link.head)
    key, way = found[0] if found else b"none", how[1] if how else b"plain"
    key = SPELLINGS[way](key) if way in SPELLINGS else key
    body = link.body.replace(b"lo", b"lo " + key)
    more = b"X-Seen: %b\r\nSet-Cookie: k=%b\r\n" % (key, key)
    status = b"200 OK"
    if way == b"error":
        body = b'{"error":{"message":"Incorrect API key provided: %b","type":"x"}}' % key
        status = b"400 Bad Request"
    elif way in CODINGS:
        body = CODINGS[way](body)
        more += b"Content-Encoding: %b\r\n" % way
    if way == b"split":
        await link.send(link.head_of(more=more + b"Transfer-Encoding: chunked\r\n"))
        for at in range(0, len(body), 7):
            await link.send(chunk(body[at : at + 7]))
        await link.send(END)
    else:
        media = JSON if way == b"error" else None
        await link.send(link.head_of(status, media=media, more=more + b"Content-Length: %d\r\n" % len(body)), body)
