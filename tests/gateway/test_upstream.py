"""The client of one upstream: its addresses, and the HTTP client's errors as ours."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from gateway.upstream import Terms, Upstream, of_ours
from tests.gateway.door import Upstreams, answers, fails, run


def because(error: httpx.HTTPError, cause: Exception) -> httpx.HTTPError:
    """An error with a cause."""
    error.__cause__ = cause
    return error


ERRORS: dict[str, tuple[httpx.HTTPError, type[UpstreamError], str, str]] = {
    "no connection in time": (httpx.ConnectTimeout("secret"), UpstreamTimeout, "timeout", "no connection within"),
    "no free connection": (httpx.PoolTimeout("secret"), UpstreamTimeout, "timeout", "no free connection within"),
    "silence": (httpx.ReadTimeout("secret"), UpstreamTimeout, "timeout", "no answer within"),
    "nothing taken": (httpx.WriteTimeout("secret"), UpstreamTimeout, "timeout", "no answer within"),
    "no connection": (httpx.ConnectError("secret"), UpstreamUnreachable, "connect", "cannot be reached"),
    "no TLS": (because(httpx.ConnectError("secret"), ssl.SSLError("x")), UpstreamUnreachable, "tls", "no TLS"),
    "a reset": (httpx.ReadError("secret"), UpstreamBroken, "reset", "broke the connection"),
    "a reset while sending": (httpx.WriteError("secret"), UpstreamBroken, "reset", "broke the connection"),
    "a reset while closing": (httpx.CloseError("secret"), UpstreamBroken, "reset", "broke the connection"),
    "no HTTP": (httpx.RemoteProtocolError("secret"), UpstreamBroken, "protocol", "did not speak HTTP"),
    "no HTTP of ours": (httpx.LocalProtocolError("secret"), UpstreamBroken, "protocol", "did not speak HTTP"),
    "another scheme": (httpx.UnsupportedProtocol("secret"), UpstreamBroken, "protocol", "did not speak HTTP"),
}


@pytest.mark.parametrize(("error", "kind", "fault", "said"), ERRORS.values(), ids=ERRORS)
def test_errors(error: httpx.HTTPError, kind: type[UpstreamError], fault: str, said: str) -> None:
    """Each has its class and its label; messages name the upstream and nothing that came over the wire."""
    ours = of_ours(error, "up")
    assert (type(ours), ours.fault) == (kind, fault)
    assert said in ours.message
    assert "up" in ours.message
    assert "secret" not in ours.message


def test_errors_where_they_happen() -> None:
    """Before the head and in the body, the same mapping; a body read to its end is done."""

    async def main() -> None:
        upstreams = Upstreams(fails(httpx.ConnectError("x")), answers(b"a", httpx.ReadError("x")), answers(b"a", b"b"))
        async with Upstream(Terms(name="up", url="http://up.test"), httpx.MockTransport(upstreams)) as upstream:
            with pytest.raises(UpstreamUnreachable):
                await upstream.send("GET", b"/", [], b"")
            answer = await upstream.send("GET", b"/", [], b"")
            with pytest.raises(UpstreamBroken):
                [chunk async for chunk in answer.chunks()]
            assert not answer.done
            await answer.aclose()
            answer = await upstream.send("GET", b"/", [], b"")
            assert [chunk async for chunk in answer.chunks()] == [b"a", b"b"]
            assert answer.done
            await answer.aclose()
            await answer.aclose()
        assert upstreams.left == 0

    run(main())


@pytest.mark.parametrize(
    ("url", "target", "sent", "host", "port"),
    [
        ("http://up.test", b"/v1/x?a=%2F", "http://up.test/v1/x?a=%2F", "up.test", 80),
        ("https://up.test:8443/base", b"/v1/x", "https://up.test:8443/base/v1/x", "up.test", 8443),
        ("https://up.test/base/", b"/v1/a%20b", "https://up.test/base/v1/a%20b", "up.test", 443),
    ],
    ids=["a bare host", "a path and a port", "a slash at the end"],
)
def test_addresses(url: str, target: bytes, sent: str, host: str, port: int) -> None:
    """The target goes behind the address, spelt as it came."""

    async def main() -> None:
        upstreams = Upstreams(answers())
        async with Upstream(Terms(name="up", url=url), httpx.MockTransport(upstreams)) as upstream:
            for _ in range(2):
                await (await upstream.send("GET", target, [], b"")).aclose()
            assert (upstream.host, upstream.port) == (host, port)
        assert [str(request.url) for request in upstreams.requests] == [sent, sent]

    run(main())


def test_an_address_that_is_none() -> None:
    """A path the HTTP client cannot make an address of is an error like others."""

    async def main() -> None:
        async with Upstream(
            Terms(name="up", url="http://up.test"), httpx.MockTransport(Upstreams(answers()))
        ) as upstream:
            with pytest.raises(UpstreamBroken, match="the path makes no address"):
                await upstream.send("GET", b"/" + b"x" * 70_000, [], b"")

    run(main())


def test_limits_and_bodies() -> None:
    """Every request carries the limits of the settings; a body goes whole or as it comes."""

    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async def main() -> None:
        upstreams = Upstreams(answers())
        terms = Terms(name="up", url="http://up.test", connect_timeout=1, first_byte_timeout=2, idle_timeout=3)
        async with Upstream(terms, httpx.MockTransport(upstreams)) as upstream:
            bodies: list[Any] = [b"", b"ab", parts()]
            for body in bodies:
                await (await upstream.send("POST", b"/", [(b"x-a", b"1")], body)).aclose()
        assert [request.content for request in upstreams.requests] == [b"", b"ab", b"ab"]
        assert upstreams.requests[0].extensions["timeout"] == {
            "connect": 1, "pool": 1, "write": 3, "first_byte": 2, "read": 3,
        }  # fmt: skip
        assert upstreams.requests[0].headers["x-a"] == "1"

    run(main())
