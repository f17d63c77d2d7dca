"""Codings that come although none was asked for are undone, and one that is cut short is a fault."""

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.coding import Coded, Decoder, Truncated, Zstd, decoder

LARGE = 32 * 1024 * 1024

CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"": lambda data: data,
    b"identity": lambda data: data,
    b"gzip": gzip.compress,
    b"X-GZIP ": lambda data: gzip.compress(data[:5]) + gzip.compress(data[5:]),
    b"deflate": zlib.compress,
    b"zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def all_of(undo: Decoder, coded: Coded) -> bytes:
    """What these bytes give, however often they have to be offered."""
    plain = b""
    while coded:
        more, coded = undo.feed(coded)
        plain += more
    return plain


@pytest.mark.parametrize("coding", CODINGS)
@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 300), max_size=5))
def test_the_plain_bytes_come_back(coding: bytes, data: bytes, cuts: list[int]) -> None:
    """However the coded bytes are cut into reads."""
    coded = CODINGS[coding](data)
    undo = decoder(coding)
    assert undo is not None
    places = sorted({0, len(coded), *(cut for cut in cuts if cut < len(coded))})
    plain = b"".join(all_of(undo, coded[start:end]) for start, end in pairwise(places))
    undo.close()
    assert plain == data


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"zstd"])
def test_a_body_cut_short_is_a_fault(coding: bytes) -> None:
    """Half an answer is no answer."""
    undo = decoder(coding)
    assert undo is not None
    undo.feed(CODINGS[coding](b"x" * 1000)[:-3])
    with pytest.raises(Truncated):
        undo.close()


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_other_bytes_are_a_fault(coding: bytes) -> None:
    """What says it is coded must be."""
    undo = decoder(coding)
    assert undo is not None
    with pytest.raises(Truncated):
        undo.feed(b"<html>no such coding</html>")


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_an_empty_body_is_empty(coding: bytes) -> None:
    """A HEAD or a 204 may name a coding."""
    undo = decoder(coding)
    assert undo is not None
    assert undo.feed(b"") == (b"", b"")
    undo.close()


@pytest.mark.parametrize("coding", [b"gzip", b"X-GZIP ", b"deflate", b"zstd"])
def test_a_bomb_goes_off_bit_by_bit(coding: bytes) -> None:
    """What is undone at one time is bounded, whatever it stands for; nothing is lost by that."""
    undo, left, size = decoder(coding), memoryview(CODINGS[coding](b"x" * LARGE)), 0
    assert undo is not None
    while left:
        plain, rest = undo.feed(left)
        left = memoryview(rest)
        assert len(plain) < 330 * 1024
        size += len(plain)
    undo.close()
    assert size == LARGE


def test_a_window_beyond_what_http_allows() -> None:
    """A zstd body that wants 128 MB remembered is not begun (RFC 9659)."""
    large = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressing = zstandard.ZstdCompressor(compression_params=large).compressobj()
    coded = compressing.compress(b"x" * 1000) + compressing.flush()
    with pytest.raises(Truncated):
        all_of(Zstd(), coded)


@pytest.mark.parametrize("padding", [b"\0", b"\0" * 700, b"\r\n", b"trailing"], ids=repr)
@pytest.mark.parametrize("coding", [b"gzip", b"X-GZIP ", b"deflate", b"zstd"])
@pytest.mark.parametrize("apart", [True, False], ids=["in a read of its own", "in one read"])
def test_padding_is_left_out(coding: bytes, padding: bytes, apart: bool) -> None:
    """As gzip(1) does: what stands behind the last part and is none takes nothing from it, however it was cut."""
    undo, coded = decoder(coding), CODINGS[coding](b"a whole answer")
    assert undo is not None
    plain = b"".join(all_of(undo, data) for data in ([coded, padding] if apart else [coded + padding]))
    undo.close()
    assert plain == b"a whole answer"


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_what_came_before_a_fault_is_given_first(coding: bytes) -> None:
    """A part that is broken takes nothing from those before it; then the fault is told, and told again."""
    undo, whole = decoder(coding), CODINGS[coding](b"said")
    assert undo is not None
    plain, left = undo.feed(whole + whole[:4] + b"\xff" * 300)
    assert plain == b"said"
    for _ in range(2):
        with pytest.raises(Truncated):
            undo.feed(left)
        with pytest.raises(Truncated):
            undo.close()


def test_an_unknown_coding_is_nobodys() -> None:
    """Whoever asks passes such a body on unread."""
    assert decoder(b"br") is None
    assert decoder(None) is not None
