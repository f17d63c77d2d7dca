"""JSON compared as it was written: 1.0 is not 1, twenty digits stay twenty digits, and keys have an order."""

import json
from typing import Any, TypeAlias

Json: TypeAlias = Any


class Number(str):
    """A JSON number by its spelling."""

    __slots__ = ()


def parse(text: str | bytes) -> Json:
    """JSON with numbers as written; None when it is no JSON."""
    try:
        return json.loads(text, parse_int=Number, parse_float=Number)
    except ValueError:
        return None


def as_written(value: Json) -> Json:
    """A value of a case file in the form that `parse` gives."""
    return parse(json.dumps(value))


def lookup(root: Json, path: str) -> Json:
    """The value that a dotted path points at; None when there is none."""
    for part in path.split("."):
        try:
            root = root[int(part) if part.isdigit() else part]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def put(root: Json, path: str, value: Json) -> None:
    """Set the value at a dotted path; objects on the way are made."""
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        root = root.setdefault(part, {}) if isinstance(root, dict) else root[part]
    root[last] = value


def drop(root: Json, path: str) -> bool:
    """Take out the value at a dotted path; whether there was one."""
    parent, _, last = path.rpartition(".")
    holder = lookup(root, parent) if parent else root
    if not isinstance(holder, dict) or last not in holder:
        return False
    del holder[last]
    return True


def compare(want: Json, have: Json, path: str = "body", *, subset: bool = False) -> list[str]:
    """The places where two parsed values differ. `subset`: `have` may hold more, and `@` words match (see `fits`)."""
    if isinstance(want, dict) and isinstance(have, dict):
        gone = [f"{path}.{key} is gone" for key in want if key not in have]
        added = [f"{path}.{key} was added" for key in have if key not in want and not subset]
        if gone or added:
            return [*gone, *added]
        if not subset and list(want) != list(have):
            return [f"{path}: keys in another order"]
        return [d for key in want for d in compare(want[key], have[key], f"{path}.{key}", subset=subset)]
    if (
        isinstance(want, list)
        and isinstance(have, list)
        and (len(have) == len(want) or (subset and len(have) > len(want)))
    ):
        pairs = enumerate(zip(want, have, strict=False))
        return [d for i, (w, h) in pairs for d in compare(w, h, f"{path}.{i}", subset=subset)]
    if (type(want) is type(have) and want == have) or (subset and fits(want, have)):
        return []
    return [f"{path} is {short(have)}, want {short(want)}"]


def fits(want: Json, have: Json) -> bool:
    """Whether a string is what an `@` word asks for: `@any:a|b` one of them, `@ci:word` any case, `@text` not empty."""
    if not isinstance(have, str) or not isinstance(want, str) or not want.startswith("@"):
        return False
    kind, _, word = want.removeprefix("@").partition(":")
    return {"any": have in word.split("|"), "ci": have.lower() == word.lower(), "text": bool(have)}[kind]


def bytes_differ(want: bytes, have: bytes) -> list[str]:
    """Where two byte strings part; empty when they are equal."""
    if want == have:
        return []
    first = next((i for i, (w, h) in enumerate(zip(want, have, strict=False)) if w != h), min(len(want), len(have)))
    around = have[max(0, first - 20) : first + 90].decode("utf-8", "replace")
    return [f"bytes differ at {first} ({len(have)}, want {len(want)}): {around!r}"]


def short(value: Json, limit: int = 110) -> str:
    """A value as it stands in a message."""
    return (str(value) if isinstance(value, Number) else repr(value))[:limit]
