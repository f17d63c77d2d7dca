"""Getting a connection: refusals, names, limits, and TLS with certificates made for the test."""

import asyncio
import socket
import ssl
from typing import NoReturn

import httpx
import pytest

from gateway.transport import LeanTransport
from tests.certificates import Certified, certified
from tests.gateway.scripted import HELLO, OK, LoopFactory, Peer, always, fetch, on_both_loops, run, send, serve, until


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate that signs itself, and a client that trusts it."""
    return certified(tmp_path_factory.mktemp("tls") / "both.pem")


def unused_url(scheme: str) -> str:
    """An address nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"


@on_both_loops
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_refused_connection_is_a_connect_error(scheme: str, loop: LoopFactory) -> None:
    """With an OSError as its cause that is none of TLS."""

    async def main() -> None:
        async with LeanTransport() as transport:
            with pytest.raises(httpx.ConnectError) as caught:
                await fetch(transport, unused_url(scheme))
            assert isinstance(caught.value.__cause__, OSError)
            assert not isinstance(caught.value.__cause__, ssl.SSLError)
            assert transport.open == 0

    run(loop, main())


def test_a_name_that_does_not_resolve_is_a_connect_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the resolver does not know it or it is no name at all."""

    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main() -> None:
        async with LeanTransport() as transport:
            for host in ("upstream.invalid", "a" * 64):
                with pytest.raises(httpx.ConnectError):
                    await fetch(transport, f"http://{host}/")
            assert transport.open == 0

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    run(asyncio.new_event_loop, main())


@on_both_loops
def test_only_http_is_spoken(loop: LoopFactory) -> None:
    """Another scheme is an UnsupportedProtocol."""

    async def main() -> None:
        async with LeanTransport() as transport:
            with pytest.raises(httpx.UnsupportedProtocol):
                await fetch(transport, "ftp://127.0.0.1/")

    run(loop, main())


@on_both_loops
def test_connecting_has_a_limit_and_can_be_cancelled(tls: Certified, loop: LoopFactory) -> None:
    """A peer that never answers the TLS handshake: ConnectTimeout, or the cancellation; the socket is closed."""

    async def main() -> None:
        async with serve(Peer.closed) as served, LeanTransport(ssl_context=tls.client) as transport:
            url = served.url.replace("http", "https")
            with pytest.raises(httpx.ConnectTimeout):
                await fetch(transport, url, timeout={"connect": 0.05})
            await until(lambda: served.ended == 1)
            task = asyncio.create_task(fetch(transport, url))
            await until(lambda: len(served.peers) == 2)
            assert transport.open == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert transport.open == 0
            await until(lambda: served.ended == 2)

    run(loop, main())


@on_both_loops
def test_closing_the_transport_ends_a_connection_that_is_being_opened(tls: Certified, loop: LoopFactory) -> None:
    """The request fails as soon as its handshake is over, and its socket does not outlive it."""
    go_on = asyncio.Event()

    async def late(peer: Peer) -> None:
        await go_on.wait()
        await peer.send(b"no TLS")

    async def main() -> None:
        async with serve(late) as served:
            transport = LeanTransport(ssl_context=tls.client)
            task = asyncio.create_task(fetch(transport, served.url.replace("http", "https")))
            await until(lambda: len(served.peers) == 1)
            await transport.aclose()
            go_on.set()
            with pytest.raises(httpx.ConnectError):
                await task
            assert transport.open == 0
            await until(lambda: served.ended == 1)

    run(loop, main())


@on_both_loops
def test_tls_is_kept_alive_like_the_rest(tls: Certified, loop: LoopFactory) -> None:
    """Two requests, one handshake, a large body on the way."""
    large = OK + b"Content-Length: 1048576\r\n\r\n" + b"x" * 2**20

    async def script(peer: Peer) -> None:
        await peer.answer(large, HELLO)
        await peer.closed()

    async def main() -> None:
        async with serve(script, tls=tls.server) as served, LeanTransport(ssl_context=tls.client) as transport:
            assert len(await fetch(transport, served.url)) == 2**20
            assert await fetch(transport, served.url) == b"hello"
            assert (transport.idle, len(served.peers)) == (1, 1)

    run(loop, main())


@on_both_loops
def test_a_long_body_arrives_whole_through_tls(tls: Certified, loop: LoopFactory) -> None:
    """Also when the kept connection dies on the way, so that it goes out once more, from its beginning."""
    body = bytes(range(256)) * 2**14
    got: list[bytes] = []

    async def once(peer: Peer) -> None:
        await peer.answer(HELLO)
        await peer.head()
        peer.reset()

    async def script(peer: Peer) -> None:
        await peer.head()
        got.append(await peer.reader.readexactly(len(body)))
        await peer.send(HELLO)
        await peer.closed()

    async def main() -> None:
        async with (
            serve(once, script, tls=tls.server) as served,
            LeanTransport(ssl_context=tls.client) as transport,
        ):
            assert await fetch(transport, served.url) == b"hello"
            assert await fetch(transport, served.url, "POST", content=body) == b"hello"
            assert got == [body]
            assert (transport.idle, len(served.peers)) == (1, 2)

    run(loop, main())


@on_both_loops
def test_a_long_body_is_not_coded_before_its_time(tls: Certified, loop: LoopFactory) -> None:
    """What a peer has no room for yet waits as it is: coded, it would be there a second time."""
    arrived = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        arrived.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with serve(script, tls=tls.server) as served, LeanTransport(ssl_context=tls.client) as transport:
            sending = asyncio.create_task(fetch(transport, served.url, "POST", content=b"z" * 2**25))
            await arrived.wait()
            await asyncio.sleep(0.3)
            (connection,) = transport._pool._connections
            assert connection._upload is not None  # it goes on with what is left as there is room
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    run(loop, main())


@on_both_loops
def test_a_failure_of_tls_is_told_from_one_of_the_connection(tls: Certified, loop: LoopFactory) -> None:
    """An unknown authority, and a server that speaks no TLS: the cause of the ConnectError is an ssl.SSLError."""

    async def no_tls(peer: Peer) -> None:
        await peer.send(HELLO)
        await peer.closed()

    async def main() -> None:
        async with serve(always, tls=tls.server) as known, serve(no_tls) as plain, LeanTransport() as transport:
            for url in (known.url, plain.url.replace("http", "https")):
                with pytest.raises(httpx.ConnectError) as caught:
                    await fetch(transport, url)
                assert isinstance(caught.value.__cause__, ssl.SSLError)
            assert transport.open == 0

    run(loop, main())


@on_both_loops
@pytest.mark.parametrize("cut", ["", "cut"], ids=["closed", "cut"])
def test_a_cut_tls_connection_is_no_end_of_a_body(cut: str, tls: Certified, loop: LoopFactory) -> None:
    """A body that lasts to the end of the connection is whole only when the peer said so over TLS itself."""

    async def script(peer: Peer) -> None:
        await peer.answer(OK + b"\r\nhello")
        if not cut:
            peer.close()
            await peer.closed()

    async def main() -> None:
        async with serve(script, tls=tls.server) as served, LeanTransport(ssl_context=tls.client) as transport:
            response = await send(transport, served.url)
            if cut:
                with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                    await response.aread()
            else:
                assert await response.aread() == b"hello"
            assert transport.open == 0

    run(loop, main())
