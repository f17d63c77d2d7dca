"""An upstream's key does not go back to callers, whatever the upstream repeats. Pure: bytes in, as many bytes out."""

from typing import Final

SHORTEST: Final = 16
"""Bytes. Shorter keys are placeholders such as `none` or `EMPTY`, and words like these stand in answers."""


class Mask:
    """Puts stars where the key stands, also where it falls between two pieces; lengths stay what they were."""

    __slots__ = ("_held", "_secret", "_stars")

    def __init__(self, secret: bytes) -> None:
        """Mask this key."""
        self._secret, self._stars = secret, b"*" * len(secret)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """The next piece; an end of it that may be the key's beginning waits for the piece after it."""
        secret = self._secret
        if self._held:
            data, self._held = self._held + data, b""
        data = data.replace(secret, self._stars)
        at = data.find(secret[:1], max(0, len(data) - len(secret) + 1))
        while at >= 0 and not secret.startswith(data[at:]):
            at = data.find(secret[:1], at + 1)
        if at >= 0:
            data, self._held = data[:at], data[at:]
        return data

    def close(self) -> bytes:
        """What waited: it was not the key."""
        held, self._held = self._held, b""
        return held


def mask_of(secret: bytes | None) -> Mask | None:
    """A mask for an upstream's key; None where there is nothing to hide."""
    return Mask(secret) if secret is not None and len(secret) >= SHORTEST else None
