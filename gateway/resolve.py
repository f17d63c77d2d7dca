"""Names to addresses, on daemon threads: a lookup that hangs holds up neither other lookups nor the end of the process.

An event loop's own lookups share a few threads, and a process that ends waits for those.
"""

import asyncio
import ipaddress
import socket
from contextlib import suppress
from threading import Thread


class Resolver:
    """Looks names up; who asks for a name that is being looked up waits for that lookup."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._running: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str, port: int) -> list[str]:
        """The numeric addresses of a host, best first; an address is its own. Raises OSError when there is none."""
        if _is_address(host):
            return [host]
        running = self._running.get((host, port))
        if running is None:
            running = self._running[host, port] = asyncio.get_running_loop().create_future()
            running.add_done_callback(lambda _: self._running.pop((host, port), None))
            Thread(target=_look_up, args=(host, port, running), name="thinkcap-dns", daemon=True).start()
        return await asyncio.shield(running)  # who stops waiting does not stop the others


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _look_up(host: str, port: int, answer: asyncio.Future[list[str]]) -> None:
    found: list[str] | Exception
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(row[4][0]) for row in rows))
    except (OSError, UnicodeError) as error:
        found = error
    with suppress(RuntimeError):  # the loop is closed: nobody asks any more
        answer.get_loop().call_soon_threadsafe(_tell, answer, found)


def _tell(answer: asyncio.Future[list[str]], found: list[str] | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, list):
        answer.set_result(found)
    else:
        answer.set_exception(found)
        answer.exception()  # seen: everybody who asked may have stopped waiting
