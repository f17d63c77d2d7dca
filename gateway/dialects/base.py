"""What every dialect can do. A dialect is a table of facts and these methods: no state, no I/O, one shared instance."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal, TypeVar

from msgspec import Struct

from gateway.calls import NO_WISHES, OURS, Call, HeaderList, Wishes, header
from gateway.deltas import Delta, Failure, Identity
from gateway.errors import BadRequest, CallError
from gateway.sse import Frame
from gateway.surrogates import UNREADABLE
from gateway.template import Blanks
from gateway.words import DialectName, Reason

AskedT = TypeVar("AskedT", bound=Struct)

FinishRides = Literal["before_usage", "with_usage", "every_frame"]
"""Where the finish word travels: in a frame before the usage (chat), together with it (responses, messages), or on any
frame, where the last one counts (gemini). It decides what has to be held."""

UNFINISHED: Final = frozenset({None, "", "null"})
"""Values of a finish field that mean `not finished yet`."""

_WORDS: Final[dict[Reason, str]] = {
    "stop": "stop end_turn stop_sequence STOP completed eos eos_token end COMPLETE",
    "length": "length max_tokens MAX_TOKENS max_output_tokens model_length model_context_window_exceeded incomplete",
    "tool_calls": "tool_calls tool_use function_call",
    "content_filter": "content_filter SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII refusal",
    "error": "error MALFORMED_FUNCTION_CALL insufficient_system_resource abort failed",
}
FINISH_WORDS: Final[Mapping[str, Reason]] = {word: reason for reason, words in _WORDS.items() for word in words.split()}
"""Finish words of all vendors and their cousins. A dialect adds its own on top of its file."""


class Malformed(ValueError):
    """The bytes are not what the dialect says. They pass on untouched and are counted."""


class Additions(Struct, frozen=True):
    """Fields the gateway adds to a request for a rule; what they cause in the answer is taken out again."""

    usage: bool = False
    """Chat streams: usage at the end (`stream_options.include_usage`)."""
    control: bool = False
    """llama.cpp chat: the completion opts in to the control call, and every frame carries its running count."""
    stream: bool = False
    """Chat: a whole answer is streamed, with usage, and put together here."""


NOTHING_ADDED: Final = Additions()
NO_BOUND: Final = 10**9
"""Tokens: a thinking cap above this bounds no model, however many digits it has."""


class Relabelled(Struct, frozen=True):
    """JSON with another finish word, and the event name that goes with it where the name changes too."""

    data: bytes
    event: bytes | None = None


class Dialect(ABC):
    """One wire dialect, as the vendor's own servers and their cousins speak it."""

    name: ClassVar[DialectName]
    operation: ClassVar[str] = "chat"
    """`gen_ai.operation.name` of its spans."""
    finish_rides: ClassVar[FinishRides]
    said: ClassVar[Mapping[Reason, str]]
    """A folded reason in the dialect's own word; a reason that is not there cannot be said."""
    done: ClassVar[bytes | None] = None
    """The data of a last frame that is no JSON (`[DONE]`)."""
    differs: ClassVar[Blanks | None] = None
    """What differs between two pieces of text, by its keys, whatever they say else (`template.blanks`); None: much."""

    @abstractmethod
    def read_call(self, path: str, query: bytes, headers: HeaderList, body: bytes) -> Call:
        """What the caller asked. Raises BadRequest, naming the field, when it is no request of this dialect."""

    @abstractmethod
    def upstream_body(self, call: Call, added: Additions) -> bytes:
        """The caller's body, byte for byte, save the added fields."""

    @abstractmethod
    def read_frame(self, frame: Frame) -> Sequence[Delta]:
        """What one event of a stream says. Raises Malformed. Called for every event: fast."""

    @abstractmethod
    def read_body(self, body: bytes) -> Sequence[Delta]:
        """What a whole answer says, as if it were one event. Raises Malformed when it is not this dialect's answer."""

    @abstractmethod
    def identity(self, data: bytes) -> Identity:
        """Id and model of the answer, from a whole answer or an early event. Total: unreadable bytes give none."""

    @abstractmethod
    def relabel(self, data: bytes, choice: int, reason: Reason) -> Relabelled:
        """The JSON of an event or a whole answer with the finish word of one choice changed and nothing else."""

    @abstractmethod
    def strip(self, frame: Frame, added: Additions) -> bytes | None:
        """The event's raw bytes without what our additions caused; None when the whole event is our doing."""

    @abstractmethod
    def promote(self, body: bytes) -> bytes:
        """A whole answer whose reasoning was moved into the visible text, where there was none."""

    @abstractmethod
    def promoted_event(self, like: bytes, text: str, block: int) -> bytes:
        """Content with this text as whole events, to go before the finish event `like` (its JSON).

        `block` is the last part of the answer that held reasoning. b"" where it cannot be said soundly.
        """

    @abstractmethod
    def error_body(self, error: CallError) -> bytes:
        """An error of the gateway's own in the dialect's shape, with its code."""

    @abstractmethod
    def error_event(self, error: CallError) -> bytes:
        """The same as one whole event of a stream."""


def read_wishes(headers: HeaderList) -> Wishes:
    """What the caller asked of Thinkcap by header. Raises BadRequest on a thinking cap that is no positive integer."""
    if b" ".join(dict(headers)).find(OURS) < 0:
        return NO_WISHES
    purpose, cap = header(headers, b"x-thinkcap-purpose"), header(headers, b"x-thinkcap-thinking-cap")
    return Wishes(
        purpose=purpose.decode("latin-1").strip() if purpose else None,
        thinking_cap=None if cap is None else _positive(cap),
        retried=header(headers, b"x-thinkcap-retried") is not None,
        facts=header(headers, b"x-thinkcap-facts") == b"1",
    )


def _positive(value: bytes) -> int:
    text = value.decode("latin-1").strip()
    digits = text.lstrip("0")
    if not (text.isascii() and text.isdigit() and digits):
        message = "header x-thinkcap-thinking-cap must be a positive integer of tokens"
        raise BadRequest(message)
    return int(digits) if len(digits) < len(str(NO_BOUND)) else NO_BOUND


def read_object(decode: Callable[[bytes], AskedT], body: bytes) -> AskedT:
    """The fields of a request that a rule looks at. Raises BadRequest when the body is no JSON object."""
    try:
        return decode(body)
    except UNREADABLE as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(f"the request body must be a JSON object: {said}") from None


def text_field(name: str, value: object) -> str:
    """A field that is text when it is there. Raises BadRequest naming it."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest(f"field {name} must be a string")
    return value


def usable_cap(value: object) -> int | None:
    """A cap as the rules see it: None when absent or null, 0 when it is no positive integer."""
    if value is None:
        return None
    return value if type(value) is int and value > 0 else 0


def count(value: object) -> int | None:
    """A token count as the rules see it: None unless it is an integer of at least 0."""
    return value if type(value) is int and value >= 0 else None


def failure(error: object, text: bytes) -> Failure:
    """A failure told inside an answer; its kind is the first of type, code, status that is a short word."""
    kind = "error"
    if isinstance(error, dict):
        for key in ("type", "code", "status"):
            value = error.get(key)
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "error":
                kind = str(value)[:64]
                break
    return Failure(kind, text)
