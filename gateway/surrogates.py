"""JSON in which one half of a surrogate pair stands alone.

The grammar lets it (RFC 8259, 8.2), and JavaScript writes it where a text was cut inside of an emoji; decoders that
make UTF-8 of it refuse the whole text. To read the fields around it, the half is taken for U+FFFD; what goes on is what
came.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

_PAIR: Final = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = re.compile(rb"\\(?:%b|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)" % _PAIR, re.DOTALL)
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a reader raises: for no JSON, for another type, for no text, and for what is nested too deeply."""
T = TypeVar("T")


def mended(text: bytes) -> bytes:
    """The text with U+FFFD, escaped, for each half: as long as it was, so that places stay where they were."""
    if text.find(rb"\ud") < 0 and text.find(rb"\uD") < 0:
        return text
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found["half"] else found[0], text)


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of JSON into this type that also takes such halves. Raises one of UNREADABLE."""
    decode = msgspec.json.Decoder(kind).decode

    def read(text: bytes) -> T:
        try:
            return decode(text)
        except msgspec.DecodeError:
            whole = mended(bytes(text))
            if whole == text:
                raise
            return decode(whole)

    return read


decoded: Final[Callable[[bytes], Any]] = reader(object)
"""What a text says, whatever that is."""
