"""The command line: thinkcap serve | check | keys | demo | explain."""

import argparse
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from msgspec.structs import replace

from gateway.check import explain, report
from gateway.config import Settings, default_settings, parse_settings
from gateway.config.reading import Refused, Via
from gateway.config.values import Name
from gateway.errors import SettingsError
from gateway.keys import entry, new_key
from gateway.words import LADDER, Level, level_of

DEFAULT_FILE = Path("thinkcap.toml")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0, or 2 with what is wrong on stderr."""
    options = parser().parse_args(argv)
    try:
        return int(options.run(options))
    except SettingsError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command line talks
        return 2


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(prog="thinkcap", description="An observability-first LLM gateway.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="run the gateway"))
    check = commands.add_parser("check", help="load the settings and say what is in force, and where it comes from")
    _config_option(check)
    check.set_defaults(run=_check)
    one = commands.add_parser("explain", help="what is in force for one model, and where a refused level would go")
    _config_option(one)
    one.add_argument("--model", required=True, help="the model, as callers name it")
    one.add_argument("--level", type=_level, help=f"a thinking level: {' '.join(LADDER)} (default: all of them)")
    one.set_defaults(run=_explain)
    keys = commands.add_parser("keys", help="keys for callers").add_subparsers(required=True, metavar="COMMAND")
    new = keys.add_parser("new", help="make a key, and the [[keys]] entry that lets it in")
    new.add_argument("--name", type=_name, default="caller", help="to tell keys apart (default: caller)")
    new.set_defaults(run=_new_key)
    _add_demo(commands.add_parser("demo", help="see it work: a scripted upstream and callers, no key, no network"))
    return top


def _add_serve(serve: argparse.ArgumentParser) -> None:
    _config_option(serve)
    serve.add_argument("--host", help="address to listen on (server.host)")
    serve.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (server.port)")
    serve.add_argument("--metrics-port", type=_port, help="port of /metrics, 0 for a free one (server.metrics_port)")
    serve.set_defaults(run=_serve)


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--seconds", type=_seconds, default=20.0, help="how long callers call (default: 20)")
    demo.add_argument("--port", type=_port, default=0, help="port of the gateway (default: any free one)")
    demo.add_argument("--live", action="store_true", help="with a real llama.cpp server too (needs the extra `live`)")
    demo.set_defaults(run=_demo)


def _config_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-c", "--config", type=Path, help="settings file (default: ./thinkcap.toml, else the built-in settings)"
    )


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:  # noqa: PLR2004 - the highest port
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _level(text: str) -> Level:
    level = level_of(text)
    if level is None:
        raise argparse.ArgumentTypeError(f"unknown level {text!r}: {' '.join(LADDER)}")
    return level


def _name(text: str) -> str:
    try:
        return str(next(via for via in get_args(Name) if isinstance(via, Via)).make(text))
    except Refused as refused:
        raise argparse.ArgumentTypeError(f"{refused.problem}: {refused.allowed or 'another name'}") from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:  # noqa: PLR2004 - a day; nan is none of it
        raise argparse.ArgumentTypeError("seconds are a number above 0, at most 86400")
    return seconds


def load(path: Path | None) -> Settings:
    """The settings of a file, of ./thinkcap.toml, or the built-in ones. Raises SettingsError."""
    if path is None and not DEFAULT_FILE.exists():
        return default_settings(os.environ)
    path = path or DEFAULT_FILE
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin with a byte order mark
    except OSError as error:
        raise SettingsError("", f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise SettingsError("", "is no UTF-8 text", file=str(path)) from None
    return parse_settings(
        text, os.environ, file=str(path), read_file=lambda name: Path(name).read_text(encoding="utf-8")
    )


def _serve(options: argparse.Namespace) -> int:
    gc.disable()  # what starting makes is there to stay: looking for garbage in it takes a twentieth of the time
    try:
        return _serving(options)
    finally:
        gc.enable()


@contextmanager
def _as_if_not_installed(*packages: str) -> Iterator[None]:
    """Import meanwhile as where these packages are missing, but for those that are loaded."""
    missing = [name for name in packages if name not in sys.modules]
    for name in missing:
        sys.modules[name] = None  # type: ignore[assignment]  # how Python itself notes that there is none
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


def _serving(options: argparse.Namespace) -> int:
    # httpx loads a command line and structlog tracebacks where they find these, which are here for the demo: a tenth of
    # the time that a start takes.
    with _as_if_not_installed("pygments", "rich"):
        from gateway.serve import serve  # noqa: PLC0415 - the other commands need no server and start without its imports

    settings = load(options.config)
    changes = {
        name: value
        for name, value in (
            ("host", options.host),
            ("port", options.port),
            ("metrics_port", options.metrics_port),
        )
        if value is not None
    }
    return serve(replace(settings, server=replace(settings.server, **changes)))


def _check(options: argparse.Namespace) -> int:
    sys.stdout.write(report(load(options.config)))
    return 0


def _explain(options: argparse.Namespace) -> int:
    sys.stdout.write(explain(load(options.config), options.model, options.level))
    return 0


def _new_key(options: argparse.Namespace) -> int:
    key, digest = new_key()
    sys.stdout.write(f"The key, shown this once: {key}\n\nFor the settings:\n\n{entry(options.name, digest)}")
    return 0


def _demo(options: argparse.Namespace) -> int:
    from gateway.demo.play import Options, demo  # noqa: PLC0415 - no other command needs rich, or a server of its own

    return demo(Options(seconds=options.seconds, port=options.port, live=options.live))
