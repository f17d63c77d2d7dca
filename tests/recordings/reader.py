"""Take recorded HTTP/1.1 answers apart: status, headers, and the body in the pieces the server wrote it in."""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

LLAMA: Final = Path(__file__).parent / "llama"
"""Recordings of llama.cpp's server, a folder per build and model."""


class Request(Struct, frozen=True):
    """What was asked. `body` is JSON; None where there was none, or none that was JSON."""

    method: str
    path: str
    headers: tuple[str, ...] = ()
    body: Any = None


class Recording(Struct, frozen=True):
    """One answer. `chunks` are the HTTP chunks in order; a body that was not chunked is one."""

    name: str
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    chunks: tuple[bytes, ...]
    request: Request

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.chunks)

    @property
    def streamed(self) -> bool:
        """It is a stream of events."""
        return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in self.headers)


def read(path: Path) -> Recording:
    """Read `NAME.http` and the request beside it. Raises ValueError on bytes that are no HTTP/1.1 answer."""
    head, separator, body = path.read_bytes().partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    if not separator or version != b"HTTP/1.1":
        raise ValueError(f"{path.name} is no HTTP/1.1 answer")
    status, *lines = rest.split(b"\r\n")
    headers = tuple(_header(line) for line in lines)
    chunked = (b"transfer-encoding", b"chunked") in headers
    request = msgspec.json.decode(path.with_suffix(".request.json").read_bytes(), type=Request)
    return Recording(path.stem, int(status[:3]), headers, _chunks(body) if chunked else (body,), request)


def recordings(folder: str, pattern: str = "*") -> list[Recording]:
    """The recordings of one folder of LLAMA whose names match, in the order of their names."""
    return [read(path) for path in sorted((LLAMA / folder).glob(f"{pattern}.http"))]


def recording(folder: str, name: str) -> Recording:
    """The one recording of a folder of LLAMA with this name."""
    return read(LLAMA / folder / f"{name}.http")


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip().lower(), value.strip()


def _chunks(body: bytes) -> tuple[bytes, ...]:
    """The chunks up to the last one, or up to where the recording was broken off."""
    chunks, rest = [], body
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        chunks.append(rest[:length])
        rest = rest[length + 2 :]
    return tuple(chunks)
