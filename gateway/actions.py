"""What the relay wants done, in the imperative; the pump does it."""

from typing import TypeAlias

from msgspec import Struct

from gateway.rules.thinking_cap import GiveUp


class Forward(Struct, frozen=True):
    """Send these bytes to the caller."""

    data: bytes


class EndReasoning(Struct, frozen=True):
    """Ask the upstream, on a second connection, to end the reasoning of this completion."""

    id: str


class Refused(Struct, frozen=True):
    """A guarded answer turned out to be an error before its first delta; nothing of it has gone out yet."""

    text: bytes


Action: TypeAlias = Forward | EndReasoning | GiveUp | Refused
