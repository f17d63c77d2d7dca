"""Host llama.cpp's own HTTP server in this process, from the xllamacpp wheel; ends when its standard input does.

Prints one line, `listening on URL`, when it answers. Run as a child process: native code may end it any time.
"""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--slots", type=int, required=True, help="completions that run at once")
    parser.add_argument("--http-threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True, help="tokens of all slots together")
    return parser.parse_args()


def _parameters(wheel: Any, arguments: argparse.Namespace) -> Any:
    """One compute thread: the models are tiny, and tests share the cores."""
    parameters = wheel.CommonParams()
    parameters.model.path = arguments.model
    parameters.model_alias = {arguments.alias}
    parameters.chat_template = arguments.template.read_text()
    parameters.use_jinja = True
    parameters.n_ctx = arguments.context
    parameters.n_parallel = arguments.slots
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_threads_http = arguments.http_threads
    parameters.offline = True
    parameters.ui = False
    if arguments.api_key:
        parameters.api_keys = [arguments.api_key]
    return parameters


def main() -> None:
    """Serve until standard input is closed."""
    wheel = importlib.import_module("xllamacpp")
    server = wheel.Server(_parameters(wheel, _arguments()))
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
