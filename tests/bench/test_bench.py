"""The benchmark measures what it says: its parts on their own, and one small load from end to end."""

import asyncio
import contextlib
import gzip
from collections.abc import Iterator

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.bench import upstream
from tests.bench.bars import BARS
from tests.bench.callers import Calling, Run, quantiles, request_of
from tests.bench.figures import Figure, Kept, Opening, Standing, Start
from tests.bench.fits import fit
from tests.bench.live import counters
from tests.bench.loads import LOADS, Job, Load, Quantiles, Result
from tests.bench.receiver import Receiving, Seen, count_spans
from tests.bench.report import over, ratios, report
from tests.bench.systems import CHAT, MODEL

LIMIT_SECONDS = 60.0


def figure(number: int, cpu: float | None = None, **result: float) -> Figure:
    """A figure of which only this is of interest."""
    first = Quantiles(result.pop("first", 0.0), 0.0)
    said = Result(wall=1, done=10, chunks=0, rate=10, first_token=first, **result)  # type: ignore[arg-type]
    return Figure(round=number, result=said, cpu_us=cpu, core_used=0.5, spans=3, foreign=0, foreign_load=0)


def test_a_ratio_is_taken_within_a_round() -> None:
    """A slow minute that hit both is no difference; rounds that only one has are left out."""
    mine = [figure(0, 10.0), figure(1, 40.0), figure(2, 7.0)]
    assert ratios(mine, [figure(1, 20.0), figure(0, 5.0)]) == [2.0, 2.0]
    assert ratios(mine, []) == []


def test_a_difference_is_taken_within_a_round() -> None:
    """What a gateway adds is over direct in the same round."""

    def first(one: Figure) -> float | None:
        return one.result.first_token.p50 if one.result.first_token is not None else None

    assert over([figure(0, first=5.0), figure(1, first=9.0)], [figure(0, first=1.0), figure(1, first=2.0)], first) == [
        4.0,
        7.0,
    ]


def test_a_line_is_found_through_points_that_lie_on_one() -> None:
    """Base, slope, and that it is straight."""
    line = fit([(0, 50), (20, 60), (80, 90), (320, 210)])
    assert line is not None
    assert (line.base, line.slope, line.r2, line.bend) == pytest.approx((50, 0.5, 1, 1))


def test_a_curve_that_grows_faster_than_its_load_bends() -> None:
    """The last piece of a square is steeper than the line through it all."""
    line = fit([(x, x * x) for x in range(10)])
    assert line is not None
    assert line.bend > 1.5
    assert fit([(0, 1), (1, 2)]) is None


def test_quantiles_are_microseconds() -> None:
    """Median and 99th percentile of nanoseconds."""
    assert quantiles([n * 1000 for n in range(100)]) == Quantiles(50.0, 99.0)
    assert quantiles([]) is None


@contextlib.contextmanager
def spans(number: int) -> Iterator[bytes]:
    """An export of so many spans, as the SDK's own exporter encodes it."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("t", "1")
    for _ in range(number):
        tracer.start_span("s", attributes={"a": 1, "b": "x" * 300}).end()
    yield encode_spans(kept.get_finished_spans()).SerializeToString()
    provider.shutdown()


@pytest.mark.parametrize("packed", [pytest.param(False, id="as it is"), pytest.param(True, id="gzipped")])
def test_the_receiver_counts_spans(packed: bool) -> None:
    """As many as the exporter put in; an export that breaks off is no protobuf."""
    with spans(7) as export:
        assert count_spans(export) == 7
        body = gzip.compress(export) if packed else export
        head = b"POST /v1/traces HTTP/1.1\r\nhost: r\r\n" + (b"content-encoding: gzip\r\n" if packed else b"")
        seen = Seen()
        receiving = Receiving(seen)
        receiving.data_received(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert (seen.exports, seen.spans, seen.unreadable) == (1, 7, 0)
        with pytest.raises(IndexError):
            count_spans(export[:-3])


def test_counters_say_what_was_armed_and_what_acted() -> None:
    """Labels add up, and rules that did nothing are not named."""
    page = (
        'thinkcap_requests_total{model="m",outcome="ok"} 40.0\nthinkcap_requests_total{model="other",outcome="ok"} 2.0\n'
        'thinkcap_output_capped_requests_total{model="m"} 40.0\nthinkcap_level_retries_total{model="m"} 0.0\n'
        'thinkcap_thinking_capped_total{model="m"} 3.0\nthinkcap_spans_dropped_total 1.0\n'
    )
    counted = counters(page)
    assert (counted.requests, counted.armed, counted.spans_dropped) == (42, 40, 1)
    assert counted.acted == {"thinking_capped": 3}


@pytest.mark.parametrize(
    ("name", "kb"), [pytest.param("plain16", 0.2, id="a short question"), pytest.param("large20", 20, id="20 kB")]
)
def test_a_request_has_its_size(name: str, kb: float) -> None:
    """What a load says about its requests is what goes out."""
    body = request_of(Job(url=f"http://h:1{CHAT}", load=LOADS[name], model=MODEL)).split(b"\r\n\r\n", 1)[1]
    assert len(body) / 1000 == pytest.approx(kb, rel=0.15)
    assert msgspec.json.decode(body)["max_tokens"]


async def measured(load: Load) -> Result:
    """One load on the upstream itself."""
    server = await asyncio.get_running_loop().create_server(upstream.Answering, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        job = Job(url=f"http://127.0.0.1:{port}{CHAT}", load=load, model=MODEL)
        async with asyncio.timeout(LIMIT_SECONDS):
            return await Run(job).measure()


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(Load(kind="whole", connections=3, seconds=0.1), id="whole answers"),
        pytest.param(Load(kind="whole", connections=2, seconds=0.1, request_kb=20), id="large requests"),
        pytest.param(Load(kind="stream", connections=3, seconds=0.1, tokens=20), id="bursts"),
        pytest.param(Load(kind="stream", connections=3, seconds=0.1, tokens=20, gap_ms=2, ramp=0.03), id="paced"),
    ],
)
def test_a_load_runs_from_end_to_end(load: Load) -> None:
    """Every call is answered whole, no token is lost, and what was to be timed was."""
    result = asyncio.run(measured(load))
    assert result.bad == 0
    assert result.done >= load.connections
    assert result.rate > 0
    assert result.latency is not None
    if load.kind == "stream":
        # Finish and usage are events as well.
        assert result.chunks == result.done * (load.tokens + 2)
        assert result.first_token is not None
        assert result.delay is not None


def test_a_token_cut_in_two_reads_is_one_token() -> None:
    """However the answer is cut, as many events are counted as came."""
    events = b"".join(upstream.token(number, 8, 1) for number in range(8))
    for size in (1, 3, 7, 50, 10_000):
        run = Run(Job(url=f"http://h:1{CHAT}", load=LOADS["burst1"], model=MODEL))

        async def read(run: Run = run, size: int = size) -> None:
            calling = Calling(run)
            for at in range(0, len(events), size):
                calling.on_body(events[at : at + size])

        asyncio.run(read())
        assert run.chunks == 8


def test_a_report_has_every_part() -> None:
    """Loads, memory, starts, curves and bars; what missed its bar says so."""
    kept = Kept(python="3", kernel="6", commit="c")
    for name in ("plain16", "large5", "large20", "large80"):
        kept.figures[name] = {
            "nginx": [figure(n, 10.0) for n in range(3)],
            "thinkcap-untraced": [figure(n, 500.0 + LOADS[name].request_kb) for n in range(3)],
        }
    openings = [Opening(load=f"open{n}", opened=n, mb=70 + n / 50, core_used=0.1) for n in (250, 500, 1000)]
    kept.standing = {"thinkcap": Standing(idle_mb=70, openings=openings)}
    kept.starts = {"thinkcap": [Start(seconds=0.5, cpu=0.4)]}
    told = report(msgspec.json.decode(msgspec.json.encode(kept), type=Kept))
    for title in ("plain16", "memory", "start", "curves", "bars"):
        assert f"### {title}" in told
    rows = {line.split("|")[1].strip(): line for line in told.splitlines() if line.startswith("|")}
    assert "NO" in rows["plain16, thinkcap-untraced"]
    assert "yes" in rows["open1000, thinkcap"]
    assert "500.0 + 1.000 a kB" in told


def test_bars_are_about_loads_there_are() -> None:
    """A bar on a load that nobody measures would never be missed."""
    assert {bar.load for bar in BARS} <= LOADS.keys()
