"""The models of the live tests, and the real server that runs them."""

from pathlib import Path
from typing import Final

from gateway.demo.llama.scripted_model import ANSWER, END_TURN, LOOP, SHORT, THINK, Script, write_model
from gateway.demo.llama.server import LlamaServer, llama_server, missing

__all__ = ["ANSWER", "CALLS", "EMOJI", "LOOP", "SHORT", "LlamaServer", "llama_server", "missing", "stubborn", "thinker"]

EMOJI: Final = Script([" face", "bytes:🦄", " done"])
"""Thinks 6 tokens, of which four are one character."""
CALLS: Final = Script(
    [
        " plan",
        "\n</think>",
        "<tool_call>",
        '\n{"name": "look", "arguments": {"where": "',
        "sky",
        '"}}',
        "\n</tool_call>",
    ],
    then=END_TURN,
)
"""Thinks a token, then calls the tool `look` if the call brings it."""


def thinker(folder: Path, *, width: int = 0) -> Path:
    """A model that thinks by the script the call names in `chat_template_kwargs.script`, then says ANSWER."""
    scripts = {"loop": LOOP, "short": SHORT, "emoji": EMOJI, "calls": CALLS}
    return write_model(folder / f"thinker-{width}.gguf", scripts, ANSWER, width=width)


def stubborn(folder: Path, *, width: int = 0) -> Path:
    """A model that opens its thinking again whenever it is ended."""
    return write_model(folder / f"stubborn-{width}.gguf", {"loop": LOOP}, [THINK], width=width)
