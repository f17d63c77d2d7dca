"""Over real sockets a call frees all it made by itself, whatever goes wrong: nothing waits for the collector.

What does lives on through its first pass, is then looked at a thousand times more seldom, and memory grows with faults.
"""

import asyncio
import gc
from typing import Any

import pytest

from gateway.words import DIALECTS
from tests.faults.caller import ask
from tests.faults.living import Living, living, run
from tests.faults.upstream import scripted
from tests.faults.wires import request
from tests.soak.soak import LEAVES, SCRIPTS, settings

OURS = ("gateway", "telemetry")


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_nothing_is_left_to_the_collector(streamed: bool) -> None:
    """Each fault of the soak, once to fill the caches and once to be looked at."""

    async def main() -> dict[str, list[str]]:
        async with scripted() as upstream, living(settings(upstream.port)) as house:
            for script in SCRIPTS:
                await _call(house, script, streamed=streamed)
            return {script: found for script in SCRIPTS if (found := await _left_by(house, script, streamed=streamed))}

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


async def _left_by(house: Living, script: str, *, streamed: bool) -> list[str]:
    gc.collect()
    enabled, flags = gc.isenabled(), gc.get_debug()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await _call(house, script, streamed=streamed)
        gc.collect()
        return sorted({name for thing in gc.garbage if (name := _ours(thing))})
    finally:
        gc.garbage.clear()
        gc.set_debug(flags)
        if enabled:
            gc.enable()


def _ours(thing: Any) -> str:
    """The name of a value, or of the code of a frame, that is the gateway's; "" for others."""
    code = getattr(thing, "f_code", None) or getattr(thing, "cr_code", None)
    if code is not None:
        return str(code.co_qualname) if any(f"/{name}/" in code.co_filename for name in OURS) else ""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__name__}" if kind.__module__.startswith(OURS) else ""
