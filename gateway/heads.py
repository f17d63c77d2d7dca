"""The head of a request: read in one way only, or refused. Pure."""

from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import httptools

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of a request's head, and of chunk framing and trailers in a row."""
FRAGMENT: Final = ord("#")
ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
Scope: TypeAlias = dict[str, Any]


class Ambiguous(Exception):
    """The head of a request is too long, or not plain HTTP/1.1."""


def scope_of(method: bytes, url: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> Scope:
    """What ASGI says of a request, as far as its head tells. Raises Ambiguous, and httptools' errors."""
    named, size = dict(headers), len(url) + sum(map(len, map(b"".join, headers)))
    if version not in ("1.1", "1.0") or size > MAX_HEAD_BYTES:
        raise Ambiguous
    if b"host" not in named:
        if version == "1.1":
            raise Ambiguous
    elif len(named) < len(headers) and [name for name, _ in headers].count(b"host") > 1:
        raise Ambiguous
    if b"transfer-encoding" in named:
        codings = {value.strip().lower() for name, value in headers if name == b"transfer-encoding"}
        if version == "1.0" or codings != {b"chunked"}:
            raise Ambiguous
    target = httptools.parse_url(url)
    if FRAGMENT in url:  # no target has a fragment (RFC 9112, 3.2): it would be lost here, and not elsewhere
        raise Ambiguous
    path = target.path.decode("ascii")
    return {
        "type": "http",
        "asgi": ASGI,
        "http_version": version,
        "root_path": "",
        "method": method.decode("ascii"),
        "path": unquote(path) if "%" in path else path,
        "raw_path": target.path,
        "query_string": target.query or b"",
        "headers": headers,
    }
