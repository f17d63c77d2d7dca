"""What all attempts of one call share, and what each of them brings."""

from collections.abc import Callable

from msgspec import Struct

from gateway.caller import Caller
from gateway.calls import Call, HeaderList
from gateway.dialects.base import Dialect
from gateway.events import CallFailed, CallFinished, Fact, Named, Observer
from gateway.policy import Policy


class Kept(Struct, frozen=True):
    """A refusal as the caller would get it, kept in case the re-issue is refused as well."""

    status: int
    headers: HeaderList
    body: bytes


class Again(Struct, frozen=True):
    """The answer was a refusal of a level: this body goes out next."""

    body: bytes
    kept: Kept


Delivered = CallFinished | CallFailed
Brought = Delivered | Again


class Context(Struct, kw_only=True):
    """What all attempts of one call share."""

    call: Call
    policy: Policy
    dialect: Dialect
    caller: Caller
    observer: Observer
    note: Callable[[Fact], None]
    """States a fact."""
    secret: bytes | None = None
    keepalive_seconds: float = 0.0
    stated: list[Named] = []
    """Facts for a caller who asked for them, and has not been told yet."""
