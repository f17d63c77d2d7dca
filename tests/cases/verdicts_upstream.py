"""Judges what the upstream was sent: how many calls, when, and that they say what the caller said."""

import re
from collections.abc import Iterator

from tests.cases.exact import Json, as_written, bytes_differ, compare, drop, lookup, parse, short
from tests.cases.server import Call, body_of


def check_calls(step: Json, requests: int, calls: list[Call]) -> Iterator[str]:
    """All calls of a step. With several requests only their number is judged."""
    specs = [{"expect": step.get("upstream_request", {})}, *step.get("exchanges", [])]
    count = step.get("upstream_calls", len(specs)) * requests
    if len(calls) != count:
        yield f"{len(calls)} upstream calls ({', '.join(call.path for call in calls)}), want {count}"
    pools = {control: [call for call in calls if call.is_control == control] for control in (True, False)}
    for number, exchange in enumerate(specs if requests == 1 else []):
        spec = exchange.get("expect", {})
        if pool := pools[spec.get("path", "").endswith("/control")]:
            call = pool.pop(0)
            yield from (f"upstream call {number}: {d}" for d in check_call(spec, step["request"], call))
            earliest = exchange.get("not_before_event", -1)
            if call.events_before <= earliest:
                yield f"upstream call {number} came after {call.events_before} events, want at least {earliest + 1}"
    if calls and (observes := step.get("upstream_observes")):
        yield from _check_departure(observes, calls[0])


def _check_departure(observes: Json, call: Call) -> Iterator[str]:
    limit = observes.get("closed_within_s")
    late = limit is not None and (call.closed_after is None or call.closed_after > limit)
    if late or call.events_sent >= observes.get("events_sent_below", float("inf")):
        yield f"upstream was closed after {call.closed_after} s and {call.events_sent} events, want {observes}"


def check_call(spec: Json, request: Json, call: Call) -> Iterator[str]:
    """One call: method and path, body, headers, and the words that may stand nowhere in it."""
    method, path = spec.get("method", request["method"]), spec.get("path", request["path"])
    if (call.method, call.path) != (method, path):
        yield f"went to {call.method} {call.path}, want {method} {path}"
    yield from _check_sent_body(spec, body_of(request), call.body)
    yield from _check_sent_headers(spec, call)
    everything = "\n".join([call.path, call.body.decode("utf-8", "replace"), *call.headers.values()])
    yield from (f"{word!r} was sent on" for word in spec.get("nowhere", []) if word in everything)


def _check_sent_body(spec: Json, ours: bytes, sent: bytes) -> Iterator[str]:
    have = parse(sent)
    if spec.get("same_bytes"):
        yield from (f"body is not the caller's: {d}" for d in bytes_differ(ours, sent))
    if "json_set" in spec:
        yield from _check_set(spec["json_set"], parse(ours), parse(sent))
    if "json_contains" in spec:
        yield from compare(as_written(spec["json_contains"]), have, subset=True)
    yield from (f"body has {path}" for path in spec.get("json_absent", []) if lookup(have, path) is not None)


def _check_set(changes: Json, want: Json, have: Json) -> Iterator[str]:
    """The caller's JSON with exactly these values set; where a new key stands is free."""
    for path, value in changes.items():
        found = lookup(have, path)
        if found != as_written(value):
            yield f"body.{path} is {short(found)}, want {value!r}"
        drop(want, path)
        drop(have, path)
    made_for_it = [key for key, value in (have or {}).items() if value == {} and key not in want]
    for key in made_for_it:
        drop(have, key)
    yield from compare(want, have)


def _check_sent_headers(spec: Json, call: Call) -> Iterator[str]:
    have = call.headers
    for name, value in spec.get("headers_contain", {}).items():
        if have.get(name) != value:
            yield f"header {name}: {have.get(name)!r}, want {value!r}"
    for name, pattern in spec.get("headers_match", {}).items():
        if not re.fullmatch(pattern, have.get(name, "")):
            yield f"header {name}: {have.get(name)!r}, want {pattern}"
    for name in have:
        if name in spec.get("headers_absent", []) or name.startswith("x-thinkcap-"):
            yield f"header {name} was sent on"
