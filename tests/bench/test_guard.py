"""The price of the pure path, held without a clock: what one frame and one call execute, counted and bounded.

A bound is the larger count of CPython 3.11 and 3.13 and a few per cent. Above it, the message says which functions ran
most: find what grew, or raise the bound and say in the commit what the instructions are spent on. Well below: lower it.
"""

from collections.abc import Callable

import pytest

from tests.bench import doors, paths
from tests.bench.counting import count
from tests.bench.doors import executed
from tests.bench.paths import AT_ONCE, GEMINI_TEXT, MESSAGES_TEXT, RESPONSES_TEXT, TEXT, THOUGHT, TIMED, Step, stream
from tests.gateway.plays import text

WHOLE_CALL, READ_TOKEN, FLOWING_TOKEN = 5_640, 410, 500
"""Instructions in our own code: without the connections at both ends but for the last, which has both."""
FRAMES = [
    pytest.param(lambda: stream(TEXT), 178, 9, id="a token of text"),
    pytest.param(lambda: stream(TEXT, method="watch"), 178, 9, id="a token of text under a thinking cap"),
    pytest.param(lambda: stream(TEXT, times=AT_ONCE), 1060, 72, id="sixteen tokens of text in one read"),
    pytest.param(lambda: stream(THOUGHT), 352, 14, id="a token of reasoning"),
    pytest.param(lambda: stream(THOUGHT, method="watch"), 460, 20, id="a token of reasoning under a thinking cap"),
    pytest.param(
        lambda: stream(TIMED, method="control", control=True), 555, 26, id="a token of reasoning that can be ended"
    ),
    pytest.param(lambda: stream(MESSAGES_TEXT, dialect="messages"), 178, 9, id="a token of text in messages"),
    pytest.param(lambda: stream(RESPONSES_TEXT, dialect="responses"), 212, 12, id="a token of text in responses"),
    pytest.param(lambda: stream(GEMINI_TEXT, dialect="gemini"), 910, 28, id="a token of text in gemini"),
]
CALLS = [
    pytest.param(paths.whole, 1990, 76, id="a whole answer of 1 kB"),
    pytest.param(paths.headers, 395, 14, id="the headers of a call"),
    pytest.param(paths.told, 1700, 37, id="the facts of a call without traces"),
    pytest.param(paths.scraped, 44_000, 1920, id="a scrape of 632 lines"),
]


@pytest.mark.parametrize(("make", "operations", "calls"), [*FRAMES, *CALLS])
def test_a_step_costs_no_more_than_it_did(make: Callable[[], Step], operations: int, calls: int) -> None:
    """A step executes at most so many bytecode instructions and calls into C."""
    counts = count(make())
    assert counts.operations <= operations, f"{counts.operations} instructions, at most {operations}: {counts.told}"
    assert counts.calls <= calls, f"{counts.calls} calls into C, at most {calls}: {counts.told}"


@pytest.mark.parametrize("make", [pytest.param(row.values[0], id=row.id) for row in FRAMES])
def test_a_frame_stays_in_our_own_code(make: Callable[[], Step]) -> None:
    """No json, logging, pydantic, tracing or metrics for a frame: our code, msgspec, and `re` where a field is cut out."""
    strangers = count(make()).modules - {"tests", "gateway", "msgspec", "re", "builtins"}
    assert not strangers, f"a frame also runs code of {sorted(strangers)}"


def test_a_call_is_neither_parsed_nor_validated_by_anybody_else() -> None:
    """The pure part of a whole call runs no json, logging or pydantic either."""
    strangers = count(paths.whole()).modules & {"json", "logging", "pydantic", "pydantic_core", "litestar", "httpx"}
    assert not strangers


def test_a_frame_costs_the_same_however_long_the_stream() -> None:
    """The thousandth frame costs what the tenth did."""
    for frame in (TEXT, THOUGHT):
        step = stream(frame, method="watch")
        for _ in range(10):
            step()
        early = count(step).operations
        for _ in range(1000):
            step()
        assert count(step).operations == early


def test_several_frames_in_a_read_cost_less_than_each_alone() -> None:
    """What one read brings is cheaper together."""
    assert count(stream(TEXT, times=AT_ONCE)).operations < AT_ONCE * count(stream(TEXT)).operations


def test_an_event_in_pieces_costs_by_the_piece() -> None:
    """An event that comes in twice as many pieces costs at most twice as much: nothing is read over and over."""
    event = text("x" * 64_000)

    def pieces(size: int) -> Step:
        passing = paths.relay()
        cut = [event[at : at + size] for at in range(0, len(event), size)]
        return lambda: [passing.feed(piece) for piece in cut]

    assert count(pieces(1000)).operations <= 2 * count(pieces(2000)).operations


def test_a_call_costs_the_same_whatever_its_size() -> None:
    """A hundred times the text, sent and received, executes not one instruction more: bytes are the work of C."""
    assert count(paths.whole(100_000)).operations == count(paths.whole(1000)).operations


def test_a_whole_call_costs_no_more_than_it_did() -> None:
    """From the door to the log line: what the gateway and telemetry execute for a call that is answered whole."""
    counts = executed(doors.whole(), streamed=False)
    assert counts.operations <= WHOLE_CALL, f"{counts.operations}, at most {WHOLE_CALL}: {counts.told}"


def test_a_token_costs_no_more_than_it_did_all_the_way() -> None:
    """Over any other transport, where it is read: what each further token of a stream executes, and the same for each."""
    few, more, many = (executed(doors.stream(tokens), streamed=True) for tokens in (20, 40, 60))
    each = (more.operations - few.operations) / 20
    assert each <= READ_TOKEN, f"{each} a token, at most {READ_TOKEN}: {more.told}"
    assert many.operations - more.operations == more.operations - few.operations


def test_a_token_that_flows_costs_no_more_than_it_did() -> None:
    """From socket to socket, as nearly all tokens go: what runs in the turn of the loop that reads it."""
    counts = doors.flowed(TEXT)
    assert counts.operations <= FLOWING_TOKEN, f"{counts.operations}, at most {FLOWING_TOKEN}: {counts.told}"


def test_what_grew_is_named() -> None:
    """The counts tell which function ran how much."""

    def wasteful() -> None:
        for _ in range(1000):
            pass

    counts = count(wasteful)
    assert counts.operations > 1000
    assert counts.told.startswith(f"{__name__}.test_what_grew_is_named.<locals>.wasteful")
