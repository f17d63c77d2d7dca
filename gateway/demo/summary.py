"""The end of the demo: what happened, in words, with no number that is not a counter's."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.demo.counters import Story
from gateway.demo.phrases import OUTCOMES, RETRIES, THINKING, VERDICTS, times
from gateway.words import CONVERSATION

_ASIDE = " " * 9
"""Where a row without a number begins."""


def summary(story: Story) -> list[str]:
    """Lines of at most 100 characters; a heading stands at the margin, its rows below it, a blank line between."""
    sections = (_calls(story), _output_cap(story), _thinking_cap(story), _levels(story))
    return [line for section in sections if (lines := list(section)) for line in (*lines, "")][:-1]


def _calls(story: Story) -> Iterator[str]:
    spoken = ", ".join(f"{number:,} {name}" for name, number in story.dialects.items())
    yield f"CALLS: {story.calls:,} ({spoken})"
    yield from _rows(story.outcomes, OUTCOMES)
    yield f"{_ASIDE}the gateway itself took {1000 * story.overhead_seconds:.1f} ms of a call on average"


def _output_cap(story: Story) -> Iterator[str]:
    if not story.capped:
        return
    yield f"OUTPUT CAP: {story.overran:,} of {times(story.capped, 'turn')} under a cap used more tokens than it allows"
    if story.overran:
        mean = story.past_output_cap / story.overran
        yield f"{_ASIDE}{times(story.past_output_cap, 'token')} past the caps in all, {mean:.0f} a turn"
    left = {verdict: number for verdict, number in story.verdicts.items() if verdict != "upgraded"}
    yield from _row(story.told_length, VERDICTS["upgraded"].long)
    yield from _row(sum(left.values()), "left as the upstream said it, because it")
    yield from _rows(left, {verdict: phrase.long for verdict, phrase in VERDICTS.items()}, indent="     ")
    yield from _row(story.on_the_cap, "more said `stop` exactly on the cap: no overrun, but told as `length` too")
    yield from _row(story.usage_missing, "came without usage, so nobody can judge them")


def _thinking_cap(story: Story) -> Iterator[str]:
    if not story.thinking:
        return
    reached, past = sum(story.thinking.values()), story.past_thinking_cap
    yield f"THINKING CAP: {times(reached, 'turn')} reached it, and went {past:.0f} tokens past it on average"
    words = {outcome: phrase.long for outcome, phrase in THINKING.items()}
    yield from _rows(story.thinking, words)
    if story.on_llama_server:
        there = story.past_thinking_cap_there
        yield f"{_ASIDE}of these on the real llama.cpp server, {there:.1f} tokens past the cap on average"
        yield from _rows(story.on_llama_server, words, indent="     ")
    if story.reasoning_only:
        yield f"{_ASIDE}{times(story.reasoning_only, 'answer')} had no text, only thinking"


def _levels(story: Story) -> Iterator[str]:
    refused = sum(story.refusals.values())
    if not refused:
        return
    yield f"THINKING LEVELS: upstreams refused {times(refused, 'attempt')} for the level asked of them"
    for (was, sent, outcome), number in story.retries.items():
        yield from _row(number, f"{was} -> {sent}: sent again with {sent}, {RETRIES[outcome].long}")  # type: ignore[index]
    plain = story.refusals.get(CONVERSATION, 0)
    yield from _row(plain, "passed on: plain conversation is not among level_fallback.purposes")
    for (was, sent), number in story.preempted.items():
        yield from _row(number, f"{was} -> {sent}: sent with {sent} at once, {was} having been refused just before")


def _rows(numbers: Mapping[Any, int], words: Mapping[Any, str], *, indent: str = "") -> Iterator[str]:
    for name, number in numbers.items():
        yield from _row(number, words.get(name, name), indent=indent)


def _row(number: int, words: str, *, indent: str = "") -> Iterator[str]:
    """A number and what it counts; nothing where there is nothing to count."""
    if number:
        yield f"{indent}{number:7,}  {words}"
