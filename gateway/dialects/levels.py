"""Where a thinking level sits in a request body: read from every place, and written into every place that carries one.

A level moves between places only where `off` is a value of one field and every other level of another: a switch is
turned on, Gemini's budget gives way to `thinkingLevel`, Anthropic's `thinking: disabled` goes (beside an effort the
default form stands). Where nothing carries a level it is written into the dialect's primary field.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from gateway import splice
from gateway.calls import NO_LEVEL_SENT, Sent
from gateway.dialects.places import ITEMS, LEVEL_KEYS, PRIMARY, SWITCHES, THINKING, WORDS, Path, Switch
from gateway.surrogates import UNREADABLE, decoded, reader
from gateway.words import LADDER, DialectName, Level, level_of


class Place(NamedTuple):
    """One field that carries a level, or that a level has to replace."""

    path: Path
    value: object
    level: Level | None
    form: Literal["word", "switch", "budget"]


_CONTENT: Final = frozenset((
    "messages", "input", "contents", "tools", "functions", "system", "systemInstruction", "system_instruction",
    "instructions", "prompt",
))  # fmt: skip
"""What was said, not how to answer: a word in there is no setting."""
_MOST_SETTINGS: Final = 2_000
_VERTEX: Final = "THINKING_LEVEL_"
_fields = reader(dict[str, msgspec.Raw])
_items = reader(list[msgspec.Raw])


def level_in(dialect: DialectName, body: bytes) -> Level | None:
    """The same as `read_level`, at the price of a few searches for the many calls that carry none."""
    if (
        body.find(b"ffort") < 0
        and body.find(b"hink") < 0
        and body.find(b'"enabled"') < 0
        and body.find(b"_strength") < 0
    ):
        return None
    return read_level(dialect, body)


def read_level(dialect: DialectName, body: bytes) -> Level | None:
    """The level a request carries; None when it carries none, or a word that is no step of the ladder."""
    return next((place.level for place in _places(dialect, _top(body)) if place.level), None)


def read_sent(dialect: DialectName, body: bytes) -> Sent:
    """All levels a request carries, and which words of the ladder other settings hold: for reading a refusal."""
    top = _top(body)
    places = _places(dialect, top)
    levels = tuple(dict.fromkeys(place.level for place in places if place.level))
    taken = {place.path for place in places}
    elsewhere = frozenset(_settings(top, taken)) & frozenset(LADDER)
    return Sent(levels=levels, elsewhere=elsewhere) if levels or elsewhere else NO_LEVEL_SENT


def write_level(dialect: DialectName, body: bytes, level: Level, *, refused: Level | None = None) -> bytes:
    """The body with this level in every place that carries one, else in the primary field; all else as it came.

    `refused` is the level to be replaced where there are several (None: the one that counts). Only a refused `off`
    turns thinking on: an effort beside `thinking: disabled` is rewritten alone. Where the way to the primary field
    leads through what is no object the body comes back as it is.
    """
    given, places = body, _places(dialect, _top(body))
    refused = refused or next((place.level for place in places if place.level), None)
    words = [place for place in places if place.form == "word"]
    home: Path | None = None
    for place in words:
        body = splice.replace(body, place.path, _spelt(level, like=place.value))
    for place in places:
        if place.form == "switch" and refused == "off":
            switch = next(one for one in SWITCHES[dialect] if one.path == place.path)
            body = _turned_on(body, switch)
            home = home or switch.beside
        elif place.form == "budget" and not words:
            body = splice.remove(body, place.path)
            key = LEVEL_KEYS.get(str(place.path[-1]))
            home = home or ((*place.path[:-1], key) if key else None)
    if not words:
        like = "UPPER" if dialect == "gemini" else None
        try:
            body = splice.put(body, home or _primary(dialect, body), _spelt(level, like=like))
        except KeyError:
            return given
    return body


def _turned_on(body: bytes, switch: Switch) -> bytes:
    if switch.on is None:
        return splice.remove(body, switch.path[:-1])
    return splice.replace(body, switch.path, switch.on)


def _primary(dialect: DialectName, body: bytes) -> Path:
    """The primary field; Gemini's in the case that its parents have."""
    if dialect != "gemini":
        return PRIMARY[dialect]
    top = _top(body)
    outer = "generation_config" if "generation_config" in top else "generationConfig"
    inner = _decoded(top.get(outer))
    snake = outer == "generation_config" if not isinstance(inner, dict) or "thinkingConfig" not in inner else False
    snake = snake or (isinstance(inner, dict) and "thinking_config" in inner)
    return (outer, "thinking_config", "thinking_level") if snake else (outer, "thinkingConfig", "thinkingLevel")


def _places(dialect: DialectName, top: Mapping[str, msgspec.Raw]) -> list[Place]:
    """Every place that carries a level, the one that counts first; Google's budgets too, whatever they say."""
    places = list(_item_places(dialect, top))
    for path in _present(WORDS[dialect], top):
        value = _at(top, path)
        if (level := _word(path, value)) is not None:
            places.append(Place(path, value, level, "word"))
    for config in _present(THINKING.get(dialect, ()), top):
        for budget_key, level_key in LEVEL_KEYS.items():
            value, budget = _at(top, (*config, level_key)), _at(top, (*config, budget_key))
            if (level := _word(config, value)) is not None:
                places.append(Place((*config, level_key), value, level, "word"))
            if budget is not None:
                none = type(budget) in (int, float) and budget == 0
                places.append(Place((*config, budget_key), budget, "off" if none else None, "budget"))
    for switch in SWITCHES[dialect]:
        if switch.path[0] not in top:
            continue
        value = _at(top, switch.path)
        if value == switch.off and type(value) is type(switch.off):
            places.append(Place(switch.path, value, "off", "switch"))
    return places


def _present(paths: tuple[Path, ...], top: Mapping[str, msgspec.Raw]) -> list[Path]:
    """The paths whose beginning is there at all: most requests carry no level."""
    return [path for path in paths if path[0] in top]


def _item_places(dialect: DialectName, top: Mapping[str, msgspec.Raw]) -> Iterator[Place]:
    """Levels of single items, the last first. A list without the key's bytes is not looked into."""
    if dialect not in ITEMS:
        return
    name, key, wanted, inner = ITEMS[dialect]
    raw = top.get(name)
    if raw is None or str(inner[-1]).encode() not in bytes(raw):
        return
    try:
        items = _items(raw)
    except UNREADABLE:
        return
    for number in reversed(range(len(items))):
        if str(inner[-1]).encode() not in bytes(items[number]):
            continue
        item = _decoded(items[number])
        if isinstance(item, dict) and item.get(key) == wanted:
            value = _inside(item, inner)
            if (level := _word(inner, value)) is not None:
                yield Place((name, number, *inner), value, level, "word")


def _word(path: Path, value: object) -> Level | None:
    if isinstance(value, str):
        return level_of(value)
    return "off" if value is False and path == ("think",) else None


def _spelt(level: Level, *, like: object) -> bytes:
    """The level as the place had it: in capitals, with Vertex's prefix, or as most write it."""
    word: str = "none" if level == "off" else level
    if isinstance(like, str) and like.isupper():
        word = word.upper()
    elif isinstance(like, str) and like.istitle():
        word = word.title()
    if isinstance(like, str) and like.upper().startswith(_VERTEX):
        word = like[: len(_VERTEX)] + word
    return msgspec.json.encode(word)


def _settings(top: Mapping[str, msgspec.Raw], taken: set[Path]) -> Iterator[Level]:
    """Ladder words of all settings that are no place of a level."""
    queue: list[tuple[Path, object]] = [((key,), _decoded(raw)) for key, raw in top.items() if key not in _CONTENT]
    for path, value in queue:
        if len(queue) > _MOST_SETTINGS:
            return
        if isinstance(value, dict):
            queue.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            queue.extend(((*path, number), item) for number, item in enumerate(value))
        elif isinstance(value, str) and path not in taken and (level := level_of(value)):
            yield level


def _top(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a request, unread; none when it is no JSON object."""
    try:
        return _fields(body)
    except UNREADABLE:
        return {}


def _decoded(raw: msgspec.Raw | None) -> Any:
    try:
        return None if raw is None else decoded(raw)
    except UNREADABLE:
        return None


def _at(top: Mapping[str, msgspec.Raw], path: Path) -> Any:
    return _inside(_decoded(top.get(str(path[0]))), path[1:])


def _inside(value: object, path: Path) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
