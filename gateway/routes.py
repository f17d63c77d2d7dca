"""Which dialect a path speaks, and whether calls on it are judged. Templates are a closed set, for span attributes."""

import re
from typing import Final

from msgspec import Struct

from gateway.words import DialectName


class Route(Struct, frozen=True):
    """Where a path leads. `judged`: the rules apply; else it is forwarded untouched and counted."""

    dialect: DialectName
    template: str
    judged: bool = False


CHAT: Final = Route("chat", "/v1/chat/completions", judged=True)
RESPONSES: Final = Route("responses", "/v1/responses", judged=True)
MESSAGES: Final = Route("messages", "/v1/messages", judged=True)
JUDGED: Final = {route.template: route for route in (CHAT, RESPONSES, MESSAGES)}
GEMINI_CALL: Final = re.compile(
    r"/(v1beta|v1alpha|v1)/models/[^/:]+(?::|%3[Aa])(generateContent|streamGenerateContent)"
)
"""Some clients escape the colon."""
GEMINI: Final = {
    (version, action): Route("gemini", f"/{version}/models/{{model}}:{action}", judged=True)
    for version in ("v1beta", "v1alpha", "v1")
    for action in ("generateContent", "streamGenerateContent")
}
FORWARDED: Final = (
    ("/v1beta/", Route("gemini", "/v1beta/{path}")),
    ("/v1alpha/", Route("gemini", "/v1alpha/{path}")),
    ("/upload/v1beta/", Route("gemini", "/upload/v1beta/{path}")),
    ("/v1/messages/", Route("messages", "/v1/messages/{path}")),
    ("/v1/responses/", Route("responses", "/v1/responses/{path}")),
    ("/v1/", Route("chat", "/v1/{path}")),
)
ANTHROPIC: Final = Route("messages", "/v1/{path}")
VERSIONS: Final = re.compile(r"/v1(?:beta|alpha)?(?=/|$)")
NEVER: Final = frozenset({"CONNECT", "TRACE"})
"""Methods that lead nowhere: an answer to TRACE repeats the request, and with it the upstream's key."""
STEPS: Final = re.compile(
    r"(?:^|[/\\])(?:\.|%2e){1,2}(?:[/\\]|%2f|%5c|$)|[\\\x00-\x20\x7f]|%00|%5c|%2f(?:\.|%2e){1,2}", re.IGNORECASE
)
"""What may stand in no path: `.` and `..` steps in any spelling, backslashes, controls."""


def match(method: str, path: str, *, anthropic: bool) -> Route | None:
    """The route of a request; None when no dialect has such a path. `anthropic`: it names an anthropic-version."""
    if method == "POST":
        route = JUDGED.get(path)
        if route is not None:
            return route
        called = GEMINI_CALL.fullmatch(path)
        if called is not None:
            return GEMINI[called[1], called[2]]
    if method in NEVER or STEPS.search(path):
        return None
    if anthropic and path.startswith("/v1/"):
        return ANTHROPIC
    bare = path if path.endswith("/") else path + "/"
    return next((route for start, route in FORWARDED if bare.startswith(start)), None)


def upstream_path(path: str, version_path: str | None) -> str:
    """The path as the upstream has it: its own version in place of the caller's leading one; None: as it came."""
    return path if version_path is None else VERSIONS.sub(lambda _: version_path, path, count=1)
