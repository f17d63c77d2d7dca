"""What flows past the task comes to the same as what it reads piece by piece: on any stream, cut anywhere."""

import asyncio
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.base import Additions
from gateway.errors import UpstreamBroken
from gateway.rules.thinking_cap import ThinkingCap
from tests.gateway.door import Step, run
from tests.gateway.plays import DONE, chunk, cut, text, thought, usage
from tests.gateway.stage import Stage

EVENTS: Final = (
    text("a"), text("\u00e9"), thought("b"), chunk(finish="stop"), chunk(finish="length"), usage(3), usage(9), DONE,
    b": comment\n\n", b"data: {\n\n", b'data: {"error":{"message":"no"}}\n\n', b"\r\n\r\n",
)  # fmt: skip
STREAMS: Final = st.lists(st.sampled_from(EVENTS), max_size=14).map(b"".join)
PLANS: Final = st.sampled_from(["plain", "control", "give_up", "watch", "guarded", "promote"])


def steps(stream: bytes, cuts: list[int], *, breaks: bool) -> list[Step]:
    """The stream in pieces of these sizes, at whose end it may break."""
    return [*cut(stream, cuts), *[UpstreamBroken("no", "reset")] * breaks]


def plan(name: str) -> dict[str, Any]:
    """What applies to it."""
    if name in {"plain", "guarded", "promote"}:
        return {} if name == "plain" else {name: True}
    cap: Any = name
    return {"thinking": ThinkingCap(2, 4, cap), "per_frame": True, "added": Additions(control=name == "control")}


def told(stream: list[Step], applies: str, *, flows: bool) -> tuple[bytes, list[str], str]:
    """The bytes that went out, the facts, and what stopped it."""

    class Way(Stage):
        pass

    Way.flows = flows
    stage = Way(*stream, **plan(applies))
    stage.terms["hold_seconds"] = 5.0

    async def main() -> str:
        return repr(await asyncio.wait_for(stage.pump(), 5))

    stop = run(main())
    return stage.sink.body, [repr(fact) for fact in stage.facts], stop


@given(STREAMS, st.lists(st.integers(1, 90), max_size=12), PLANS, st.booleans())
def test_flowing_and_reading_come_to_the_same(stream: bytes, cuts: list[int], applies: str, breaks: bool) -> None:
    """The same bytes, the same facts, the same end."""
    cut = steps(stream, cuts, breaks=breaks)
    assert told(cut, applies, flows=True) == told(cut, applies, flows=False)
