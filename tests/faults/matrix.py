"""The fault matrix: what goes wrong upstream or with the caller x four dialects x whole or streamed, as a table.

`run_all` runs every cell in one gateway; `lines` is the table of what came of it.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from gateway.delivery import Delivery
from gateway.exchange import Exchange
from gateway.pump import Pump
from gateway.relay import Relay
from gateway.upstream import UpstreamAnswer
from gateway.words import DIALECTS, DialectName
from tests.faults.caller import Answer, Leave
from tests.faults.living import Living, left, living, until
from tests.faults.upstream import Upstream, scripted
from tests.faults.wires import WIRES, request


class Gets(Struct, frozen=True):
    """What a caller gets. `says`: the code in the error's body or event; "" for a good end; None: whatever it is."""

    status: int
    outcome: str
    fault: str | None = None
    says: str | None = None


OK: Final = Gets(200, "ok", says="")
GONE: Final = Gets(0, "client_gone")
GONE_AGAIN: Final = Gets(0, "client_gone", "http_4xx")
"""The first attempt was refused, which counts for itself."""
GONE_LATER: Final = Gets(200, "client_gone")


def broken(fault: str = "reset") -> Gets:
    """Before the head: a 502."""
    return Gets(502, "upstream_error", fault, "upstream_protocol_error")


def cut(fault: str = "reset") -> Gets:
    """Within a stream: an error event."""
    return Gets(200, "stream_error", fault, "upstream_protocol_error")


LATE: Final = Gets(504, "timeout", "timeout", "upstream_timeout")
LATE_IN_STREAM: Final = Gets(200, "timeout", "timeout", "upstream_timeout")
UNREACHABLE: Final = Gets(502, "upstream_error", "connect", "upstream_unreachable")
NO_TLS: Final = Gets(502, "upstream_error", "tls", "upstream_unreachable")


class Row(Struct, frozen=True):
    """One fault. `leave`: when the caller goes; `slow`: it reads slowly; None for a cell that cannot be."""

    script: str
    whole: Gets | None
    stream: Gets | None
    leave: str = ""
    slow: bool = False
    fields: str = ""
    """Which extra fields of the wire the request carries."""
    dialects: tuple[DialectName, ...] = DIALECTS


ROWS: Final[dict[str, Row]] = {
    "connect refused": Row("refused", UNREACHABLE, UNREACHABLE),
    "no such name": Row("nowhere", UNREACHABLE, UNREACHABLE),
    "no TLS": Row("plain", NO_TLS, NO_TLS),
    "slow headers": Row("slow_headers", OK, OK),
    "no headers": Row("no_headers", LATE, LATE),
    "stall in headers": Row("stall_in_headers", LATE, LATE),
    "stall in the body": Row("stall_in_body", LATE, LATE_IN_STREAM),
    "reset before the headers": Row("reset_before_headers", broken(), broken()),
    "reset before the first event": Row("reset_before_events", broken(), cut()),
    "reset inside an event": Row("reset_inside_event", broken(), cut()),
    "reset between events": Row("reset_between_events", broken(), cut()),
    "end inside a chunk": Row("end_inside_chunk", broken("protocol"), cut("protocol")),
    "gzip": Row("gzip_whole", OK, OK),
    "truncated gzip": Row("gzip_truncated", broken("protocol"), cut("protocol")),
    "content-length too short": Row("length_short", Gets(200, "incomplete"), Gets(200, "incomplete")),
    "content-length too long": Row("length_long", broken("protocol"), cut("protocol")),
    "HTTP/1.0 close": Row("http_1_0", OK, OK),
    "1xx before the answer": Row("informational", OK, OK),
    "101 unasked": Row("switching", broken("protocol"), broken("protocol")),
    "204": Row("no_content", Gets(204, "incomplete"), Gets(204, "incomplete")),
    "a status beyond 599": Row("strange_status", broken("protocol"), broken("protocol")),
    "a redirect": Row("redirect", Gets(307, "upstream_error", "protocol"), Gets(307, "upstream_error", "protocol")),
    "huge headers": Row("huge_headers", broken("protocol"), broken("protocol")),
    "a 64 MB event": Row("huge_event", Gets(200, "ok"), cut("protocol")),
    "an endless answer": Row("endless", None, GONE_LATER, leave="after 256 KiB"),
    "a slow caller": Row("well", OK, OK, slow=True),
    "caller gone before the headers": Row("no_headers", GONE, GONE, leave="on arrival"),
    "caller gone in the body": Row("stall_in_body", GONE, GONE_LATER, leave="on arrival"),
    "caller gone during the hold": Row(
        "stall_at_end", None, GONE_LATER, leave="on arrival", fields="capped", dialects=("chat",)
    ),
    "caller gone after the end": Row("stall_at_end", None, OK, leave="on arrival", dialects=("messages", "responses")),
    "caller gone during the control call": Row("think", GONE, GONE_LATER, leave="on arrival", dialects=("chat",)),
    "caller gone during a retry": Row(
        "refuse_then_stall", GONE_AGAIN, GONE_AGAIN, leave="on arrival", fields="levelled"
    ),
}


class Cell(Struct, frozen=True):
    """One cell; `name` is its upstream and its model."""

    name: str
    fault: str
    row: Row
    dialect: DialectName
    stream: bool

    @property
    def gets(self) -> Gets:
        """What is expected."""
        gets = self.row.stream if self.stream else self.row.whole
        assert gets is not None
        return gets


class Outcome(Struct):
    """What a cell came to."""

    answer: Answer
    outcomes: dict[str, int]
    faults: dict[str, int]
    requests: int
    closed_after: float | None


def _cells() -> Iterator[Cell]:
    for fault, row in ROWS.items():
        for dialect in row.dialects:
            for stream in (False, True):
                if (row.stream if stream else row.whole) is not None:
                    name = (
                        f"{fault} {dialect} {'stream' if stream else 'whole'}".replace(" ", "-")
                        .replace("/", "-")
                        .replace(".", "-")
                        .lower()
                    )
                    yield Cell(name, fault, row, dialect, stream)


CELLS: Final = {cell.name: cell for cell in _cells()}


def settings(port: int) -> str:
    """An upstream and a model for each cell, so that each cell's counters are its own."""
    tables = ['[level_fallback]\npurposes = ["compaction"]']
    for name, cell in CELLS.items():
        script = cell.row.script
        url = {
            "refused": "http://127.0.0.1:1",
            "nowhere": "http://nowhere.invalid",
            "plain": f"https://127.0.0.1:{port}",
        }.get(script, f"http://127.0.0.1:{port}/{script}.{name}")
        limit = 0.5 if cell.gets.outcome == "timeout" else 30.0
        kind = "llama.cpp" if script == "think" else "generic"
        tables.append(
            f'[upstreams.{name}]\nurl = "{url}"\nkind = "{kind}"\ndialects = ["{cell.dialect}"]\ncontrol_timeout = 30.0\n'
            f"first_byte_timeout = {limit}\nidle_timeout = {limit}\n"
            f'[models.{name}]\nupstream = "{name}"\nlevels = ["low", "high"]\nthinking_cap = {2 if script == "think" else 0}\nthinking_overrun = 100000'
        )
    return "\n".join(tables)


async def _run(cell: Cell, house: Living, upstream: Upstream) -> Outcome:
    row, seen = cell.row, upstream.seen[cell.name]
    headers = {"x-thinkcap-purpose": "compaction"} if row.fields == "levelled" else {}
    fields = getattr(WIRES[cell.dialect], row.fields) if row.fields else {}
    sent = request(cell.dialect, cell.name, stream=cell.stream, headers=headers, **fields)
    leave: Leave | None = (lambda answer: len(answer.body) > 256 * 1024) if row.leave.startswith("after") else None
    on = asyncio.Event() if row.leave == "on arrival" else None
    asking = asyncio.ensure_future(
        house.ask(sent, leave=leave, on=on, pause=0.01 if row.slow else 0.0, receive_bytes=64 if row.slow else 65536)
    )
    if on is not None:
        await asyncio.wait_for(seen.arrived.wait(), 20)
        await asyncio.sleep(0.1)  # what was sent until now is on its way to the caller
        on.set()
    answer = await asking
    await until(lambda: sum(house.outcomes(model=cell.name).values()) == 1)
    closed_after = None
    if answer.left_at:
        await until(lambda: seen.closed_at > 0)
        closed_after = seen.closed_at - answer.left_at
    return Outcome(
        answer, house.outcomes(model=cell.name), house.faults(upstream=cell.name), len(seen.requests), closed_after
    )


async def run_all() -> dict[str, Outcome]:
    """Run every cell: first those that end by themselves, then those whose caller leaves, which are timed."""
    async with scripted() as upstream, living(settings(upstream.port)) as house:
        outcomes: dict[str, Outcome] = {}
        for leaves in (False, True):
            slots = asyncio.Semaphore(4 if leaves else 24)

            async def one(cell: Cell, slots: asyncio.Semaphore = slots) -> Outcome:
                async with slots:
                    return await _run(cell, house, upstream)

            cells = [cell for cell in CELLS.values() if bool(cell.row.leave) is leaves]
            came = await asyncio.gather(*map(one, cells))
            outcomes |= {cell.name: outcome for cell, outcome in zip(cells, came, strict=True)}
        await house.settle()
        assert left(Exchange, Delivery, Pump, Relay, UpstreamAnswer) == []
    return outcomes


def lines(outcomes: dict[str, Outcome]) -> Iterator[str]:
    """The table: a line for each fault."""
    yield f"{'fault':36} {'whole':34} {'streamed':34} closed after (ms, worst)"
    for fault in ROWS:
        said = []
        for stream in (False, True):
            came = [outcomes[cell.name] for cell in CELLS.values() if cell.fault == fault and cell.stream is stream]
            words = {f"{one.answer.status or '-'} {' '.join((*one.outcomes, *one.faults))}" for one in came}
            said.append(f"{' | '.join(sorted(words))} x{len(came)}" if came else "")
        closed = [
            came.closed_after for name, came in outcomes.items() if CELLS[name].fault == fault and came.closed_after
        ]
        yield f"{fault:36} {said[0]:34} {said[1]:34} {f'{max(closed) * 1000:.0f}' if closed else ''}"
    yield f"{len(outcomes)} cells"
