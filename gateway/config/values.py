"""The kinds of values a setting may have: annotated types that `reading` checks and, with `Via`, converts."""

import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from msgspec import Meta

from gateway.config.reading import Refused, Via, one_of
from gateway.rules.patterns import PatternError, compile_patterns
from gateway.words import LADDER, OTHER, DialectName, Level


class Secret:
    """A credential. It is never shown: not by repr or str, and nothing that serialises a struct knows how."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Take the credential."""
        self._value = value

    def reveal(self) -> str:
        """The credential itself, for the header it goes into."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"


def secret_from(value: str, source: str) -> Secret:
    """A credential as it came from a variable or a file. Raises Refused, naming the source and never the value."""
    value = value.strip()
    if not value:
        raise Refused(f"{source} is empty or not there; leave the setting out to pass on the callers' own credentials")
    if not re.fullmatch(r"[\x21-\x7e]+", value):
        raise Refused(f"{source} holds no credential", "visible ASCII characters on one line")
    return Secret(value)


def _matching(pattern: str, allowed: str, *, label: bool = False) -> Via:
    """A string of this form; a refusal says the form and not the string. A `label` is never `other`."""
    form = re.compile(pattern)

    def check(value: str) -> str:
        if not form.fullmatch(value):
            raise Refused("is not of the right form", allowed)
        if label and value == OTHER:
            raise Refused(f"{OTHER!r} is the label of everything that is not listed")
        return value

    return Via(str, check)


def _url(value: str) -> str:
    """An upstream's base URL without a trailing slash. Never echoed: it may hold credentials."""
    allowed = "http://HOST[:PORT][/PATH] or https://..."
    try:
        parts = urlsplit(value)
        sound = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        raise Refused("is no URL", allowed) from None
    if not sound or not re.fullmatch(r"[\x21-\x7e]+", value):
        raise Refused("is no http or https URL", allowed)
    if "@" in parts.netloc:
        raise Refused("has credentials in it: name them with api_key_env or api_key_file", allowed)
    if "?" in value or "#" in value:
        raise Refused("has a query or a fragment", allowed)
    return value.rstrip("/")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return compile_patterns((text,))[0]
    except PatternError as error:
        raise Refused(f"pattern {error}") from None


def _level(word: str) -> str:
    """A step of the ladder; providers say `none` for `off`."""
    return one_of(LADDER, "off" if word == "none" else word)


def _without_twins(words: tuple[Any, ...]) -> tuple[Any, ...]:
    for i, word in enumerate(words):
        if word in words[:i]:
            raise Refused(f"{word!r} stands there twice")
    return words


def _ladder(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    return tuple(sorted(_without_twins(levels), key=LADDER.index))


def _some(words: tuple[Any, ...]) -> tuple[Any, ...]:
    if not words:
        raise Refused("is empty: name at least one")
    return _without_twins(words)


_DAY: Final = 86_400.0

Port = Annotated[int, Meta(ge=0, le=65_535)]
"""0: the system picks a free one."""
Count = Annotated[int, Meta(ge=1, le=2**53)]
Tokens = Annotated[int, Meta(ge=0, le=2**53)]
Retries = Annotated[int, Meta(ge=0, le=len(LADDER) - 1)]
Limit = Annotated[float, Meta(gt=0, le=_DAY)]
"""A time limit in seconds."""
Pause = Annotated[float, Meta(ge=0, le=_DAY)]
"""A time in seconds that may be none."""
HoldSeconds = Annotated[float, Meta(ge=0, le=60)]

_FREE_TEXT: Final = (r"[^\x00-\x1f\x7f]{1,256}", "1 to 256 characters, no control characters")
Words = Annotated[str, _matching(*_FREE_TEXT)]
ModelName = Annotated[str, _matching(*_FREE_TEXT, label=True)]
Name = Annotated[
    str, _matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "1 to 64 of A-Z a-z 0-9 _ . -, not . _ - first", label=True)
]
Purpose = Annotated[
    str, _matching(r"[a-z0-9][a-z0-9_.-]{0,63}", "1 to 64 of a-z 0-9 _ . -, not . _ - first", label=True)
]
Sha256 = Annotated[str, _matching(r"[0-9a-fA-F]{64}", "64 hex digits; `thinkcap keys new` makes a key and its entry")]
EnvName = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable, not its value")]
HeaderName = Annotated[str, _matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "a header's name")]
PathStart = Annotated[str, _matching(r"/[\x21\x22\x24-\x3e\x40-\x7e]*", "a path: it begins with / and has no query")]
VersionPath = Annotated[str, _matching(r"(/[A-Za-z0-9._~-]+)*", '"" or /SEGMENT[/SEGMENT]..., no slash at the end')]
Url = Annotated[str, Via(str, _url)]
Pattern = Annotated[re.Pattern[str], Via(str, _pattern)]

LadderStep = Annotated[Level, Via(str, _level)]
Levels = Annotated[tuple[Level, ...], Via(tuple[LadderStep, ...], _ladder)]
"""In the order of the ladder, whatever the order they were written in."""
Dialects = Annotated[tuple[DialectName, ...], Via(tuple[DialectName, ...], _some)]
Purposes = Annotated[tuple[str, ...], Via(tuple[Purpose, ...], _without_twins)]
