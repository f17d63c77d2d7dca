"""The scripted server over real HTTP: it does what its scripts claim."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from gateway import sse
from gateway.demo.asked import Wish, read
from gateway.demo.scripts import SCRIPTS
from gateway.demo.upstream import listening, running
from gateway.words import DIALECTS, DialectName


@pytest.fixture(scope="module")
def upstream() -> Iterator[httpx.Client]:
    """A client of a scripted server that takes no time a token."""
    with running(pace=0) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


def post(upstream: httpx.Client, wish: Wish) -> httpx.Response:
    """Send what a caller wishes; usage is asked for where it has to be."""
    body = wish.body()
    if wish.dialect == "chat" and wish.stream:
        body["stream_options"] = {"include_usage": True}
    return upstream.post(wish.path(), json=body)


def events(text: bytes) -> list[Any]:
    """The JSON of every event."""
    reader = sse.FrameReader()
    frames = [*reader.feed(text), *reader.close()]
    return [msgspec.json.decode(frame.data) for frame in frames if frame.data and frame.data != b"[DONE]"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_tool_is_called_in_every_dialect(upstream: httpx.Client, dialect: DialectName, *, stream: bool) -> None:
    """The tool's name and its arguments arrive, the arguments escaped or as an object."""
    answer = post(upstream, Wish(dialect=dialect, model="demo-tool", stream=stream, tools=True))
    assert b'"look"' in answer.content
    assert b'"where' in answer.content.replace(b'\\"', b'"').replace(b" ", b"")


@pytest.mark.parametrize("model", SCRIPTS)
def test_every_script_can_be_played(upstream: httpx.Client, model: str) -> None:
    """Each script answers where it makes sense, whole and streamed, unless breaking off is what it is for."""
    script = SCRIPTS[model]
    for dialect in script.dialects:
        for stream in (False, True):
            wish = Wish(dialect=dialect, model=model, stream=stream, cap=64, level="minimal", stop="END")
            if script.fault and script.fault.said == "cut":
                with pytest.raises(httpx.RemoteProtocolError):
                    post(upstream, wish)
            else:
                assert post(upstream, wish).content


def test_errors_have_their_status_and_say_when_to_come_back(upstream: httpx.Client) -> None:
    """A 429 brings Retry-After, and each dialect has its own shape of error."""
    answers = {d: post(upstream, Wish(dialect=d, model="demo-busy", stream=False)) for d in DIALECTS}
    assert {a.status_code for a in answers.values()} == {429}
    assert {a.headers["retry-after"] for a in answers.values()} == {"7"}
    assert answers["messages"].json()["error"]["type"] == "rate_limit_error"
    assert answers["gemini"].json()["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert answers["chat"].json()["error"]["message"] == "Too many requests."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_a_200_comes_after_some_text(upstream: httpx.Client, dialect: DialectName) -> None:
    """Streamed, the last event is the error and nothing follows it; whole, the error is the body."""
    streamed = post(upstream, Wish(dialect=dialect, model="demo-error-in-200"))
    whole = post(upstream, Wish(dialect=dialect, model="demo-error-in-200", stream=False))
    said = events(streamed.content)
    assert (streamed.status_code, whole.status_code) == (200, 200)
    assert len(said) > 8
    assert "Overloaded" in str(said[-1])
    assert "Overloaded" in whole.text


@pytest.mark.parametrize("dialect", ["chat", "gemini"])
def test_two_choices_are_counted_together(upstream: httpx.Client, dialect: DialectName) -> None:
    """Usage is the sum over the choices."""
    wish = Wish(dialect=dialect, model="demo-overrun-choices", cap=64, choices=2, stream=False)
    answer = post(upstream, wish).json()
    usage = answer.get("usage") or answer["usageMetadata"]
    assert len(answer.get("choices") or answer["candidates"]) == 2
    assert usage.get("completion_tokens", usage.get("totalTokenCount", 0) - 12) == 210


@pytest.mark.parametrize(
    ("model", "dialect", "level", "status", "says"),
    [
        pytest.param("demo-level", "gemini", "minimal", 400, "Thinking level MINIMAL is not supported", id="Gemini"),
        pytest.param("demo-level-vertex", "gemini", "minimal", 400, "THINKING_LEVEL_MINIMAL", id="Vertex"),
        pytest.param("demo-level-openai", "chat", "minimal", 400, "'low', 'medium', and 'high'.", id="OpenAI, chat"),
        pytest.param(
            "demo-level-openai", "responses", "off", 400, '"param":"reasoning.effort"', id="OpenAI, responses"
        ),
        pytest.param("demo-level-anthropic", "messages", "xhigh", 400, "high, low, max, medium.", id="Anthropic"),
        pytest.param("demo-level-groq", "chat", "off", 400, "one of `low`, `medium`, or `high`", id="Groq"),
        pytest.param("demo-level-vllm", "chat", "high", 500, "Unexpected reasoning effort high", id="vLLM"),
        pytest.param("demo-level-adapter", "gemini", None, 400, "MINIMAL", id="an adapter's level"),
    ],
)
def test_levels_are_refused_in_the_providers_words(
    upstream: httpx.Client, model: str, dialect: DialectName, level: Any, status: int, says: str
) -> None:
    """A level that is not taken is refused; one that is taken gets an answer."""
    refused = post(upstream, Wish(dialect=dialect, model=model, level=level))
    taken = post(upstream, Wish(dialect=dialect, model=model, level="low"))
    assert (refused.status_code, taken.status_code) == (status, 200)
    assert says in refused.text


def test_a_level_can_be_refused_inside_a_200(upstream: httpx.Client) -> None:
    """The refusal is then the first event of the stream, and the only one."""
    answer = post(upstream, Wish(dialect="chat", model="demo-level-in-200", level="minimal"))
    (said,) = events(answer.content)
    assert answer.status_code == 200
    assert said["error"]["code"] == "unsupported_value"


@pytest.mark.parametrize(
    ("model", "success", "answers"),
    [
        pytest.param("demo-thinker", True, True, id="obeyed"),
        pytest.param("demo-stubborn", True, False, id="agreed to and ignored"),
        pytest.param("demo-defiant", False, False, id="refused"),
        pytest.param("demo-moot", False, True, id="too late"),
    ],
)
def test_the_control_path_does_what_the_script_says(model: str, *, success: bool, answers: bool) -> None:
    """Asked after ten tokens of thinking, the turn answers or thinks on to its cap, and the reply is as scripted."""

    async def play(url: str) -> tuple[bool, str]:
        body = Wish(dialect="chat", model=model, cap=200, more={"reasoning_control": True}).body()
        text, control = "", None
        async with (
            httpx.AsyncClient(base_url=url, timeout=60) as client,
            client.stream("POST", "/v1/chat/completions", json=body) as answer,
        ):
            reader, thoughts = sse.FrameReader(), 0
            async for chunk in answer.aiter_raw():
                for frame in reader.feed(chunk):
                    if frame.data is None or frame.data == b"[DONE]":
                        continue
                    said = msgspec.json.decode(frame.data)
                    delta = said["choices"][0]["delta"]
                    thoughts += "reasoning_content" in delta
                    text += delta.get("content") or ""
                    if thoughts == 10 and control is None:
                        order = {"id": said["id"], "action": "reasoning_end"}
                        control = asyncio.ensure_future(client.post("/v1/chat/completions/control", json=order))
            assert control is not None
            return (await control).json()["success"], text

    with running(pace=0.001) as url:
        agreed, text = asyncio.run(play(url))
    assert (agreed, bool(text)) == (success, answers)


def ended(upstream: httpx.Client, completion: str) -> dict[str, Any]:
    """What the control path says to an order to end this completion's thinking."""
    order = {"id": completion, "action": "reasoning_end"}
    reply: dict[str, Any] = upstream.post("/v1/chat/completions/control", json=order).json()
    return reply


def test_orders_that_reach_nobody_are_answered(upstream: httpx.Client) -> None:
    """Unknown completions and malformed orders are answered as llama.cpp answers them."""
    malformed = upstream.post("/v1/chat/completions/control", json={"id": "chatcmpl-nobody", "action": "sing"})
    assert ended(upstream, "chatcmpl-nobody") == {"success": False, "message": "no active completion for this id"}
    assert malformed.status_code == 400


@pytest.mark.parametrize("armed", [True, False], ids=["a completion that opted in", "one that did not"])
def test_a_caller_who_leaves_ends_endless_thinking(*, armed: bool) -> None:
    """While the caller listens the completion is alive, and takes orders if it opted in; then it is gone."""
    body = Wish(dialect="chat", model="demo-stubborn", more={"reasoning_control": armed}).body()
    with running(pace=0.001) as url, httpx.Client(base_url=url, timeout=60) as client:
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            pieces = answer.iter_raw()  # held, as an iterator that is forgotten closes its connection
            completion = events(next(pieces))[0]["id"]
            alive = ended(client, completion)
        deadline = time.monotonic() + 30
        while "no active" not in ended(client, completion).get("message", "") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ended(client, completion)["message"] == "no active completion for this id"
    assert alive["success"] is armed
    assert ("not enabled" in alive.get("message", "")) is not armed


def test_it_runs_by_itself_and_says_where() -> None:
    """As a process of its own it prints its address, answers there, and ends by a signal."""
    command = [sys.executable, "-m", "gateway.demo.upstream", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own server
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        try:
            models = httpx.get(f"{url}/v1/models", timeout=60).json()["data"]
        finally:
            process.terminate()
        process.wait(10)
    assert [model["id"] for model in models] == list(SCRIPTS)


def test_an_address_that_is_taken_is_said_plainly() -> None:
    """No traceback: one line, and exit status 2."""
    with listening() as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "gateway.demo.upstream", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own server
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"127.0.0.1:{port} cannot be listened on" in done.stderr
    assert isinstance(taken, socket.socket)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_caller_writes_is_what_the_server_reads(dialect: DialectName) -> None:
    """Cap, level, choices and stop sequence survive in each dialect that has them."""
    wish = Wish(dialect=dialect, model="demo-honest", cap=7, level="high", choices=2, stop="END")
    asked = read(dialect, msgspec.json.encode(wish.body()), "demo-honest", stream=True)
    assert (asked.model, asked.stream, asked.cap) == ("demo-honest", True, 7)
    assert (asked.level or "").lower() == "high"
    assert asked.choices == (2 if dialect in {"chat", "gemini"} else 1)
    assert asked.stop == (None if dialect == "responses" else "END")
