"""The tables of the settings: frozen structs whose fields are the keys one may write, their defaults the defaults.

thinkcap.example.toml says of each what it is for; here stands what a value may be and what else follows from it.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from msgspec.structs import replace

from gateway.config.reading import Table
from gateway.config.traits import TRAITS, Traits
from gateway.config.values import (
    Count,
    Dialects,
    EnvName,
    HeaderName,
    HoldSeconds,
    LadderStep,
    Levels,
    Limit,
    ModelName,
    Name,
    PathStart,
    Pattern,
    Pause,
    Port,
    Purpose,
    Purposes,
    Retries,
    Secret,
    Sha256,
    Tokens,
    Url,
    VersionPath,
    Words,
)
from gateway.words import CONVERSATION, DialectName, MappedReason, Method, UpstreamKind

_NO_SECRETS: Final = "no secrets in the settings: name a variable with api_key_env or a file with api_key_file"


class ServerSettings(Table, frozen=True, kw_only=True):
    """Where the gateway listens and how much it takes. Times in seconds."""

    host: Words = "127.0.0.1"
    port: Port = 8080
    metrics_host: Words = "127.0.0.1"
    metrics_port: Port = 9464
    max_body_bytes: Count = 33_554_432
    max_inflight: Count = 1000
    body_timeout: Limit = 60.0
    """How long a caller may be silent in the middle of a request."""
    send_timeout: Limit = 300.0
    """How long a caller may take nothing of an answer that waits for them."""
    drain_seconds: Pause = 30.0
    keepalive_seconds: Pause = 0.0
    """0: no comments of our own in a silent stream."""


class Key(Table, frozen=True, kw_only=True):
    """Who may call: a name, and the SHA-256 of the key in hex."""

    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("key", "api_key", "value", "token", "secret"), "the key itself is not written down: give its sha256"
    )
    name: Name
    sha256: Sha256


class Upstream(Table, frozen=True, kw_only=True):
    """An LLM server. The fields hold what was set; `traits` and `thinking_methods` say what is in force."""

    elsewhere: ClassVar[frozenset[str]] = frozenset({"name", "api_key"})
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(("api_key", "key", "token", "secret", "password"), _NO_SECRETS)
    name: str = ""
    """The key its table stands under."""
    url: Url
    """Without a trailing slash."""
    kind: UpstreamKind = "generic"
    dialects: Dialects
    api_key_env: EnvName | None = None
    api_key_file: Words | None = None
    api_key: Secret | None = None
    """From the variable or the file; None: the caller's own credentials are passed on."""
    ask_usage: bool | None = None
    enforces_cap: bool | None = None
    thinking_method: Method | None = None
    version_path: VersionPath | None = None
    """Replaces the caller's leading version; None: the caller's own stays."""
    forward_trace: bool = False
    connect_timeout: Limit = 5.0
    first_byte_timeout: Limit = 600.0
    idle_timeout: Limit = 300.0
    control_timeout: Limit = 2.0
    max_connections: Count = 1000
    finish_reasons: Mapping[Words, MappedReason] = {}

    @property
    def traits(self) -> Traits:
        """The traits of its kind, save those that were set."""
        traits = TRAITS[self.kind]
        return replace(
            traits,
            ask_usage=traits.ask_usage if self.ask_usage is None else self.ask_usage,
            enforces_cap=traits.enforces_cap if self.enforces_cap is None else self.enforces_cap,
        )

    def thinking_methods(self, dialect: DialectName) -> tuple[Method, ...]:
        """How a thinking cap acts on calls of this dialect, in order; one that was set is the only one."""
        if self.thinking_method:
            return (self.thinking_method,)
        return TRAITS[self.kind].methods.get(dialect, ("watch",))


class Model(Table, frozen=True, kw_only=True):
    """What is special about one model. None: nothing was set."""

    elsewhere: ClassVar[frozenset[str]] = frozenset({"name"})
    name: str = ""
    """As callers write it."""
    upstream: Words
    levels: Levels | None = None
    thinking_cap: Tokens | None = None
    thinking_overrun: Tokens | None = None
    undeclared_level: Literal["forward", "refuse"] = "forward"
    reasoning_only: Literal["leave", "promote"] = "leave"


class ThinkingSettings(Table, frozen=True, kw_only=True):
    """A thinking cap and the grace past it, in tokens; cap 0: none."""

    cap: Tokens = 0
    overrun: Tokens = 256


class OutputCapSettings(Table, frozen=True, kw_only=True):
    """How rule 1 deals with streams and with stop sequences."""

    hold_seconds: HoldSeconds = 2.0
    unproven_stop: Literal["keep", "upgrade"] = "keep"


class LevelFallbackSettings(Table, frozen=True, kw_only=True):
    """For which calls a refused thinking level is replaced, and where the walk goes."""

    enabled: bool = True
    purposes: Purposes = ("compaction", "session-title")
    max_retries: Retries = 1
    direction: Literal["up", "down"] = "up"
    extra_patterns: tuple[Pattern, ...] = ()
    """The first group, where there is one, is the level."""
    remember_seconds: Pause = 600.0
    ceiling: Mapping[Purpose, LadderStep] = {}


class HeaderIs(Table, frozen=True, kw_only=True):
    """A header with exactly this value; its name in any case."""

    name: HeaderName
    equals: Words


class PurposeRule(Table, frozen=True, kw_only=True):
    """Calls that name no purpose have this one, when every condition given holds. The first such entry counts."""

    purpose: Purpose
    model: Words | None = None
    path: PathStart | None = None
    """What the path begins with."""
    header: HeaderIs | None = None


class TelemetrySettings(Table, frozen=True, kw_only=True):
    """Traces. Metrics are always on."""

    service_name: Words = "thinkcap"
    traces: Literal["off", "otlp"] = "off"


class Settings(Table, frozen=True, kw_only=True):
    """All of it. `upstreams` and `models` are in the order of the file."""

    elsewhere: ClassVar[frozenset[str]] = frozenset({"sha256"})
    upstreams: Mapping[Name, Upstream]
    models: Mapping[ModelName, Model] = {}
    server: ServerSettings = ServerSettings()
    keys: tuple[Key, ...] = ()
    thinking: ThinkingSettings = ThinkingSettings()
    output_cap: OutputCapSettings = OutputCapSettings()
    level_fallback: LevelFallbackSettings = LevelFallbackSettings()
    purposes: tuple[PurposeRule, ...] = ()
    telemetry: TelemetrySettings = TelemetrySettings()
    sha256: str = ""
    """Of the text, in hex."""

    @property
    def purpose_names(self) -> tuple[str, ...]:
        """Every purpose that is configured, `conversation` first, each once."""
        named = (*self.level_fallback.purposes, *self.level_fallback.ceiling, *(rule.purpose for rule in self.purposes))
        return tuple(dict.fromkeys((CONVERSATION, *named)))

    def thinking_of(self, model: str) -> ThinkingSettings:
        """The thinking cap in force for a model, configured or not."""
        own = self.models.get(model)
        cap = own.thinking_cap if own else None
        overrun = own.thinking_overrun if own else None
        return ThinkingSettings(
            cap=self.thinking.cap if cap is None else cap,
            overrun=self.thinking.overrun if overrun is None else overrun,
        )
