"""The command line: thinkcap serve | check | keys | demo | explain."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gateway.config import Settings, default_settings, parse_settings
from gateway.errors import SettingsError

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
    serve = commands.add_parser("serve", help="run the gateway")
    _config_option(serve)
    serve.add_argument("--host", help="address to listen on (server.host)")
    serve.add_argument("--port", type=_port, help="port to listen on, 0 for a free one (server.port)")
    serve.add_argument("--metrics-port", type=_port, help="port of /metrics, 0 for a free one (server.metrics_port)")
    serve.set_defaults(run=_serve)
    return top


def _config_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-c", "--config", type=Path, help="settings file (default: ./thinkcap.toml, else the built-in settings)"
    )


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:  # noqa: PLR2004 - the highest port
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def load(path: Path | None) -> Settings:
    """The settings of a file, of ./thinkcap.toml, or the built-in ones. Raises SettingsError."""
    if path is None and not DEFAULT_FILE.exists():
        return default_settings(os.environ)
    path = path or DEFAULT_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError("", f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise SettingsError("", "is no UTF-8 text", file=str(path)) from None
    return parse_settings(
        text, os.environ, file=str(path), read_file=lambda name: Path(name).read_text(encoding="utf-8")
    )


def _serve(options: argparse.Namespace) -> int:
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
