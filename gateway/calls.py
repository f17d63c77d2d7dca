"""What the caller asked: one value, read once from path, query, headers and body."""

from typing import Final

from msgspec import Struct

from gateway.words import DialectName, Level

HeaderList = tuple[tuple[bytes, bytes], ...]
"""Names in lower case, in the order they came, repeated names kept."""


OURS: Final = b"x-thinkcap-"
"""How the names of headers begin that are for Thinkcap itself."""


class Wishes(Struct, frozen=True, kw_only=True):
    """What the caller asked of Thinkcap itself, by `x-thinkcap-*` headers."""

    purpose: str | None = None
    thinking_cap: int | None = None
    """Tokens; lowers the configured cap for this call, never raises it."""
    retried: bool = False
    """A Thinkcap further out has re-issued this call already."""
    facts: bool = False


NO_WISHES = Wishes()


class Call(Struct, frozen=True, kw_only=True):
    """One call on a judged route.

    `output_cap` and `native_cap` are tokens; None when the caller named no cap, 0 when what it named is no usable
    number (zero, negative, a fraction, a string). `native_cap` is llama.cpp's own name for the cap, which beats the
    others on that server and means nothing elsewhere.
    """

    dialect: DialectName
    model: str
    """As the caller wrote it; "" when none was named."""
    stream: bool
    events: bool = True
    """A stream is asked for as events (gemini: `alt=sse`); else it is one JSON array, in which no rule acts."""
    body: bytes
    path: str
    """The path as it came, still percent-encoded, without the query."""
    query: bytes = b""
    headers: HeaderList = ()
    output_cap: int | None = None
    native_cap: int | None = None
    level: Level | None = None
    """The thinking level sent, on the ladder; None when none was sent or the word is no step of it."""
    stop_sequences: bool = False
    choices: int = 1
    wants_usage: bool = False
    """The caller itself asked for usage in the stream (chat: `stream_options.include_usage`)."""
    wants_timings: bool = False
    """The caller itself asked llama.cpp for `timings_per_token`."""
    wishes: Wishes = NO_WISHES


class Sent(Struct, frozen=True, kw_only=True):
    """What a request body says of thinking levels: read from it when a refusal has to be understood."""

    levels: tuple[Level, ...] = ()
    """Every level it carries, the one that counts first; empty when none was sent."""
    elsewhere: frozenset[Level] = frozenset()
    """Ladder words that other fields hold as well (`text.verbosity`): such a word alone names no thinking level."""
    model: str = ""
    """As the caller wrote it: in a refusal its name says nothing of levels."""


NO_LEVEL_SENT = Sent()


def header(headers: HeaderList, name: bytes) -> bytes | None:
    """The first value of a header, by its lower-case name."""
    return dict(reversed(headers)).get(name)
