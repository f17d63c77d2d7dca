"""Judges what the caller got: each check yields the differences it finds between an answer and what its case expects.

What need not change must be the upstream's very bytes. What was rewritten is compared as JSON with numbers as written
and keys in order, so that a lost field, a rounded integer or a sorted object shows.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.cases.exact import Json, as_written, bytes_differ, compare, drop, lookup, parse, put, short
from tests.cases.gateway_process import ANSWER_LIMIT, Answer
from tests.cases.server import Call, decoded
from tests.cases.wire import Event, read_events


class Wanted(NamedTuple):
    """An event as the caller should get it: the upstream's own, or with this JSON in place of its data."""

    event: Event
    rewritten: Json = None


def check_client(client: Json, calls: list[Call], answer: Answer) -> Iterator[str]:
    """The whole answer: status, headers, body or stream, time. A caller who left is asked nothing more."""
    if answer.ended == "left":
        return
    if answer.status != client.get("status", answer.status):
        yield f"status {answer.status}, want {client['status']}: {short(answer.text)}"
        return
    yield from _check_headers(client, answer)
    spec = client.get("stream") or client.get("body") or {}
    number = spec.get("of_exchange", 0)
    source = decoded(calls[number].reply) if number < len(calls) and calls[number].reply else b""
    if spec:
        yield from (check_stream if "stream" in client else check_body)(spec, source, answer)
    limit = spec.get("within_s", ANSWER_LIMIT)
    if answer.ended == "late" or answer.took > limit:
        yield f"answer took {answer.took:.1f} s ({answer.ended}), want {limit} s"


def _check_headers(client: Json, answer: Answer) -> Iterator[str]:
    for name, value in client.get("headers", {}).items():
        have = answer.headers.get(name)
        fits = have is not None and (
            value in ("@text", have) or (name == "content-type" and have.startswith(f"{value};"))
        )
        if not fits:
            yield f"header {name}: {have!r}, want {value!r}"
    for name in client.get("headers_absent", []):
        if answer.headers.get(name):
            yield f"header {name}: {answer.headers[name]!r}, want none"


def check_body(spec: Json, source: bytes, answer: Answer) -> Iterator[str]:
    """A whole body: the upstream's bytes, or its JSON with exactly the named changes, or the named parts."""
    have = parse(answer.text)
    if changes := spec.get("changes"):
        want = parse(source)
        for change in changes:
            put(want, change["path"], as_written(change["to"]))
        yield from compare(want, have)
    elif spec.get("same_as_upstream"):
        yield from (f"body: {d}" for d in bytes_differ(source, answer.body))
    if "json_contains" in spec:
        yield from compare(as_written(spec["json_contains"]), have, subset=True)
    for words in spec.get("text_contains", []):
        if words not in answer.text:
            yield f"body lacks {words!r}: {short(answer.text)}"
    for path in spec.get("json_falsy", []):
        if found := lookup(have, path):
            yield f"body: {path} is {short(found)}, want nothing"


def check_stream(spec: Json, source: bytes, answer: Answer) -> Iterator[str]:
    """An event stream against the upstream's: the same events in the same bytes, save what the case names."""
    events, comments = read_events(answer.body)
    wanted = wanted_events(spec, source)
    wanted, events, problems = _take_ending(spec, wanted, events)
    yield from problems
    if "at_most" in spec:  # the caller may have been cut off anywhere between these two
        enough = spec["at_least"] <= len(events) <= spec["at_most"]
        wanted = wanted[: len(events) if enough else spec["at_least"]]
    for number, (want, have) in enumerate(zip(wanted, events, strict=False)):
        yield from (f"event {number}: {d}" for d in event_differs(want, have))
    clean = spec.get("ends", "clean") == "clean"
    if len(events) != len(wanted):
        odd = [*events[len(wanted) :], *(want.event for want in wanted[len(events) :])][0]
        yield f"stream: {len(events)} events, want {len(wanted)}; the first too many or missing: {short(odd.data)}"
    elif clean and not spec.get("own_comments"):
        yield from _check_between(spec, source, answer, comments)
    yield from _check_moments(spec, answer)
    if clean and answer.ended != "complete":
        yield f"stream ended: {answer.ended}, want complete"


def wanted_events(spec: Json, source: bytes) -> list[Wanted]:
    """The upstream's events with the changes, strips and removals of the case."""
    wanted = [Wanted(event) for event in read_events(source)[0]]
    for change in spec.get("changes", []):
        event, value = wanted[change["event"]]
        if change["path"] == "@event":
            event = event._replace(name=change["to"])
        else:
            value = value or parse(event.data)
            put(value, change["path"], as_written(change["to"]))
        wanted[change["event"]] = Wanted(event, value)
    for number, (event, value) in enumerate(wanted):
        stripped = value or parse(event.data)
        if any([drop(stripped, path) for path in spec.get("strip", [])]):  # noqa: C419 - every path is taken out
            wanted[number] = Wanted(event, stripped)
    return [want for number, want in enumerate(wanted) if number not in spec.get("removed", [])]


def event_differs(want: Wanted, have: Event) -> list[str]:
    """Where an event is not the one that was wanted."""
    if want.event.name != have.name:
        return [f"name {have.name!r}, want {want.event.name!r}"]
    if want.rewritten is not None:
        return compare(want.rewritten, parse(have.data), "data")
    if want.event.whole:
        return bytes_differ(want.event.raw, have.raw)
    return compare(want.event.data, have.data, "data")


def _take_ending(spec: Json, wanted: list[Wanted], events: list[Event]) -> tuple[list[Wanted], list[Event], list[str]]:
    """Both lists without the error event that the gateway ends a broken stream with, and what is wrong with that."""
    if spec.get("ends") == "error":
        last = events[-1].data if events else "nothing"
        told = parse(last) is not None and "error" in last and re.search(rf'"({spec["error_code"]})"', last)
        problems = [] if told else [f"stream ends with {short(last)}, want an error with code {spec['error_code']}"]
        wanted, events = [want for want in wanted if want.event.whole or _is_sound(want.event)], events[:-1]
        torn = spec.get("half_event") and len(events) > len(wanted) and not _is_sound(events[-1])
        return wanted, events[:-1] if torn else events, problems
    if spec.get("ends") == "any" and len(events) > len(wanted) and "error" in events[-1].data:
        return wanted, events[:-1], []
    return wanted, events, []


def _is_sound(event: Event) -> bool:
    return event.data == "[DONE]" or parse(event.data) is not None


def _check_between(spec: Json, source: bytes, answer: Answer, comments: list[bytes]) -> Iterator[str]:
    """What stands between events: comments survive, and a stream that nothing changes is equal to the last byte."""
    theirs = read_events(source)[1]
    if comments != theirs:
        yield f"comments: {short(comments)}, want {short(theirs)}"
    elif not any(spec.get(change) for change in ("changes", "removed", "strip")):
        yield from (f"stream: {d}" for d in bytes_differ(source, answer.body))


def _check_moments(spec: Json, answer: Answer) -> Iterator[str]:
    for number, limit in spec.get("event_within_s", []):
        times = (time for time, size in answer.marks if len(read_events(answer.body[:size])[0]) > number)
        seen = next(times, float("inf"))
        if seen > limit:
            yield f"event {number} came after {seen:.2f} s, want within {limit} s"
