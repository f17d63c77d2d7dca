"""Which headers go on, which come back, and which stay."""

import pytest

from gateway.headers import CREDENTIALS, credential, presented_keys, to_caller, to_upstream, without_key

REQUEST = (
    (b"host", b"gateway"),
    (b"authorization", b"Bearer caller"),
    (b"connection", b"keep-alive, X-Hop"),
    (b"x-hop", b"1"),
    (b"content-length", b"2"),
    (b"accept-encoding", b"gzip"),
    (b"traceparent", b"00-1-2-01"),
    (b"baggage", b"user=1"),
    (b"x-thinkcap-purpose", b"compaction"),
    (b"x-custom", b"a"),
    (b"x-custom", b"b"),
)


def test_a_request_goes_on_without_what_is_ours() -> None:
    """Hop-by-hop headers, ours and the trace stay; unknown ones pass, repeated ones too."""
    sent = to_upstream(REQUEST, judged=True, drop=frozenset(), own=((b"x-own", b"1"),))
    assert sent == [
        (b"authorization", b"Bearer caller"),
        (b"x-custom", b"a"),
        (b"x-custom", b"b"),
        (b"accept-encoding", b"identity"),
        (b"x-own", b"1"),
    ]


def test_a_forwarded_request_keeps_its_codings() -> None:
    """Only answers that are read have to be plain."""
    assert (b"accept-encoding", b"gzip") in to_upstream(REQUEST, judged=False, drop=CREDENTIALS, own=())
    assert not any(name == b"authorization" for name, _ in to_upstream(REQUEST, judged=False, drop=CREDENTIALS, own=()))


def test_an_answer_comes_back_without_what_is_the_hops() -> None:
    """The length is ours, the coding is undone, and nothing that quotes the upstream's key passes."""
    came = (
        (b"content-type", b"application/json"),
        (b"connection", b"X-Up-Hop"),
        (b"x-up-hop", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"content-length", b"99"),
        (b"content-encoding", b"gzip"),
        (b"x-debug", b"Bearer s3cret"),
        (b"x-thinkcap-level", b"a->b"),
        (b"retry-after", b"2"),
    )
    assert to_caller(came, decoded=True, length=7, secret=b"s3cret") == [
        (b"content-type", b"application/json"),
        (b"retry-after", b"2"),
        (b"content-length", b"7"),
    ]


@pytest.mark.parametrize(
    ("said", "passes"),
    [
        pytest.param((b"keep-alive",), True, id="keep-alive names no header"),
        pytest.param((b"X-Hop",), False, id="a name"),
        pytest.param((b"keep-alive, x-hop",), False, id="a name behind keep-alive"),
        pytest.param((b"x-hop", b"keep-alive"), False, id="a name in a header before keep-alive"),
        pytest.param((b"close", b"x-hop"), False, id="a name in a header behind close"),
    ],
)
def test_what_connection_names_stays(said: tuple[bytes, ...], *, passes: bool) -> None:
    """However often it stands there, and whichever way the header goes."""
    hop = (b"x-hop", b"1")
    headers = (hop, *((b"connection", value) for value in said))
    assert to_upstream(headers, judged=False, drop=frozenset(), own=()) == [hop] * passes
    assert to_caller(headers, decoded=False, length=None, secret=None) == [hop] * passes


def test_ours_stay_whatever_is_called_alike() -> None:
    """A name that only holds ours passes; each that begins with it does not."""
    alike = (b"a-x-thinkcap-b", b"1")
    headers = ((b"x-thinkcap-purpose", b"title"), alike, (b"X-Thinkcap-Facts".lower(), b"1"))
    assert to_upstream(headers, judged=False, drop=frozenset(), own=()) == [alike]
    assert to_caller(headers, decoded=False, length=None, secret=None) == [alike]


def test_an_untouched_answer_keeps_length_and_coding() -> None:
    """What is not read comes back as it came."""
    came = ((b"content-length", b"99"), (b"content-encoding", b"br"))
    assert to_caller(came, decoded=False, length=None, secret=None) == list(came)


def test_where_a_credential_goes() -> None:
    """Each dialect has its own place for a key."""
    assert credential("chat", b"k") == credential("responses", b"k") == (b"authorization", b"Bearer k")
    assert credential("messages", b"k") == (b"x-api-key", b"k")
    assert credential("gemini", b"k") == (b"x-goog-api-key", b"k")


def test_where_a_key_may_stand() -> None:
    """In four headers and in the query; other schemes of authorization hold none."""
    headers = (
        (b"authorization", b"Bearer a"),
        (b"authorization", b"Basic eA=="),
        (b"x-api-key", b"b"),
        (b"x-goog-api-key", b"c"),
        (b"api-key", b"d"),
    )
    places = [b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key", b"?key"]
    assert presented_keys(headers, b"alt=sse&key=e&") == list(zip(places, (b"a", b"b", b"c", b"d", b"e"), strict=True))


def test_the_query_without_its_key() -> None:
    """The other parameters stay as they were written."""
    assert without_key(b"alt=sse&key=e&x=%20") == b"alt=sse&x=%20"
