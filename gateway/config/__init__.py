"""Settings: TOML text and an environment in, one frozen value out; whatever is wrong stops the start, all said at once.

`tables` has the tables, `values` the kinds of values in them, `reading` the reading.
"""

import tomllib
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from gateway.config.reading import Reader, Refused, join, unknown_word
from gateway.config.tables import (
    HeaderIs,
    Key,
    LevelFallbackSettings,
    Model,
    OutputCapSettings,
    PurposeRule,
    ServerSettings,
    Settings,
    TelemetrySettings,
    ThinkingSettings,
    Upstream,
)
from gateway.config.traits import TRAITS, UNSAYABLE, Traits
from gateway.config.values import Secret, secret_from
from gateway.errors import SettingsErrors

__all__ = [
    "BUILT_IN",
    "TRAITS",
    "HeaderIs",
    "Key",
    "LevelFallbackSettings",
    "Model",
    "OutputCapSettings",
    "PurposeRule",
    "Secret",
    "ServerSettings",
    "Settings",
    "TelemetrySettings",
    "ThinkingSettings",
    "Traits",
    "Upstream",
    "default_settings",
    "parse_settings",
]

BUILT_IN: Final = """\
# Every dialect to its vendor's own address; callers bring their own keys.
[upstreams.openai]
url = "https://api.openai.com"
kind = "openai"
dialects = ["chat", "responses"]

[upstreams.anthropic]
url = "https://api.anthropic.com"
kind = "anthropic"
dialects = ["messages"]

[upstreams.gemini]
url = "https://generativelanguage.googleapis.com"
kind = "gemini"
dialects = ["gemini"]
"""
"""The settings of a gateway that was given none."""

ReadFile = Callable[[str], str]
"""A path as it stands in the settings -> the file's text. May raise OSError or ValueError (no UTF-8)."""


def default_settings(environ: Mapping[str, str]) -> Settings:
    """The settings when there is no file."""
    return parse_settings(BUILT_IN, environ, file="built-in settings")


def parse_settings(
    text: str, environ: Mapping[str, str], *, file: str = "", read_file: ReadFile | None = None
) -> Settings:
    """The settings in `text`, with the secrets they name. `file` is for messages; `read_file` reads secret files.

    Raises SettingsErrors: all that is wrong with single values or, when they are right, all that does not fit together.
    """
    reader = Reader(file)
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reader.refuse("", f"is no TOML: {error}")
        raise SettingsErrors(reader.problems) from None
    settings = reader.table(Settings, found)
    if not reader.problems:
        _check_upstreams(settings, reader)
        _check_the_rest(settings, reader)
        settings = replace(settings, upstreams=_with_secrets(settings, reader, environ, read_file))
    if reader.problems:
        raise SettingsErrors(reader.problems)
    return replace(settings, sha256=sha256(text.encode()).hexdigest())


def _check_upstreams(settings: Settings, reader: Reader) -> None:
    if not settings.upstreams:
        reader.refuse("upstreams", "is empty: name at least one")
    for name, upstream in settings.upstreams.items():
        path = join("upstreams", name)
        if upstream.api_key_env and upstream.api_key_file:
            reader.refuse(f"{path}.api_key_file", "stands beside api_key_env: only one can be the key")
        for word, reason in upstream.finish_reasons.items():
            mute = next((dialect for dialect in upstream.dialects if UNSAYABLE.get(dialect) == reason), None)
            if mute:
                where = join(f"{path}.finish_reasons", word)
                reader.refuse(where, f"{mute} has no finish word for {reason!r}, so none can be mapped to it")


def _check_the_rest(settings: Settings, reader: Reader) -> None:
    for name, model in settings.models.items():
        if model.upstream not in settings.upstreams:
            path = join("models", name) + ".upstream"
            reader.refuse(path, *unknown_word("upstream", model.upstream, tuple(settings.upstreams)))
    names = [key.name for key in settings.keys]
    for i, name in enumerate(names):
        if name in names[:i]:
            reader.refuse(f"keys[{i}].name", f"{name!r} stands there twice")
    for i, rule in enumerate(settings.purposes):
        if not (rule.model or rule.path or rule.header):
            reader.refuse(f"purposes[{i}]", "recognises no call", "any of model, path, header = {name, equals}")


def _with_secrets(
    settings: Settings, reader: Reader, environ: Mapping[str, str], read_file: ReadFile | None
) -> dict[str, Upstream]:
    """The upstreams with their credentials. One that is named but not there stops the start."""
    upstreams = dict(settings.upstreams)
    for name, upstream in settings.upstreams.items():
        key = "api_key_env" if upstream.api_key_env else "api_key_file"
        try:
            upstreams[name] = replace(upstream, api_key=_secret(upstream, environ, read_file))
        except Refused as refused:
            reader.refuse(f"{join('upstreams', name)}.{key}", refused.problem, refused.allowed)
    return upstreams


def _secret(upstream: Upstream, environ: Mapping[str, str], read_file: ReadFile | None) -> Secret | None:
    variable, path = upstream.api_key_env, upstream.api_key_file
    if variable:
        said = f"the variable {variable}" if variable.isupper() else "the variable"  # else it may be a key itself
        return secret_from(environ.get(variable, ""), said)
    if not path:
        return None
    if read_file is None:
        raise Refused("files cannot be read here")
    try:
        text = read_file(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "no reason given") if isinstance(error, OSError) else "it is no UTF-8 text"
        raise Refused(f"the file cannot be read: {reason}") from None
    return secret_from(text, "the file")
