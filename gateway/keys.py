"""Who may call: keys are known by their SHA-256 alone, and every one of them is compared, in constant time."""

import secrets
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from gateway.config import Key

PREFIX: Final = "tc-"
"""So that a key found in the wrong place is recognised as one of these."""


class Keyring:
    """The gateway's own keys."""

    def __init__(self, keys: Iterable[Key]) -> None:
        """Take the `[[keys]]` of the settings."""
        self._digests = tuple((key.name, bytes.fromhex(key.sha256)) for key in keys)

    @property
    def required(self) -> bool:
        """Whether a caller has to show a key: there is at least one."""
        return bool(self._digests)

    def holder(self, presented: bytes) -> str | None:
        """The name of the key that was presented; None when it is none of ours. Takes the same time for every key."""
        digest = sha256(presented).digest()
        name = None
        for known, expected in self._digests:
            if compare_digest(digest, expected):
                name = known  # no early way out: the time would tell which one it was
        return name


def new_key() -> tuple[str, str]:
    """A new key of 256 random bits, and its SHA-256 in hex."""
    key = PREFIX + secrets.token_urlsafe(32)
    return key, sha256(key.encode()).hexdigest()


def entry(name: str, digest: str) -> str:
    """The `[[keys]]` entry for the settings; `name` as the settings allow it."""
    return f'[[keys]]\nname = "{name}"\nsha256 = "{digest}"\n'
