"""One turn of the scripted server: token by token what its script has it say, and the counts it reports at the end."""

import asyncio
from collections.abc import Iterator
from typing import Final, Literal
from uuid import uuid4

from msgspec import Struct

from gateway.demo.asked import Asked
from gateway.demo.scripts import Script
from gateway.words import Reason

PROMPT_TOKENS: Final = 12
TOOL: Final = ("look", '{"where": "sky"}')
"""The one tool that is called, and its arguments; counted as the text of the turn."""
_THOUGHTS: Final = ("Let", "me", "see", "what", "is", "asked", "here:", "this", "or", "that?", "Wait,")
_WORDS: Final = (
    "The",
    "answer",
    "is",
    "42",
    "and",
    "that",
    "much",
    "is",
    "known;",
    "what",
    "was",
    "asked,",
    "is",
    "not.",
)


class Piece(Struct, frozen=True):
    """A token of thinking or of text; a whole tool call; or a silence as long as `tokens` of hidden thinking take."""

    kind: Literal["thought", "text", "tool", "silence"]
    text: str = ""
    choice: int = 0
    tokens: int = 1


class Said(Struct):
    """What one choice came to."""

    thought: str = ""
    text: str = ""
    tool: bool = False


class Turn:
    """A turn under way. Counts what it says; `reason` and the usage are good once `pieces` has come to its end."""

    def __init__(self, script: Script, asked: Asked) -> None:
        """Begin. Needs a running event loop: control calls wait for what becomes of the turn."""
        self.script, self.asked = script, asked
        self.id = uuid4().hex
        self.said = [Said() for _ in range(asked.choices)]
        self.thought_tokens = 0
        """Hidden and shown."""
        self.output_tokens = 0
        """All of them."""
        self.reason: Reason = script.ends
        self.told_to_answer = False
        self.thinking_over, self.over = asyncio.Event(), asyncio.Event()

    @property
    def stopped_by(self) -> str | None:
        """The caller's own stop sequence, where it ended the turn."""
        return self.asked.stop if self.script.evidence else None

    def pieces(self) -> Iterator[Piece]:
        """All it says, choice after choice."""
        for choice in range(self.asked.choices):
            yield from self._think(choice)
            self.thinking_over.set()
            yield from self._speak(choice)

    def _think(self, choice: int) -> Iterator[Piece]:
        script, thought = self.script, 0
        if script.hidden:
            self._count(script.hidden, thinking=True)
            yield Piece("silence", choice=choice, tokens=script.hidden)
        limit = min(script.thinks, self.asked.budget or script.thinks)
        while thought < limit and self._room() and not self.told_to_answer:
            word = " " + _THOUGHTS[thought % len(_THOUGHTS)]
            thought += 1
            self._count(1, thinking=True)
            self.said[choice].thought += word
            yield Piece("thought", word, choice)

    def _speak(self, choice: int) -> Iterator[Piece]:
        script, cap = self.script, self.asked.cap
        wanted = script.text
        if script.cap == "filled" and cap is not None:
            wanted = max(1, cap - script.hidden)
        for n in range(wanted - script.tool):
            if not self._room():
                self.reason = "length"
                return
            self._count(1)
            word = _WORDS[n % len(_WORDS)]
            word = f" {word}" if n else word
            self.said[choice].text += word
            yield Piece("text", word, choice)
        if script.tool:
            self._count(1)
            self.said[choice].tool = True
            yield Piece("tool", choice=choice)

    def _room(self) -> bool:
        """Whether one more token fits under a cap that is kept."""
        cap = self.asked.cap
        return self.script.cap != "kept" or cap is None or self.output_tokens < cap

    def _count(self, tokens: int, *, thinking: bool = False) -> None:
        self.output_tokens += tokens
        self.thought_tokens += tokens if thinking else 0
