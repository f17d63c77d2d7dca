"""Rule 3: a call refused for its thinking level is re-issued with the nearest level the model takes.

    off < minimal < low < medium < high < xhigh < max

    declared         refused   up        down             walk "up": from the refused level to the top,
    low medium high  minimal   low       low              then down from just below it; "down" mirrors it.
    low high max     medium    high      low              Only levels of the list, never off, never one
    none high        max       high      high             that was refused before, none above the ceiling.
    none             high      -         -

All of this must hold, or the caller gets the refusal as it came:

    1  the purpose of the call is one of ours              `in_scope`
    2  the upstream refused, and the caller is still there `read_refusal` by status, `next_level` by `caller_gone`
    3  the refusal names what we sent                      `read_refusal`
    4  it is no gateway's deliberate refusal               `read_refusal`
    5  nothing was shown to the caller                     `next_level` by `shown`
    6  there is a level to send                            `walk`
    7  re-issued fewer than `max_retries` times, and no    `next_level` by `retries`, `in_scope` by `retried`
       Thinkcap further out has done it
"""

from collections.abc import Collection, Iterable
from typing import Final, Literal

from msgspec import Struct

from gateway.deltas import Refusal
from gateway.words import LADDER, Level

Direction = Literal["up", "down"]
_RANK: Final = {level: rank for rank, level in enumerate(LADDER)}


def walk(
    refused: Level,
    available: Iterable[Level],
    direction: Direction = "up",
    *,
    ceiling: Level | None = None,
    refused_before: Collection[Level] = (),
) -> Level | None:
    """The nearest level to send instead of `refused`; None when there is none."""
    usable = _usable(available, ceiling, (refused, *refused_before))
    above = [level for level in LADDER[_RANK[refused] + 1 :] if level in usable]
    below = [level for level in reversed(LADDER[: _RANK[refused]]) if level in usable]
    nearest = above + below if direction == "up" else below + above
    return nearest[0] if nearest else None


def _usable(available: Iterable[Level], ceiling: Level | None, refused: Collection[Level]) -> list[Level]:
    highest = _RANK[ceiling or "max"]
    return [level for level in available if level != "off" and level not in refused and _RANK[level] <= highest]


class LevelFallback(Struct, frozen=True, kw_only=True):
    """The rule for one call: plain values of the settings that apply to it."""

    enabled: bool = True
    purposes: frozenset[str] = frozenset()
    max_retries: int = 1
    direction: Direction = "up"
    ceiling: Level | None = None
    """Of the call's purpose; None: the walk may go to the top."""
    declared: tuple[Level, ...] = ()
    """The model's levels, from the settings or the shipped catalogue."""

    def in_scope(self, purpose: str, *, retried: bool) -> bool:
        """Whether a refusal of this call could be answered by a re-issue, so that waiting for its first delta pays."""
        return self.enabled and self.max_retries > 0 and purpose in self.purposes and not retried

    def next_level(
        self,
        refusal: Refusal,
        retries: int,
        refused_before: Collection[Level] = (),
        *,
        shown: bool = False,
        caller_gone: bool = False,
    ) -> Level | None:
        """The level to send now, for a call in scope that was re-issued `retries` times; None: pass the refusal on.

        A list in the refusal wins over what is declared: tables are stale, a refusal is a fact.
        """
        if shown or caller_gone or retries >= self.max_retries:
            return None
        if refusal.level is None or refusal.first_declared:
            refused = (*refused_before, *(() if refusal.level is None else (refusal.level,)))
            return next(iter(_usable(self.declared, self.ceiling, refused)), None)
        offered = self.declared if refusal.listed is None else refusal.listed
        return walk(refusal.level, offered, self.direction, ceiling=self.ceiling, refused_before=refused_before)
