"""One whole answer passing through: judged by the same rules as a stream, as if it were a single event of one. Pure."""

from collections.abc import Callable

from gateway.answer import Answer, Plan
from gateway.capping import Capping
from gateway.dialects.base import Dialect, Malformed
from gateway.events import Fact, Turn
from gateway.retelling import retold_body
from gateway.words import Outcome


class Whole:
    """One answer of one attempt. `note` is told each fact at its moment."""

    __slots__ = ("_dialect", "_plan", "answer")

    def __init__(self, dialect: Dialect, plan: Plan, note: Callable[[Fact], None]) -> None:
        """Begin an answer that comes whole."""
        self._dialect, self._plan = dialect, plan
        self.answer = Answer(plan, note)

    @property
    def over(self) -> bool:
        """The turn is over."""
        return self.answer.over

    @property
    def outcome(self) -> Outcome:
        """How an answer that ended by itself counts."""
        return self.answer.outcome(streamed=False)

    def body(self, body: bytes) -> bytes:
        """The body as it goes out. Unreadable ones pass as they are and count as malformed."""
        answer, dialect = self.answer, self._dialect
        try:
            deltas = dialect.read_body(body)
        except Malformed:
            answer.turn.malformed += 1
            return body
        answer.identify(dialect.identity(body))
        finishes = answer.hear(deltas, again=dialect.finish_rides == "every_frame")
        if answer.promote():
            body = dialect.promote(body)
        upgraded = answer.settle().verdict == "upgraded"
        return retold_body(body, finishes, dialect, self._plan.output_cap, upgraded=upgraded)

    def end(self, *, by_itself: bool) -> Turn:
        """The totals, once, at the end. A thinking cap that was not reached has nothing to say of a whole answer."""
        turn, cap, counted = self.answer.end(by_itself=by_itself), self._plan.thinking, self.answer.reasoning_tokens
        if cap is not None and max(counted, turn.reasoning_tokens or 0) >= cap.cap:
            Capping(cap, self.answer.note).end(turn, counted)
        return turn
