"""The mask: a key is never passed on, however it is cut, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mask import Mask, mask_of

KEY = b"sk-sk-s0123456789"
STARS = b"*" * len(KEY)


@given(st.lists(st.sampled_from([KEY, KEY[:5], KEY[3:], b"s", b"sk-", b"x", b"\n\n"])), st.lists(st.integers(1, 9)))
def test_any_cut_gives_the_same_bytes(parts: list[bytes], cuts: list[int]) -> None:
    """What comes out is what a look at the whole would give, of the same length, and what waits is short."""
    whole, mask, out, at = b"".join(parts), Mask(KEY), b"", 0
    for cut in [*cuts, len(whole) + 1]:
        out += mask.feed(whole[at : at + cut])
        at += cut
        assert len(out) > min(at, len(whole)) - len(KEY)
    assert out + mask.close() == whole.replace(KEY, STARS)


def test_an_event_is_not_kept_waiting() -> None:
    """Only what may be the beginning of the key waits for the next piece."""
    mask = Mask(KEY)
    assert mask.feed(b"data: a\n\n") == b"data: a\n\n"
    assert mask.feed(b"data: sk-sk") == b"data: "
    assert mask.feed(b"y\n\n") == b"sk-sky\n\n"


@pytest.mark.parametrize("secret", [None, b"", b"none", b"sk-local"], ids=["none", "empty", "a word", "a placeholder"])
def test_placeholders_are_no_secrets(secret: bytes | None) -> None:
    """A key that is an everyday word would tear holes into answers."""
    assert mask_of(secret) is None
    assert mask_of(KEY) is not None
