"""A request in any of the four dialects, written and read by one table of where things stand in it.

Callers of the demo write requests with it, the scripted server reads them with it. Independent of `gateway.dialects` on
purpose, so that each is a check on the other.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from gateway.words import DialectName, Level

Path = tuple[str, ...]


class Places(Struct, frozen=True, kw_only=True):
    """Where a dialect's request carries what. () where it has no such thing."""

    path: str
    prompt: Mapping[str, Any]
    cap: tuple[Path, ...]
    """The first that is there counts; the first is written."""
    level: Path
    off: str
    """The dialect's word for no thinking at all."""
    choices: Path = ()
    stop: Path = ()
    budget: tuple[Path, ...] = ()
    tools: Any = ()


_SAY: Final = "What is it?"
_LOOK: Final = {"type": "object", "properties": {"where": {"type": "string"}}}

PLACES: Final[Mapping[DialectName, Places]] = {
    "chat": Places(
        path="/v1/chat/completions",
        prompt={"messages": [{"role": "user", "content": _SAY}]},
        cap=(("max_completion_tokens",), ("max_tokens",)),
        level=("reasoning_effort",),
        off="none",
        choices=("n",),
        stop=("stop",),
        budget=(("thinking_budget_tokens",), ("thinking_token_budget",)),
        tools=[{"type": "function", "function": {"name": "look", "parameters": _LOOK}}],
    ),
    "responses": Places(
        path="/v1/responses",
        prompt={"input": _SAY},
        cap=(("max_output_tokens",),),
        level=("reasoning", "effort"),
        off="none",
        tools=[{"type": "function", "name": "look", "parameters": _LOOK}],
    ),
    "messages": Places(
        path="/v1/messages",
        prompt={"messages": [{"role": "user", "content": _SAY}]},
        cap=(("max_tokens",),),
        level=("output_config", "effort"),
        off="low",  # it has none among its efforts
        stop=("stop_sequences",),
        budget=(("thinking", "budget_tokens"),),
        tools=[{"name": "look", "input_schema": _LOOK}],
    ),
    "gemini": Places(
        path="/v1beta/models/{model}:{action}",
        prompt={"contents": [{"role": "user", "parts": [{"text": _SAY}]}]},
        cap=(("generationConfig", "maxOutputTokens"),),
        level=("generationConfig", "thinkingConfig", "thinkingLevel"),
        off="OFF",
        choices=("generationConfig", "candidateCount"),
        stop=("generationConfig", "stopSequences"),
        budget=(("generationConfig", "thinkingConfig", "thinkingBudget"),),
        tools=[{"functionDeclarations": [{"name": "look", "parameters": _LOOK}]}],
    ),
}


class Wish(Struct, frozen=True, kw_only=True):
    """What a caller wants, before it is said in a dialect."""

    dialect: DialectName
    model: str
    stream: bool = True
    cap: int | None = None
    level: Level | None = None
    choices: int = 1
    stop: str | None = None
    tools: bool = False
    more: Mapping[str, Any] = {}
    """Fields of the body that only one server knows."""

    def path(self) -> str:
        """Path and query of the request."""
        action = "streamGenerateContent?alt=sse" if self.stream else "generateContent"
        return PLACES[self.dialect].path.format(model=self.model, action=action)

    def body(self) -> dict[str, Any]:
        """The request's body."""
        places = PLACES[self.dialect]
        body: dict[str, Any] = dict(places.prompt)
        if self.dialect != "gemini":
            body |= {"model": self.model, "stream": self.stream}
        word = places.off if self.level == "off" else self.level
        if word is not None and self.dialect == "gemini":
            word = word.upper()
        _put(body, places.cap[0], self.cap)
        _put(body, places.level, word)
        _put(body, places.choices, self.choices if self.choices > 1 else None)
        _put(body, places.stop, [self.stop] if self.stop else None)
        _put(body, ("tools",), places.tools if self.tools else None)
        return body | dict(self.more)


class Asked(Struct, frozen=True, kw_only=True):
    """What a request says, as far as a script looks at it."""

    dialect: DialectName
    model: str
    stream: bool
    cap: int | None = None
    level: str | None = None
    """As it was spelt."""
    choices: int = 1
    stop: str | None = None
    """The first stop sequence."""
    budget: int | None = None
    usage: bool = True
    """Usage is wanted in a stream."""
    armed: bool = False
    """llama.cpp: the completion takes control calls."""
    timings: bool = False
    """llama.cpp: a running count on every chunk."""


def read(dialect: DialectName, body: bytes, model: str | None = None, *, stream: bool | None = None) -> Asked:
    """Read a request; `model` and `stream` where the path says them. Raises ValueError when the body is no object."""
    found = msgspec.json.decode(body)
    if not isinstance(found, dict):
        raise ValueError("a JSON object is expected")  # noqa: TRY004 - a wrong value, not a wrong use
    places = PLACES[dialect]
    stops, options = _at(found, places.stop), found.get("stream_options")
    choices = _at(found, places.choices)
    level = _at(found, places.level)
    return Asked(
        dialect=dialect,
        model=model or str(found.get("model", "")),
        stream=found.get("stream") is True if stream is None else stream,
        cap=_first_number(found, places.cap),
        level=level if isinstance(level, str) else None,
        choices=choices if isinstance(choices, int) and choices > 1 else 1,
        stop=stops if isinstance(stops, str) else next(iter(stops or ()), None),
        budget=_first_number(found, places.budget),
        usage=dialect != "chat" or (isinstance(options, dict) and options.get("include_usage") is True),
        armed=found.get("reasoning_control") is True,
        timings=found.get("timings_per_token") is True,
    )


def _first_number(found: dict[str, Any], paths: tuple[Path, ...]) -> int | None:
    numbers = (value for path in paths if type(value := _at(found, path)) is int and value > 0)
    return next(numbers, None)


def _at(found: Any, path: Path) -> Any:
    if not path:
        return None
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _put(body: dict[str, Any], path: Path, value: object) -> None:
    if not path or value is None:
        return
    *parents, last = path
    for key in parents:
        body = body.setdefault(key, {})
    body[last] = value
