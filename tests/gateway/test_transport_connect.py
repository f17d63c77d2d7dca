"""Getting a connection: refusals, names, limits, and TLS with certificates made for the test."""

import asyncio
import datetime as dt
import ipaddress
import socket
import ssl
from pathlib import Path
from typing import NamedTuple, NoReturn

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.transport import LeanTransport
from tests.gateway.scripted import HELLO, OK, LoopFactory, Peer, always, fetch, on_both_loops, run, send, serve, until


class Certified(NamedTuple):
    """The two sides of a TLS connection to 127.0.0.1."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate that signs itself, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path: Path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return Certified(server, ssl.create_default_context(cafile=path))


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
