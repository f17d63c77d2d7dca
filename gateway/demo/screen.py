"""The live table: what the counters say now, in two columns where there is room for them."""

from collections.abc import Mapping
from typing import Any, Final

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gateway.demo.counters import Story
from gateway.demo.phrases import OUTCOMES, RETRIES, THINKING, VERDICTS, times

WIDE: Final = 98
"""Characters two columns take."""
_COLUMN: Final = 48
_BAR: Final = 7


class Screen:
    """One state of the demo, drawn."""

    def __init__(self, story: Story, addresses: Mapping[str, str], at: float, seconds: float) -> None:
        """`addresses`: what to open, by name; `at`: seconds since the traffic began, of `seconds`."""
        self._story, self._addresses, self._at, self._seconds = story, addresses, at, seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Everything, as wide as the terminal allows."""
        del console
        left = Group(self._output_cap(), self._calls())
        right = Group(self._thinking_cap(), self._levels())
        yield self._head(min(options.max_width, WIDE))
        yield Columns([left, right], padding=(0, 2)) if options.max_width >= WIDE else Group(left, right)
        spoken = "  ".join(f"{name} {number:,}" for name, number in sorted(self._story.dialects.items()))
        yield Text(f"\ndialects {spoken}", "dim")
        for name, address in self._addresses.items():
            yield Text.assemble((f"{name:8} ", "dim"), (address, "cyan"), no_wrap=True, overflow="ignore")

    def _head(self, width: int) -> RenderableType:
        head = Table.grid(expand=False, padding=(0, 1))
        said = f"{min(self._at, self._seconds):.0f} of {self._seconds:.0f} s"
        calls = times(self._story.calls, "call")
        bar = ProgressBar(total=self._seconds, completed=min(self._at, self._seconds), width=width - 44)
        head.add_row(Text("thinkcap demo", "bold"), bar, Text(f"{said:>12}"), Text(f"{calls:>12}", "bold"))
        return head

    def _output_cap(self) -> RenderableType:
        story = self._story
        past = times(story.past_output_cap, "token")
        table = _table("OUTPUT CAP", f"{story.overran:,} of {story.capped:,} over, by {past}")
        rows = {verdict: phrase.short for verdict, phrase in VERDICTS.items() if verdict != "unjudged"}
        _fill(table, story.verdicts, rows, bright={"upgraded"})
        table.add_row("on the cap, told as `length`", _number(story.on_the_cap), "")
        return table

    def _thinking_cap(self) -> RenderableType:
        story = self._story
        table = _table("THINKING CAP", f"{times(sum(story.thinking.values()), 'turn')} reached it")
        rows = {outcome: phrase.short for outcome, phrase in THINKING.items()}
        _fill(table, story.thinking, rows, bright={"ended"})
        return table

    def _levels(self) -> RenderableType:
        story = self._story
        table = _table("THINKING LEVELS", f"{times(sum(story.refusals.values()), 'refusal')}")
        numbers = {f"{was} -> {sent}, {RETRIES[how].short}": n for (was, sent, how), n in story.retries.items()}  # type: ignore[index]
        numbers |= {f"{was} -> {sent} at once": n for (was, sent), n in story.preempted.items()}
        _fill(table, numbers, {name: name for name in sorted(numbers)}, bright=set(numbers))
        return table

    def _calls(self) -> RenderableType:
        story = self._story
        table = _table("CALLS", f"in {times(len(story.dialects), 'dialect')}")
        _fill(table, story.outcomes, {o: words for o, words in OUTCOMES.items() if o in story.outcomes}, bright=set())
        return table


def _table(title: str, says: str) -> Table:
    table = Table(
        box=None, width=_COLUMN, padding=(0, 1, 0, 0), title_justify="left", title_style="", show_header=False
    )
    table.title = Text.assemble("\n", (title, "bold"), "  ", (says, "dim"))
    table.add_column(width=_COLUMN - _BAR - 9, no_wrap=True)
    table.add_column(width=6, justify="right")
    table.add_column(width=_BAR)
    return table


def _fill(table: Table, numbers: Mapping[Any, int], rows: Mapping[Any, str], *, bright: set[Any]) -> None:
    """A row for each name, whether or not anything was counted, with a bar that shows its share."""
    most = max(numbers.values(), default=1)
    for name, words in rows.items():
        number = numbers.get(name, 0)
        style = "green" if name in bright else "yellow"
        bar = ProgressBar(most, number, width=_BAR, complete_style=style, finished_style=style)
        table.add_row(Text(words, "" if number else "dim"), _number(number), bar)


def _number(number: int) -> Text:
    return Text(f"{number:,}", "bold" if number else "dim")


HEADINGS: Final = (
    "seconds",
    "calls",
    "over output cap",
    "told `length`",
    "thinking ended",
    "given up",
    "levels retried",
)
HEADING: Final = "   ".join(HEADINGS)


def line(story: Story, at: float) -> str:
    """The most important numbers below HEADING, where the output is no terminal."""
    numbers = (
        round(at),
        story.calls,
        story.overran,
        story.told_length,
        story.thinking.get("ended", 0),
        sum(story.given_up.values()),
        sum(story.retries.values()),
    )
    return "   ".join(f"{number:{len(name)},}" for name, number in zip(HEADINGS, numbers, strict=True))
