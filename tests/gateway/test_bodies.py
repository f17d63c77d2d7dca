"""Bodies on their way: put together from a stream, without a key that was quoted, with the status of an error."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bodies import REDACTED, Parts, chain, redacted, status_of
from tests.gateway.plays import chunk, text


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    """A body in pieces."""
    for part in parts:
        yield part


async def joined(chunks: AsyncIterator[bytes]) -> bytes:
    """All of a body."""
    return b"".join([chunk async for chunk in chunks])


def test_a_body_of_parts() -> None:
    """Frames become one body, also the last one when no blank line ends it."""

    async def main() -> bytes:
        parts = Parts()
        await parts.start()
        await parts.write(text("a") + text("b")[:20])
        await parts.write(text("b")[20:] + chunk(finish="stop").rstrip())
        assert parts.error is None
        return parts.body()

    choice = msgspec.json.decode(asyncio.run(main()))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("ab", "stop")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (b'{"error":{"code":429}}', 429),
        (b'{"error":{"code":"429"}}', 500),
        (b'{"error":{"code":200}}', 500),
        (b'{"error":{"code":true}}', 500),
        (b'{"error":{}}', 500),
        (b'{"error":"no"}', 500),
        (b"[]", 500),
        (b"{", 500),
    ],
    ids=["says it", "says it as text", "is no error's", "is a boolean", "says none", "is a text", "is a list", "is no JSON"],
)  # fmt: skip
def test_the_status_of_an_error(error: bytes, status: int) -> None:
    """The code of an error that came in a stream is its status where it is one, else 500."""
    assert status_of(error) == status


@given(st.lists(st.binary(max_size=6) | st.sampled_from([b"key", b"ke", b"y"]), max_size=8))
def test_a_key_never_passes(parts: list[bytes]) -> None:
    """However the body is cut, the key is not in it, and the rest is."""
    body = asyncio.run(joined(redacted(pieces(*parts), b"key")))
    assert body == b"".join(parts).replace(b"key", REDACTED)


def test_a_chain() -> None:
    """What was read already, then the rest."""
    assert asyncio.run(joined(chain([b"a", b"b"], pieces(b"c")))) == b"abc"
