"""The mask: a key is never passed on, however it is cut, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mask import Mask, mask_of, spellings

KEY = b"sk-sk-s0123456789"
STARS = b"*" * len(KEY)
AWKWARD = b'sk-"0/1\\2+3=4&5%6=='


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


@pytest.mark.parametrize("key", [KEY, b"AIza_0123456789-abc.~"], ids=["of one kind", "of another"])
def test_a_plain_key_is_spelt_one_way(key: bytes) -> None:
    """What vendors hand out today is left alone by every encoder, so nothing else is looked for."""
    assert spellings(key) == (key,)


@pytest.mark.parametrize(
    "spelt",
    [
        pytest.param(AWKWARD, id="as it is"),
        pytest.param(rb"sk-\"0/1\\2+3=4&5%6==", id="JSON"),
        pytest.param(rb"sk-\"0\/1\\2+3=4&5%6==", id="JSON of PHP"),
        pytest.param(rb"sk-\"0/1\\2\u002b3\u003d4\u00265%6\u003d\u003d", id="JSON for HTML"),
        pytest.param(rb"sk-\"0\/1\\2\u002B3\u003D4\u00265%6\u003D\u003D", id="JSON for HTML in capitals"),
        pytest.param(b"sk-%220%2F1%5C2%2B3%3D4%265%256%3D%3D", id="a parameter of a URL"),
        pytest.param(b"sk-%220/1%5c2%2b3%3d4%265%256%3d%3d", id="a path, in lower case"),
    ],
)
def test_encoders_spellings(spelt: bytes) -> None:
    """Stars stand in place of what encoders make of a key, as many as it has bytes."""
    assert spelt in spellings(AWKWARD)
    mask = Mask(AWKWARD)
    out = b"".join(mask.feed(bytes([byte])) for byte in b"a" + spelt + b"z") + mask.close()
    assert out == b"a" + b"*" * len(spelt) + b"z"


PARTS = st.sampled_from([*spellings(AWKWARD), AWKWARD[:7], AWKWARD[5:], b"sk-", b'sk-\\"', b"%", b"\\u00", b"x"])


@given(st.lists(PARTS, max_size=6), st.lists(st.integers(1, 9)))
def test_no_spelling_gets_through_any_cut(parts: list[bytes], cuts: list[int]) -> None:
    """However it is cut, none comes out, every length stays, and what is no key is not touched."""
    whole, mask, out, at = b"".join(parts), Mask(AWKWARD), b"", 0
    for cut in [*cuts, len(whole) + 1]:
        out += mask.feed(whole[at : at + cut])
        at += cut
    out += mask.close()
    assert len(out) == len(whole)
    assert not any(spelt in out for spelt in spellings(AWKWARD))
    if not any(spelt in whole for spelt in spellings(AWKWARD)):
        assert out == whole
