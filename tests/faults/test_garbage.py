"""Over real sockets a call frees all it made by itself, whatever goes wrong: nothing waits for the collector.

What does lives on through its first pass, is then looked at a thousand times more seldom, and memory grows with faults.
"""

import asyncio
from functools import partial

import pytest

from gateway.words import DIALECTS
from tests.faults.caller import ask
from tests.faults.living import Living, living, run
from tests.faults.upstream import scripted
from tests.faults.wires import request
from tests.garbage import left_by
from tests.soak.soak import LEAVES, SCRIPTS, settings


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_nothing_is_left_to_the_collector(streamed: bool) -> None:
    """Each fault of the soak, once to fill the caches and once to be looked at."""

    async def main() -> dict[str, list[str]]:
        async with scripted() as upstream, living(settings(upstream.port)) as house:
            calls = {script: partial(_call, house, script, streamed=streamed) for script in SCRIPTS}
            for call in calls.values():
                await call()
            return {script: found for script, call in calls.items() if (found := await left_by(call))}

    assert run(main()) == {}


async def _call(house: Living, script: str, *, streamed: bool) -> None:
    gone = asyncio.Event()
    if script in LEAVES:
        asyncio.get_running_loop().call_later(0.05, gone.set)
    house.sent += 1
    sent = request(DIALECTS[len(script) % len(DIALECTS)], script, stream=streamed)
    await ask(house.port, sent, on=gone if script in LEAVES else None)
    for _ in range(200):
        if house.ended == house.sent and not house.busy:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
