"""Whatever callers and upstreams send: one terminal fact, no error of our own, counts that make sense, bytes as they came.

The gateway runs without sockets (tests.gateway.door); hypothesis makes requests, answers and where they are cut.
"""

import itertools
import logging
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.words import DIALECTS, REASONS, DialectName
from tests.faults.wires import WIRES
from tests.fuzz.profiles import FUZZED
from tests.gateway.door import SETTINGS, House, answers

IDLE: Final = SETTINGS + "ask_usage = false\n"
"""No rule has anything to do."""
BUSY: Final = SETTINGS.replace(
    "[upstreams.one]",
    '[thinking]\ncap = 3\noverrun = 2\n[level_fallback]\npurposes = ["conversation"]\n[upstreams.one]',
)
"""Every rule has something to do."""

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NUMBERS: Final = (
    st.integers(-3, 200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.none()
    | st.text(max_size=3)
    | st.booleans()
)
LEVELS: Final = st.sampled_from(["minimal", "low", "off", "none", "x", "", 7, None, ["low"]])
FIELDS: Final = st.dictionaries(
    st.sampled_from(["max_tokens", "max_completion_tokens", "max_output_tokens", "n", "stop", "stream_options", "reasoning", "reasoning_effort", "thinking", "output_config", "generationConfig", "messages", "input", "contents", "stop_sequences", "extra_body", "chat_template_kwargs"]),
    NUMBERS | LEVELS | JSON,
    max_size=6,
)  # fmt: skip
HEADERS: Final = st.dictionaries(
    st.sampled_from(["x-thinkcap-purpose", "x-thinkcap-thinking-cap", "x-thinkcap-facts", "x-thinkcap-retried", "traceparent", "content-type"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=12) | st.sampled_from(["1", "0", "-5", "compaction", "conversation"]),
    max_size=3,
)  # fmt: skip


@st.composite
def streams(draw: st.DrawFn, dialect: DialectName) -> bytes:
    """A stream that is mostly of the dialect: its events in any order, some changed, some no events at all."""
    events = st.sampled_from(WIRES[dialect].events)
    wild = st.binary(max_size=40) | JSON.map(lambda value: b"data: " + _json(value) + b"\n\n")
    torn = events.map(lambda event: event[: len(event) // 2])
    other_ends = events.map(lambda event: event.replace(b"\n", b"\r\n"))
    usage = NUMBERS.map(
        lambda n: WIRES[dialect].events[-2 if dialect == "chat" else -1].replace(b":2", b":" + _json(n))
    )
    comment = st.sampled_from([b": ping\n\n", b"\n", b"\xef\xbb\xbf", b"event: x\n\n", b"id: 1\nretry: 5\n\n"])
    return b"".join(draw(st.lists(events | events | wild | torn | other_ends | usage | comment, max_size=14)))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """The same bytes in pieces that end at these places."""
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


CUTS: Final = st.lists(st.integers(0, 4096), max_size=8)


def again(house: House, *steps: bytes, **how: Any) -> House:
    """The same gateway with nothing noted yet and an upstream that answers this: making one costs more than a call."""
    house.facts.facts.clear()
    house.upstream.requests.clear()
    house.upstream.scripts = (answers(*steps, **how),)
    return house


def sound(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """What must hold after any call."""
    ending = house.facts.ending  # there is exactly one, and it comes last
    turn = ending.turn
    if turn is not None:
        assert turn.reported in REASONS
        assert turn.returned in REASONS
        assert (turn.reasoning_tokens or 0) >= 0
        assert turn.past_cap is None or turn.past_cap >= 0
        for count in (turn.usage.input, turn.usage.output, turn.usage.cached) if turn.usage is not None else ():
            assert count is None or count >= 0
    assert house.upstream.left == 0
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def target(dialect: DialectName, *, stream: bool) -> str:
    """The path of a call."""
    return (WIRES[dialect].streamed_path if stream else WIRES[dialect].path).replace("{model}", "m")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_request(dialect: DialectName, caplog: pytest.LogCaptureFixture) -> None:
    """Any bytes, any JSON and any fields are answered: by the upstream, or with a 400 that names what is wrong."""
    house = House(settings=BUSY)

    @FUZZED
    @given(
        body=st.binary(max_size=60) | JSON.map(_json) | FIELDS.map(lambda fields: _json(WIRES[dialect].streamed | {"model": "m"} | fields)),
        headers=HEADERS, stream=st.booleans(),
    )  # fmt: skip
    def holds(body: bytes, headers: dict[str, str], stream: bool) -> None:
        caller = again(house, *WIRES[dialect].events).asks(body, target(dialect, stream=stream), **headers)
        assert caller.status in {200, 400}
        sound(house, caplog)

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("rules", [IDLE, BUSY], ids=["rules idle", "rules busy"])
def test_any_stream(dialect: DialectName, rules: str, caplog: pytest.LogCaptureFixture) -> None:
    """Any stream in any pieces comes through; with idle rules byte for byte, as a call to the upstream itself would."""
    house = House(settings=rules)

    @FUZZED
    @given(data=streams(dialect), at=CUTS, capped=st.booleans())
    def holds(data: bytes, at: list[int], capped: bool) -> None:
        wire, idle = WIRES[dialect], rules is IDLE
        body = wire.streamed | {"model": "m"} | (wire.capped if capped and not idle else {})
        caller = again(house, *cut(data, at)).asks(body, target(dialect, stream=True))
        assert caller.status in {200, 502}
        assert caller.complete
        if idle:
            assert caller.body == data
        sound(house, caplog)

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_whole_answer(dialect: DialectName, caplog: pytest.LogCaptureFixture) -> None:
    """Any body under any status and type comes back as it is."""
    whole, house = WIRES[dialect].whole, House(settings=IDLE)

    @FUZZED
    @given(
        data=st.binary(max_size=80) | JSON.map(_json) | st.integers(0, len(whole)).map(lambda n: whole[:n]) | NUMBERS.map(lambda n: whole.replace(b":2", b":" + _json(n))),
        status=st.sampled_from([200, 201, 204, 400, 404, 422, 429, 500, 503]), at=CUTS,
        media=st.sampled_from(["application/json", "text/html", "text/event-stream", ""]),
    )  # fmt: skip
    def holds(data: bytes, status: int, at: list[int], media: str) -> None:
        caller = again(house, *cut(data, at), status=status, media=media).asks(
            WIRES[dialect].body | {"model": "m"}, target(dialect, stream=False)
        )
        assert (caller.status, caller.body) == (status, data)
        sound(house, caplog)

    holds()


DEEP: Final = b"[" * 100_000


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [DEEP, b'{"model":"m","a":' + DEEP, b'{"model":"\\ud800"}', b'{"model":"m","stream":true,"stream":1}', b"\xff\xfe", b'{"model":1e999}', b'{"model":"m","stream":true,"stream_options":0}'], ids=["deep", "deep inside", "half a surrogate", "a key twice", "no UTF-8", "infinity", "options that are none"])  # fmt: skip
def test_hostile_json(dialect: DialectName, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """JSON made to break readers is refused or passed on, on the way in and on the way back."""
    house = House(answers(b"data: " + body + b"\n\n", body), settings=BUSY)
    assert house.asks(body, target(dialect, stream=True)).status in {200, 400}
    sound(house, caplog)
    house = House(answers(b"data: " + body + b"\n\n", body), settings=BUSY)
    assert house.asks(WIRES[dialect].streamed | {"model": "m"}, target(dialect, stream=True)).status == 200
    sound(house, caplog)
