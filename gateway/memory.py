"""What was learnt about upstreams, and for how long: levels they refused, and that they take no control call.

Lives in the process and dies with it. Bounded: names of models come from callers.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gateway.deltas import Refusal
from gateway.words import Level

MOST: Final = 4096
"""Refusals remembered at once; the oldest goes first."""
LONGEST: Final = 256
"""Characters of a model's name that is remembered; callers may write any."""


class Key(Struct, frozen=True):
    """What was refused: `sent` None stands for a call that carried no level."""

    upstream: str
    model: str
    sent: Level | None


class Memory:
    """Refusals with the time they are good for, and upstreams without control."""

    def __init__(self, remember_seconds: float, clock: Callable[[], float]) -> None:
        """`remember_seconds` 0: no refusal is remembered."""
        self._seconds, self._clock = remember_seconds, clock
        self._refusals: OrderedDict[Key, tuple[float, Refusal]] = OrderedDict()
        self._without_control: set[str] = set()

    def remember(self, key: Key, refusal: Refusal) -> None:
        """A level was refused just now."""
        if not self._seconds or len(key.model) > LONGEST:
            return
        self._refusals.pop(key, None)
        self._refusals[key] = (self._clock() + self._seconds, refusal)
        if len(self._refusals) > MOST:
            self._refusals.popitem(last=False)

    def refusal(self, key: Key) -> Refusal | None:
        """The refusal of this level, if it is fresh."""
        found = self._refusals.get(key)
        if found is None:
            return None
        until, refusal = found
        if until > self._clock():
            return refusal
        del self._refusals[key]
        return None

    def no_control(self, upstream: str) -> None:
        """The upstream answered the control path with 404."""
        self._without_control.add(upstream)

    def has_control(self, upstream: str) -> bool:
        """Whether nothing is known against it."""
        return upstream not in self._without_control
