"""Opens what an error came in: nested, flat, an array, FastAPI's `detail`, JSON quoted in text, events inside a body.

Bounded: no body above 64 KiB is opened, at most 400 nodes are visited and 24 texts kept; nothing here recurses.
"""

import json
import re
from collections import deque
from typing import Any, Final

from msgspec import Struct

LIMIT: Final = 64 * 1024
"""Bytes of an error body; a longer one is no refusal of a level."""
_NODES, _TEXTS, _TEXT, _EMBEDDED = 400, 24, 8192, 6


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MESSAGES: Final = _set(
    "message msg error errors detail details description error_message error_msg errormessage error_description raw "
    "title text fault body reason cause"
)
"""Keys whose strings are prose for a person."""
_CODES: Final = frozenset(("code", "type", "reason", "status", "error_type", "error_code"))
_FIELDS: Final = frozenset(("param", "parameter", "field", "loc", "path", "location"))
_ECHOES: Final = _set("messages contents content tools input output instructions request headers choices usage")
"""Keys under which servers repeat the request or the answer: what stands there is not theirs."""
_ERROR_TYPES: Final = frozenset(("error", "response.failed"))
_EVENT: Final = re.compile(r"(?m)^(?:event|id|retry):[^\n]*\n?|^data: ?")
_ESCAPED: Final = re.compile(r'\\([\\"/])')


class Said(Struct):
    """What an error body says, out of its wrapping."""

    texts: list[str] = []
    """Prose, outermost first, each once."""
    fields: list[str] = []
    """Fields it blames, as dotted paths."""
    codes: list[str] = []
    """Codes, types, reasons and statuses, in lower case with underscores."""
    inputs: list[object] = []
    """Values that validators quote as the wrong ones."""
    strings: list[str] = []
    """Every string, for the operator's patterns."""
    is_error: bool = False
    """It has the shape of an error, whatever the status."""


def open_envelope(body: bytes) -> Said:
    """What the body says. Total: any bytes give a value."""
    said = Said()
    queue: deque[tuple[str, Any]] = deque([("message", body[:LIMIT].decode("utf-8", "replace"))])
    embedded = _EMBEDDED
    for _ in range(_NODES):
        if not queue:
            return said
        key, value = queue.popleft()
        if isinstance(value, dict):
            _open_object(said, queue, key, value)
        elif isinstance(value, list):
            queue.extend((key, item) for item in value[:_NODES])
        elif isinstance(value, str):
            found = _json_in(value) if embedded and "{" in value else None
            if found is None:
                _keep(said, key, value)
                continue
            embedded -= 1
            around, inner = found
            queue.append((key, inner))
            if around:
                _keep(said, key, around)
    return Said(texts=["\0"])  # too much to see it all: nothing is made of it


def _open_object(said: Said, queue: deque[tuple[str, Any]], key: str, value: dict[str, Any]) -> None:
    kind = value.get("type")
    if value.get("error") or value.get("error_message") or value.get("object") == "error":
        said.is_error = True
    if (isinstance(kind, str) and kind in _ERROR_TYPES) or "errors" in value:
        said.is_error = True
    for name, item in list(value.items())[:_NODES]:
        lower = name.lower()
        if lower in _FIELDS:
            _blame(said, item)
        elif lower in ("input", "input_value") and ("loc" in value or "msg" in value):
            said.inputs.append(item)
        elif lower in _CODES and isinstance(item, (str, int)):
            _code(said, lower, item)
        elif lower not in _ECHOES or (isinstance(item, str) and lower == "content" and key == "error"):
            queue.append((lower, item))


def _code(said: Said, name: str, item: str | int) -> None:
    text = str(item)
    said.codes.append(text.lower().replace("-", "_")[:200])
    said.strings.append(text[:_TEXT])
    if name == "reason" and " " in text:
        _keep(said, "message", text)


def _blame(said: Said, item: object) -> None:
    """Keeps a path: text, or FastAPI's and zod's lists of steps. An address is no field."""
    if isinstance(item, list):
        item = ".".join(str(step) for step in item[:16] if isinstance(step, str) and step != "body")
    if isinstance(item, str) and item and not item.startswith("/"):
        said.fields.append(item[:200])


def _keep(said: Said, key: str, text: str) -> None:
    text = text.strip()
    if not text or len(said.strings) >= _NODES:
        return
    said.strings.append(text[:_TEXT])
    if key in _MESSAGES and not any(text in known for known in said.texts):
        too_much = len(text) > _TEXT or len(said.texts) >= _TEXTS or text.startswith("<")  # `<`: a page
        said.texts.append("\0" if too_much else text)


def _json_in(text: str) -> tuple[str, Any] | None:
    """The first JSON object or array in a text, and the prose around it; None when there is none to be read.

    Escapes are taken off up to three times: gateways quote an upstream's JSON inside a string inside a string.
    """
    for _ in range(4):
        text = _EVENT.sub("", text)
        start = min((at for at in (text.find("{"), text.find("[{")) if at >= 0), default=-1)
        if start < 0:
            return None
        try:
            inner, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            unescaped = _ESCAPED.sub(r"\1", text)
            if unescaped == text:
                return None
            text = unescaped
        else:
            return f"{text[:start]} {text[end:]}".strip(), inner
    return None
