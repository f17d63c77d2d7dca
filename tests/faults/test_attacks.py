"""Attacks over raw sockets: smuggling, headers, targets, pipelines. None gets a second request out of one, or past a check."""

import asyncio
import socket
from typing import Final

import pytest

from gateway.keys import new_key
from gateway.words import DIALECTS
from tests.faults.living import Living, living, run, until
from tests.faults.upstream import Upstream, scripted
from tests.faults.wires import post, request

BODY: Final = b'{"model":"m","messages":[]}'
HOST: Final = b"Host: a\r\n"
CHAT: Final = b"POST /v1/chat/completions HTTP/1.1\r\n"
LENGTH: Final = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
INNER: Final = b"GET /v1/inner HTTP/1.1\r\nHost: a\r\n\r\n"
SECRET: Final = "sk-upstream-0123456789abcdef"


def settings(upstream: Upstream, more: str = "") -> str:
    """One upstream for all dialects, with a key of its own."""
    return upstream.settings("echo", f'api_key_env = "SECRET"\n{more}', DIALECTS)


async def raw(port: int, *parts: bytes, half_close: bool = False) -> bytes:
    """Send these, each in a packet of its own, and read until the gateway closes or is silent for a while."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    got = bytearray()
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.03)
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(0.4):
            while data := await reader.read(65536):
                got += data
    except (TimeoutError, ConnectionError):
        return bytes(got)
    finally:
        writer.transport.abort()
    return bytes(got)


REFUSED: Final = {
    "length beside chunks": CHAT + HOST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + INNER,
    "chunks beside length": CHAT + HOST + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n" + INNER,
    "two lengths": CHAT + HOST + b"Content-Length: 0\r\n" + LENGTH + b"\r\n" + INNER,
    "the same length twice": CHAT + HOST + LENGTH + LENGTH + b"\r\n" + BODY,
    "a list of lengths": CHAT + HOST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a length with a sign": CHAT + HOST + b"Content-Length: +5\r\n\r\nhello",
    "a length in hex": CHAT + HOST + b"Content-Length: 0x5\r\n\r\nhello",
    "a blank before the colon": CHAT + HOST + b"Content-Length : 5\r\n\r\nhello",
    "a folded line": CHAT + HOST + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY,
    "bare LF in the head": CHAT + b"Host: a\n" + LENGTH + b"\r\n" + BODY,
    "bare LF everywhere": (CHAT + HOST + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY,
    "bare CR": CHAT + b"Host: a\rX: b\r\n" + LENGTH + b"\r\n" + BODY,
    "NUL in a value": CHAT + HOST + b"X: a\0b\r\n" + LENGTH + b"\r\n" + BODY,
    "a control in a value": CHAT + HOST + b"X: a\x0bb\r\n" + LENGTH + b"\r\n" + BODY,
    "an empty name": CHAT + HOST + b": x\r\n" + LENGTH + b"\r\n" + BODY,
    "a name that is no token": CHAT + HOST + b"X(Y): x\r\n" + LENGTH + b"\r\n" + BODY,
    "a chunk size in 0x": CHAT + HOST + CHUNKED + b"\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a negative chunk size": CHAT + HOST + CHUNKED + b"\r\n-5\r\nhello\r\n0\r\n\r\n",
    "a chunk size that overflows": CHAT + HOST + CHUNKED + b"\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a chunk size with a blank": CHAT + HOST + CHUNKED + b"\r\n5 \r\nhello\r\n0\r\n\r\n",
    "chunks ended by LF": CHAT + HOST + CHUNKED + b"\r\n5\nhello\n0\n\n",
    "a chunk longer than its size": CHAT + HOST + CHUNKED + b"\r\n2\r\nhello\r\n0\r\n\r\n",
    "LF in a chunk extension": CHAT + HOST + CHUNKED + b"\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
    "gzip before chunked": CHAT + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked before gzip": CHAT + HOST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": CHAT + HOST + CHUNKED + CHUNKED + b"\r\n0\r\n\r\n",
    "identity": CHAT + HOST + b"Transfer-Encoding: identity\r\n\r\n",
    "a coding nobody knows": CHAT + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": CHAT.replace(b"1.1", b"1.0") + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "no Host": CHAT + LENGTH + b"\r\n" + BODY,
    "two Hosts": CHAT + HOST + b"Host: b\r\n" + LENGTH + b"\r\n" + BODY,
    "HTTP/2.0 in words": CHAT.replace(b"1.1", b"2.0") + HOST + LENGTH + b"\r\n" + BODY,
    "HTTP/1.2": CHAT.replace(b"1.1", b"1.2") + HOST + LENGTH + b"\r\n" + BODY,
    "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "CONNECT": b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n" + HOST + b"\r\n" + INNER,
    "an asterisk": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "an absolute target without a path": b"GET http://127.0.0.1:1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a blank in the target": b"GET /v1/a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment in the target": b"GET /v1/a#/../b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a byte beyond ASCII in the target": b"GET /v1/a\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "a head without end": CHAT + HOST + b"X: a\r\n" * 20000,
    "a value without end": CHAT + HOST + b"X: " + b"a" * 100_000,
    "a target without end": b"GET /v1/" + b"a" * 100_000,
    "trailers without end": CHAT + HOST + CHUNKED + b"\r\n0\r\n" + b"X: a\r\n" * 20000,
    "a chunk extension without end": CHAT + HOST + CHUNKED + b"\r\n5;" + b"a" * 100_000,
}
"""Requests that are refused by the connection, before there is a call to count. Nothing of them reaches an upstream."""


def test_what_is_no_request_goes_nowhere() -> None:
    """Each is answered with a 400 or cut off, the connection is closed, and no upstream hears of it."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:

            async def attack(name: str) -> None:
                got = await raw(house.port, REFUSED[name])
                assert not got or got.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), name
                assert got.count(b"HTTP/1.1 ") <= 1, name
                house.sent += int(house_counts(name))

            await asyncio.gather(*map(attack, REFUSED))
            assert not upstream.seen

    def house_counts(name: str) -> bool:
        # Here the head was whole and only its body was none: a call had begun, and its caller is taken to have left.
        return any(word in name for word in ("chunk s", "chunk l", "chunk e", "ended by LF", "trailers", "asterisk"))

    run(main())


ONE_ANSWER: Final = {
    "Upgrade beside a length": (CHAT + HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n" + LENGTH + b"\r\n", BODY),
    "Upgrade and the body in one packet": (CHAT + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + LENGTH + b"\r\n" + BODY,),
    "Upgrade beside chunks": (CHAT + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + CHUNKED + b"\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "Upgrade to a WebSocket": (CHAT + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + LENGTH + b"\r\n", BODY),
    "an absolute target": (CHAT.replace(b"/v1", b"http://127.0.0.1:1/v1") + HOST + LENGTH + b"\r\n" + BODY,),
    "another Host": (CHAT + b"Host: 169.254.169.254\r\n" + LENGTH + b"\r\n" + BODY,),
    "headers that proxies believe": (CHAT + HOST + b"X-Forwarded-Host: b\r\nX-Original-URL: /v1/inner\r\nForwarded: host=b\r\n" + LENGTH + b"\r\n" + BODY,),
    "hop-by-hop by name": (CHAT + HOST + b"Connection: close, content-length, host, x-a\r\nX-A: 1\r\n" + LENGTH + b"\r\n" + BODY,),
    "a trailer": (CHAT + HOST + CHUNKED + b"\r\n%x\r\n%b\r\n0\r\nX-Injected: 1\r\nX-Thinkcap-Retried: 1\r\n\r\n" % (len(BODY), BODY),),
    "a body that is a request": (CHAT + HOST + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER,),
}  # fmt: skip
"""Requests that are served as what they are: one."""


@pytest.mark.parametrize("parts", ONE_ANSWER.values(), ids=ONE_ANSWER)
def test_one_request_stays_one(parts: tuple[bytes, ...]) -> None:
    """One answer comes, at most one request goes out, to the configured address, and nothing of the trick with it."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:
            house.sent = 1
            got = await raw(house.port, *parts)
            assert got.count(b"HTTP/1.1 ") == 1
            sent = upstream.seen["all"].requests if upstream.seen else []
            assert len(sent) <= 1
            if b'{"model"' in b"".join(parts):
                assert got.startswith(b"HTTP/1.1 200 OK")
                assert sent[0].startswith(b"POST /echo.all/v1/chat/completions HTTP/1.1\r\n")
                head = sent[0].partition(b"\r\n\r\n")[0].lower()
                assert b"\r\nhost: 127.0.0.1:%d" % upstream.port in head
                assert not any(
                    word in head for word in (b"x-injected", b"upgrade", b"http2-settings", b"x-a:", b"thinkcap")
                )

    run(main())


PATHS: Final = (
    "/v1/../admin", "/v1/%2e%2e/admin", "/v1/.%2E/admin", "/v1/x/..%2fadmin", "/v1/x%2f..%2f..%2fadmin", "/v1/..\\admin",
    "/v1/%5c..%5cadmin", "/v1/..;/admin" , "/v1/files/%00", "/admin", "//v1/x", "/V1/x", "/v1beta/models/../../x:generateContent",
    "/v1/./x", "/v1/%2e/x", "/health/../v1/x", "/v2/x", "/.well-known/x",
)  # fmt: skip


def test_no_path_leads_out() -> None:
    """Steps up, in any spelling, and other roots get a 404; what goes out stays below the upstream's own path."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:
            for path in PATHS:
                answer = await house.ask(post(path, b"{}"))
                allowed = path == "/v1/..;/admin"  # no step in any URL, only in some servers' own reading
                assert answer.status == (200 if allowed else 404), path
            assert (await house.ask(post("/v1/x", b"", method="TRACE"))).status == 404
            for sent in upstream.seen["all"].requests:
                assert sent.startswith(b"POST /echo.all/v1/")

    run(main())


def test_callers_cannot_choose_where_calls_go() -> None:
    """Models, headers and query that look like addresses go to the configured upstream and stay text."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:
            for model in ("http://127.0.0.1:1/x", "a\r\nX-Injected: 1", "../../x", "@127.0.0.1:1", "\0", "x" * 5000):
                answer = await house.ask(
                    request("chat", model, stream=False, headers={"x-thinkcap-purpose": "http://127.0.0.1:1"})
                )
                assert answer.status == 200, model
            for model in ("a%0d%0aX-Injected:%201", "x@127.0.0.1:1", "%2e%2e%2fx", "a%3fb", "a%23b"):
                answer = await house.ask(
                    post(f"/v1beta/models/{model}:generateContent?url=http://127.0.0.1:1", b'{"contents":[]}')
                )
                assert answer.status in {200, 404}, model
            for sent in upstream.seen["all"].requests:
                head = sent.partition(b"\r\n\r\n")[0]
                assert b"\r\nX-Injected" not in head
                assert b"127.0.0.1:%d" % upstream.port in head

    run(main())


def test_keys_are_known_by_hash_and_counted_when_refused() -> None:
    """Any of several keys opens, in any of its places; none other does; no key of ours goes on."""
    (one, one_hash), (two, two_hash) = new_key(), new_key()
    keys = "".join(f'[[keys]]\nname = "k{n}"\nsha256 = "{digest}"\n' for n, digest in enumerate((one_hash, two_hash)))

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream, keys), SECRET=SECRET) as house:
            for key in (one, two):
                for place in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}, {"x-goog-api-key": key}):
                    assert (await house.ask(request("chat", "m", stream=False, headers=place))).status == 200
                assert (await house.ask(post(f"/v1/chat/completions?key={key}&a=b", BODY))).status == 200
            wrong = (one[:-1], one + "x", one.upper(), "", one_hash, f"{one},{two}", "tc-" + "0" * 43)
            for key in wrong:
                assert (
                    await house.ask(request("chat", "m", stream=False, headers={"Authorization": f"Bearer {key}"}))
                ).status == 401
            assert (await house.ask(request("chat", "m", stream=False))).status == 401
            smuggled = (
                CHAT + HOST + CHUNKED + b"\r\n%x\r\n%b\r\n0\r\nX-Api-Key: %b\r\n\r\n" % (len(BODY), BODY, one.encode())
            )
            assert (await house.ask(smuggled)).status == 401
            refusals = {key[0]: int(child._value.get()) for key, child in house.telemetry.metrics.key_refusals.items()}
            assert refusals == {"unknown": len(wrong), "missing": 2}
            assert not any(key.encode() in sent for key in (one, two) for sent in upstream.seen["all"].requests)
            assert not any(key in str(house.log) for key in (one, two))

    run(main())


def test_a_caller_who_pipelines_and_leaves_is_missed_all_the_same() -> None:
    """A second request behind the running one neither hides the leave nor keeps the upstream at work."""

    async def main() -> None:
        async with (
            scripted() as upstream,
            living(settings(upstream).replace("echo", "stall_in_body"), SECRET=SECRET) as house,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
            house.sent = 1  # the second is never begun
            writer.write(request("chat", "m", stream=True) * 2)
            await reader.readuntil(b"\r\n\r\n")
            await _gone(house, upstream, writer)

    run(main())


async def _gone(house: Living, upstream: Upstream, writer: asyncio.StreamWriter) -> None:
    await upstream.seen["all"].arrived.wait()
    writer.transport.abort()
    await until(lambda: upstream.seen["all"].closed_at > 0)
    await until(lambda: house.outcomes() == {"client_gone": 1})


def test_half_a_head_does_not_stay_for_ever() -> None:
    """A connection that says nothing, or never ends its head, is closed when the time for a head is over."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:
            house.server.config.timeout_keep_alive = 0.2  # type: ignore[assignment]  # seconds; a fraction will do
            for part in (b"", CHAT + b"Host"):
                reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
                writer.write(part)
                assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.close()

    run(main())
