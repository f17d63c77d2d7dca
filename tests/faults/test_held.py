"""What long bodies cost a gateway process while they are held, and what a burst of them leaves behind."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from tests.certificates import certified
from tests.faults.flood import ANSWER, AT_ONCE, UPLOAD, Memory, callers, upload
from tests.faults.test_uploads import deaf
from tests.faults.upstream import scripted
from tests.faults.wires import request
from tests.running import Running, running

AT_MOST: Final = 1.5
"""Bytes each byte of a body may cost at the peak: itself, what is read or written of one body at a time, and what the
allocator has not given back yet on a busy machine. Held twice it would be above two."""
LEFT: Final = AT_ONCE * 1024 * 1024
"""Bytes that all of them may leave behind: the allocator keeps blocks of the size of a read for the next calls."""
BUDGET: Final = 'kind = "vllm"\nask_usage = false\n[thinking]\ncap = 100'
ADDED: Final = {"stream": True}
Readers = list[asyncio.StreamReader]


class Cost(Struct, frozen=True):
    """Of bodies that came at once: at their peak, for each of their bytes, and what is left of them, in bytes."""

    peak: float
    left: int


def deaf_at(url: str) -> str:
    """Settings with an upstream that reads nothing."""
    return f'[upstreams.one]\nurl = "{url}"\ndialects = ["chat"]\n'


async def settled(memory: Memory) -> int:
    """What is held once that does not change any more."""
    before, now = -1, memory.now
    while now != before:
        await asyncio.sleep(0.3)
        before, now = now, memory.now
    return now


async def cost(gateway: Running, wire: bytes, size: int, there: Callable[[Readers], Awaitable[object]]) -> Cost:
    """Of a burst of calls with a body of this size, which `there` waits for, and which their callers then leave."""
    memory, port = Memory(gateway), gateway.port
    async with callers(port, wire, 1) as readers:
        await there(readers)
    idle = await settled(memory)
    memory.forget()
    async with callers(port, wire, AT_ONCE) as readers:
        await there(readers)
        await settled(memory)
        peak = (memory.peak - idle) / (AT_ONCE * size)
    for _ in range(50):
        if memory.now <= idle + LEFT:
            break
        await asyncio.sleep(0.1)
    return Cost(peak, memory.now - idle)


def told(found: Cost) -> None:
    """Print what was found, for `-s`, and hold it to its bounds."""
    print(f"\n{found.peak:.2f} times its length at the peak, {found.left / 2**20:.1f} MiB left behind")  # noqa: T201
    assert found.peak <= AT_MOST
    assert found.left <= LEFT


def test_an_upload_through_tls_is_held_once(tmp_path: Path) -> None:
    """It is coded bit by bit, when there is room for it."""
    trusted = tmp_path / "both.pem"
    tls = certified(trusted)

    async def main() -> None:
        async with deaf(tls.server) as port:
            with running(deaf_at(f"https://127.0.0.1:{port}"), SSL_CERT_FILE=str(trusted)) as gateway:
                told(await cost(gateway, upload(UPLOAD), UPLOAD, lambda _: asyncio.sleep(1)))

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("more", "fields"),
    [("", {}), ("", ADDED), (BUDGET, ADDED)],
    ids=["as it came", "with usage asked for", "with a budget put in"],
)
def test_an_upload_is_held_once(more: str, fields: dict[str, Any]) -> None:
    """While its answer is waited for, which may be long."""

    async def main() -> None:
        async with scripted() as upstream:
            requests = upstream.seen["all"].requests

            async def there(readers: Readers) -> None:
                while len(requests) < len(readers):  # noqa: ASYNC110 - a list, which sets no event
                    await asyncio.sleep(0.05)
                assert all((b'"thinking_token_budget":100' in sent) is bool(more) for sent in requests)
                requests.clear()

            with running(upstream.settings("no_headers", more)) as gateway:
                told(await cost(gateway, upload(UPLOAD, **fields), UPLOAD, there))

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_upload_nobody_reads_is_held_once() -> None:
    """What an upstream has not taken yet is the very body that came."""

    async def main() -> None:
        async with deaf() as port:
            with running(deaf_at(f"http://127.0.0.1:{port}")) as gateway:
                told(await cost(gateway, upload(UPLOAD, **ADDED), UPLOAD, lambda _: asyncio.sleep(0.5)))

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_answer_nobody_reads_is_held_once() -> None:
    """Its caller has taken the head, and the kernel some of the rest."""

    async def there(readers: Readers) -> None:
        await asyncio.gather(*(reader.readuntil(b"\r\n\r\n") for reader in readers))

    async def main() -> None:
        async with scripted() as upstream:
            with running(upstream.settings("long_whole")) as gateway:
                told(await cost(gateway, request("chat", "m", stream=False), ANSWER, there))

    asyncio.run(asyncio.wait_for(main(), 60))
