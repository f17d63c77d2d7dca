"""An upstream's key does not go back to callers, whatever the upstream repeats. Pure: bytes in, as many bytes out."""

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

SHORTEST: Final = 16
"""Bytes. Shorter keys are placeholders such as `none` or `EMPTY`, and words like these stand in answers."""
ESCAPED: Final = "&'+<=>`"
"""What careful JSON encoders write as `\\u00XX`, in either case, besides what all of them escape."""
PERCENT: Final = re.compile("%[0-9A-F]{2}")


@lru_cache(maxsize=256)
def spellings(secret: bytes) -> tuple[bytes, ...]:
    """The key, and what encoders of JSON and of URLs make of it: nothing else, for a key of letters, digits, `-._~`."""
    key = secret.decode("latin-1")
    json = key.replace("\\", "\\\\").replace('"', '\\"')
    found = [key]
    for escaped in (json, json.replace("/", "\\/")):
        for form in ("\\u%04x", "\\u%04X"):
            found += escaped, escaped.translate({ord(char): form % ord(char) for char in ESCAPED})
    for safe in ("", "/"):
        percent = quote(key, safe=safe, encoding="latin-1")
        found += percent, PERCENT.sub(lambda found: found[0].lower(), percent)
    return tuple(dict.fromkeys(spelt.encode("latin-1") for spelt in found))


class Needles(NamedTuple):
    """What is looked for, and what takes its place."""

    pairs: tuple[tuple[bytes, bytes], ...]
    firsts: tuple[bytes, ...]
    """The bytes they begin with."""
    beginnings: frozenset[bytes]
    """Everything short of a whole one."""
    longest: int
    """Bytes of the longest beginning."""


@lru_cache(maxsize=256)
def needles(secret: bytes) -> Needles:
    """For every spelling of the key."""
    spelt = spellings(secret)
    return Needles(
        pairs=tuple((one, b"*" * len(one)) for one in spelt),
        firsts=tuple(dict.fromkeys(one[:1] for one in spelt)),
        beginnings=frozenset(one[:size] for one in spelt for size in range(1, len(one))),
        longest=max(map(len, spelt)) - 1,
    )


class Mask:
    """Puts stars where the key stands, also where it falls between two pieces; lengths stay what they were."""

    __slots__ = ("_held", "_needles")

    def __init__(self, secret: bytes) -> None:
        """Mask this key."""
        self._needles = needles(secret)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The next piece; an end of it that may be the key's beginning waits for the piece after it."""
        pairs, firsts, beginnings, longest = self._needles
        if self._held:
            data, self._held = self._held + data, b""
        for needle, stars in pairs:
            data = data.replace(needle, stars)
        ready = size = len(data)
        for first in firsts:
            at = data.find(first, max(0, size - longest))
            while at >= 0 and data[at:] not in beginnings:
                at = data.find(first, at + 1)
            if 0 <= at < ready:
                ready = at
        if ready < size:
            data, self._held = data[:ready], data[ready:]
        return data

    def close(self) -> bytes:
        """What waited: it was not the key."""
        held, self._held = self._held, b""
        return held


def mask_of(secret: bytes | None) -> Mask | None:
    """A mask for an upstream's key; None where there is nothing to hide."""
    return Mask(secret) if secret is not None and len(secret) >= SHORTEST else None
