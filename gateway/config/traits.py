"""What is known of the kinds of servers before any setting: the table the defaults of an upstream come from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from gateway.words import DIALECTS, DialectName, MappedReason, Method, UpstreamKind


class Traits(Struct, frozen=True, kw_only=True):
    """What is known of a kind of server. `methods`: how a thinking cap acts, best first; `watch` where none."""

    ask_usage: bool = True
    """It takes `stream_options.include_usage` (chat)."""
    enforces_cap: bool = False
    """Its output cap bounds thinking too, and a stop exactly on it is genuine."""
    per_frame: bool = False
    """One token a frame, so frames can be counted where it gives no count."""
    methods: Mapping[DialectName, tuple[Method, ...]] = {}


_PLAIN: Final = Traits()
_BUDGETED: Final = Traits(per_frame=True, methods=dict.fromkeys(DIALECTS, ("budget",)))
_LLAMA: Final = Traits(
    enforces_cap=True, per_frame=True, methods={"chat": ("control", "budget"), "messages": ("budget",)}
)
TRAITS: Final[Mapping[UpstreamKind, Traits]] = MappingProxyType(
    {
        "openai": _PLAIN,
        "anthropic": _PLAIN,
        "gemini": _PLAIN,
        "llama.cpp": _LLAMA,
        "vllm": _BUDGETED,
        "sglang": _BUDGETED,
        "thinkcap": _PLAIN,
        "generic": _PLAIN,
    }
)

UNSAYABLE: Final[Mapping[DialectName, MappedReason]] = MappingProxyType(
    {"messages": "error", "gemini": "tool_calls", "responses": "tool_calls"}
)
"""The reason a dialect has no finish word for: nothing can be mapped to it there."""
