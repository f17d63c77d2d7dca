"""Declared thinking levels of models, from the shipped table `levels.toml`; settings win over it.

A name is looked up as it is written, then without what providers and resellers put around it: a provider's prefix, a
region, a version, a date, `-latest`. What is left must be a name of the table: nothing is guessed from its beginning.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import Struct

from gateway.words import Level

_PATH: Final = re.compile(r"^(?:models|publishers/[a-z]+/models|projects/.*/models)/")
_REGION: Final = re.compile(r"^(?:us|eu|apac|global|jp|au|ca|sa)\.(?=[a-z]+\.)")
"""Bedrock's cross-region names: `us.anthropic.claude-opus-4-6-v1:0`."""
_SUFFIXES: Final = (
    re.compile(r":(?:free|nitro|floor|beta|exacto|extended|thinking)$"),  # OpenRouter's variants
    re.compile(r"-v\d{1,2}(?::\d{1,2})?$"),  # Bedrock's versions
    re.compile(r"-0\d\d$"),  # Google's: gemini-2.5-flash-001
    re.compile(r"[-@]20\d\d-?[01]\d-?[0-3]\d$"),
    re.compile(r"-preview-[01]\d-(?:20\d\d|[0-3]\d)$"),  # Google's dated previews
    re.compile(r"[-@](?:latest|default)$"),
)
_SELF_HOSTED: Final = frozenset(("llama.cpp", "vllm", "sglang"))
"""There a chat template decides, not a provider."""


class Budget(Struct, frozen=True):
    """What a model takes that knows tokens and no levels; `most` 0: no known end. `off`: 0 turns thinking off."""

    least: int
    most: int
    off: bool


class Declared(Struct, frozen=True, kw_only=True):
    """What the table says of one model."""

    provider: str
    name: str
    """The entry that matched."""
    levels: tuple[Level, ...]
    """Least first; empty for a model that takes a budget of tokens and no level."""
    budget: Budget | None = None
    source: str
    date: str
    """Year and month the source was read."""


class Provider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file."""

    prefixes: tuple[str, ...]
    source: str
    date: str
    levels: Mapping[str, tuple[Level, ...]]
    kind: str | None = None
    aliases: Mapping[str, str] = {}
    budgets: Mapping[str, Budget] = {}


def declared(kind: str, model: str) -> Declared | None:
    """What the table declares for a model of an upstream of this kind; None when it does not know it.

    Upstreams that are no provider of the table (`generic`, `thinkcap`) may serve anyone's models: there a name counts
    when every provider that has it says the same.
    """
    if kind in _SELF_HOSTED:
        return None
    name = _PATH.sub("", model.strip().lower())
    own = [provider for provider, table in catalogue().items() if table.kind == kind]
    found = [one for provider in own or catalogue() if (one := _entry(provider, name))]
    if not found:
        prefix, rest = _split(name)
        found = [
            one
            for provider, table in catalogue().items()
            if prefix in table.prefixes and (provider in own or not own) and (one := _entry(provider, rest))
        ]
    agreed = all((one.levels, one.budget) == (found[0].levels, found[0].budget) for one in found)
    return found[0] if found and agreed else None


@cache
def catalogue() -> Mapping[str, Provider]:
    """The whole table, by provider; read once."""
    text = files(__name__).joinpath("levels.toml").read_text(encoding="utf-8")
    tables: dict[str, Any] = tomllib.loads(text)
    return msgspec.convert(tables, dict[str, Provider])


def _split(name: str) -> tuple[str, str]:
    """A provider's prefix and what it stands before: `google/NAME`, Bedrock's `anthropic.NAME`."""
    name = _REGION.sub("", name)
    prefix, slash, rest = name.partition("/")
    if slash:
        return prefix, _PATH.sub("", rest)
    prefix, dot, rest = name.partition(".")
    return (prefix, rest) if dot else ("", name)


def _entry(provider: str, name: str) -> Declared | None:
    table = catalogue()[provider]
    for spelling in _spellings(name):
        spelt = table.aliases.get(spelling, spelling)
        if spelt in table.levels or spelt in table.budgets:
            return Declared(
                provider=provider,
                name=spelt,
                levels=table.levels.get(spelt, ()),
                budget=table.budgets.get(spelt),
                source=table.source,
                date=table.date,
            )
    return None


def _spellings(name: str) -> Iterator[str]:
    """The name, then without one suffix after the other; Claude's versions with hyphens for the dots of resellers."""
    yield name
    for suffix in _SUFFIXES:
        shorter = suffix.sub("", name)
        if shorter != name:
            name = shorter
            yield name
    if name.startswith("claude-") and "." in name:
        yield name.replace(".", "-")
