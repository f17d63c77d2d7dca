"""Rule 2 on a real llama.cpp server, through a gateway process: every way a cap can end."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.conftest import StartLlama
from tests.live.llama import llama_server, stubborn, thinker
from tests.live.through import ANSWER, CAP, CHAT, OVERRUN, asked, capped, gateway, meddler, stream, whole
from tests.running import Running

FIRED = "thinking_cap.fired"


@pytest.fixture(scope="module")
def through(models: Path) -> Iterator[Running]:
    """One gateway before a server of at most 500 tokens a second: on a busy machine too the call comes in time."""
    with llama_server(thinker(models, width=1024)) as server, gateway(server.url) as process:
        yield process


def test_capped_and_answered(through: Running) -> None:
    """A model that thinks for ever is told to answer, and answers; the caller is told how far it went."""
    before = capped(through, "control", "ended")
    said = stream(through.url, asked())
    assert (said.content, said.finish, said.frames[-1]) == (ANSWER, "stop", b"[DONE]")
    assert said.events == [FIRED]
    assert said.facts[0]["cap"] == CAP
    assert said.facts[-1]["reasoning_tokens"] == CAP + said.past
    assert capped(through, "control", "ended") == before + 1
    assert through.counted("thinkcap_end_reasoning_seconds_count", result="ended") >= 1


def test_a_short_thought_is_left_alone(through: Running) -> None:
    """Under the cap nothing fires."""
    calls = through.counted("thinkcap_end_reasoning_seconds_count")
    said = stream(through.url, asked("short"))
    assert (said.content, said.events) == (ANSWER, [])
    assert through.counted("thinkcap_end_reasoning_seconds_count") == calls


def test_the_header_lowers(through: Running) -> None:
    """One call may have a smaller cap."""
    said = stream(through.url, asked(), x_thinkcap_thinking_cap="20")
    assert (said.facts[0]["cap"], said.content) == (20, ANSWER)
    assert len(said.reasoning) < 2 * CAP


def test_a_refusal_gives_up(start_llama: StartLlama, models: Path) -> None:
    """A server that was not told of the cap refuses; the call ends with one whole error and no [DONE]."""
    server = start_llama(thinker(models, width=2048))
    with meddler(server.url) as url, gateway(url, overrun=1500) as process:
        said = stream(process.url, asked(max_tokens=3000))
        assert said.events == [FIRED, "thinking_cap.refused", "thinking_overrun"]
        assert said.error is not None
        assert said.error["code"] == "thinking_overrun"
        assert b"thinking_overrun" in said.frames[-1]
        assert capped(process, "control", "refused") == 1
        assert process.counted("thinkcap_thinking_overruns_total", cause="refused") == 1
        assert whole(process.url, asked(max_tokens=3000)).status == 502


def test_a_model_that_thinks_on(through: Running) -> None:
    """A block that cannot be closed: the server says success and thinks on; at the firing point + overrun it is over."""
    said = stream(through.url, asked(max_tokens=3000, thinking_budget_tokens=0))
    assert said.events == [FIRED, "thinking_overrun"]
    assert said.facts[1]["cause"] == "kept_thinking"
    assert said.facts[1]["tokens"] == said.facts[0]["tokens"] + OVERRUN
    assert said.error is not None
    body = whole(through.url, asked(max_tokens=3000, thinking_budget_tokens=0))
    assert (body.status, body.body["error"]["code"]) == (502, "thinking_overrun")
    assert through.counted("thinkcap_thinking_overruns_total", cause="kept_thinking") == 2
    assert any("thinking_overrun" in line for line in through.log)


def test_the_turn_ends_on_the_cap(through: Running) -> None:
    """The output cap cuts the turn where the thinking cap fires: the call comes too late, and nothing has failed."""
    said = stream(through.url, asked(max_tokens=CAP))
    assert (said.finish, said.error, said.events[0]) == ("length", None, FIRED)
    assert capped(through, "control", "moot") >= 1


def test_two_choices_are_not_ended(through: Running) -> None:
    """The control call would end the first alone: none is made, and the turn counts as one the cap could not reach."""
    calls = through.counted("thinkcap_end_reasoning_seconds_count")
    said = stream(through.url, asked(n=2, max_tokens=120))
    assert (said.finish, said.content, said.events) == ("length", "", [])
    assert capped(through, "control", "unable") == 1
    assert through.counted("thinkcap_end_reasoning_seconds_count") == calls


def test_a_model_that_opens_its_thinking_again(start_llama: StartLlama, models: Path) -> None:
    """What it thinks after the end comes as text, is no reasoning, and is not asked about again."""
    with gateway(start_llama(stubborn(models, width=1024)).url) as process:
        said = stream(process.url, asked(max_tokens=300))
        assert "<think>" in said.content
        assert said.events == [FIRED]
        assert process.counted("thinkcap_end_reasoning_seconds_count") == 1


def test_a_starved_control_call(start_llama: StartLlama, models: Path) -> None:
    """With every HTTP thread of the server held by waiting streams the call is not heard: it times out, we give up."""
    server = start_llama(thinker(models, width=3072), slots=1, http_threads=5)
    body = json.dumps(asked(max_tokens=100, stream=True)).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: llama\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, _, port = server.url.removeprefix("http://").partition(":")
    with ExitStack() as waiting, gateway(server.url, control_timeout=0.3) as process:

        def wait_for_the_slot() -> None:
            for _ in range(8):
                waiting.enter_context(socket.create_connection((host, int(port)))).sendall(head.encode() + body)

        said = stream(process.url, asked(max_tokens=3000), at_first=wait_for_the_slot)
        waiting.close()
        assert said.events == [FIRED, "thinking_cap.refused", "thinking_overrun"]
        assert said.facts[2]["cause"] == "timeout"
        assert capped(process, "control", "timeout") == 1
        assert process.counted("thinkcap_end_reasoning_seconds_count", result="timeout") == 1


def test_a_caller_who_leaves_while_it_ends(start_llama: StartLlama, models: Path) -> None:
    """The only slot of the server is free again at once, and the call has one ending."""
    server = start_llama(thinker(models, width=3072), slots=1)
    with meddler(server.url, control="hangs", arms=True) as url, gateway(url, control_timeout=30.0) as process:
        stream(process.url, asked(max_tokens=3000), leave_at=FIRED)
        times = []
        for _ in range(2):  # behind the one who left, and on the idle server
            began = time.perf_counter()
            assert whole(server.url, asked("short", max_tokens=1)).body["usage"]["completion_tokens"] == 1
            times.append(time.perf_counter() - began)
        print(f"\nslot free at most {times[0] - times[1]:.2f} s after the caller left")  # noqa: T201 - a measurement
        assert process.counted("thinkcap_requests_total") == 1
        assert process.counted("thinkcap_requests_total", outcome="client_gone") == 1
        assert process.counted("thinkcap_inflight_requests") == 0


def test_a_server_without_control(start_llama: StartLlama, models: Path) -> None:
    """The control path is not there: the call is given up, and the next one goes out with a budget that is kept."""
    server = start_llama(thinker(models, width=1024))
    with meddler(server.url, control="missing") as url, gateway(url, overrun=1500) as process:
        assert stream(process.url, asked(max_tokens=3000)).error is not None
        said = stream(process.url, asked())
        assert said.content == ANSWER
        assert len(said.reasoning) <= CAP
        assert capped(process, "control", "refused") == 1


def test_messages_have_a_budget(through: Running) -> None:
    """In the messages dialect the cap goes out with the request, and the server keeps it."""
    body = {"model": "m", "max_tokens": 900, "messages": [{"role": "user", "content": "What is it?"}]}
    said = whole(through.url, body, "/v1/messages")
    blocks = {block["type"]: block for block in said.body["content"]}
    assert CAP - 1 <= blocks["thinking"]["thinking"].count("thought") <= CAP
    assert blocks["text"]["text"] == ANSWER
