"""One answer passing through: bytes in, actions out. Pure: no sockets, no clock, no logs.

Every frame leaves as the very bytes that came, save those a rule relabels and what the gateway's own asking caused.
Deltas are delivered before the frame that ends the turn; what one read brought leaves in one write.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from gateway.actions import Action, EndReasoning, Forward, Refused
from gateway.answer import PIECES, PROMOTED_AT, Answer, Plan
from gateway.capping import Capping
from gateway.deltas import Content, Delta, Finish, Reasoning, Usage
from gateway.dialects.base import Dialect, Malformed
from gateway.events import Fact, Turn
from gateway.hold import Held, Hold
from gateway.retelling import retold
from gateway.rules.thinking_cap import Ask, GiveUp
from gateway.sse import Frame, FrameReader
from gateway.template import Template, Templates
from gateway.words import EndResult, Outcome

GUARD_BYTES: Final = 64 * 1024
"""A guarded answer waits for its first delta at most this long, in bytes."""
RUNS: Final = frozenset({Content, Reasoning})
"""Pieces that come in long runs of frames."""
LOOKS: Final = 3
"""Early frames that are searched for id and model."""


class Relay:
    """One answer of one attempt. `note` is told each fact at its moment."""

    __slots__ = (
        "_actions", "_alike", "_capping", "_cut", "_dialect", "_every", "_guarded", "_hold", "_looks", "_out", "_plain",
        "_plan", "_read", "_reader", "_run", "_spent", "_strip", "_templates", "_waits", "answer",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, plan: Plan, note: Callable[[Fact], None]) -> None:
        """Begin an answer that is streamed."""
        self._dialect, self._plan = dialect, plan
        self._read = dialect.read_frame
        self._every = dialect.finish_rides == "every_frame"
        self._reader = FrameReader()
        self._hold = Hold()
        self._guarded = plan.guarded
        self._out: list[bytes] = []
        self._actions: list[Action] = []
        self._looks = self._waits = 0
        self._spent = False
        self._plain = plan.output_cap.choices == 1
        self._run: type[Delta] | None = (
            None  # of a run of frames that say one piece each: the rest of it passes at once
        )
        self._alike: Template | None = None
        """Reads more of the run, undecoded; None where there is no run, or an event is open."""
        self._strip = partial(dialect.strip, added=plan.added) if plan.added.control else None
        self._cut = dialect.differs.cut if self._strip is not None and dialect.differs is not None else None
        """Takes what our asking caused out of frames that are alike."""
        self._templates = Templates(dialect.differs, self._strip)
        self._capping = Capping(plan.thinking, note) if plan.thinking is not None else None
        self.answer = Answer(plan, note, plan.per_frame)

    @property
    def holding(self) -> bool:
        """A finish frame waits: the hold's time is running."""
        return bool(self._hold)

    @property
    def flowing(self) -> bool:
        """Nothing but the next bytes is waited for."""
        return not self._hold and not self.answer.over

    @property
    def over(self) -> bool:
        """The turn is over, whether or not the connection stays open."""
        return self.answer.over

    @property
    def outcome(self) -> Outcome:
        """How an answer that ended by itself counts."""
        return self.answer.outcome(streamed=True)

    def feed(self, data: bytes) -> list[Action]:
        """What to do about these bytes. Raises EventTooLarge (sse) on an event above its limit."""
        alike = self._alike
        if alike is not None:
            at = alike.read(data, self._think if self._run is Reasoning else None)
            if at:
                rest, cut = data[at:], self._cut
                self._out.append(data[:at] if cut is None else cut(b"", data[:at]))
                alike.reads += 1
                if not rest:
                    return self._flush()
                data = rest
            self._alike = None
        run = self._run
        frames = self._reader.feed(data)
        for frame in frames:
            if self._spent:
                break
            self._take(frame)
        # Not of the first of a run: nothing may keep a first token waiting.
        if run is not None and run is self._run and frames and self._reader.idle and not self._spent:
            self._alike = self._templates.of(run, frames[-1], self._read)
        return self._flush()

    def close(self) -> list[Action]:
        """The body ended cleanly."""
        for frame in self._reader.close():
            if not self._spent:
                self._take(frame)
        self._guarded = self._refused
        self._settle()
        return self._flush()

    def release(self) -> list[Action]:
        """The hold's time is over."""
        if self._every:
            self._settle()
        else:
            self._let_go()
        return self._flush()

    @property
    def guarded_bytes(self) -> bytes:
        """What a guarded answer has kept back so far."""
        return b"".join(self._out)

    @property
    def fired_at(self) -> int | None:
        """The firing point of the thinking cap."""
        return self._capping.cap.fired_at if self._capping is not None else None

    def unguard(self) -> list[Action]:
        """No retry comes of a refusal: the answer goes out as it is."""
        self._guarded = False
        return self._flush()

    def broken(self) -> list[Action]:
        """The connection broke. A last event that is whole counts; half a one is dropped: it would spoil the next."""
        if self.over:  # behind the last event of the turn the break took nothing
            return self.close()
        for frame in self._reader.close():
            with suppress(Malformed):
                self._read(frame)
                self._take(Frame(frame.raw + b"\n\n", frame.event, frame.data))
        self._guarded = self._refused
        self._let_go()
        return self._flush()

    def control_answered(self, result: EndResult) -> list[Action]:
        """The control call came back, or did not."""
        if self._capping is not None:
            self._perform(self._capping.answered(result))
        return self._flush()

    def end(self, *, by_itself: bool) -> Turn:
        """The totals, once, at the end."""
        turn = self.answer.end(by_itself=by_itself)
        if self._capping is not None:
            self._capping.end(turn, self.answer.reasoning_tokens)
        return turn

    def _take(self, frame: Frame) -> None:
        self._waits += len(frame.raw)
        if frame.data is None:  # a comment is no event: it neither waits for a hold nor ends one
            self._out.append(frame.raw)
            return
        try:
            deltas = self._read(frame)
        except Malformed:
            self.answer.turn.malformed += 1
            deltas = ()
        run = self._run
        if run is not None and len(deltas) == 1 and type(deltas[0]) is run:
            self._out.append(frame.raw if self._strip is None else self._strip(frame) or b"")
            if run is Reasoning:
                self._think(deltas[0])
            return
        if self._looks < LOOKS:
            self._identify(frame.data)
        finishes = self._absorb(deltas)
        self._pass(frame, finishes, told=any(type(delta) is Usage for delta in deltas))
        self._guard(finishes)
        if self._capping is not None:
            self._perform(self._capping.weigh(deltas, self.answer))
        plain = self._plain and not self._hold and not self._guarded and (self._strip is None or self._looks >= LOOKS)
        kind = type(deltas[-1]) if deltas and plain else None
        self._run = kind if kind in RUNS else None

    def _think(self, delta: Any) -> bool:
        """One more frame of reasoning in a run of them. False: it is the last."""
        self.answer.reason(delta)
        if self._capping is not None:
            self._perform(self._capping.reasoned(self.answer.reasoning_tokens))
        return not self._spent

    def _identify(self, data: bytes) -> None:
        self._looks += 1
        identity = self._dialect.identity(data)
        if identity.id is not None:
            self._looks = LOOKS
            self.answer.identify(identity)

    def _absorb(self, deltas: Sequence[Delta]) -> list[Finish]:
        """Tell the answer what was said; the finishes that count."""
        if not self._hold and not self._guarded:
            return self.answer.hear(deltas, again=self._every)
        finishes: list[Finish] = []
        for delta in deltas:
            if isinstance(delta, PIECES):
                if self._hold:  # of this choice, or of another: then the usage is a sum
                    self._let_go(more=True)
                self._guarded = self._refused
            finishes += self.answer.hear((delta,), again=self._every)
        return finishes

    def _pass(self, frame: Frame, finishes: list[Finish], *, told: bool) -> None:
        """Send the frame, or hold it; settle when all is known. `told`: a usage stands on it."""
        raw = self._dialect.strip(frame, self._plan.added) if told or self._plan.added.control else frame.raw
        if finishes and self._every:
            self._let_go(more=True)
        held = Held(raw or b"", frame, finishes)  # None: our asking alone caused this frame
        if self._hold or any(self._must_wait(finish) for finish in finishes):
            self._hold.add(held)
        else:
            self._send(held, upgraded=False, more=self._every)
        known = told and not self._every and self.answer.tokens is not None and self._plan.output_cap.choices == 1
        if (known and self.answer.finishes) or self.answer.over:
            self._settle()
        elif self._hold.full:
            self._let_go()

    def _must_wait(self, finish: Finish) -> bool:
        if self._every:
            promoted = self.answer.may_promote and finish.reason in PROMOTED_AT
            return promoted or self.answer.judge(finish).verdict == "upgraded"
        return self.answer.could_raise(finish)

    def _guard(self, finishes: list[Finish]) -> None:
        if not self._guarded or self._refused:
            return
        if self._waits > GUARD_BYTES:  # it goes now, and cannot be taken back
            self._guarded = False
        elif self.answer.failed is not None:
            self._actions.append(Refused(self.answer.failed.text))
        elif finishes or self.answer.over:
            self._guarded = False

    @property
    def _refused(self) -> bool:
        """A refusal is to be handed over: what comes behind it in one read waits with it."""
        return self._guarded and bool(self._actions)

    def _perform(self, step: Ask | GiveUp | None) -> None:
        if isinstance(step, GiveUp):
            self._actions.append(step)
            self._spent, self._alike = True, None
        elif step is not None and self.answer.turn.response_id is not None:
            self._actions.append(EndReasoning(self.answer.turn.response_id))
        elif step is not None and self._capping is not None:  # nothing to name the completion by
            self._perform(self._capping.answered("error"))

    def _settle(self) -> None:
        """State the verdict, and let go what waited for it."""
        if self._hold or self.answer.finishes:
            settled = self.answer.settle(gone=not self._hold)
            self._let_go(upgraded=settled.verdict == "upgraded")

    def _let_go(self, *, upgraded: bool = False, more: bool = False) -> None:
        for held in self._hold.release():
            self._send(held, upgraded=upgraded, more=more)

    def _send(self, held: Held, *, upgraded: bool, more: bool) -> None:
        """Send a frame. `more`: the turn may go on, so its finish may be none."""
        if held.finishes:
            promoted = "" if more else self.answer.promote()
            if promoted:
                self._out.append(self._dialect.promoted_event(held.frame.data or b"", promoted, self.answer.block))
            self._out.append(retold(held, self._dialect, self._plan.output_cap, upgraded=upgraded))
        else:
            self._out.append(held.raw)

    def _flush(self) -> list[Action]:
        out = self._out
        if len(out) == 1 and not self._actions and not self._guarded:  # nearly always
            data = out.pop()
            return [Forward(data)] if data else []
        actions, self._actions = self._actions, []
        if not out or (self._guarded and (actions or self._waits <= GUARD_BYTES)):
            return actions
        self._guarded = False
        self._out = []
        data = out[0] if len(out) == 1 else b"".join(out)
        return [Forward(data), *actions] if data else actions
