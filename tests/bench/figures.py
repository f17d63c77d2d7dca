"""What a run of the benchmark keeps: everything measured, as it was measured; medians and ratios are the report's."""

from typing import Final

from msgspec import Struct

from tests.bench.loads import Result

NOISY: Final = 0.15
"""Share of a core taken by strangers from which on a figure is measured once more, and marked."""


class Figure(Struct, frozen=True, kw_only=True):
    """One system under one load in one round."""

    round: int
    result: Result
    cpu_us: float | None
    """Of the system, per chunk of a stream, else per call; None where there is no system."""
    core_used: float
    """CPU seconds of the system per second of load."""
    spans: float
    """That came to the receiver, per call."""
    foreign: float
    """Share of the system's core that strangers took."""
    foreign_load: float
    """The same of the core of load generator and upstream."""

    @property
    def noisy(self) -> bool:
        """Strangers had a part in it."""
        return self.foreign >= NOISY or self.foreign_load >= 2 * NOISY


class Opening(Struct, frozen=True, kw_only=True):
    """Streams held open."""

    load: str
    opened: int
    mb: float
    core_used: float


class Standing(Struct, frozen=True, kw_only=True):
    """One system's memory: doing nothing, and with open streams."""

    idle_mb: float
    openings: list[Opening]


class Start(Struct, frozen=True, kw_only=True):
    """One start. `seconds` until the first call was answered, `cpu` seconds used until then."""

    seconds: float
    cpu: float


class Counted(Struct, frozen=True, kw_only=True):
    """What Thinkcap's own counters say at the end. `acted`: rules that did something, which none should."""

    requests: float
    armed: float
    """Turns with a usable cap and usage."""
    spans_dropped: float
    acted: dict[str, float]


class Kept(Struct, kw_only=True):
    """A whole run, as the JSON file has it."""

    python: str
    kernel: str
    commit: str
    figures: dict[str, dict[str, list[Figure]]] = {}
    """By load, then by system."""
    standing: dict[str, Standing] = {}
    starts: dict[str, list[Start]] = {}
    counted: dict[str, Counted] = {}
