"""What all attempts of one call share, and what each of them brings."""

from collections.abc import Callable

from msgspec import Struct

from gateway.caller import Caller
from gateway.calls import Call, HeaderList
from gateway.dialects.base import Dialect
from gateway.events import NAMED, CallFailed, CallFinished, Fact, Named, Observer
from gateway.headers import RawHeaders, to_upstream
from gateway.memory import Memory
from gateway.policy import Policy
from gateway.upstream import Upstream


class Door(Struct, frozen=True, kw_only=True):
    """What came in at the door beside the call: which credentials stay here, which go on, and the path upstream."""

    path: bytes
    """As it goes behind the upstream's address."""
    query: bytes = b""
    drop: frozenset[bytes] = frozenset()
    own: HeaderList = ()
    keepalive_seconds: float = 0.0

    @property
    def target(self) -> bytes:
        """Path and query."""
        return self.path + b"?" + self.query if self.query else self.path


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
    """One judged call: all that is known before its first byte goes out, and who is told what becomes of it.

    Nothing that is made for the call and holds this may be held by it: such a circle leaves every call to the garbage
    collector, at the price of a tenth of a call.
    """

    call: Call
    policy: Policy
    dialect: Dialect
    upstream: Upstream
    door: Door
    memory: Memory
    caller: Caller
    observer: Observer
    note: Callable[[Fact], None]
    """States a fact."""
    stated: list[Named] = []
    """Facts for a caller who asked for them, and has not been told yet."""

    def __post_init__(self) -> None:
        """Keep facts where the caller asked for them."""
        if self.call.wishes.facts:
            note, stated = self.note, self.stated

            def state(fact: Fact) -> None:
                if isinstance(fact, NAMED):
                    stated.append(fact)
                note(fact)

            self.note = state

    @property
    def secret(self) -> bytes | None:
        """What no answer is to repeat."""
        return self.upstream.terms.secret

    def headers(self, *own: tuple[bytes, bytes]) -> RawHeaders:
        """The caller's headers as they go on, and these."""
        door = self.door
        return to_upstream(self.call.headers, judged=True, drop=door.drop, own=(*door.own, *own))
