"""The gateway as a process: a thousand streams in bounded memory, a drain that cuts nobody, a kill that loses nothing."""

import asyncio
import json
import signal
import time

import pytest

from tests.faults.caller import ask
from tests.faults.streams import open_streams, unread
from tests.faults.upstream import scripted
from tests.faults.wires import post, request
from tests.running import Running, running

STREAMS = 1000
RSS_LIMIT_MB = 150
DRAINED = 200


def test_a_thousand_streams_fit() -> None:
    """A thousand open streams stay within 150 MB; `-s` prints what they take. All are counted when their callers leave."""

    async def main() -> None:
        async with scripted() as upstream:
            with running(upstream.settings("stall_in_body", "[server]\nmax_inflight = 2000")) as gateway:
                before = gateway.rss_mb()
                ends = asyncio.Event()
                tasks = await open_streams(gateway.port, upstream, STREAMS, ends)
                after = gateway.rss_mb()
                health = await ask(gateway.port, post("/health/ready", b"", method="GET"))
                assert health.status == 200
                ends.set()
                await asyncio.gather(*tasks)
                await asyncio.to_thread(counted, gateway, STREAMS, "client_gone")
                print(  # noqa: T201 - what `-s` is for
                    f"\nRSS {before:.0f} MB idle, {after:.0f} MB with {STREAMS} streams, {(after - before) * 1024 / STREAMS:.1f} KiB a stream"
                )
                assert after < RSS_LIMIT_MB

    asyncio.run(asyncio.wait_for(main(), 90))


def counted(gateway: Running, calls: int, outcome: str) -> None:
    """Wait until so many calls have ended this way, and no other has."""
    for _ in range(200):
        if gateway.counted("thinkcap_requests_total") == calls:
            break
        time.sleep(0.05)
    assert (
        gateway.counted("thinkcap_requests_total", outcome=outcome)
        == calls
        == gateway.counted("thinkcap_requests_total")
    )


def test_a_drain_cuts_nobody() -> None:
    """After SIGTERM 200 running streams go on to their end, a new call is told 503, and the process ends with 0."""

    async def main() -> None:
        async with scripted() as upstream:
            with running(upstream.settings("patient", "[server]\ndrain_seconds = 20")) as gateway:
                tasks = await open_streams(gateway.port, upstream, DRAINED, asyncio.Event())
                gateway.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.5)
                late = await ask(gateway.port, request("chat", "m", stream=True))
                assert (late.status, late.header(b"retry-after")) == (503, b"1")
                assert b'"draining"' in late.body
                assert not any(task.done() for task in tasks)
                assert gateway.counted("thinkcap_requests_total", outcome="overloaded") == 1
                assert gateway.counted("thinkcap_inflight_requests") == DRAINED
                upstream.seen["all"].go_on.set()
                answers = await asyncio.gather(*tasks)
                assert all(answer.whole and answer.body.endswith(b"data: [DONE]\n\n") for answer in answers)
                assert await asyncio.to_thread(gateway.wait) == 0

    asyncio.run(asyncio.wait_for(main(), 90))


def test_a_drain_ends_when_its_time_is_over() -> None:
    """Past drain_seconds streams are told and count as broken, calls without a head get a 503; then all ends well."""

    async def main() -> None:
        async with scripted() as upstream:
            silent = (
                f'[upstreams.two]\nurl = "http://127.0.0.1:{upstream.port}/no_headers.two"\ndialects = ["messages"]\n'
            )
            more = f"{silent}[server]\ndrain_seconds = 5"
            with running(upstream.settings("patient", more)) as gateway:
                streams = await open_streams(gateway.port, upstream, 3, asyncio.Event())
                waits = asyncio.ensure_future(ask(gateway.port, request("messages", "m", stream=True)))
                await asyncio.wait_for(upstream.seen["two"].arrived.wait(), 60)
                gateway.process.send_signal(signal.SIGTERM)
                await asyncio.sleep(0.5)
                late = await ask(gateway.port, request("chat", "m", stream=True))
                assert (late.status, late.header(b"retry-after")) == (503, b"1")
                assert not any(task.done() for task in (*streams, waits))
                for cut in await asyncio.gather(*streams):
                    assert (cut.status, cut.whole) == (200, True)
                    assert b"the time for calls that run is over" in cut.body.rstrip().rsplit(b"\n\n", 1)[-1]
                told = await waits
                assert (told.status, told.whole, told.header(b"retry-after")) == (503, True, b"1")
                assert b'"draining"' in told.body
                assert await asyncio.to_thread(gateway.wait) == 0
                ends = sorted(line["outcome"] for line in map(json.loads, gateway.log) if line["event"] == "call.ended")
                assert ends == ["overloaded", "overloaded", "stream_error", "stream_error", "stream_error"]

    asyncio.run(asyncio.wait_for(main(), 300))


def test_a_caller_who_reads_nothing_does_not_keep_the_process() -> None:
    """With megabytes unread by a caller who stays, the process ends when its time to drain is over, and ends well."""

    async def main() -> int:
        async with scripted() as upstream:
            with running(upstream.settings("endless", "[server]\ndrain_seconds = 1")) as gateway:
                plug = await unread(gateway.port)
                seen = upstream.seen["all"]
                await asyncio.wait_for(seen.arrived.wait(), 60)
                await seen.standstill()
                gateway.process.send_signal(signal.SIGTERM)
                status = await asyncio.to_thread(gateway.process.wait, 60)
                plug.close()
                return status

    assert asyncio.run(main()) == 0


def test_a_kill_loses_nothing_but_what_ran() -> None:
    """After SIGKILL a new process starts at once, counts from zero and answers: there is no state to recover."""

    async def main() -> None:
        async with scripted() as upstream:
            told = upstream.settings("well")
            with running(told) as gateway:
                assert (await ask(gateway.port, request("chat", "m", stream=False))).status == 200
                gateway.process.kill()
                assert await asyncio.to_thread(gateway.wait) == -signal.SIGKILL
            with running(told) as gateway:
                assert gateway.counted("thinkcap_requests_total") == 0
                assert (await ask(gateway.port, request("chat", "m", stream=True))).status == 200
                await asyncio.to_thread(counted, gateway, 1, "ok")

    asyncio.run(asyncio.wait_for(main(), 300))


@pytest.mark.parametrize("receiver", ["down", "slow", "failing"])
def test_no_call_waits_for_the_receiver_of_spans(receiver: str) -> None:
    """Calls are answered in their usual time, and every span that does not arrive is counted."""
    calls = 40

    async def main() -> None:
        async with scripted() as upstream:
            endpoint = {
                "down": "http://127.0.0.1:1",
                "slow": f"http://127.0.0.1:{upstream.port}/no_headers.otlp",
                "failing": f"http://127.0.0.1:{upstream.port}/strange_status.otlp",
            }[receiver]
            environ = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_BSP_MAX_QUEUE_SIZE": "16",
                "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8", "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
            }  # fmt: skip
            with running(upstream.settings("well", '[telemetry]\ntraces = "otlp"'), **environ) as gateway:
                async with asyncio.timeout(10):
                    for _ in range(calls):
                        assert (await ask(gateway.port, request("chat", "m", stream=False))).status == 200
                await asyncio.to_thread(counted, gateway, calls, "ok")
                lost = 3 * calls - 16 - 8  # but for those that wait or are on their way
                for _ in range(400):
                    if gateway.counted("thinkcap_spans_dropped_total") >= lost:
                        break
                    await asyncio.sleep(0.05)
                assert lost <= gateway.counted("thinkcap_spans_dropped_total") <= 3 * calls

    asyncio.run(asyncio.wait_for(main(), 300))
