"""Bodies of answers on their way: decoded, rejoined, put together from a stream."""

from collections.abc import AsyncIterator
from typing import Final, Self, TypeAlias

import msgspec

from gateway.assemble import Assembler
from gateway.calls import header
from gateway.coding import Coded, Decoder, Plain, Truncated, decoder
from gateway.errors import UpstreamBroken
from gateway.mask import mask_of
from gateway.sse import FrameReader
from gateway.upstream import UpstreamAnswer

Chunks: TypeAlias = AsyncIterator[bytes]

ERRORS: Final = range(400, 600)
EVENT_STREAM: Final = b"text/event-stream"
FIELDS: Final = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How an event stream may begin."""
LONGEST_FIELD: Final = max(map(len, FIELDS))
BEGINNING: Final = 4096
"""Bytes of a body that are looked at for them."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
REDACTED: Final = b"[redacted]"
"""Stands where an error quoted an upstream's key."""


class Parts:
    """Stands where the caller would: keeps the frames of a stream and makes a whole body of them."""

    status: int | None = None
    push: None = None

    def __init__(self) -> None:
        """Begin with nothing."""
        self._reader, self._assembler = FrameReader(), Assembler()

    async def start(self) -> None:
        """Nothing goes out yet."""

    def room(self) -> None:
        """There is room."""

    async def write(self, data: bytes, *, together: bool = False) -> None:  # noqa: ARG002 - nothing goes out
        """Keep what the relay forwards."""
        for frame in self._reader.feed(data):
            self._assembler.feed(frame)

    @property
    def error(self) -> bytes | None:
        """The error that came instead of an answer."""
        return self._assembler.error

    def body(self) -> bytes:
        """The whole body."""
        for frame in self._reader.close():
            self._assembler.feed(frame)
        return self._assembler.body()


def status_of(error: bytes) -> int:
    """The status the server would have given this error in a whole answer."""
    try:
        said = msgspec.json.decode(error)["error"]["code"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return 500
    return said if isinstance(said, int) and said in ERRORS else 500


def is_event_stream(media: bytes | None) -> bool:
    """Whether the `content-type` names an event stream."""
    return media is not None and media.split(b";")[0].strip().lower() == EVENT_STREAM


async def sniffed(chunks: Chunks) -> tuple[bool, Chunks]:
    """Whether a body is an event stream in truth, and the body.

    Some servers send no type for a stream that was asked for, some call it JSON or text. Its first line tells: no JSON
    and no HTML begins with the name of a field.
    """
    parts: list[bytes] = []
    begun = first = b""
    async for chunk in chunks:
        parts.append(chunk)
        begun = (begun + chunk)[:BEGINNING]
        first = begun.removeprefix(BYTE_ORDER_MARK).lstrip()
        if len(first) >= LONGEST_FIELD or len(begun) == BEGINNING:
            break
    return first.startswith(FIELDS), chain(parts, chunks)


def coding_of(answer: UpstreamAnswer) -> Decoder | None:
    """How the body is coded; None: in a way nobody here can undo.

    Raises UpstreamBroken for the latter where a key may stand in it: no coding was asked for.
    """
    coding = decoder(header(answer.headers, b"content-encoding"))
    if coding is None and answer.secret is not None:
        raise UpstreamBroken(f"upstream {answer.name} answered in a content coding that nobody asked for", "protocol")
    return coding


def decoded(answer: UpstreamAnswer, coding: Decoder) -> AsyncIterator[bytes]:
    """The body without its coding. Raises UpstreamError, also for a coding that ends too early."""
    return answer if isinstance(coding, Plain) else Decoded(answer, coding)


class Decoded:
    """A body whose coding is undone on the way."""

    __slots__ = ("_answer", "_coded", "_coding", "_mask")

    def __init__(self, answer: UpstreamAnswer, coding: Decoder) -> None:
        """Decode this body."""
        self._answer, self._coding, self._mask = answer, coding, mask_of(answer.secret)
        self._coded: Coded = b""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            try:
                if not self._coded:
                    self._coded = memoryview(await anext(self._answer))
                data, self._coded = self._coding.feed(self._coded)
                return data if self._mask is None else self._mask.feed(data)
            except StopAsyncIteration:
                self._coding.close()
                held = self._mask.close() if self._mask is not None else b""
                if held:
                    return held
                raise
        except Truncated as error:
            raise UpstreamBroken(f"upstream {self._answer.name}: {error}", "protocol") from None


async def chain(parts: list[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What was read already, then the rest."""
    while parts:  # what was taken is not kept: it may be much
        yield parts.pop(0)
    async for chunk in chunks:
        yield chunk


async def redacted(chunks: AsyncIterator[bytes], secret: bytes) -> AsyncIterator[bytes]:
    """The body without an upstream's key, also where that falls between two pieces."""
    held = b""
    async for chunk in chunks:
        held = (held + chunk).replace(secret, REDACTED)
        ready = len(held) - len(secret) + 1
        if ready > 0:
            yield held[:ready]
            held = held[ready:]
    if held:
        yield held
