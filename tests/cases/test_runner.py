"""The runner from end to end, on a stand-in for the gateway that forwards everything and judges nothing."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.cases.exact import Json
from tests.cases.runner import Options, Verdict, grouped, requests_of, run
from tests.cases.server import Call, FakeUpstream

STAND_IN = """
import http.client, re, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

settings = Path(sys.argv[1]).read_text()
if "misspelt" in settings:
    sys.exit("error: server.misspelt is unknown")
upstream = re.search(r"127.0.0.1:(\\d+)", settings)[0]
calls = 0

class Forward(BaseHTTPRequestHandler):
    def do_POST(self):
        global calls
        calls += 1
        connection = http.client.HTTPConnection(upstream, timeout=5)
        connection.request("POST", self.path, self.rfile.read(int(self.headers["content-length"])))
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.end_headers()
        self.wfile.write(body)

class Metrics(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"thinkcap_requests_total{{outcome=\\"ok\\"}} {calls}\\n".encode())

doors = [ThreadingHTTPServer(("127.0.0.1", 0), door) for door in (Forward, Metrics)]
for door in doors:
    threading.Thread(target=door.serve_forever).start()
ports = [door.server_port for door in doors]
print(f"thinkcap ready on http://127.0.0.1:{ports[0]} metrics on http://127.0.0.1:{ports[1]}/metrics", flush=True)
"""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Options that start the stand-in, which exports no spans."""
    program = tmp_path / "stand_in.py"
    program.write_text(STAND_IN, encoding="utf-8")
    return Options(command=(sys.executable, str(program), "{settings}"), spans=False, settle_seconds=0.3)


def case(number: int, **parts: Json) -> Json:
    """A case whose upstream says `four` and whose caller should get just that."""
    reply = {"status": 200, "headers": {"content-type": "text/plain"}, "body_text": "four"}
    request = {"method": "POST", "path": "/v1/x", "json": {"a": 1}}
    counters = {'thinkcap_requests_total{outcome="ok"}': 1}
    expect = {"client": {"status": 200, "body": {"same_as_upstream": True}}, "counters": counters}
    whole = {"id": f"{number:03}", "settings": 'url = "@UPSTREAM@"', "request": request, "upstream": reply}
    return whole | {"upstream_request": {"same_bytes": True}, "expect": expect} | parts


def verdicts(cases: list[Json], options: Options) -> list[Verdict]:
    """Run cases and sort what came of them."""

    async def reach() -> list[Verdict]:
        return sorted([verdict async for verdict in run(cases, options)], key=lambda verdict: str(verdict.case["id"]))

    return asyncio.run(reach())


def test_a_case_passes_or_says_why_not(options: Options) -> None:
    """Cases on one gateway are judged each for itself, on the wire, on counters and on upstream calls."""
    whole = {"client": {"status": 200, "body": {"text_contains": ["five"]}}, "counters": {"thinkcap_requests_total": 1}}
    cases = [
        case(1),
        case(2, expect=whole),
        case(3, upstream_calls=2),
        case(4, expect={"counters": {"thinkcap_requests_total": 2}}),
        case(5),
    ]
    told = [verdict.differences for verdict in verdicts(cases, options)]
    assert told == [
        [],
        ["body lacks 'five': 'four'"],
        ["1 upstream calls (/v1/x), want 2"],
        ["counter thinkcap_requests_total{} moved 1, want 2"],
        [],
    ]


def test_later_steps_are_judged_too(options: Options) -> None:
    """What a later step finds is told with the number of that step."""
    assert verdicts([case(1, then=[case(2)])], options)[0].differences == []
    (verdict,) = verdicts([case(1, then=[case(2, upstream_request={"path": "/v1/z"})])], options)
    assert verdict.differences == ["step 1: upstream call 0: went to POST /v1/x, want POST /v1/z"]


@pytest.mark.parametrize(
    ("settings", "wanted", "says"),
    [
        pytest.param("misspelt", {"exit": 1, "says": ["server.misspelt"]}, [], id="refused as wanted"),
        pytest.param(
            "misspelt", {"exit": 2, "says": ["server.misspelt"]}, ["exit status 1, want 2"], id="another status"
        ),
        pytest.param(
            'url = "@UPSTREAM@"',
            {"exit": 2, "says": []},
            ["the gateway started, want a refusal"],
            id="started after all",
        ),
    ],
)
def test_a_refused_start_is_judged(options: Options, settings: str, wanted: Json, says: list[str]) -> None:
    """A gateway that must not start has to say why and end with its status."""
    (verdict,) = verdicts([case(1, settings=settings, start_fails=wanted)], options)
    assert verdict.differences == says


def test_a_gateway_that_does_not_come_up_fails_its_cases(options: Options) -> None:
    """Without a ready line every case of the group fails with what the gateway said."""
    found = verdicts([case(1, settings="misspelt"), case(2, settings="misspelt")], options)
    assert [len(verdict.differences) for verdict in found] == [1, 1]
    assert "server.misspelt is unknown" in found[0].differences[0]


def test_cases_share_a_gateway_unless_they_must_not() -> None:
    """Same settings are grouped, `fresh` ones stand alone, and a large group is cut into even parts."""
    cases = [case(number) for number in range(40)] + [case(40, fresh=True), case(41, settings="other")]
    assert sorted(len(group) for group in grouped(cases)) == [1, 1, 13, 13, 14]


def test_repeats_patch_the_request() -> None:
    """Each patch gives a request of its own; the case stays as it was."""
    step = case(1, repeat=[{}, {"json.a": 2}])
    assert [request["json"]["a"] for request in requests_of(step)] == [1, 2]
    assert step["request"]["json"]["a"] == 1


def test_a_control_call_takes_the_exchange_that_expects_one() -> None:
    """Calls and control calls may come in any order; each kind has its own queue, and an empty one answers 599."""
    upstream = FakeUpstream()
    first, control = {"reply": {"status": 200}}, {"reply": {"status": 201}, "expect": {"path": "/v1/x/control"}}
    upstream.script = [first, control]
    assert upstream._next(Call("POST", "/v1/x/control", {}, b"")) is control
    assert upstream._next(Call("POST", "/v1/x/control", {}, b""))["reply"]["status"] == 599
    assert upstream._next(Call("POST", "/v1/x", {}, b"")) is first
    assert upstream._next(Call("POST", "/v1/x", {}, b""))["reply"]["status"] == 599
