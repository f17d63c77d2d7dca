"""Which settings apply to THIS call: from here on there are plain numbers and rules, no settings."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from gateway import catalog
from gateway.calls import Call, HeaderList, header
from gateway.config import Model, Settings, Traits, Upstream
from gateway.errors import BadRequest, NotFound, UnsupportedLevel
from gateway.rules.level_fallback import LevelFallback
from gateway.rules.output_cap import OutputCap
from gateway.words import CONVERSATION, OTHER, DialectName, Level, MappedReason, Method, UpstreamKind


class Thinking(Struct, frozen=True):
    """A thinking cap that applies: tokens, grace tokens, and the ways it may act, best first."""

    cap: int
    overrun: int
    methods: tuple[Method, ...]


class Policy(Struct, frozen=True, kw_only=True):
    """What applies to one call. `model` and `purpose` are metric labels: configured names, or the ones for the rest."""

    upstream: str
    provider: UpstreamKind
    model: str
    purpose: str
    path: str
    """As the upstream has it."""
    output_cap: OutputCap
    hold_seconds: float
    ask_usage: bool
    per_frame: bool
    promote: bool
    thinking: Thinking | None
    levels: LevelFallback
    patterns: tuple[re.Pattern[str], ...]


class Target(Struct, frozen=True, kw_only=True):
    """One upstream as the policies see it; what is the same for every call to it."""

    upstream: Upstream
    traits: Traits
    methods: Mapping[DialectName, tuple[Method, ...]]
    finish_reasons: Mapping[str, MappedReason]


NO_MODEL: Final = Model(upstream="")
"""What applies to a model that is not listed."""


class Policies:
    """Settings, ready to be asked per call."""

    def __init__(self, settings: Settings) -> None:
        """Prepare once what is the same for every call."""
        self._settings = settings
        self._purposes = frozenset(settings.purpose_names)
        self.targets: Mapping[str, Target] = {
            name: Target(
                upstream=upstream,
                traits=upstream.traits,
                methods={dialect: upstream.thinking_methods(dialect) for dialect in upstream.dialects},
                finish_reasons=upstream.finish_reasons,
            )
            for name, upstream in settings.upstreams.items()
        }
        fallback = settings.level_fallback
        self._no_fallback = LevelFallback(enabled=False)
        self._fallbacks = {
            purpose: LevelFallback(
                enabled=fallback.enabled,
                purposes=frozenset(fallback.purposes),
                max_retries=fallback.max_retries,
                direction=fallback.direction,
                ceiling=fallback.ceiling.get(purpose),
            )
            for purpose in fallback.purposes
        }
        self._first: dict[DialectName, str] = {}
        for name, upstream in settings.upstreams.items():
            for dialect in upstream.dialects:
                self._first.setdefault(dialect, name)

    @property
    def models(self) -> Mapping[str, Model]:
        """The models of the settings, by name."""
        return self._settings.models

    @property
    def remember_seconds(self) -> float:
        """How long a refusal is remembered; 0: not at all."""
        return self._settings.level_fallback.remember_seconds

    def speaks(self, dialect: DialectName) -> bool:
        """Whether any upstream speaks the dialect."""
        return dialect in self._first

    def default_upstream(self, dialect: DialectName) -> str:
        """The upstream of calls whose model is not listed. Raises NotFound when none speaks the dialect."""
        name = self._first.get(dialect)
        if name is None:
            raise NotFound(f"no upstream speaks the {dialect} dialect")
        return name

    def of(self, call: Call) -> Policy:
        """What applies to this call. Raises NotFound and BadRequest."""
        settings = self._settings
        model = settings.models.get(call.model)
        name = model.upstream if model is not None else self.default_upstream(call.dialect)
        target = self.targets[name]
        if call.dialect not in target.methods:
            spoken = ", ".join(target.methods)
            raise BadRequest(
                f"field model: {call.model[:128]} is served by an upstream that does not speak {call.dialect}"
                f" (it speaks {spoken})"
            )
        model, label = (model, call.model) if model is not None else (NO_MODEL, OTHER)
        if model.undeclared_level == "refuse":
            self._must_declare(call, target)
        purpose = self.purpose(call)
        return Policy(
            upstream=name,
            provider=target.upstream.kind,
            model=label,
            purpose=purpose,
            path=call.path,
            output_cap=OutputCap(
                cap=self._cap(call, target),
                choices=call.choices,
                stop_sequences=call.stop_sequences,
                overrides=target.finish_reasons,
                enforces_cap=target.traits.enforces_cap,
                upgrade_unproven=settings.output_cap.unproven_stop == "upgrade",
            ),
            hold_seconds=settings.output_cap.hold_seconds,
            ask_usage=target.traits.ask_usage,
            per_frame=target.traits.per_frame,
            promote=model.reasoning_only == "promote",
            thinking=self._thinking(call, model, target),
            levels=self._levels(purpose, target.upstream.kind, call.model),
            patterns=settings.level_fallback.extra_patterns,
        )

    def purpose(self, call: Call) -> str:
        """The purpose a call names, else the one the settings recognise, as a label."""
        return self._known(call.wishes.purpose or self._recognised(call.model, call.path, call.headers))

    def purpose_of(self, path: str, headers: HeaderList) -> str:
        """The same for a call that is not read."""
        named = header(headers, b"x-thinkcap-purpose")
        return self._known(named.decode("latin-1") if named else self._recognised(None, path, headers))

    def _known(self, purpose: str | None) -> str:
        if purpose is None:
            return CONVERSATION
        return purpose if purpose in self._purposes else OTHER

    def _recognised(self, model: str | None, path: str, headers: HeaderList) -> str | None:
        for rule in self._settings.purposes:
            wanted = rule.header
            if (
                (rule.model is None or rule.model == model)
                and (rule.path is None or path.startswith(rule.path))
                and (wanted is None or header(headers, wanted.name.lower().encode()) == wanted.equals.encode())
            ):
                return rule.purpose
        return None

    def _cap(self, call: Call, target: Target) -> int | None:
        if call.native_cap is not None and target.upstream.kind == "llama.cpp":
            return call.native_cap
        return call.output_cap

    def declared(self, kind: UpstreamKind, model: str) -> tuple[Level, ...] | None:
        """The levels a model takes: from the settings, else from the shipped catalogue; None when nobody says."""
        own = self._settings.models.get(model)
        if own is not None and own.levels is not None:
            return own.levels
        found = catalog.declared(kind, model)
        return found.levels if found is not None else None

    def _must_declare(self, call: Call, target: Target) -> None:
        declared = self.declared(target.upstream.kind, call.model)
        if call.level is not None and declared is not None and call.level not in declared:
            raise UnsupportedLevel(
                f"thinking level {call.level} is not declared for model {call.model[:128]}"
                f" (declared: {', '.join(declared) or 'none'})"
            )

    def _levels(self, purpose: str, kind: UpstreamKind, model: str) -> LevelFallback:
        """The rule of this call. What nobody may retry needs no declared levels."""
        rule = self._fallbacks.get(purpose)
        if rule is None:
            return self._no_fallback
        declared = self.declared(kind, model)
        return structs.replace(rule, declared=declared) if declared else rule

    def _thinking(self, call: Call, model: Model, target: Target) -> Thinking | None:
        settings, asked = self._settings.thinking, call.wishes.thinking_cap
        cap = settings.cap if model.thinking_cap is None else model.thinking_cap
        if asked is not None:
            cap = min(cap, asked) if cap else asked
        if not cap:
            return None
        overrun = settings.overrun if model.thinking_overrun is None else model.thinking_overrun
        return Thinking(cap, overrun, target.methods[call.dialect])
