"""What must be reached: ratios to another system in the same rounds, and a few absolute figures."""

from typing import Final, Literal

from msgspec import Struct

Quantity = Literal["cpu", "first_token_ms", "delay_p50_ms", "delay_p99_ms"]


class Bar(Struct, frozen=True, kw_only=True):
    """`system` under `load` takes at most `limit` times what `base` takes, or `limit` milliseconds more than it."""

    load: str
    system: str
    base: str
    limit: float
    quantity: Quantity = "cpu"


def _cpu(load: str, system: str, **limits: float) -> tuple[Bar, ...]:
    return tuple(Bar(load=load, system=system, base=base, limit=limit) for base, limit in limits.items())


BARS: Final[tuple[Bar, ...]] = (
    *_cpu("plain16", "thinkcap-untraced", tensorzero=1.0, portkey=1 / 6, litellm=1 / 60, nginx=12),
    *_cpu("plain16", "thinkcap", tensorzero=1.5),
    *_cpu("large20", "thinkcap-untraced", tensorzero=0.65),
    *_cpu("paced128", "thinkcap", tensorzero=1.0, portkey=1 / 2, litellm=1 / 13, nginx=3.2),
    *_cpu("burst32", "thinkcap", tensorzero=0.8, nginx=1.5),
    Bar(load="first1", system="thinkcap", base="direct", limit=1.0, quantity="first_token_ms"),
    Bar(load="paced128", system="thinkcap", base="direct", limit=0.4, quantity="delay_p50_ms"),
    Bar(load="paced128", system="thinkcap", base="direct", limit=1.5, quantity="delay_p99_ms"),
)
OPEN_MB: Final = 150.0
"""With 1,000 open streams."""
IDLE_MB: Final = 90.0
READY_SECONDS: Final = 1.0
