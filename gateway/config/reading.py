"""Reads a TOML table into a frozen struct by the struct's own annotations, and says everything that is wrong at once.

Every problem carries its exact key path (`purposes[1].header.name`). A value is echoed only where no secret belongs:
numbers, words of a closed vocabulary, names, patterns. Elsewhere it may be one, pasted in the wrong place.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, ValidationError

from gateway.errors import SettingsError

T = TypeVar("T", bound="Table")

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOML_NAMES: Final[Mapping[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
    dict: "a table",
}


class Table(Struct, frozen=True, kw_only=True):
    """A table of the settings: its fields are the keys one may write, their defaults the defaults."""

    elsewhere: ClassVar[frozenset[str]] = frozenset()
    """Fields that are no keys. One called `name` takes the key the table itself stands under."""
    instead: ClassVar[Mapping[str, str]] = {}
    """Keys people are likely to write and must not, with what to do instead."""


class Refused(ValueError):
    """A value that will not do."""

    def __init__(self, problem: str, allowed: str = "") -> None:
        """Say what is wrong, and what is allowed; where is known to whoever reads the table."""
        super().__init__(problem)
        self.problem, self.allowed = problem, allowed


class Via(NamedTuple):
    """Metadata of an `Annotated` type: read as `base`, then `make` of it what the field holds, or raise Refused."""

    base: Any
    make: Callable[[Any], Any]


def unknown_word(what: str, word: str, known: tuple[str, ...]) -> tuple[str, str]:
    """What to say of a word that is none of those known, and what is allowed."""
    near = get_close_matches(word, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {what} {word!r}{hint}", " ".join(known)


def join(path: str, key: str) -> str:
    """The path of a key below `path`, quoted as TOML would have it."""
    key = key if _BARE_KEY.fullmatch(key) else msgspec.json.encode(key).decode()
    return f"{path}.{key}" if path else key


class Reader:
    """Reads one file; `problems` is what was wrong. What it returns is only good when there are none."""

    def __init__(self, file: str) -> None:
        """Take the file's name for the messages."""
        self.file = file
        self.problems: list[SettingsError] = []

    def refuse(self, path: str, problem: str, allowed: str = "") -> None:
        """Note a problem."""
        self.problems.append(SettingsError(path, problem, allowed=allowed, file=self.file))

    def table(self, table: type[T], found: Mapping[str, object], path: str = "", name: str = "") -> T:
        """One table. Keys nobody knows, missing ones and bad values are noted."""
        fields = {f.name: f for f in msgspec.structs.fields(table) if f.name not in table.elsewhere}
        values: dict[str, Any] = {"name": name} if "name" in table.elsewhere else {}
        for key, value in found.items():
            where = join(path, key)
            if key in fields:
                values[key] = self._value(fields[key].type, value, where)
            elif key in table.instead:
                self.refuse(where, table.instead[key])
            else:
                self.refuse(where, *unknown_word("setting", key, tuple(fields)))
        for key, field in fields.items():
            if key not in values and field.required:
                values[key] = None
                self.refuse(join(path, key), "is missing", _describe(field.type))
        return table(**values)

    def _value(self, hint: Any, found: object, path: str) -> Any:
        """A value of a table or an array; None when it was refused."""
        try:
            return self._read(hint, found, path)
        except Refused as refused:
            self.refuse(path, refused.problem, refused.allowed)
            return None

    def _read(self, hint: Any, found: object, path: str) -> Any:
        hint = _without_none(hint)
        via = next((m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Via)), None)
        if via:
            return via.make(self._read(via.base, found, path))
        origin = get_origin(hint)
        if origin is Literal:
            return one_of(get_args(hint), _typed(str, found))
        if origin is tuple:
            items = [self._value(get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(_typed(list, found))]
            return tuple(item for item in items if item is not None)
        if origin is Mapping:
            return {key: self._entry(hint, key, item, path) for key, item in _typed(dict, found).items()}
        if isinstance(hint, type) and issubclass(hint, Table):
            return self.table(hint, _typed(dict, found), path)
        return _leaf(hint, found)

    def _entry(self, hint: Any, key: str, found: object, path: str) -> Any:
        """An entry of a table whose keys the operator chooses."""
        path, (key_hint, hint) = join(path, key), get_args(hint)
        self._value(key_hint, key, path)
        if isinstance(hint, type) and issubclass(hint, Table) and isinstance(found, dict):
            return self.table(hint, found, path, key)
        return self._value(hint, found, path)


def one_of(known: tuple[str, ...], word: str) -> str:
    """The word, if it is one of those known. Raises Refused with all of them."""
    if word not in known:
        raise Refused(*unknown_word("word", word, known))
    return word


def _without_none(hint: Any) -> Any:
    """TOML knows no null: a setting that may be None is one that may be left out."""
    if get_origin(hint) in (Union, UnionType):
        return next(part for part in get_args(hint) if part is not NoneType)
    return hint


def _typed(kind: type[Any], found: object) -> Any:
    if not isinstance(found, kind):
        raise Refused(f"expected {_TOML_NAMES[kind]}, got {_name(found)}")
    return found


def _leaf(hint: Any, found: object) -> Any:
    try:
        return msgspec.convert(found, hint)
    except ValidationError:
        got = str(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else _name(found)
        raise Refused(f"expected {_describe(hint)}, got {got}") from None


def _name(found: object) -> str:
    return _TOML_NAMES.get(type(found), "a date or time")


def _describe(hint: Any) -> str:
    """What a setting takes, in TOML's words."""
    hint = _without_none(hint)
    if get_origin(hint) is Literal:
        return " ".join(get_args(hint))
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        via = next((m.base for m in metadata if isinstance(m, Via)), base)
        return _describe(via) + "".join(_bounds(m) for m in metadata if isinstance(m, Meta))
    return _TOML_NAMES.get(get_origin(hint) or hint, "a table")


def _bounds(meta: Meta) -> str:
    said = {"above": meta.gt, "of at least": meta.ge, "and at most": meta.le}
    return "".join(f" {words} {bound}" for words, bound in said.items() if bound is not None)
