"""What the dialects share: the wishes of a caller, and bodies no level can be found in."""

import pytest

from gateway.calls import NO_WISHES, Wishes
from gateway.dialects.base import NO_BOUND, read_wishes
from gateway.dialects.levels import level_in, read_sent
from gateway.errors import BadRequest
from gateway.words import DialectName


def test_wishes() -> None:
    """Every header that is read, and one of ours that is none."""
    headers = (
        (b"x-thinkcap-purpose", b" compaction "),
        (b"x-thinkcap-thinking-cap", b"50"),
        (b"x-thinkcap-retried", b"1"),
        (b"x-thinkcap-facts", b"1"),
        (b"x-thinkcap-note", b"x"),
    )
    assert read_wishes(headers) == Wishes(purpose="compaction", thinking_cap=50, retried=True, facts=True)


@pytest.mark.parametrize(
    "headers", [(), ((b"accept", b"*/*"),), ((b"x-thinkcap-facts", b"0"),)], ids=["no header", "another", "a no"]
)
def test_no_wishes(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    """A caller who wishes for nothing."""
    assert read_wishes(headers) == NO_WISHES


@pytest.mark.parametrize(
    "value", [b"", b"0", b"-5", b"+5", b"5.0", b"many", b"000", "²".encode("latin-1")],
    ids=["nothing", "zero", "negative", "a sign", "a fraction", "a word", "zeros", "a digit of another script"],
)  # fmt: skip
def test_a_thinking_cap_that_is_none(value: bytes) -> None:
    """It is refused by name."""
    with pytest.raises(BadRequest, match="x-thinkcap-thinking-cap"):
        read_wishes(((b"x-thinkcap-thinking-cap", value),))


@pytest.mark.parametrize(
    ("value", "cap"),
    [
        pytest.param(b"007", 7, id="leading zeros"),
        pytest.param(b"999999999", 999_999_999, id="nine digits"),
        pytest.param(b"9" * 5_000, NO_BOUND, id="more digits than a number may have"),
    ],
)
def test_a_thinking_cap_of_many_digits(value: bytes, cap: int) -> None:
    """A positive integer is taken however it is written; beyond all models it is as good as any other."""
    assert read_wishes(((b"x-thinkcap-thinking-cap", value),)).thinking_cap == cap


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("messages", b'{"messages":"effort"}'),
        ("messages", b'{"messages":[7,{"role":"system","output_config":{"effort":7}},"effort"]}'),
        ("messages", b'{"messages":[{"role":"user","output_config":{"effort":"low"}}]}'),
        ("responses", b'{"input":{"effort":"low"}}'),
        ("chat", b'{"reasoning":"\xff","think":"\xff"}'),
    ],
    ids=["text for messages", "items of no shape", "an item that carries none", "an object for items", "no UTF-8"],
)
def test_a_body_that_carries_no_level(dialect: DialectName, body: bytes) -> None:
    """What has no shape has no level."""
    assert level_in(dialect, body) is None


def test_settings_without_end_are_not_searched() -> None:
    """A word in the first of them is found, the search ends there."""
    body = b'{"verbosity":"low","a":[' + b",".join([b"1"] * 5000) + b"]}"
    assert read_sent("responses", body).elsewhere == frozenset({"low"})
