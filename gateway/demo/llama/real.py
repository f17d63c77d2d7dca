"""The part of the demo that runs on a real llama.cpp server: its settings, its calls, and what it needs."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.demo.asked import Wish
from gateway.demo.counters import LLAMA_SERVER
from gateway.demo.llama.scripted_model import ANSWER, LOOP, SHORT, write_model
from gateway.demo.llama.server import LlamaServer, llama_server, missing
from gateway.demo.traffic import Card

SLOTS: Final = 8
"""Completions at once."""
WIDTH: Final = 1024
"""Of the model: some 500 tokens a second on one core."""
CONTEXT: Final = 16_384

_SETTINGS: Final = """
# ---- a real llama.cpp server

[upstreams.{name}]
url = "{url}"
kind = "llama.cpp"
dialects = ["chat"]

[models.live-thinker]
upstream = "{name}"
thinking_cap = 48
thinking_overrun = 256

[models.live-thinker-brief]
upstream = "{name}"
thinking_cap = 48
thinking_overrun = 256
"""


class Missing(Exception):
    """No real server can run here. The message says what to do about it."""


@contextmanager
def server() -> Iterator[LlamaServer]:
    """A real server whose model thinks as a call says. Raises Missing."""
    reason = missing()
    if reason is not None:
        raise Missing(f"--live needs a real llama.cpp server: {reason}")
    with tempfile.TemporaryDirectory(prefix="thinkcap-demo-") as folder:
        model = write_model(Path(folder, "live.gguf"), {"loop": LOOP, "short": SHORT}, ANSWER, width=WIDTH)
        with llama_server(model, slots=SLOTS, http_threads=4 * SLOTS, context=CONTEXT) as running:
            yield running


def settings(url: str) -> str:
    """What to add to the gateway's settings for the server at `url`."""
    return _SETTINGS.format(name=LLAMA_SERVER, url=url)


def _card(model: str, script: str, *, stream: bool) -> Card:
    more = {"chat_template_kwargs": {"script": script}}
    return Card(wish=Wish(dialect="chat", model=model, stream=stream, cap=1000, more=more))


CARDS: Final = (
    *(_card("live-thinker", "loop", stream=number % 3 != 0) for number in range(12)),
    *(_card("live-thinker-brief", "short", stream=True) for _ in range(4)),
)
"""Its calls: without the cap the thinker would think to the end of its output cap."""
