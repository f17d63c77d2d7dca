"""The reported case over real sockets, in every dialect: an adapter further on puts MINIMAL in, the model refuses it."""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import httpx
import pytest
from msgspec import Struct

from gateway.words import DialectName
from tests.gateway.dialects.wires import wire
from tests.running import LIMIT_SECONDS, Running, Sample, running

REFUSAL: Final = (
    b'{ "error" : {"code": 400, "message": "Thinking level is unsupported: THINKING_LEVEL_MINIMAL",\n'
    b' "status": "INVALID_ARGUMENT"} }'
)
ANSWERS: Final[dict[DialectName, tuple[str, str]]] = {
    "chat": ("openai.json", "openai.sse"),
    "responses": ("text.json", "text.sse"),
    "messages": ("text.json", "text.sse"),
    "gemini": ("thoughts.json", "thoughts.sse"),
}
"""What the model says at a level that it takes: whole, streamed."""
PATHS: Final[dict[DialectName, str]] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/{model}:{method}",
}
SENT: Final[dict[DialectName, dict[str, Any]]] = {
    "chat": {"reasoning_effort": "minimal"},
    "responses": {"reasoning": {"effort": "minimal"}},
    "messages": {"output_config": {"effort": "minimal"}},
    "gemini": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}},
}
ASKED: Final[dict[DialectName, dict[str, Any]]] = {
    "chat": {"messages": [], "stream_options": {"include_usage": True}},
    "responses": {"input": "hi"},
    "messages": {"messages": [], "max_tokens": 999},
    "gemini": {"contents": []},
}
ALL: Final = [(dialect, streamed, sent) for dialect in ANSWERS for streamed in (False, True) for sent in (True, False)]
FORMS: Final = [
    pytest.param(*cell, id=f"{cell[0]}, {'streamed' if cell[1] else 'whole'}, {'minimal' if cell[2] else 'none'} sent")
    for cell in ALL
]


class Upstream(ThreadingHTTPServer):
    """Takes `low` and `high`; anything else, no level too, it refuses as MINIMAL. `bodies` are by model."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: defaultdict[str, list[Any]] = defaultdict(list)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Upstream
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer one call."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        called = re.search(r"/models/([^:]+):(\w+)", self.path)
        model = called[1] if called else body["model"]
        self.server.bodies[model].append(body)
        dialect: DialectName = next(name for name in ANSWERS if model.startswith(name))
        streamed = called[2] == "streamGenerateContent" if called else body.get("stream", False)
        taken = any(f'"{level}"' in json.dumps(body).lower() for level in ("low", "high"))
        data = wire(dialect, ANSWERS[dialect][streamed]).data if taken else REFUSAL
        self.send_response(200 if taken else 400)
        self.send_header("content-type", "text/event-stream" if taken and streamed else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Nothing is logged."""


def model_of(dialect: DialectName, *what: object) -> str:
    """A model of a cell's own, so that its counters and memory are too."""
    return "-".join((dialect, *(str(one).lower() for one in what)))


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """The upstream, serving."""
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(LIMIT_SECONDS)


class Cell(Struct, frozen=True):
    """What came of two calls of one form: the answers, what was asked, what the upstream got, what was counted."""

    answers: list[httpx.Response]
    body: dict[str, Any]
    sent: list[Any]
    counts: dict[str, float]


@pytest.fixture(scope="module")
def cells(upstream: Upstream) -> dict[str, Cell]:
    """Every form, in scope and out of it, through one gateway process: metrics of many models are slow to read."""
    address = f"http://127.0.0.1:{upstream.server_address[1]}"
    settings = f'[upstreams.up]\nurl = "{address}"\ndialects = {json.dumps(list(ANSWERS))}\n'
    forms = [(model_of(*form, scope), form, scope) for form in ALL for scope in ("in", "out")]
    for model, _, _ in forms:
        settings += f'[models."{model}"]\nupstream = "up"\nlevels = ["low", "high"]\n'
    with running(settings) as gateway:
        asked = {model: [ask(gateway, model, *form, scope) for _ in range(2)] for model, form, scope in forms}
        samples = gateway.metrics()
    return {
        model: Cell([answer for answer, _ in came], came[0][1], upstream.bodies[model], counts(samples, model))
        for model, came in asked.items()
    }


def ask(
    gateway: Running, model: str, dialect: DialectName, streamed: bool, sent: bool, scope: str
) -> tuple[httpx.Response, dict[str, Any]]:
    """Ask; the answer and what was asked."""
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    body = ASKED[dialect] | (SENT[dialect] if sent else {})
    if dialect != "gemini":
        body |= {"model": model, "stream": streamed}
    headers = {"x-thinkcap-purpose": "compaction"} if scope == "in" else {}
    url = gateway.url + PATHS[dialect].format(model=model, method=method)
    return httpx.post(url, json=body, headers=headers, timeout=LIMIT_SECONDS, trust_env=False), body


def counts(samples: dict[Sample, float], model: str) -> dict[str, float]:
    """What a model's counters of calls, refusals, retries and preempted calls say, by all their labels but the model."""
    names = {f"thinkcap_{name}_total" for name in ("requests", "level_refusals", "level_retries", "level_preempted")}
    left_out = {"model", "upstream", "dialect"}
    return {
        " ".join((name, *sorted(value for label, value in labels if label not in left_out))): value
        for (name, labels), value in samples.items()
        if name in names and ("model", model) in labels and value
    }


@pytest.mark.parametrize(("dialect", "streamed", "sent"), FORMS)
def test_in_scope(cells: dict[str, Cell], dialect: DialectName, streamed: bool, sent: bool) -> None:
    """The call goes out once more with the nearest declared level, the next one with it at once; answers alone are seen."""
    cell = cells[model_of(dialect, streamed, sent, "in")]
    for answer in cell.answers:
        assert answer.status_code == 200
        assert answer.content == wire(dialect, ANSWERS[dialect][streamed]).data
        assert answer.headers["x-thinkcap-level"] == "minimal->low"
    low = cell.body | json.loads(json.dumps(SENT[dialect]).replace("minimal", "low").replace("MINIMAL", "LOW"))
    assert cell.sent == [cell.body, low, low]
    assert cell.counts == {
        "thinkcap_requests_total ok": 2,
        "thinkcap_level_refusals_total compaction minimal": 1,
        "thinkcap_level_retries_total compaction low minimal ok": 1,
        "thinkcap_level_preempted_total compaction low minimal": 1,
    }


@pytest.mark.parametrize(("dialect", "streamed", "sent"), FORMS)
def test_an_ordinary_turn(cells: dict[str, Cell], dialect: DialectName, streamed: bool, sent: bool) -> None:
    """Out of scope the refusal comes back byte for byte, and is counted, each time anew."""
    cell = cells[model_of(dialect, streamed, sent, "out")]
    for answer in cell.answers:
        assert (answer.status_code, answer.content) == (400, REFUSAL)
        assert "x-thinkcap-level" not in answer.headers
    assert cell.sent == [cell.body, cell.body]
    assert cell.counts == {
        "thinkcap_requests_total upstream_error": 2,
        "thinkcap_level_refusals_total conversation minimal": 2,
    }
