"""The operator's patterns: compiled at start, broken or dangerous ones refused with their text and position."""

import pytest

from gateway.rules.patterns import PatternError, compile_patterns


def test_good_patterns_are_compiled() -> None:
    """Common shapes pass, in order."""
    texts = [
        r"dial position (\w+) jammed",
        "stuck",
        r"(?i:level) (?:low|high) .{0,80} refused",
        r"[^]x]+ \(a\*\) \d{2}",
    ]
    assert [pattern.pattern for pattern in compile_patterns(texts)] == texts
    assert compile_patterns([]) == ()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        pytest.param("dial (jammed", 5, id="an open group"),
        pytest.param("*x", 0, id="nothing to repeat"),
        pytest.param("a{99999999999}", None, id="a count beyond the engine"),
        pytest.param(r"(a+)+b", 3, id="a repeat in a repeated group"),
        pytest.param(r"(a|aa)*b", 5, id="a choice in a repeated group"),
        pytest.param(r"((a+)b)*c", 6, id="a repeat two groups down"),
        pytest.param(r"(a{1,}x){2,}b", 7, id="repeats in braces"),
        pytest.param(r"\w+\w+x", 3, id="two repeats side by side"),
        pytest.param(r".*a.*b.*c", 6, id="anything three times"),
        pytest.param(r"(a)\1", 3, id="a back-reference"),
        pytest.param(r"(?P<l>a)(?P=l)", 8, id="a named back-reference"),
    ],
)
def test_a_bad_pattern_is_refused_with_its_text_and_position(text: str, position: int | None) -> None:
    """The start stops: the message holds the text, and where in it."""
    with pytest.raises(PatternError) as raised:
        compile_patterns(["good", text])
    assert raised.value.text == text
    assert raised.value.position == position
    assert repr(text) in str(raised.value)
