"""GET /v1/models: the models of the settings, joined with what the upstreams list."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.calls import HeaderList
from gateway.errors import CallError
from gateway.headers import CREDENTIALS, credential, to_upstream
from gateway.policy import Policies
from gateway.routes import upstream_path
from gateway.upstream import Upstream
from gateway.words import DialectName

PATIENCE: Final = 5.0
"""Seconds an upstream has to list its models; after that the list does without it."""
MOST: Final = 8 * 1024 * 1024
"""Bytes of one upstream's list."""
OK: Final = 200
PATHS: Final[Mapping[DialectName, str]] = {"gemini": "/v1beta/models"}


class ModelLists:
    """Asks the upstreams and joins the lists."""

    def __init__(self, policies: Policies, upstreams: Mapping[str, Upstream]) -> None:
        """Take who may be asked."""
        self._policies, self._upstreams = policies, upstreams

    async def listing(self, dialect: DialectName, headers: HeaderList, drop: frozenset[bytes]) -> bytes:
        """One list OpenAI's and Anthropic's clients read, Google's if it asks. `drop`: where a gateway key stood."""
        owners: dict[str, str] = {name: model.upstream for name, model in self._policies.models.items()}
        asked = [self._ask(name, dialect, headers, drop) for name in self._upstreams]
        for name, listed in zip(self._upstreams, await asyncio.gather(*asked), strict=True):
            for model in listed:
                owners.setdefault(model, name)
        data = [
            {
                "id": model,
                "object": "model",
                "created": 0,
                "owned_by": owner,
                "type": "model",
                "display_name": model,
                "created_at": "1970-01-01T00:00:00Z",
            }
            for model, owner in owners.items()
        ]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        named = [{"name": f"models/{model}", "displayName": model} for model in owners]
        of_google = {"models": named} if dialect == "gemini" else {}
        return msgspec.json.encode({"object": "list", "data": data, "has_more": False, **ends, **of_google})

    async def _ask(self, name: str, dialect: DialectName, headers: HeaderList, drop: frozenset[bytes]) -> list[str]:
        """The models one upstream lists; none when it does not answer well in time.

        A caller's credential goes to the upstream its calls would go to and to no other; the rest are asked with their
        own, or, when they speak the dialect and have none, without.
        """
        upstream, spoken = self._upstreams[name], self._policies.targets[name].methods
        secret = upstream.terms.secret
        first = self._policies.speaks(dialect) and self._policies.default_upstream(dialect) == name
        if secret is None and dialect not in spoken:
            return []
        own_dialect = dialect if dialect in spoken else next(iter(spoken))
        gone = drop if first and secret is None else CREDENTIALS
        own = (credential(own_dialect, secret),) if secret is not None else ()
        path = upstream_path(PATHS.get(own_dialect, "/v1/models"), upstream.terms.version_path)
        try:
            async with asyncio.timeout(PATIENCE):
                return await _fetch(upstream, path, to_upstream(headers, judged=True, drop=gone, own=own))
        except (CallError, TimeoutError):
            return []


async def _fetch(upstream: Upstream, path: str, headers: list[tuple[bytes, bytes]]) -> list[str]:
    answer = await upstream.send("GET", path.encode("latin-1"), headers, b"")
    try:
        if answer.status != OK:
            return []
        body = bytearray()
        async for chunk in answer.chunks():
            body += chunk
            if len(body) > MOST:
                return []
        return _names(bytes(body))
    finally:
        await asyncio.shield(answer.aclose())


def _names(body: bytes) -> list[str]:
    try:
        listing: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if not isinstance(listing, dict):
        return []
    entries = listing.get("data") or listing.get("models")
    if not isinstance(entries, list):
        return []
    names = [entry.get("id") or entry.get("name") for entry in entries if isinstance(entry, dict)]
    return [name.removeprefix("models/") for name in names if isinstance(name, str)]
