"""The fields of a request that carry a thinking level, or that a level has to replace, for each dialect."""

# dialect    words                                              off is also                      primary field
# ---------  -------------------------------------------------  -------------------------------  ----------------------
# chat       reasoning_effort (or .effort: LiteLLM)             thinking.type disabled           reasoning_effort
#            reasoning.effort (OpenRouter)                      reasoning.enabled false
#            chat_template_kwargs.reasoning_effort (vLLM, ...)  ....enable_thinking false
#            think (Ollama)                                     think false
#            google.thinking_config.thinking_level              ....thinking_budget 0
# responses  reasoning.effort, and of configuration updates     reasoning.enabled false          reasoning.effort
#            in input[], the last of which counts
# messages   output_config.effort, and of system messages,      thinking.type disabled           output_config.effort
#            the last of which counts
# gemini     generationConfig.thinkingConfig.thinkingLevel,     ....thinkingBudget 0             ....thinkingLevel
#            also in snake case
#
# Sources: the vendors' own SDKs and documents, 2026-11. null and absent are the model's default, not off.

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from gateway.words import DialectName

Path: TypeAlias = tuple[str | int, ...]


class Switch(NamedTuple):
    """A field one value of which means `off`. `on` is what it is turned to, as JSON; None: the field goes."""

    path: Path
    off: str | bool
    on: bytes | None
    beside: Path | None = None
    """Where the level is written then, if no other place carries one; None: in the primary field."""


def _paths(*dotted: str) -> tuple[Path, ...]:
    return tuple(tuple(path.split(".")) for path in dotted)


_GOOGLE: Final = _paths("google", "extra_body.google")
_CONFIGS: Final = _paths(
    "generationConfig.thinkingConfig", "generationConfig.thinking_config",
    "generation_config.thinking_config", "generation_config.thinkingConfig",
)  # fmt: skip
THINKING: Final[Mapping[DialectName, tuple[Path, ...]]] = {
    "gemini": _CONFIGS,
    "chat": tuple((*google, config) for google in _GOOGLE for config in ("thinking_config", "thinkingConfig")),
}
"""Google's thinking configuration: a level or a budget, never both."""
LEVEL_KEYS: Final[Mapping[str, str]] = {"thinkingBudget": "thinkingLevel", "thinking_budget": "thinking_level"}

WORDS: Final[Mapping[DialectName, tuple[Path, ...]]] = {
    "chat": _paths(
        "reasoning_effort", "reasoning_effort.effort", "reasoning.effort", "chat_template_kwargs.reasoning_effort",
        "chat_template_kwargs.reasoning_strength", "chat_template_args.reasoning_effort", "think",
    ),
    "responses": _paths("reasoning.effort"),
    "messages": _paths("output_config.effort"),
    "gemini": (),
}  # fmt: skip
FIELDS: Final[Mapping[DialectName, tuple[Path, ...]]] = {
    dialect: paths + tuple((*config, key) for config in THINKING.get(dialect, ()) for key in LEVEL_KEYS.values())
    for dialect, paths in WORDS.items()
}
"""All that hold a word for a level, those of single items aside."""
SWITCHES: Final[Mapping[DialectName, tuple[Switch, ...]]] = {
    "chat": (
        Switch(("thinking", "type"), off="disabled", on=b'"enabled"'),
        Switch(("reasoning", "enabled"), off=False, on=b"true", beside=("reasoning", "effort")),
        Switch(("enable_thinking",), off=False, on=b"true"),
        Switch(("chat_template_kwargs", "enable_thinking"), off=False, on=b"true"),
        Switch(("chat_template_kwargs", "thinking"), off=False, on=b"true"),
        Switch(("chat_template_args", "enable_thinking"), off=False, on=b"true"),
    ),
    "responses": (Switch(("reasoning", "enabled"), off=False, on=b"true"),),
    "messages": (
        Switch(("thinking", "type"), off="disabled", on=None),
        Switch(("thinking", "type"), off="between_tools", on=None),
    ),
    "gemini": (),
}
PRIMARY: Final[Mapping[DialectName, Path]] = {
    "chat": ("reasoning_effort",),
    "responses": ("reasoning", "effort"),
    "messages": ("output_config", "effort"),
    "gemini": ("generationConfig", "thinkingConfig", "thinkingLevel"),
}
ITEMS: Final[Mapping[DialectName, tuple[str, str, str, Path]]] = {
    "responses": ("input", "type", "configuration_update", ("reasoning", "effort")),
    "messages": ("messages", "role", "system", ("output_config", "effort")),
}
"""List, and which of its items carry a level where: the last one counts."""
