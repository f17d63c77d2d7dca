"""What the upstream said, in words all dialects share. Visible text stays in its dialect: a delta says that it came."""

from typing import TypeAlias

from msgspec import Struct

from gateway.words import Level, Reason


class Reasoning(Struct, frozen=True):
    """A piece of thinking. `running` is the exact number of tokens produced so far where the frame gives one.

    Empty text says that thinking came which is not told. A `summary` is a retelling: it counts where no text comes.
    """

    text: str
    running: int | None = None
    choice: int = 0
    summary: bool = False
    block: int = 0
    """The part of the answer it stands in, where the dialect numbers them (messages)."""


class Content(Struct, frozen=True):
    """Visible text came."""

    choice: int = 0


class ToolCall(Struct, frozen=True):
    """A tool call, or a piece of one, came."""

    choice: int = 0


class Finish(Struct, frozen=True):
    """A finish word. `stop_evidence`: True the caller's own stop sequence, False a natural end, None not said."""

    raw: str
    reason: Reason
    stop_evidence: bool | None = None
    choice: int = 0


class Usage(Struct, frozen=True):
    """Token counts so far; the last one seen replaces earlier ones.

    `output` is what the cap is compared with (reasoning included). None: the provider gave none, or no usable one.
    `part` marks one of several usage events of one turn that add up (llama.cpp sends one per choice).
    """

    output: int | None
    input: int | None = None
    reasoning: int | None = None
    cached: int | None = None
    part: bool = False


class Failure(Struct, frozen=True):
    """An error told inside an answer whose status was good. `text` is the error as it came; it never reaches a log."""

    kind: str
    """The provider's own type or code, for a span: at most 64 characters."""
    text: bytes


class Refusal(Struct, frozen=True, kw_only=True):
    """The upstream refused a thinking level (`rules.refusals` reads it from the error)."""

    level: Level | None
    """The refused one. None: an operator's pattern without a group matched a call that carried no level."""
    listed: tuple[Level, ...] | None = None
    """The levels the refusal itself offers, least first; None when it lists none."""
    field: str | None = None
    """The level field it names, as it is written there."""
    first_declared: bool = False
    """No walk: an operator's pattern without a group matched, and the target is the first declared level."""


class Done(Struct, frozen=True):
    """The turn is over: the dialect's last frame."""


class Unjudged(Struct, frozen=True):
    """The answer is no turn that a rule can judge, and nothing is wrong with it.

    It is accepted for later (responses in the background), or a stream without events (gemini without `alt=sse`).
    """


Delta: TypeAlias = Reasoning | Content | ToolCall | Finish | Usage | Failure | Done | Unjudged


class Identity(Struct, frozen=True):
    """Who answered: the upstream's own id of the turn and its name of the model."""

    id: str | None = None
    model: str | None = None
