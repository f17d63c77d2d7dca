"""The runner's own judgement: each planted difference is found, and nothing is found where there is none."""

import base64
import gzip

import pytest

from tests.cases.exact import Json, as_written, compare, drop, lookup, parse, put
from tests.cases.gateway_process import Answer
from tests.cases.server import Call, body_of, decoded, pieces
from tests.cases.telemetry_text import Series, Span, SpanEvent, read_metrics, read_spans
from tests.cases.verdicts import check_body, check_client, check_stream
from tests.cases.verdicts_telemetry import check_counters, check_spans
from tests.cases.verdicts_upstream import check_call, check_calls
from tests.cases.wire import read_events

STREAM = b': hello\n\ndata: {"a":1.0,"b":"x"}\n\nevent: end\ndata: {"a":20}\n\ndata: [DONE]\n\n'
BODY = b'{"id":"c1","n":12345678901234567890,"x":1.0}'


def test_events_are_read_with_any_line_end() -> None:
    """CR, LF and CRLF end lines, a byte order mark is skipped, and a torn last event is not whole."""
    events, comments = read_events(b"\xef\xbb\xbf:c\rdata: 1\r\rdata:2\r\ndata: 3\r\n\r\nevent: e\ndata: 4")
    assert [(e.name, e.data, e.whole) for e in events] == [(None, "1", True), (None, "2\n3", True), ("e", "4", False)]
    assert comments == [b"c"]
    assert [e.end for e in events] == [15, 34, 50]


@pytest.mark.parametrize(
    ("want", "have", "says"),
    [
        ("1.0", "1", "body is 1, want 1.0"),
        ('{"a":1}', "{}", "body.a is gone"),
        ("{}", '{"a":1}', "body.a was added"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', "body: keys in another order"),
        ('{"a":[1,{"b":2}]}', '{"a":[1,{"b":3}]}', "body.a.1.b is 3, want 2"),
        ("[1,2]", "[1]", "body is ['1'], want ['1', '2']"),
        ('"1"', "1", "body is 1, want '1'"),
        ("12345678901234567890", "12345678901234567000", "body is 12345678901234567000, want 12345678901234567890"),
    ],
)
def test_json_is_compared_as_written(want: str, have: str, says: str) -> None:
    """Spelling, presence, order and type of a value are part of it."""
    assert compare(parse(want), parse(have)) == [says]
    assert compare(parse(want), parse(want)) == []


def test_a_subset_may_leave_things_out() -> None:
    """Where only parts are named, more may be there, and `@` words match."""
    have = as_written({"a": 1, "type": "Timeout_Error", "list": [1, 2]})
    assert compare(as_written({"type": "@ci:timeout_error", "list": [1]}), have, subset=True) == []
    assert compare(as_written({"type": "@any:x|y"}), have, subset=True) != []
    assert compare(as_written({"type": "@text"}), have, subset=True) == []


def test_dotted_paths_reach_into_lists_and_objects() -> None:
    """A path reads, sets and takes out a value; objects on the way are made."""
    root: Json = {"a": [{"b": 1}]}
    put(root, "a.0.c.d", 2)
    assert lookup(root, "a.0.c.d") == 2
    assert drop(root, "a.0.b")
    assert not drop(root, "a.0.b")
    assert root == {"a": [{"c": {"d": 2}}]}
    assert lookup(root, "a.7") is None


def test_replies_are_cut_as_scripted() -> None:
    """A reply may be sent byte by byte, in blocks, event by event or at given offsets; packed ones are unpacked."""
    assert pieces({"split": "every_byte"}, b"abc") == ([b"a", b"b", b"c"], 0.0)
    assert pieces({"split": [1], "pause_at_split_s": 3}, b"abc") == ([b"a", b"bc"], 3)
    assert len(pieces({"pace_s": 0.1}, STREAM)[0]) == 3
    assert body_of({"json": {"a": [1, 2]}}) == b'{"a": [1,2]}'
    assert body_of({"body_text": "xTx", "expand": {"token": "T", "text": "ab", "times": 2}}) == b"xababx"
    packed = base64.b64encode(gzip.compress(b"hello")).decode()
    assert decoded({"body_base64": packed, "headers": {"content-encoding": "gzip"}}) == b"hello"


def stream_answer(body: bytes, ended: str = "complete") -> Answer:
    """An answer that came in one read, half a second after the request."""
    return Answer(200, {"content-type": "text/event-stream"}, body, [(0.5, len(body))], ended, 0.6)


@pytest.mark.parametrize(
    ("spec", "old", "new", "says"),
    [
        pytest.param({}, b"1.0", b"1", "event 0: bytes differ", id="a rounded number"),
        pytest.param({}, b": hello\n\n", b"", "comments", id="a lost comment"),
        pytest.param({}, b": hello\n\n", b": hello\n", "stream: bytes differ", id="a lost line end between events"),
        pytest.param({}, b"data: [DONE]\n\n", b"", "2 events, want 3", id="a lost last event"),
        pytest.param({}, b"event: end\n", b"event: fin\n", "name 'fin'", id="another event name"),
        pytest.param({"removed": [1]}, b"", b"", "3 events, want 2", id="an event that should be gone"),
        pytest.param({"strip": ["b"]}, b"", b"", "b was added", id="a field that should be gone"),
        pytest.param({"changes": [{"event": 0, "path": "b", "to": "y"}]}, b"", b"", "want 'y'", id="a change not made"),
        pytest.param({"ends": "error", "error_code": "x"}, b"", b"", "want an error", id="no error at the end"),
        pytest.param({"event_within_s": [[0, 0.1]]}, b"", b"", "came after 0.50 s", id="an event that came late"),
        pytest.param({"at_least": 1, "at_most": 2}, b"", b"", "3 events", id="more than may have been delivered"),
    ],
)
def test_a_stream_that_differs_is_told(spec: Json, old: bytes, new: bytes, says: str) -> None:
    """Each difference between the upstream's stream and the caller's is found."""
    problems = list(check_stream(spec, STREAM, stream_answer(STREAM.replace(old, new, 1))))
    assert any(says in problem for problem in problems), problems


def test_a_stream_as_wanted_passes() -> None:
    """Equal bytes pass, and so do exactly the named changes and an error at the end of a torn stream."""
    assert list(check_stream({}, STREAM, stream_answer(STREAM))) == []
    changed = STREAM.replace(b'"x"', b'"y"').replace(b'event: end\ndata: {"a":20}\n\n', b"")
    spec = {"changes": [{"event": 0, "path": "b", "to": "y"}], "removed": [1]}
    assert list(check_stream(spec, STREAM, stream_answer(changed))) == []
    torn = STREAM[: STREAM.index(b"event")] + b'data: {"error":{"code":"upstream_timeout"}}\n\n'
    spec = {"ends": "error", "error_code": "upstream_\\w+"}
    assert list(check_stream(spec, STREAM[: STREAM.index(b"0}")], stream_answer(torn, "cut"))) == []


def test_a_cut_stream_is_told() -> None:
    """A connection that broke is no clean end, though all events are there."""
    assert list(check_stream({}, STREAM, stream_answer(STREAM, "cut"))) == ["stream ended: cut, want complete"]


@pytest.mark.parametrize(
    ("spec", "have", "says"),
    [
        ({"same_as_upstream": True}, BODY.replace(b"1.0", b"1.00"), "bytes differ at 43"),
        ({"changes": [{"path": "id", "to": "c2"}]}, BODY, "body.id is 'c1', want 'c2'"),
        ({"changes": [{"path": "id", "to": "c1"}]}, BODY.replace(b"7890", b"7000"), "body.n is"),
        ({"json_contains": {"id": "c2"}}, BODY, "body.id"),
        ({"text_contains": ["c9"]}, BODY, "body lacks 'c9'"),
        ({"json_falsy": ["id"]}, BODY, "want nothing"),
    ],
)
def test_a_body_that_differs_is_told(spec: Json, have: bytes, says: str) -> None:
    """Each difference of a whole body is found."""
    (problem,) = check_body(spec, BODY, Answer(200, {}, have))
    assert says in problem


def test_status_and_headers_are_judged() -> None:
    """A wrong status ends the judgement; headers must be there with their value, or must not be there."""
    answer = Answer(200, {"content-type": "application/json; charset=utf-8", "x-key": "1"}, BODY)
    assert "status 200, want 404" in next(check_client({"status": 404}, [], answer))
    assert list(check_client({"status": 200, "headers": {"content-type": "application/json"}}, [], answer)) == []
    assert (
        len(list(check_client({"headers": {"x-key": "2", "x-no": "@text"}, "headers_absent": ["x-key"]}, [], answer)))
        == 3
    )


REQUEST: Json = {"method": "POST", "path": "/v1/x", "json": {"a": 1.0, "stream": True}}


def call(body: bytes, **headers: str) -> Call:
    """A call that the upstream was sent."""
    return Call("POST", "/v1/x", headers, body)


@pytest.mark.parametrize(
    ("spec", "sent", "says"),
    [
        ({"same_bytes": True}, call(b'{"a":1.0,"stream":true}'), "not the caller's"),
        ({"json_set": {"o.u": True}}, call(b'{"a": 1.0,"stream": true}'), "body.o.u is None, want True"),
        ({"json_set": {"o.u": True}}, call(b'{"a": 1,"stream": true,"o":{"u":true}}'), "body.a is 1, want 1.0"),
        ({"json_contains": {"a": 2}}, call(body_of(REQUEST)), "body.a"),
        ({"json_absent": ["a"]}, call(body_of(REQUEST)), "body has a"),
        ({"path": "/v2"}, call(body_of(REQUEST)), "want POST /v2"),
        ({"headers_absent": ["cookie"]}, call(b"", cookie="c"), "header cookie was sent on"),
        ({}, call(b"", **{"x-thinkcap-purpose": "p"}), "x-thinkcap-purpose was sent on"),
        ({"headers_contain": {"a": "b"}}, call(b""), "header a: None"),
        ({"headers_match": {"a": "b+"}}, call(b"", a="bc"), "want b+"),
        ({"nowhere": ["secret"]}, call(b"", b="a secret"), "'secret' was sent on"),
    ],
)
def test_a_call_that_differs_is_told(spec: Json, sent: Call, says: str) -> None:
    """Each difference between what the caller said and what the upstream was sent is found."""
    (problem,) = check_call(spec, REQUEST, sent)
    assert says in problem


def test_fields_that_were_set_may_stand_anywhere() -> None:
    """The caller's JSON with exactly the named values set passes, also when an object was made for one."""
    sent = call(b'{"o":{"u":true},"a": 1.0,"stream": true}')
    assert list(check_call({"json_set": {"o.u": True}}, REQUEST, sent)) == []


def test_number_and_moment_of_calls_are_judged() -> None:
    """Too few calls, a control call that came too early, and an upstream that was not let go are found."""
    assert list(check_calls({"request": REQUEST}, 1, [])) == ["0 upstream calls (), want 1"]
    control = {"expect": {"path": "/v1/control"}, "not_before_event": 2}
    early = Call("POST", "/v1/control", {}, b"", events_before=2)
    first = call(body_of(REQUEST))
    step = {"request": REQUEST, "exchanges": [control], "upstream_observes": {"closed_within_s": 1}}
    assert list(check_calls(step, 1, [first, early])) == [
        "upstream call 1 came after 2 events, want at least 3",
        "upstream was closed after None s and 0 events, want {'closed_within_s': 1}",
    ]


SCRAPE = (
    '# TYPE thinkcap_x counter\nthinkcap_x_total{a="1",b="}\\""} %d\nthinkcap_requests_total{outcome="ok"} %d 12.5\n'
)


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ({"counters": {'thinkcap_x_total{a="1"}': 2}}, "moved 1, want 2"),
        ({}, "want no move"),
        ({"counters": {"thinkcap_x_total": 1, 'thinkcap_requests_total{outcome="bad"}': 0}}, "want no move"),
        ({"counters": {"thinkcap_x_total": 1}, "exact": True}, "thinkcap_requests_total"),
        ({"counters": {"thinkcap_x_total": 1}, "exists_at_zero": ["thinkcap_y_total"]}, "not at zero"),
        ({"counters": {"thinkcap_x_total": 1}, "no_series_with": ["ok"]}, "stands in a label"),
    ],
)
def test_counters_that_differ_are_told(expect: Json, says: str) -> None:
    """A wrong movement, one that nobody expects, a missing series and a forbidden label are found."""
    (problem,) = check_counters(expect, read_metrics(SCRAPE % (0, 1)), read_metrics(SCRAPE % (1, 2)))
    assert says in problem


def test_counters_as_wanted_pass() -> None:
    """Labels that are not named are summed, `a|b` takes either, and the common counters are free."""
    before, after = read_metrics(SCRAPE % (0, 1)), read_metrics(SCRAPE % (3, 2))
    expect = {"counters": {'thinkcap_x_total{a="1|2"}': 3}, "exists_at_zero": ["thinkcap_x_total"]}
    assert list(check_counters(expect, before, after)) == []
    assert str(Series.parse('m{b="2",a="1"}')) == 'm{a="1",b="2"}'


def test_spans_are_judged() -> None:
    """A missing span, a missing or surplus event and a wrong attribute are found."""
    event = SpanEvent("thinkcap.thinking_cap.fired", {"thinkcap.cap": 50, "tokens": 51})
    span = Span("POST", 2, {"thinkcap.outcome": "ok"}, [event])
    wanted = {"name": "thinkcap.thinking_cap.fired", "cap": 50}
    assert list(check_spans({"events": [wanted], "span": {"thinkcap.outcome": "ok"}}, 1, [span])) == []
    assert list(check_spans({"events": [wanted, {"name": "x", "optional": True}]}, 1, [span])) == []
    assert list(check_spans({}, 1, [span])) == []
    assert list(check_spans({}, 2, [span])) == ["1 server spans, want 2"]
    assert "want none" in next(check_spans({"events": []}, 1, [span]))
    assert "not among" in next(check_spans({"events": [wanted | {"cap": 49}, "any"]}, 1, [span]))
    assert "span attribute" in next(check_spans({"span": {"thinkcap.outcome": "bad"}}, 1, [span]))


def test_exported_spans_are_read() -> None:
    """The reader of OTLP agrees with the encoder of the SDK's own exporter."""
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    request = proto.ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="POST", kind=2, start_time_unix_nano=1 << 60)
    span.attributes.add(key="n").value.int_value = 300
    span.attributes.add(key="ok").value.bool_value = True
    span.events.add(name="thinkcap.x", time_unix_nano=5).attributes.add(key="s").value.string_value = "é"
    (read,) = read_spans(request.SerializeToString())
    assert read == Span("POST", 2, {"n": 300, "ok": True}, [SpanEvent("thinkcap.x", {"s": "é"})])
