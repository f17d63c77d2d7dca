"""A thinking budget in the server's own field, written into a request before it goes out.

It only lowers, min(the caller's, the cap); it never switches thinking on and never stands beside a thinking level.
What cannot be said that way is not said: the cap then only counts.
"""

# server, dialect       field                                         least    where the caller named none
# --------------------  --------------------------------------------  -------  --------------------------------------
# llama.cpp chat and    reasoning_budget_tokens where it is a number  0        written: it switches nothing on
#   responses             (it wins), else thinking_budget_tokens
# llama.cpp messages    thinking.budget_tokens beside type enabled;   0        written, unless thinking is disabled
#                         every other form is ignored
# vLLM chat             thinking_token_budget                         0        written (server: --reasoning-config)
# SGLang chat           custom_params.thinking_budget                 0        written (--enable-strict-thinking)
# else messages         thinking.budget_tokens, below max_tokens      1024     never: it would switch thinking on
# gemini                generationConfig.thinkingConfig               by       written for models that think when told
#                         .thinkingBudget, or in snake case           model      nothing
#
# llama.cpp's rows are measured on b11549; the others are what the vendors document.

from collections.abc import Mapping
from typing import Any, Final

from gateway import splice
from gateway.dialects.places import FIELDS, ITEMS, SWITCHES, Path
from gateway.surrogates import UNREADABLE, decoded
from gateway.words import DialectName, UpstreamKind

_FLAT: Final[Mapping[tuple[UpstreamKind, DialectName], Path]] = {
    ("llama.cpp", "chat"): ("thinking_budget_tokens",),
    ("llama.cpp", "responses"): ("thinking_budget_tokens",),
    ("vllm", "chat"): ("thinking_token_budget",),
    ("sglang", "chat"): ("custom_params", "thinking_budget"),
}
_LLAMA_FIRST: Final[Path] = ("reasoning_budget_tokens",)
_NO_BUDGET: Final = -1
"""The caller's word for `as much as you like` on the servers that have one."""
ANTHROPIC_LEAST: Final = 1024
GEMINI: Final[Mapping[str, tuple[int, bool]]] = {
    "gemini-2.5-flash-lite": (512, False),
    "gemini-2.5-flash": (1, True),
    "gemini-2.5-pro": (128, True),
}
"""The least budget, and whether the model thinks when it is told nothing; by the beginning of its name."""
GEMINI_OTHER: Final = (512, False)
"""Other models are given a budget only where the caller named one: those that take levels refuse it."""
DO_NOT_THINK: Final = ("image", "tts", "audio")
"""In the rest of a model's name: it draws or speaks, and may refuse to think."""


def write_budget(dialect: DialectName, kind: UpstreamKind, body: bytes, cap: int, *, model: str = "") -> bytes | None:
    """The request body with a thinking budget of at most `cap` tokens; the same bytes where it bounds enough already.

    None: it cannot be said. `model` is needed for gemini alone, whose body does not name it.
    """
    try:
        asked = decoded(body)
    except UNREADABLE:
        return None
    if not isinstance(asked, dict) or _has_level(dialect, asked):
        return None
    if dialect == "gemini":
        return _gemini(body, asked, cap, model)
    if dialect == "messages":
        return _messages(kind, body, asked, cap)
    path = _FLAT.get((kind, dialect))
    if path is None:
        return None
    if kind == "llama.cpp" and isinstance(_at(asked, _LLAMA_FIRST), int | float):
        path = _LLAMA_FIRST
    if not _fits(asked, path):
        return None
    return _lowered(body, path, _at(asked, path), cap)


def has_budget(dialect: DialectName, kind: UpstreamKind) -> bool:
    """Whether there is a field for a budget at all; whether a call can have it is for `write_budget` to say."""
    return dialect in {"messages", "gemini"} or (kind, dialect) in _FLAT


def _messages(kind: UpstreamKind, body: bytes, asked: dict[str, Any], cap: int) -> bytes | None:
    path, given = ("thinking", "budget_tokens"), _at(asked, ("thinking", "type"))
    if kind == "llama.cpp":
        if not _fits(asked, path) or any(given == switch.off for switch in SWITCHES["messages"]):
            return None
        if given != "enabled":
            body = splice.put(body, ("thinking", "type"), b'"enabled"')
        return _lowered(body, path, _at(asked, path), cap)
    budget, most = _at(asked, path), asked.get("max_tokens")
    if given != "enabled" or type(budget) is not int:
        return None
    lower = min(budget, cap)
    if lower < ANTHROPIC_LEAST or (type(most) is int and lower >= most):
        return None
    return _lowered(body, path, budget, cap)


def _gemini(body: bytes, asked: dict[str, Any], cap: int, model: str) -> bytes | None:
    config = "generation_config" if "generation_config" in asked else "generationConfig"
    inner = _at(asked, (config,))
    thinking = "thinking_config" if isinstance(inner, dict) and "thinking_config" in inner else "thinkingConfig"
    said = _at(asked, (config, thinking))
    fields = said if isinstance(said, dict) else {}
    path = (config, thinking, "thinking_budget" if "thinking_budget" in fields else "thinkingBudget")
    least, thinks = next((row for name, row in GEMINI.items() if _is_model(model, name)), GEMINI_OTHER)
    budget = _at(asked, path)
    if not _fits(asked, path) or cap < least or (budget is None and not thinks):
        return None
    return _lowered(body, path, budget, cap)


def _is_model(model: str, name: str) -> bool:
    return model.startswith(name) and not any(part in model[len(name) :] for part in DO_NOT_THINK)


def _lowered(body: bytes, path: Path, budget: object, cap: int) -> bytes | None:
    """The body with min(budget, cap) there. A budget that is no usable number is left to the server's judgement."""
    if budget is None or budget == _NO_BUDGET or (isinstance(budget, int | float) and budget > cap):
        return splice.put(body, path, str(cap).encode())
    return body if isinstance(budget, int | float) else None


def _has_level(dialect: DialectName, asked: dict[str, Any]) -> bool:
    """A field for a level says something, a word of the ladder or another; Ollama's `think: true` says none."""
    said = [_at(asked, path) for path in FIELDS[dialect]]
    if dialect in ITEMS:
        name, _, _, inner = ITEMS[dialect]
        items = asked.get(name)
        said += [_at(item, inner) for item in items] if isinstance(items, list) else []
    return any(value is not None and value is not True for value in said)


def _at(value: object, path: Path) -> Any:
    """What stands at a path of objects; None when nothing does."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _fits(asked: dict[str, Any], path: Path) -> bool:
    """Nothing on the way to the field is anything but an object."""
    on_the_way = (_at(asked, path[:length]) for length in range(1, len(path)))
    return all(value is None or isinstance(value, dict) for value in on_the_way)
