"""Which path leads where."""

import pytest

from gateway.routes import match, upstream_path
from tests.gateway.door import House, answers

JUDGED = [
    ("POST", "/v1/chat/completions", "chat", "/v1/chat/completions"),
    ("POST", "/v1/responses", "responses", "/v1/responses"),
    ("POST", "/v1/messages", "messages", "/v1/messages"),
    ("POST", "/v1beta/models/gemini-3:generateContent", "gemini", "/v1beta/models/{model}:generateContent"),
    ("POST", "/v1/models/gemini-3:streamGenerateContent", "gemini", "/v1/models/{model}:streamGenerateContent"),
]
FORWARDED = [
    ("POST", "/v1/embeddings", False, "chat", "/v1/{path}"),
    ("GET", "/v1/chat/completions", False, "chat", "/v1/{path}"),
    ("GET", "/v1/responses/resp_1", False, "responses", "/v1/responses/{path}"),
    ("GET", "/v1/responses", False, "responses", "/v1/responses/{path}"),
    ("POST", "/v1/messages/count_tokens", False, "messages", "/v1/messages/{path}"),
    ("POST", "/v1/files", True, "messages", "/v1/{path}"),
    ("POST", "/v1/files", False, "chat", "/v1/{path}"),
    ("POST", "/v1beta/cachedContents", False, "gemini", "/v1beta/{path}"),
    ("POST", "/v1beta/models/gemini-3:countTokens", False, "gemini", "/v1beta/{path}"),
    ("POST", "/upload/v1beta/files", False, "gemini", "/upload/v1beta/{path}"),
    ("DELETE", "/v1/files/%2e%2e-odd", False, "chat", "/v1/{path}"),
]
NOWHERE = [
    "/", "/.env", "/actuator/health", "/v2/chat/completions", "/v1x/y", "/v1/../admin", "/v1/%2e%2e/admin", "/v1/..",
    "/v1/%2E%2e%2fadmin", "/v1/a%2f..%2fb", "/v1/./x", "/v1/a\\..\\b", "/v1/a%5cb", "/v1/a%00b", "/v1/a b",
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "dialect", "template"), JUDGED, ids=[row[1] for row in JUDGED])
def test_judged_paths(method: str, path: str, dialect: str, template: str) -> None:
    """The calls the rules apply to."""
    route = match(method, path, anthropic=False)
    assert route is not None
    assert (route.dialect, route.template, route.judged) == (dialect, template, True)


@pytest.mark.parametrize(
    ("method", "path", "anthropic", "dialect", "template"), FORWARDED, ids=[f"{r[0]} {r[1]}" for r in FORWARDED]
)
def test_forwarded_paths(method: str, path: str, anthropic: bool, dialect: str, template: str) -> None:
    """All else of those interfaces goes to the upstream of its dialect."""
    route = match(method, path, anthropic=anthropic)
    assert route is not None
    assert (route.dialect, route.template, route.judged) == (dialect, template, False)


@pytest.mark.parametrize("path", NOWHERE)
def test_paths_that_lead_nowhere(path: str) -> None:
    """Unknown paths, and paths that would climb, are ours to refuse."""
    assert match("GET", path, anthropic=False) is None
    assert match("GET", path, anthropic=True) is None


@pytest.mark.parametrize(
    ("path", "version", "there"),
    [
        ("/v1/chat/completions", None, "/v1/chat/completions"),
        ("/v1/chat/completions", "", "/chat/completions"),
        ("/v1/chat/completions", "/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("/v1beta/models/m:generateContent", "/v1", "/v1/models/m:generateContent"),
        ("/upload/v1beta/files", "/v1", "/upload/v1/files"),
        ("/v1/files/v1/x", "/v2", "/v2/files/v1/x"),
    ],
)
def test_an_upstreams_own_version(path: str, version: str | None, there: str) -> None:
    """The caller's leading version gives way to the upstream's, once."""
    assert upstream_path(path, version) == there


@pytest.mark.parametrize("colon", ["%3A", "%3a", ":"])
def test_google_s_colon_may_be_escaped(colon: str) -> None:
    """The call is judged all the same, and goes out as it was written."""
    body = b'{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":9}}'
    house = House(answers(body, media="application/json"))
    path = f"/v1beta/models/g{colon}generateContent"
    caller = house.asks({"generationConfig": {"maxOutputTokens": 5}}, path)
    assert caller.json["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert house.upstream.requests[0].url.raw_path.decode().endswith(path)
