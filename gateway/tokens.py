"""How many tokens is this piece of reasoning: the best source that the stream offers, best first.

a running exact count on the frame (llama.cpp `timings.predicted_n`, vLLM and SGLang `continuous_usage_stats`)
one token per frame, on servers known to send it so
UTF-8 bytes / 4 over all reasoning so far, so that rounding does not add up; marked as estimated
"""

from typing import Final

from msgspec import Struct

from gateway.words import CountSource

_BYTES_PER_TOKEN: Final = 4


class ReasoningCount(Struct):
    """The reasoning tokens of one choice. They go down only where an exact count takes the place of an estimate.

    A running count is a total of everything produced, visible text included. So the first reasoning after visible text
    counts as its own frame alone, and from there on the growth of the running count is reasoning again. The tokens of
    the tag that opens such a block are lost by this; visible text never counts as reasoning, and no cap fires for it.
    """

    per_frame: bool
    """The server is known to send one token a frame."""
    _exact: int = 0  # reasoning tokens as of the last running count
    _other: int = 0  # how much of the running count is no reasoning
    _frames: int = 0  # what came since the last running count, as is
    _bytes: int = 0
    _seen_exact: bool = False
    _interrupted: bool = False

    def add(self, text: str, running: int | None) -> int:
        """Take a piece of reasoning and its frame's running count, where it has one. Gives the tokens so far."""
        self._frames += 1
        self._bytes += len(text.encode("utf-8", "surrogatepass"))
        if running is not None:
            if self._interrupted:
                self._other = running - max(self.tokens, self._exact + 1)
                self._interrupted = False
            # why max: a server that restarts its count, or several choices in one stream, must not undo a cap
            self._exact = max(self._exact, running - self._other)
            self._frames = self._bytes = 0
            self._seen_exact = True
        return self.tokens

    def interrupt(self) -> None:
        """Visible text or a tool call came: what the running count grew by meanwhile is no reasoning."""
        self._interrupted = True

    @property
    def tokens(self) -> int:
        """Reasoning tokens so far."""
        return self._exact + (self._frames if self.per_frame else self._bytes // _BYTES_PER_TOKEN)

    @property
    def source(self) -> CountSource:
        """`counted` once an exact running count was seen, or when frames are tokens; else `estimated`."""
        return "counted" if self._seen_exact or self.per_frame else "estimated"
