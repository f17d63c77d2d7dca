"""What settings come to, in plain aligned text: `report` for `thinkcap check`, `explain` for one model.

Where a value was not set it says what it comes from instead: the upstream's kind, a default, or the shipped catalogue.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gateway.catalog import declared
from gateway.config import PurposeRule, Settings, Upstream
from gateway.config.reading import join
from gateway.dialects.budgets import has_budget
from gateway.mask import SHORTEST, mask_of
from gateway.rules.level_fallback import walk
from gateway.words import CONVERSATION, DIALECTS, LADDER, METHODS, DialectName, Level, Method, UpstreamKind

_NONE = "-"


class Served(Struct, frozen=True, kw_only=True):
    """A model at one upstream: the dialects it is called in there, and its levels; None: nobody declares any."""

    upstream: Upstream
    dialects: tuple[DialectName, ...]
    levels: tuple[Level, ...] | None
    source: str
    evidence: str = ""
    """Where the catalogue has them from."""


def report(settings: Settings) -> str:
    """All that is in force, section by section; warnings last."""
    server = settings.server
    names = ", ".join(key.name for key in settings.keys)
    general = [
        ("listens on", f"http://{server.host}:{server.port}"),
        ("metrics on", f"http://{server.metrics_host}:{server.metrics_port}/metrics"),
        ("callers", f"holders of the keys {names}" if names else "everyone, without a key"),
        ("settings", f"sha256 {settings.sha256}"),
    ]
    sections = [
        _table(general),
        _table([("UPSTREAM", "KIND", "DIALECTS", "KEY", "USAGE ASKED", "CAP ENFORCED", "URL"), *_upstreams(settings)]),
        _table([("MODEL", "UPSTREAM", "THINKING CAP", "HOW IT ACTS", "LEVELS", "LEVELS FROM"), *_models(settings)]),
        _table([("PURPOSE", "LEVELS FALL BACK", "CEILING", "RECOGNISED BY"), *_purposes(settings)]),
        "".join(f"warning: {warning}\n" for warning in warnings(settings)),
    ]
    return "\n".join(section for section in sections if section)


def explain(settings: Settings, model: str, level: Level | None = None) -> str:
    """What is in force for one model, configured or not; where `level`, or any level, would go if it were refused."""
    served = serving(settings, model)
    rows = [
        (dialect, one.upstream.name, _methods(one.upstream, (dialect,)), _levels(one), one.source)
        for one in served
        for dialect in one.dialects
    ]
    head = [
        ("model", model if model in settings.models else f"{model} (not listed)"),
        ("thinking cap", _cap(settings, model)),
        *(("catalogue's source", evidence) for evidence in dict.fromkeys(one.evidence for one in served) if evidence),
    ]
    sections = [
        _table(head),
        _table([("DIALECT", "UPSTREAM", "CAP ACTS BY", "LEVELS", "LEVELS FROM"), *rows]),
        *(_walks(settings, one, LADDER if level is None else (level,)) for one in served),
    ]
    return "\n".join(sections)


def serving(settings: Settings, model: str) -> list[Served]:
    """The upstreams a model is called at: its own, or, when it is not listed, the first one of every dialect."""
    own = settings.models.get(model)
    if own:
        upstream = settings.upstreams[own.upstream]
        if own.levels is not None:
            return [Served(upstream=upstream, dialects=upstream.dialects, levels=own.levels, source="settings")]
        return [_from_catalogue(upstream, upstream.dialects, model)]
    first: dict[str, list[DialectName]] = {}
    for dialect in DIALECTS:
        name = next((up.name for up in settings.upstreams.values() if dialect in up.dialects), None)
        if name is not None:
            first.setdefault(name, []).append(dialect)
    return [_from_catalogue(settings.upstreams[name], tuple(dialects), model) for name, dialects in first.items()]


def _from_catalogue(upstream: Upstream, dialects: tuple[DialectName, ...], model: str) -> Served:
    known = declared(upstream.kind, model)
    if known is None:
        return Served(upstream=upstream, dialects=dialects, levels=None, source="nobody")
    source = f"catalogue, {known.date}"
    return Served(upstream=upstream, dialects=dialects, levels=known.levels, source=source, evidence=known.source)


def warnings(settings: Settings) -> Iterator[str]:
    """What is allowed but perhaps not meant, with its key path."""
    if not settings.keys:
        yield f"keys: there are none, so everyone who reaches {settings.server.host}:{settings.server.port} may call"
    for name, upstream in settings.upstreams.items():
        path = join("upstreams", name)
        if upstream.api_key and mask_of(upstream.api_key.reveal().encode()) is None:
            key = "api_key_env" if upstream.api_key_env else "api_key_file"
            yield f"{path}.{key}: the key has fewer than {SHORTEST} characters: it is not hidden in answers"
        if upstream.thinking_method == "control" and upstream.kind != "llama.cpp":
            yield f"{path}.thinking_method: control is a call that only llama.cpp is known to answer"
        if upstream.version_path is None and upstream.url.endswith(("/v1", "/v1beta")):
            yield f"{path}.url: callers' paths bring their own version, so it would stand there twice; see version_path"
    if settings.thinking.cap:
        yield from (f"thinking.cap: {cannot}" for one in serving(settings, "") for cannot in _cannot_act(one))
    for name in settings.models:
        yield from _model_warnings(settings, name)
    fallback = settings.level_fallback
    for purpose in fallback.ceiling:
        if purpose not in fallback.purposes:
            yield f"level_fallback.ceiling.{purpose}: it is not among level_fallback.purposes, so nothing is bounded"


def _model_warnings(settings: Settings, name: str) -> Iterator[str]:
    path, (served,) = join("models", name), serving(settings, name)
    if settings.thinking_of(name).cap:
        yield from (f"{path}.thinking_cap: {cannot}" for cannot in _cannot_act(served))
    if served.levels is None:
        if _falls_back(settings):
            yield f"{path}.levels: nobody declares them: a refused level is replaced only if the refusal lists others"
        if settings.models[name].undeclared_level == "refuse":
            yield f"{path}.undeclared_level: no levels are declared, so none is refused"


def _cannot_act(served: Served) -> Iterator[str]:
    upstream = served.upstream
    ways = {dialect: upstream.thinking_methods(dialect) for dialect in served.dialects}
    watched = [dialect for dialect, methods in ways.items() if methods == ("watch",)]
    if watched:
        where = f"{upstream.name} ({' '.join(watched)})"
        yield f"at {where} thinking is only watched, the cap cannot act; see thinking_method"
    for method in METHODS:
        without = [d for d, methods in ways.items() if methods == (method,) and not _can(method, d, upstream.kind)]
        if without:
            where = f"{upstream.name} ({' '.join(without)})"
            yield f"at {where} there is no {method}, the cap cannot act; see thinking_method"
    silent = [dialect for dialect, methods in ways.items() if methods == ("give_up",)]
    if silent:
        yield f"at {upstream.name} ({' '.join(silent)}) only streams are given up, whole answers are counted"


def _can(method: Method, dialect: DialectName, kind: UpstreamKind) -> bool:
    """Whether a method that was set has anything to act with."""
    if method == "control":
        return dialect == "chat"
    return method != "budget" or has_budget(dialect, kind)


def _falls_back(settings: Settings) -> bool:
    fallback = settings.level_fallback
    return fallback.enabled and bool(fallback.purposes) and fallback.max_retries > 0


def _upstreams(settings: Settings) -> Iterator[tuple[str, ...]]:
    for up in settings.upstreams.values():
        key = up.api_key_env or up.api_key_file or "the caller's"
        usage = _trait(up.ask_usage, in_force=up.traits.ask_usage)
        enforced = _trait(up.enforces_cap, in_force=up.traits.enforces_cap)
        yield up.name, up.kind, " ".join(up.dialects), key, usage, enforced, up.url


def _trait(setting: bool | None, *, in_force: bool) -> str:  # noqa: FBT001 - None is the third value
    return ("yes" if in_force else "no") + (" (kind)" if setting is None else " (set)")


def _models(settings: Settings) -> Iterator[tuple[str, ...]]:
    for name in settings.models:
        (one,) = serving(settings, name)
        acts = _methods(one.upstream, one.dialects)
        yield name, one.upstream.name, _cap(settings, name), acts, _levels(one), one.source
    yield "any other", "by dialect", _cap(settings, ""), "by upstream", "by model", "catalogue"


def _purposes(settings: Settings) -> Iterator[tuple[str, ...]]:
    fallback = settings.level_fallback
    for purpose in settings.purpose_names:
        rules = [_conditions(rule) for rule in settings.purposes if rule.purpose == purpose]
        by = "; or ".join(rules) or ("no name" if purpose == CONVERSATION else _NONE)
        scope = "yes" if _falls_back(settings) and purpose in fallback.purposes else "no"
        yield purpose, scope, fallback.ceiling.get(purpose, _NONE), by


def _conditions(rule: PurposeRule) -> str:
    parts = [
        rule.model and f"model {rule.model}",
        rule.path and f"path {rule.path}...",
        rule.header and f"header {rule.header.name}",
    ]
    return " and ".join(part for part in parts if part)


def _cap(settings: Settings, model: str) -> str:
    thinking, own = settings.thinking_of(model), settings.models.get(model)
    origin = "set" if own and own.thinking_cap is not None else "default"
    return f"{thinking.cap} + {thinking.overrun} ({origin})" if thinking.cap else f"none ({origin})"


def _methods(upstream: Upstream, dialects: Iterable[DialectName]) -> str:
    ways = {dialect: " then ".join(upstream.thinking_methods(dialect)) for dialect in dialects}
    same = len(set(ways.values())) == 1
    said = next(iter(ways.values())) if same else ", ".join(f"{dialect}: {way}" for dialect, way in ways.items())
    return f"{said} ({'set' if upstream.thinking_method else 'kind'})"


def _levels(served: Served) -> str:
    return _NONE if served.levels is None else " ".join(served.levels) or "takes none"


def _walks(settings: Settings, served: Served, refused: Sequence[Level]) -> str:
    """Where levels go when the upstream refuses them, for each purpose in scope."""
    fallback, name = settings.level_fallback, served.upstream.name
    if not _falls_back(settings):
        return f"a level that {name} refuses: the refusal is passed on, level_fallback is off\n"
    if not served.levels:
        return f"a level that {name} refuses: replaced only by one that the refusal itself lists\n"
    rows = [(f"REFUSED BY {name}", *(f"SENT FOR {purpose}" for purpose in fallback.purposes))]
    for level in refused:
        targets = [
            walk(level, served.levels, fallback.direction, ceiling=fallback.ceiling.get(purpose))
            for purpose in fallback.purposes
        ]
        rows.append((level, *(target or "nothing, passed on" for target in targets)))
    return f"{_table(rows)}A list of levels in the refusal wins over these.\n"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of equal length as left-aligned columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"
