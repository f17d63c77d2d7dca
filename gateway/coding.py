"""Undoes content codings that come although none was asked for. Pure: bytes in, bytes out."""

import zlib
from typing import Final, Protocol

import zstandard


class Truncated(ValueError):
    """The coded bytes end too early, or are none of that coding."""


class Decoder(Protocol):
    """Turns coded bytes into plain ones."""

    def feed(self, data: bytes) -> bytes:
        """The plain bytes these give. Raises Truncated on bytes that are not of the coding."""

    def close(self) -> None:
        """The body has ended. Raises Truncated when the coding has not."""


class Plain:
    """No coding."""

    def feed(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    def close(self) -> None:
        """Nothing can be missing."""


class Gzip:
    """gzip (also of several members) and zlib's deflate."""

    def __init__(self) -> None:
        """Begin; 32 + 15: gzip or zlib, as the header says."""
        self._inflate = zlib.decompressobj(47)
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Inflate."""
        plain = []
        while data:
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(47)
            self._begun = True
            try:
                plain.append(self._inflate.decompress(data))
            except zlib.error as error:
                raise Truncated(str(error)) from None
            data = self._inflate.unused_data
        return b"".join(plain)

    def close(self) -> None:
        """An empty body is no gzip, and is taken for an empty one."""
        if self._begun and not self._inflate.eof:
            raise Truncated("the gzip body ends too early")


class Zstd:
    """Zstandard."""

    def __init__(self) -> None:
        """Begin."""
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Decompress."""
        plain = []
        while data:
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._begun = True
            try:
                plain.append(self._frame.decompress(data))
            except zstandard.ZstdError as error:
                raise Truncated(str(error)) from None
            data = self._frame.unused_data
        return b"".join(plain)

    def close(self) -> None:
        """The frame must be whole."""
        if self._begun and not self._frame.eof:
            raise Truncated("the zstd body ends too early")


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
