"""Which headers go which way, and which stay here. Pure: lists in, lists out."""

from typing import Final

from gateway.calls import OURS, HeaderList
from gateway.mask import spellings
from gateway.words import DialectName

RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer".split()
    + b"transfer-encoding upgrade".split()
)
"""RFC 9110, 7.6.1; with every name that `Connection` lists."""
CREDENTIALS: Final = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key"))
NOT_UPSTREAM: Final = HOP_BY_HOP | {
    b"host",
    b"content-length",
    b"expect",
    b"traceparent",
    b"tracestate",
    b"baggage",
    b"http2-settings",
}
NOT_JUDGED: Final = NOT_UPSTREAM | {b"accept-encoding"}
"""A judged call asks for an answer that can be read."""
NOT_DECODED: Final = HOP_BY_HOP | {b"content-encoding"}
ALONE: Final = frozenset((b"keep-alive", b"close"))
"""What `Connection` says as a rule: no name of a header that would pass without it."""
IDENTITY: Final = (b"accept-encoding", b"identity")
KEY_PARAMETER: Final = b"key"


def to_upstream(headers: HeaderList, *, judged: bool, drop: frozenset[bytes], own: HeaderList) -> RawHeaders:
    """The request's headers as they go on. `drop`: credentials that are ours or replaced; `own`: what is added.

    `judged`: the body of the answer will be looked at, so it is asked for without a coding.
    """
    gone = NOT_JUDGED if judged else NOT_UPSTREAM
    sent = _passing(headers, gone | drop if drop else gone)
    if judged:
        sent.append(IDENTITY)
    sent.extend(own)
    return sent


def to_caller(headers: HeaderList, *, decoded: bool, length: int | None, secret: bytes | None) -> RawHeaders:
    """The answer's headers as they go back. `decoded`: its content coding is undone; `length` None: as it came."""
    sent = _passing(headers, NOT_DECODED if decoded else HOP_BY_HOP)
    if secret is not None:
        for spelt in spellings(secret):
            sent = [pair for pair in sent if spelt not in pair[1]]
    if length is not None:
        sent = [pair for pair in sent if pair[0] != b"content-length"]
        sent.append((b"content-length", b"%d" % length))
    return sent


def credential(dialect: DialectName, secret: bytes) -> tuple[bytes, bytes]:
    """An upstream's own key in the dialect's place for it."""
    if dialect == "messages":
        return (b"x-api-key", secret)
    if dialect == "gemini":
        return (b"x-goog-api-key", secret)
    return (b"authorization", b"Bearer " + secret)


def presented_keys(headers: HeaderList, query: bytes) -> RawHeaders:
    """Every place a caller may have put a key, with the key; the query parameter goes by the name `?key`."""
    found = []
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer":
                found.append((name, token.strip()))
        elif name in CREDENTIALS:
            found.append((name, value.strip()))
    found.extend((b"?key", value) for name, value in _parameters(query) if name == KEY_PARAMETER)
    return found


def without_key(query: bytes) -> bytes:
    """The query without its `key` parameter, the others as they came."""
    return b"&".join(part for part in query.split(b"&") if part.partition(b"=")[0] != KEY_PARAMETER)


def _parameters(query: bytes) -> RawHeaders:
    return [(name, value) for name, _, value in (part.partition(b"=") for part in query.split(b"&") if part)]


def _passing(headers: HeaderList, gone: frozenset[bytes]) -> RawHeaders:
    """Without these, those that `Connection` names, and our own; one look at all of them tells when there are none."""
    values = dict(headers)
    connection = values.get(b"connection")
    if connection is not None and not (connection in ALONE and len(values) == len(headers)):
        gone = gone | _named_by_connection(headers)
    if b" ".join(values).find(OURS) >= 0:
        return [pair for pair in headers if pair[0] not in gone and not pair[0].startswith(OURS)]
    return [pair for pair in headers if pair[0] not in gone]


def _named_by_connection(headers: HeaderList) -> frozenset[bytes]:
    named = [value for name, value in headers if name == b"connection"]
    return frozenset([token.strip().lower() for value in named for token in value.split(b",")])
