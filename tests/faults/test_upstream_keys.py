"""An upstream's own key never comes back to callers, however the upstream repeats it."""

import gzip
import zlib
from collections.abc import Callable
from typing import Final

import pytest
import zstandard

from gateway.words import DIALECTS
from tests.faults.living import living, run
from tests.faults.upstream import Upstream, scripted
from tests.faults.wires import WIRES, post, request

SECRET: Final = "sk-upstream-0123456789abcdef"
AWKWARD: Final = "sk-upstream-0123/4567+89ab/cdef=="
"""A key that encoders write otherwise."""
UNDO: Final[tuple[Callable[[bytes], bytes], ...]] = (
    bytes, gzip.decompress, zlib.decompress, zstandard.decompress, lambda body: body[::-1],
)  # fmt: skip
PLAIN: Final = "/v1beta/models/m:streamGenerateContent"
"""A stream that is no stream of events."""


def settings(upstream: Upstream) -> str:
    """One upstream for all dialects, with a key of its own."""
    return upstream.settings("echo", 'api_key_env = "SECRET"\n', DIALECTS)


def readings(body: bytes) -> list[bytes]:
    """All that a body comes to when a coding is undone."""
    found = []
    for undo in UNDO:
        try:
            found.append(undo(body))
        except (OSError, EOFError, zlib.error, zstandard.ZstdError):
            continue
    return found


@pytest.mark.parametrize("how", ["plain", "split", "error", "gzip", "deflate", "zstd", "br"])
def test_the_upstreams_key_never_comes_back(how: str) -> None:
    """In a header, an error, a whole body, a stream, coded, on a forwarded path or a judged one, to any method."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=SECRET) as house:
            said = {"x-echo": how}
            ways = [request(dialect, "m", stream=stream, headers=said) for dialect in WIRES for stream in (False, True)]
            ways += [post("/v1/embeddings", b"{}", said), post(PLAIN, b'{"contents":[]}', said)]
            ways += [post("/v1/x", b"", said, method=method) for method in ("TRACE", "GET", "OPTIONS")]
            for sent in ways:
                answer = await house.ask(sent)
                good = {400} if how == "error" else {502} if how == "br" else {200}
                assert answer.status in good | {404}, sent
                headers = b"".join(name + value for name, value in answer.headers)
                assert not any(SECRET.encode() in said for said in (headers, *readings(bytes(answer.body)))), sent
                if how in {"gzip", "deflate", "zstd"} and answer.status == 200:
                    assert answer.header(b"content-encoding") is None
                    assert b"*" * len(SECRET) in answer.body
            assert all(SECRET.encode() in sent for sent in upstream.seen["all"].requests)
            assert SECRET not in str(house.log)

    run(main())


@pytest.mark.parametrize("how", ["plain", "split", "error", "slashes", "escapes", "percents"])
def test_nor_does_it_in_an_encoders_spelling(how: str) -> None:
    """What JSON and URL encoders make of a key is hidden like the key."""

    async def main() -> None:
        async with scripted() as upstream, living(settings(upstream), SECRET=AWKWARD) as house:
            for sent in (
                request("chat", "m", stream=False, headers={"x-echo": how}),
                request("messages", "m", stream=True, headers={"x-echo": how}),
                post("/v1/embeddings", b"{}", {"x-echo": how}),
            ):
                answer = await house.ask(sent)
                everything = bytes(answer.body) + b"".join(name + value for name, value in answer.headers)
                assert b"4567" not in everything, sent
                assert b"*" * len(AWKWARD) in everything, sent

    run(main())


def test_callers_ask_for_any_coding_where_there_is_no_key_to_hide() -> None:
    """Without a key of its own an upstream's coded answer passes as it comes, on a forwarded path."""

    async def main() -> None:
        async with scripted() as upstream:
            keyless = settings(upstream).replace('api_key_env = "SECRET"\n', "")
            async with living(keyless) as house:
                said = {"x-echo": "br", "Accept-Encoding": "br"}
                answer = await house.ask(post("/v1/embeddings", b"{}", said))
                assert (answer.status, answer.header(b"content-encoding")) == (200, b"br")
            async with living(settings(upstream), SECRET=SECRET) as house:
                await house.ask(post("/v1/embeddings", b"{}", said))
            first, second = (sent.lower() for sent in upstream.seen["all"].requests)
            assert b"\r\naccept-encoding: br\r\n" in first
            assert b"\r\naccept-encoding: identity\r\n" in second

    run(main())
