"""What is remembered, for how long, and how much of it."""

from gateway.deltas import Refusal
from gateway.memory import LONGEST, MOST, Key, Memory

KEY = Key("up", "m", "minimal")
REFUSAL = Refusal(level="minimal")


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def test_a_refusal_is_good_for_its_time() -> None:
    """And then forgotten."""
    clock = Clock()
    memory = Memory(10.0, clock)
    assert memory.refusal(KEY) is None
    memory.remember(KEY, REFUSAL)
    clock.now = 9.9
    assert memory.refusal(KEY) == REFUSAL
    assert memory.refusal(Key("up", "m", None)) is None
    clock.now = 10.0
    assert memory.refusal(KEY) is None


def test_zero_seconds_remember_nothing() -> None:
    """The setting that switches it off."""
    memory = Memory(0, Clock())
    memory.remember(KEY, REFUSAL)
    assert memory.refusal(KEY) is None


def test_memory_is_bounded() -> None:
    """Names of models come from callers: the oldest refusal makes room."""
    memory = Memory(10.0, Clock())
    for number in range(MOST + 1):
        memory.remember(Key("up", f"m{number}", "low"), REFUSAL)
    assert memory.refusal(Key("up", "m0", "low")) is None
    assert memory.refusal(Key("up", "m1", "low")) == REFUSAL


def test_a_long_name_is_not_remembered() -> None:
    """Nor may one name take more than its share."""
    memory = Memory(10.0, Clock())
    for length, kept in ((LONGEST, REFUSAL), (LONGEST + 1, None)):
        memory.remember(Key("up", "m" * length, "low"), REFUSAL)
        assert memory.refusal(Key("up", "m" * length, "low")) == kept


def test_an_upstream_without_control_is_known() -> None:
    """One 404 is enough."""
    memory = Memory(0, Clock())
    assert memory.has_control("up")
    memory.no_control("up")
    assert not memory.has_control("up")
    assert memory.has_control("other")
