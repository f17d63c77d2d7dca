"""Names become addresses without anybody waiting for somebody else's lookup."""

import asyncio
import socket
import subprocess
import sys
from threading import Event

import pytest
import uvloop

from gateway.resolve import Resolver

ROW = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.9", 80))


def test_an_address_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lookup for what is numeric already."""
    monkeypatch.setattr(socket, "getaddrinfo", None)
    assert asyncio.run(Resolver().addresses("127.0.0.1", 80)) == ["127.0.0.1"]
    assert asyncio.run(Resolver().addresses("::1", 80)) == ["::1"]


def test_a_lookup_is_shared_and_repeated_only_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two who ask at once are one lookup; addresses come once each, in order."""
    asked: list[str] = []
    go = Event()

    def lookup(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        assert go.wait(10)
        return [ROW, ROW, (*ROW[:4], ("127.0.0.10", 80))]

    async def main() -> None:
        resolver = Resolver()
        both = asyncio.gather(resolver.addresses("a.test", 80), resolver.addresses("a.test", 80))
        await asyncio.sleep(0)
        go.set()
        assert [*await both] == [["127.0.0.9", "127.0.0.10"]] * 2
        await resolver.addresses("a.test", 80)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    asyncio.run(main())
    assert asked == ["a.test"] * 2


def test_a_lookup_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many hang, and who stops waiting stops nobody else."""
    stop = Event()

    def lookup(host: str, *_: object, **__: object) -> list[object]:
        if host.startswith("slow"):
            stop.wait(30)
        return [ROW]

    async def main() -> None:
        resolver = Resolver()
        slow = [asyncio.ensure_future(resolver.addresses(f"slow{n % 20}.test", 80)) for n in range(40)]
        assert await asyncio.wait_for(resolver.addresses("quick.test", 80), 10) == ["127.0.0.9"]
        for task in slow[:20]:
            task.cancel()
        await asyncio.sleep(0)
        stop.set()
        assert await asyncio.gather(*slow[20:]) == [["127.0.0.9"]] * 20

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    asyncio.run(main())


def test_a_name_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is an OSError for all who asked, and for none of them a second one."""

    def lookup(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(OSError, match="not known"):
        asyncio.run(Resolver().addresses("nobody.invalid", 80))


HANGING = """
import asyncio, socket, time, {loop}
from gateway.resolve import Resolver
socket.getaddrinfo = lambda *_, **__: time.sleep(600)
async def main():
    try:
        await asyncio.wait_for(Resolver().addresses("slow.test", 80), 0.1)
    except TimeoutError:
        print("gave up")
{loop}.run(main())
"""


@pytest.mark.parametrize("loop", [asyncio, uvloop], ids=["asyncio", "uvloop"])
def test_a_lookup_that_hangs_does_not_keep_the_process(loop: object) -> None:
    """The process ends while the lookup still hangs."""
    program = HANGING.format(loop=getattr(loop, "__name__", ""))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)  # noqa: S603 - our own interpreter
    assert (done.returncode, done.stdout, done.stderr) == (0, b"gave up\n", b"")
