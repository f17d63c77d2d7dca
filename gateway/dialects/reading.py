"""What the dialects share: reading JSON that should be theirs, and letting pass what needs no change."""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from gateway.calls import Call
from gateway.deltas import Content, Delta, Done, Identity, Unjudged
from gateway.dialects.base import Additions, Dialect, Malformed, failure
from gateway.sse import Frame
from gateway.surrogates import UNREADABLE, reader

NOTHING: Final[Sequence[Delta]] = ()
ANSWER_ONLY: Final[Sequence[Delta]] = (Content(),)
DONE_ONLY: Final[Sequence[Delta]] = (Done(),)
UNJUDGED: Final[Sequence[Delta]] = (Unjudged(),)
DONE: Final = b"[DONE]"
"""OpenAI's last frame of a chat stream; cousins end streams of every dialect with it."""

ReadT = TypeVar("ReadT")


class Untouched(Dialect):
    """A dialect whose answers say unasked what the rules need: requests and events pass as they come."""

    def upstream_body(self, call: Call, added: Additions) -> bytes:  # noqa: ARG002 - there is nothing to add
        """The caller's bytes."""
        return call.body

    def strip(self, frame: Frame, added: Additions) -> bytes | None:  # noqa: ARG002 - nothing was added
        """The event as it came."""
        return frame.raw


class _Head(Struct):
    type: object = None
    id: object = None
    model: object = None


class _Error(Struct):
    error: object = None


_ERROR_ALONE: Final = re.compile(rb'\s*\[\s*\{\s*"error"\s*:')
_head = reader(_Head)
_errors = reader(list[_Error])


def read(decode: Callable[[bytes], ReadT], data: bytes) -> ReadT:
    """The fields a dialect looks at. Raises Malformed."""
    try:
        return decode(data)
    except UNREADABLE as error:
        raise Malformed from error


def unreadable(frame: Frame, known: frozenset[str]) -> Sequence[Delta]:
    """What an event says that could not be read: `[DONE]` ends the turn, a type not `known` says nothing.

    Raises Malformed for everything else but an error. Types of the future may hold any shape in fields that have one
    today.
    """
    data = frame.data or b""
    if data.strip() == DONE:
        return DONE_ONLY
    kind = read(_head, data).type
    if frame.event == b"error":
        return [failure({"type": kind}, data)]
    if isinstance(kind, str) and kind not in known:
        return NOTHING
    raise Malformed


def error_alone(body: bytes) -> Sequence[Delta]:
    """The error in an array of one, as Google wraps some; nothing in other bodies."""
    if not _ERROR_ALONE.match(body):
        return NOTHING
    items = read(_errors, body)
    return [failure(items[0].error, body)] if len(items) == 1 else NOTHING


def read_identity(data: bytes) -> Identity:
    """Id and model at the top level. Total."""
    try:
        head = _head(data)
    except UNREADABLE:
        return Identity()
    return identity(head.id, head.model)


def identity(name: object, model: object) -> Identity:
    """Id and model, where they are text."""
    return Identity(name if isinstance(name, str) else None, model if isinstance(model, str) else None)
