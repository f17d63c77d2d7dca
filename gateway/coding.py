"""Undoes content codings that come although none was asked for. Pure: bytes in, bytes out."""

import zlib
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import zstandard

Coded: TypeAlias = bytes | memoryview
MOST: Final = 64 * 1024
"""Plain bytes that are enough for one time."""
WINDOW: Final = 8 * 1024 * 1024
"""What a zstd body may have its reader remember (RFC 9659); left alone it is sixteen times as much."""


class Truncated(ValueError):
    """The coded bytes end too early, or are none of that coding."""


class Decoder(Protocol):
    """Turns coded bytes into plain ones."""

    def feed(self, data: Coded) -> tuple[bytes, Coded]:
        """Plain bytes, and the coded ones left for the next time. Raises Truncated on bytes not of the coding."""

    def close(self) -> None:
        """The body has ended. Raises Truncated when the coding has not."""


class Plain:
    """No coding."""

    def feed(self, data: Coded) -> tuple[bytes, Coded]:
        """The same bytes."""
        return bytes(data), b""

    def close(self) -> None:
        """Nothing can be missing."""


class _Stepwise:
    """Bytes are undone a few at a time, for a few can stand for very many: what is given stays below 330 KiB.

    What was undone before a fault is given before the fault is told.
    """

    NAME: ClassVar[str]
    STEP: ClassVar[int]
    """Coded bytes: of gzip each gives a thousand at most, and every four of zstd 128 KiB."""
    FURTHER: ClassVar[bytes]
    """What a further part may begin with: padding behind the last one is no part, and left out as gzip(1) does."""
    ERROR: ClassVar[type[Exception]]

    def __init__(self) -> None:
        """Begin."""
        self._part = self._new()
        self._begun = self._over = False
        self._fault: Truncated | None = None

    def _new(self) -> Any:
        raise NotImplementedError

    def feed(self, data: Coded) -> tuple[bytes, Coded]:
        """Undo the coding of one part after the other."""
        if self._fault is not None:
            raise self._fault
        plain: list[bytes] = []
        size = at = 0
        while at < len(data) and size < MOST:
            if self._part.eof:
                self._over = self._over or data[at] not in self.FURTHER
                if self._over:
                    at = len(data)
                    break
                self._part = self._new()
            self._begun = True
            step = data[at : at + self.STEP]
            try:
                plain.append(self._part.decompress(step))
            except self.ERROR as error:
                self._fault = Truncated(str(error))
                if not plain:
                    raise self._fault from None
                break
            at += len(step) - len(self._part.unused_data)
            size += len(plain[-1])
        return b"".join(plain), data[at:]

    def close(self) -> None:
        """An empty body is of no coding, and is taken for an empty one."""
        if self._fault is not None:
            raise self._fault
        if self._begun and not self._part.eof:
            raise Truncated(f"the {self.NAME} body ends too early")


class Gzip(_Stepwise):
    """gzip (also of several members) and zlib's deflate."""

    NAME, STEP, FURTHER, ERROR = "gzip", 256, b"\x1f", zlib.error

    def _new(self) -> Any:
        return zlib.decompressobj(47)  # 32 + 15: gzip or zlib, as the header says


class Zstd(_Stepwise):
    """Zstandard."""

    NAME, STEP, FURTHER, ERROR = "zstd", 8, bytes((0x28, *range(0x50, 0x60))), zstandard.ZstdError

    def _new(self) -> Any:
        return zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()


PLAIN: Final = Plain()
KINDS: Final[dict[bytes, type[Plain | Gzip | Zstd]]] = {
    b"": Plain,
    b"identity": Plain,
    b"gzip": Gzip,
    b"x-gzip": Gzip,
    b"deflate": Gzip,
    b"zstd": Zstd,
}


def decoder(coding: bytes | None) -> Decoder | None:
    """For the value of `content-encoding`; None for one nobody here knows."""
    if coding is None:
        return PLAIN
    kind = KINDS.get(coding.strip().lower())
    return kind() if kind is not None else None
