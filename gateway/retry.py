"""Rule 3 for one call: remembers what was refused, says what to send next, states the facts."""

from msgspec import Struct, structs

from gateway.context import Context
from gateway.dialects.levels import read_sent, write_level
from gateway.events import LevelAnswered, LevelPreempted, LevelRefused, LevelRetried
from gateway.memory import Key
from gateway.rules.refusals import read_refusal
from gateway.words import OTHER, Level, RetryOutcome


class LevelRetry(Struct):
    """The attempts of one call, as far as thinking levels go."""

    _context: Context
    in_scope: bool = False
    recognised: bool = False
    """Whether the last error was the refusal of a level."""
    said: str | None = None
    """`minimal->low`: what the header of the answer says; None while no level was changed."""
    _refused: list[Level] = []
    _retries: int = 0
    _pair: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Before the first attempt."""
        policy = self._context.policy
        self.in_scope = policy.levels.in_scope(policy.purpose, retried=self._context.call.wishes.retried)

    @property
    def retried(self) -> bool:
        """Whether the running attempt is a re-issue."""
        return self._pair is not None

    def first(self, body: bytes) -> bytes:
        """The body of the first attempt: with another level at once, if the one it carries was refused lately."""
        if not self.in_scope:
            return body
        refused: Level | None = None
        target: Level | None = None
        tried: set[Level | None] = set()  # one that comes again leads nowhere: another level of the body was refused
        while target not in tried and (
            refusal := self._context.memory.refusal(self._key(target or self._context.call.level))
        ):
            tried.add(target)
            if refusal.level is not None:
                self._refused.append(refusal.level)
            target = self._context.policy.levels.next_level(refusal, 0, self._refused)
            if target is None:
                self._refused.clear()
                return body
            refused = refused or refusal.level or self._context.call.level
        changed = body if target is None else write_level(self._context.call.dialect, body, target, refused=refused)
        if target is None or changed == body:
            return body
        self._context.note(LevelPreempted(refused or OTHER, target))
        self.said = f"{refused or OTHER}->{target}"
        return changed

    def refused(self, status: int, error: bytes, body: bytes) -> bytes | None:
        """What to send after this error, that `body` got; None: the caller gets an error.

        A refusal that is recognised is stated in every case, in scope or not.
        """
        sent = structs.replace(read_sent(self._context.call.dialect, body), model=self._context.call.model)
        refusal = read_refusal(status, error, sent, self._context.policy.patterns)
        self.recognised = refusal is not None
        if refusal is None:
            return None
        self._context.note(LevelRefused(refusal.level or OTHER))
        if not self.in_scope:
            return None
        self._context.memory.remember(self._key(sent.levels[0] if sent.levels else None), refusal)
        self.settle("refused_again")
        level = self._context.policy.levels.next_level(refusal, self._retries, self._refused)
        if level is None:
            return None
        changed = write_level(self._context.call.dialect, body, level, refused=refusal.level)
        if changed == body:  # no place to write it
            return None
        if refusal.level is not None:
            self._refused.append(refusal.level)
        self._retries += 1
        self.recognised = False
        self._pair = (refusal.level or OTHER, level)
        self.said = f"{(self.said or self._pair[0]).partition('->')[0]}->{level}"
        self._context.note(LevelRetried(*self._pair))
        return changed

    def settle(self, outcome: RetryOutcome) -> None:
        """How the running re-issue went; nothing to say when none runs."""
        pair, self._pair = self._pair, None
        if pair is not None:
            self._context.note(LevelAnswered(*pair, outcome))

    def _key(self, sent: Level | None) -> Key:
        return Key(self._context.policy.upstream, self._context.call.model, sent)
