"""From a scrape to sentences: what is added up, what is said of it, and that it fits a screen."""

import pytest
from rich.console import Console

from gateway.demo.counters import Counters, Story
from gateway.demo.phrases import OUTCOMES, RETRIES, THINKING, VERDICTS
from gateway.demo.screen import HEADING, Screen, line
from gateway.demo.summary import summary
from gateway.words import CAP_OUTCOMES, RETRY_OUTCOMES
from gateway.words import OUTCOMES as ALL_OUTCOMES
from telemetry.labels import OVERRUN_VERDICTS

TEXT = r"""
# HELP thinkcap_requests_total Calls.
thinkcap_requests_total{dialect="chat",model="a",outcome="ok",upstream="u"} 3.0
thinkcap_requests_total{dialect="gemini",model="b} \"x\"",outcome="ok",upstream="u"} 4.0
thinkcap_requests_total{dialect="gemini",model="b",outcome="timeout",upstream="u"} 0.0
thinkcap_thinking_tokens_past_cap_bucket{le="+Inf",model="a",upstream="u"} 4.0
thinkcap_thinking_tokens_past_cap_sum{model="a",upstream="u"} 10.0
thinkcap_thinking_tokens_past_cap_count{model="a",upstream="u"} 4.0
process_open_fds 26.0
"""


def story(number: int = 12_345) -> Story:
    """A story in which everything happened that can, so many times."""
    return Story(
        calls=number,
        outcomes=dict.fromkeys(ALL_OUTCOMES, number),
        dialects=dict.fromkeys(("chat", "responses", "messages", "gemini"), number),
        capped=10 * number,
        verdicts=dict.fromkeys(OVERRUN_VERDICTS, number),
        past_output_cap=number,
        on_the_cap=number,
        usage_missing=number,
        reasoning_only=number,
        thinking=dict.fromkeys(CAP_OUTCOMES, number),
        given_up={"kept_thinking": number},
        past_thinking_cap=2.5,
        on_llama_server={"ended": number},
        past_thinking_cap_there=1.5,
        refusals={"compaction": number, "conversation": number},
        retries={("minimal", "medium", outcome): number for outcome in RETRY_OUTCOMES},
        preempted={("minimal", "medium"): number},
        overhead_seconds=0.0004,
    )


def test_a_scrape_is_added_up() -> None:
    """Sums over all series, by label without the zeros, and the mean of a histogram."""
    counters = Counters(TEXT)
    assert counters.total("thinkcap_requests_total") == 7
    assert counters.total("thinkcap_requests_total", dialect="chat") == 3
    assert counters.by("dialect", "thinkcap_requests_total") == {"gemini": 4, "chat": 3}
    assert counters.by("outcome", "thinkcap_requests_total") == {"ok": 7}
    assert counters.by_all(("dialect", "outcome"), "thinkcap_requests_total", dialect="chat") == {("chat", "ok"): 3}
    assert counters.mean("thinkcap_thinking_tokens_past_cap") == 2.5
    assert counters.mean("thinkcap_overhead_seconds") == 0.0
    assert counters.total("process_open_fds") == 26


def test_nothing_happened_is_told_without_a_division() -> None:
    """An empty scrape makes a story of zeros, a summary of the one section there always is, and a screen."""
    empty = Story.of(Counters(""))
    assert summary(empty)[0].startswith("CALLS: 0")
    assert not any(said.startswith(("OUTPUT", "THINKING")) for said in summary(empty))
    Console(width=100, quiet=True).print(Screen(empty, {}, 0.0, 20.0))


def test_every_word_the_counters_have_is_put_in_words() -> None:
    """No verdict, outcome or cause that can be counted is shown as a bare label."""
    assert set(VERDICTS) == set(OVERRUN_VERDICTS)
    assert set(THINKING) == set(CAP_OUTCOMES)
    assert set(RETRIES) == set(RETRY_OUTCOMES)
    assert set(OUTCOMES) == set(ALL_OUTCOMES)


def test_the_summary_counts_what_was_left_alone() -> None:
    """Overruns are split into those told as `length` and the rest, which are listed one by one."""
    text = "\n".join(summary(story(2)))
    assert f"OUTPUT CAP: {2 * len(OVERRUN_VERDICTS)} of 20 turns" in text
    assert f"{2 * (len(OVERRUN_VERDICTS) - 1):7}  left as the upstream said it" in text
    assert "went 2 tokens past it" in text
    assert "the gateway itself took 0.4 ms" in text


@pytest.mark.parametrize("number", [1, 12_345], ids=["small numbers", "large numbers"])
def test_nothing_is_wider_than_a_hundred_characters(number: int) -> None:
    """The summary and the lines fit, whatever the counters say."""
    for said in (*summary(story(number)), HEADING, line(story(number), 1234.0)):
        assert len(said) <= 100, said


@pytest.mark.parametrize(
    ("width", "columns"), [(100, 2), (97, 1), (60, 1)], ids=["a wide terminal", "one just too narrow", "a narrow one"]
)
def test_the_screen_takes_the_room_there_is(width: int, columns: int) -> None:
    """Two columns where they fit, one below the other where not, and nothing of a heading is cut off."""
    console = Console(width=width, force_terminal=True, color_system=None, record=True, quiet=False, file=None)
    with console.capture() as captured:
        console.print(Screen(story(), {"metrics": "http://127.0.0.1:9464/metrics"}, 5.0, 20.0))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    heading = next(text for text in lines if "OUTPUT CAP" in text)
    assert ("THINKING CAP" in heading) == (columns == 2)
    for words in (
        "5 of 20 s",
        "12,345 calls",
        "said `stop`, told as `length`",
        "minimal -> medium, answered",
        "metrics",
    ):
        assert any(words in text for text in lines), words
    assert not any("…" in text for text in lines)
