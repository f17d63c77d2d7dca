"""What the gateways are put under: the loads by name, and what goes to the load generator and comes back from it."""

from typing import Final, Literal

from msgspec import Struct

CAP: Final = 256
"""`max_tokens` of every request: the output cap is armed in each, and no answer reaches it."""


class Load(Struct, frozen=True, kw_only=True):
    """One load. Times in seconds unless the name says otherwise."""

    kind: Literal["whole", "stream", "open"]
    connections: int
    seconds: float = 1.5
    tokens: int = 200
    """Of a stream; one token is one event."""
    gap_ms: int = 0
    """Between two tokens of a stream; 0: as fast as they go, so that one read brings several."""
    ramp: float = 0.0
    """Over which the streams begin, lest their tokens come in one volley."""
    request_kb: int = 0
    """Of conversation in the request; 0: one short question."""


def _paced(connections: int) -> Load:
    return Load(kind="stream", connections=connections, seconds=2.5, tokens=100, gap_ms=20, ramp=1.0)


def _sized(request_kb: int) -> Load:
    return Load(kind="whole", connections=16, request_kb=request_kb)


def _open(connections: int) -> Load:
    return Load(kind="open", connections=connections, tokens=100_000, gap_ms=1000)


LOADS: Final[dict[str, Load]] = {
    "plain1": Load(kind="whole", connections=1, seconds=2.0),
    "plain16": Load(kind="whole", connections=16),
    "plain64": Load(kind="whole", connections=64),
    "large5": _sized(5),
    "large20": _sized(20),
    "large80": _sized(80),
    "large320": _sized(320),
    "burst1": Load(kind="stream", connections=1),
    "burst32": Load(kind="stream", connections=32),
    "burst128": Load(kind="stream", connections=128, seconds=2.0),
    "first1": Load(kind="stream", connections=1, tokens=10, gap_ms=5),
    "paced1": Load(kind="stream", connections=1, seconds=2.5, tokens=100, gap_ms=20),
    "paced32": _paced(32),
    "paced64": _paced(64),
    "paced128": _paced(128),
    "open1": _open(1),
    "open250": _open(250),
    "open500": _open(500),
    "open1000": _open(1000),
}
"""plainN: whole answers of 1 kB, N at a time, each followed by the next. largeK: 16 at a time, K kB of request. burstN:
N streams as fast as they go. first1: one short stream after the other, for the first token. pacedN: N streams at a human
pace, a token every 20 ms. openN: N streams held open, a token a second each."""

DEAR: Final = frozenset({("litellm", "burst128"), ("litellm", "open1000")})
"""(system, load) left out: tens of seconds a round, and no news."""


class Job(Struct, frozen=True, kw_only=True):
    """What one run of the load generator is to do."""

    url: str
    load: Load
    model: str
    headers: tuple[tuple[str, str], ...] = ()


class Quantiles(Struct, frozen=True):
    """Microseconds."""

    p50: float
    p99: float


class Result(Struct, frozen=True, kw_only=True):
    """What the load generator saw."""

    wall: float
    """Seconds from the first request to the last answer."""
    done: int
    """Calls that were answered."""
    chunks: int = 0
    """Events with content, over all streams."""
    rate: float
    """Of a stream its chunks a second, else the calls a second."""
    errors: int = 0
    short: int = 0
    """Streams that lacked tokens, or had some too many."""
    unfinished: int = 0
    """Connections that never came to their end."""
    last_status: int | None = None
    """Of the last call that failed."""
    latency: Quantiles | None = None
    """From request to the end of the answer."""
    first_token: Quantiles | None = None
    delay: Quantiles | None = None
    """From a token's leaving the upstream to its arrival."""

    @property
    def bad(self) -> int:
        """Everything that did not go as it should."""
        return self.errors + self.short + self.unfinished


class Opened(Struct, frozen=True, kw_only=True):
    """What the load generator says once its streams are open."""

    opened: int
    errors: int
