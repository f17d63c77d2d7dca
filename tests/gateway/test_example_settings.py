"""thinkcap.example.toml is true: it loads, names every setting there is, and states the defaults that are in force."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from gateway.config import TRAITS, Settings, parse_settings
from gateway.config.reading import Table

EXAMPLE: Final = (Path(__file__).parents[2] / "thinkcap.example.toml").read_text(encoding="utf-8")
"""A setting in the file, in force or behind `#`: its name, value, and the comment beside it."""
HEADING: Final = re.compile(r"^(?:# )?\[\[?([a-z_.]+)")
LINE: Final = re.compile(r"^(# )?([a-z_0-9]+) = (.+?)(?:\s{2,}# (.*))?$")
BY_KIND: Final = {"ask_usage", "enforces_cap", "thinking_method"}


def stated() -> Iterator[tuple[str, str, bool, Any, str]]:
    """Table, key, whether it is only a comment, value and remark of every setting in the file."""
    table = ""
    for line in EXAMPLE.splitlines():
        if heading := HEADING.match(line):
            table = heading[1].split(".")[0] if heading[1].startswith(("upstreams", "models")) else heading[1]
        elif setting := LINE.match(line):
            value = tomllib.loads(f"x = {setting[3]}")["x"]
            yield table, setting[2], bool(setting[1]), value, setting[4] or ""


def tables(hint: Any) -> Iterator[type[Table]]:
    """The tables a type holds."""
    if isinstance(hint, type) and issubclass(hint, Table):
        yield hint
    for part in get_args(hint):
        yield from tables(part)


def settings_there_are() -> Iterator[tuple[str, str, Any]]:
    """Table, key and default of every setting of the structs; the default is msgspec.NODEFAULT where there is none."""
    for top in msgspec.structs.fields(Settings):
        for table in tables(top.type):
            for field in msgspec.structs.fields(table):
                if field.name not in table.elsewhere and table is not Settings and field.name != "ceiling":
                    default = field.default
                    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
                        default = field.default_factory()
                    yield top.name, field.name, default


STATED: Final = {
    (table, key): (commented, value, remark) for table, key, commented, value, remark in reversed(list(stated()))
}
THERE: Final = {(table, key): default for table, key, default in settings_there_are()}


def test_the_example_loads() -> None:
    """The file as it is starts a gateway."""
    assert list(parse_settings(EXAMPLE, {}).upstreams) == ["google", "local"]


def test_the_example_loads_with_every_setting_in_force() -> None:
    """Each line behind `#` is sound TOML of the right kind too, at its place."""
    text = re.sub(r"^# (?=\[\[?[a-z_.]+\]|[a-z_0-9]+ = )", "", EXAMPLE, flags=re.MULTILINE)
    text = text.replace("api_key_file", "# api_key_file")
    settings = parse_settings(text, {"GEMINI_API_KEY": "x"})
    assert settings.keys
    assert settings.upstreams["google"].finish_reasons


def test_the_example_names_every_setting_and_no_other() -> None:
    """A setting that is added, renamed or dropped shows in the file."""
    named = {(table, key) for table, key in STATED if table != "level_fallback.ceiling"}
    assert named == THERE.keys()


@pytest.mark.parametrize(("table", "key"), list(THERE), ids=[f"{table}.{key}" for table, key in THERE])
def test_the_example_states_the_default_in_force(table: str, key: str) -> None:
    """The value behind `#` is the default; a line in force, or one without a default, says so in its remark."""
    commented, value, remark = STATED[table, key]
    default = THERE[table, key]
    if key in BY_KIND:
        assert remark.startswith("by kind")
        assert key == "thinking_method" or value == getattr(TRAITS["gemini"], key)
    elif default is msgspec.NODEFAULT or default is None:
        assert remark.startswith(("no default", "default: "))
    elif commented and not remark.startswith("default "):
        assert msgspec.convert(value, type(default)) == default
    else:
        assert remark.startswith(f"default {msgspec.json.encode(default).decode()};")
