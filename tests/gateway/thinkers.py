"""What the tests of the thinking cap share: a gateway before a model that thinks, and ways a control path behaves."""

import asyncio
from typing import Any, Final

import httpx
import msgspec

from gateway.dialects import DIALECTS
from gateway.events import Turn
from tests.gateway.door import House, Script, answers, request
from tests.gateway.plays import chunk, thought

CAP, OVERRUN = 8, 6
THINK, STOP, MESSAGES = thought("t"), chunk(finish="stop"), "/v1/messages"
STREAM: Final = request(stream=True)
YES: Final = {"success": True}
NO: Final = {"success": False, "message": "no active completion for this id"}


def settings(kind: str = "llama.cpp", **fields: Any) -> str:
    """One upstream of this kind under a cap of 8 and a margin of 6."""
    said = {"url": "http://one.test/base", "kind": kind, "dialects": [*DIALECTS]} | fields
    lines = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in said.items()]
    return "\n".join([f"[thinking]\ncap = {CAP}\noverrun = {OVERRUN}\n[upstreams.one]", *lines, ""])


def server(stream: Script, control: Script) -> Script:
    """An upstream with a control path."""

    async def script(asked: httpx.Request) -> httpx.Response:
        return await (control if asked.url.path.endswith("/control") else stream)(asked)

    return script


def thinker(control: Script, *steps: bytes | asyncio.Event, **more: str) -> House:
    """A gateway before a model that thinks 8 tokens, then goes on as `steps` say."""
    return House(server(answers(*[THINK] * CAP, *steps), control), settings=settings(), **more)


def pending(begun: asyncio.Event, ended: list[str]) -> Script:
    """A control path that never answers, and keeps how it ended."""

    async def script(_: httpx.Request) -> httpx.Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _turn in range(5):  # hanging up takes a moment, and the call waits for it
                await asyncio.sleep(0)
            ended.append("cancelled")
            raise
        raise AssertionError

    return script


def turn_of(house: House) -> Turn:
    """The totals of the one call."""
    turn = house.facts.ending.turn
    assert turn is not None
    return turn


def controls(house: House) -> list[httpx.Request]:
    """The control calls the upstream got."""
    return [asked for asked in house.upstream.requests if asked.url.path.endswith("/control")]
