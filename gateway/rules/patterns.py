"""Compiles the operator's `extra_patterns` and refuses what could take for ever on a hostile text."""

import re
from collections.abc import Iterable
from typing import Final

_PIECE: Final = re.compile(
    r"(?P<reference>\(\?P=|\(\?\(|\\[1-9])"
    r"|(?P<opening>\((?:\?(?:P<\w+>|<[=!]|[:=!>]|[aiLmsux-]+[:)]))?)"
    r"|(?P<choice>\|)"
    r"|(?P<atom>\)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)"
    r"(?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)?",
    re.DOTALL,
)
"""A pattern, piece by piece; a repeat belongs to the atom before it."""
_ANYTHING: Final = (".", r"\S", r"\D", r"\W")
_MOST_ANYTHING, _LARGE = 2, 100


class PatternError(ValueError):
    """A pattern that cannot be used. `position` is the offset in `text`, None where the engine names none."""

    def __init__(self, text: str, position: int | None, problem: str) -> None:
        """Say which pattern, where in it, and what is wrong."""
        self.text, self.position, self.problem = text, position, problem
        at = "" if position is None else f" at position {position}"
        super().__init__(f"{text!r}: {problem}{at}")


def compile_patterns(texts: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    """The patterns, in order. Raises PatternError on the first that is broken or could backtrack without end."""
    return tuple(_compile(text) for text in texts)


def _compile(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise PatternError(text, error.pos, error.msg) from None
    except (OverflowError, RecursionError) as error:
        raise PatternError(text, None, str(error)) from None
    _guard(text)
    return pattern


def _guard(text: str) -> None:
    """Refuses the shapes that make matching exponential, or polynomial of a high degree.

    A repeat with an end of at most 100 (`.{0,80}`) is none. The text a pattern is tried on is bounded as well.
    """
    groups = [False]  # for every open group: whether it holds a choice or a repeat
    anything, after_repeat = 0, False
    for piece in _PIECE.finditer(text):
        kind, at, atom = piece.lastgroup, piece.start(), piece["atom"] or ""
        if kind == "reference":
            raise PatternError(text, at, "back-references are not allowed")
        if kind == "opening":
            if not piece[0].endswith(")"):
                groups.append(False)
        elif kind == "choice":
            groups[-1] = True
        inner = groups.pop() if atom == ")" and len(groups) > 1 else False
        repeats = _is_long(piece["repeat"] or "")
        if repeats and inner:
            raise PatternError(text, at, "a repeat or a choice inside a repeated group could take for ever")
        if repeats and after_repeat:
            raise PatternError(text, at, "two repeats side by side could take for ever")
        anything += repeats and (atom in _ANYTHING or atom.startswith("[^"))
        if anything > _MOST_ANYTHING:
            raise PatternError(text, at, "more than two repeats of anything: bound them, as in .{0,80}")
        groups[-1] = groups[-1] or repeats or inner
        after_repeat = repeats


def _is_long(repeat: str) -> bool:
    """Whether a repeat has no end, or a far one."""
    if repeat.startswith("{"):
        upper = repeat.rstrip("?+}").rpartition(",")[2].strip("{}") if "," in repeat else "0"
        return not upper or int(upper) > _LARGE
    return repeat.startswith(("*", "+"))
