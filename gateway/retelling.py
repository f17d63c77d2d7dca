"""What the caller is told in place of what came: another finish word in a frame or a body, and nothing else changed."""

from collections.abc import Sequence

from gateway.deltas import Finish
from gateway.dialects.base import Dialect
from gateway.hold import Held
from gateway.rules.output_cap import OutputCap
from gateway.sse import rewrite
from gateway.words import Reason


def retold(held: Held, dialect: Dialect, rule: OutputCap, *, upgraded: bool) -> bytes:
    """A frame's bytes as they leave: the very ones that came, unless a rule relabels its finish."""
    came = data = held.frame.data or b""
    event = None
    for finish in held.finishes:
        reason = _instead(finish, dialect, rule, upgraded=upgraded)
        if reason is not None:
            changed = dialect.relabel(data, finish.choice, reason)
            data, event = changed.data, changed.event or event
    if data is came:
        return held.raw
    return rewrite(held.frame, data, event if held.frame.event is not None else None)


def retold_body(body: bytes, finishes: Sequence[Finish], dialect: Dialect, rule: OutputCap, *, upgraded: bool) -> bytes:
    """The same for a whole answer."""
    for finish in finishes:
        reason = _instead(finish, dialect, rule, upgraded=upgraded)
        if reason is not None:
            body = dialect.relabel(body, finish.choice, reason).data
    return body


def _instead(finish: Finish, dialect: Dialect, rule: OutputCap, *, upgraded: bool) -> Reason | None:
    """The reason to be told; None: the word that came says it."""
    reason = rule.instead(finish, upgraded=upgraded)
    return None if reason is None or dialect.said.get(reason) == finish.raw else reason
