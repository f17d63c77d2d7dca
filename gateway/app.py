"""The composition root: settings in, a running application out. The only file that knows both packages."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from litestar import Litestar, Response, asgi, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig, ResponseSpec
from msgspec import Struct

from gateway.config import Settings, Upstream
from gateway.dialects.base import FINISH_WORDS
from gateway.events import Recorder
from gateway.front import Front
from gateway.keys import Keyring
from gateway.limits import Limits
from gateway.policy import Policies
from gateway.rules.level_fallback import walk
from gateway.upstream import Terms
from gateway.upstream import Upstream as Client
from gateway.words import LADDER, DialectName, Level, MappedReason, Method, Reason
from telemetry.labels import ModelSeries, Retry, Series, UpstreamSeries


def version_of() -> str:
    """The version of the installed distribution; `unknown` when run from a bare checkout."""
    try:
        return version("thinkcap")
    except PackageNotFoundError:
        return "unknown"


def series_of(settings: Settings) -> Series:
    """What the settings know that may become a label value."""
    policies = Policies(settings)
    return Series(
        upstreams=tuple(
            UpstreamSeries(
                name=name,
                dialects=upstream.dialects,
                methods=_methods(upstream, upstream.dialects),
                mapped=_mapped(upstream),
            )
            for name, upstream in settings.upstreams.items()
        ),
        models=tuple(_model(settings, policies, name) for name in settings.models),
        purposes=settings.purpose_names,
        purposes_in_scope=settings.level_fallback.purposes,
        version=version_of(),
        settings_sha256=settings.sha256,
    )


def _model(settings: Settings, policies: Policies, name: str) -> ModelSeries:
    upstream = settings.upstreams[settings.models[name].upstream]
    levels = policies.declared(upstream.kind, name)
    return ModelSeries(
        upstream=upstream.name,
        model=name,
        dialects=upstream.dialects,
        methods=_methods(upstream, upstream.dialects),
        levels=levels,
        retries=tuple(_retries(settings, levels)) if levels else (),
        mapped=_mapped(upstream),
    )


def _retries(settings: Settings, levels: tuple[Level, ...]) -> Iterator[Retry]:
    """Where each undeclared level would go, per purpose in scope."""
    fallback = settings.level_fallback
    for purpose in fallback.purposes if fallback.enabled and fallback.max_retries else ():
        for refused in LADDER:
            sent = walk(refused, levels, fallback.direction, ceiling=fallback.ceiling.get(purpose))
            if refused not in levels and sent is not None:
                yield Retry(purpose, refused, sent)


def _methods(upstream: Upstream, dialects: tuple[DialectName, ...]) -> tuple[Method, ...]:
    return tuple(dict.fromkeys(method for dialect in dialects for method in upstream.thinking_methods(dialect)))


def _mapped(upstream: Upstream) -> tuple[tuple[Reason, MappedReason], ...]:
    return tuple((FINISH_WORDS.get(word, "other"), reason) for word, reason in upstream.finish_reasons.items())


def clients_of(settings: Settings) -> dict[str, Client]:
    """A client per upstream."""
    return {
        name: Client(
            Terms(
                name=name,
                url=upstream.url,
                secret=upstream.api_key.reveal().encode() if upstream.api_key is not None else None,
                version_path=upstream.version_path,
                forward_trace=upstream.forward_trace,
                connect_timeout=upstream.connect_timeout,
                first_byte_timeout=upstream.first_byte_timeout,
                idle_timeout=upstream.idle_timeout,
                control_timeout=upstream.control_timeout,
                max_connections=upstream.max_connections,
            )
        )
        for name, upstream in settings.upstreams.items()
    }


class Health(Struct):
    """What the health routes say."""

    status: Literal["ok", "draining"]


class Gateway:
    """One gateway: its application, and what the process needs to stop it gently."""

    def __init__(self, settings: Settings, recorder: Recorder, clients: dict[str, Client] | None = None) -> None:
        """Build it; nothing runs yet."""
        self.settings = settings
        self._clients = clients if clients is not None else clients_of(settings)
        server = settings.server
        self.limits = Limits(
            max_body_bytes=server.max_body_bytes,
            max_inflight=server.max_inflight,
            keepalive_seconds=server.keepalive_seconds,
        )
        self.front = Front(Policies(settings), self._clients, Keyring(settings.keys), recorder, self.limits)
        calls = asgi("/", is_mount=True, copy_scope=False)(self.front.__call__)
        self.app = Litestar(
            route_handlers=[self._live(), self._ready(), calls],
            lifespan=[self._lifespan],
            openapi_config=OpenAPIConfig(title="Thinkcap", version=version_of(), path="/health/openapi"),
            logging_config=None,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Calls go to the front at once: the way there through Litestar's stack would cost a sixth of a call."""
        if scope["type"] == "http" and not scope["path"].startswith("/health"):
            await self.front(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.gather(*(client.aclose() for client in self._clients.values()))

    def _live(self) -> HTTPRouteHandler:
        @get("/health/live", sync_to_thread=False, summary="The process is up")
        def live() -> Health:
            return Health("ok")

        return live

    def _ready(self) -> HTTPRouteHandler:
        @get(
            "/health/ready",
            sync_to_thread=False,
            summary="Calls are taken: the settings are loaded, no drain runs",
            responses={503: ResponseSpec(Health, description="No call is taken: the gateway is about to stop")},
        )
        def ready() -> Response[Health]:
            draining = self.limits.draining
            return Response(Health("draining" if draining else "ok"), status_code=503 if draining else 200)

        return ready
