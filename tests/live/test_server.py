"""The real llama.cpp server, spoken to directly: what the live tests of the gateway rest on."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.demo.llama.scripted_model import Script, write_model
from gateway.sse import FrameReader
from tests.live.conftest import StartLlama
from tests.live.llama import LOOP, SHORT, LlamaServer, llama_server, stubborn, thinker

MESSAGES = [{"role": "user", "content": "What is it?"}]


def ask(server: LlamaServer, script: str, **fields: object) -> dict[str, Any]:
    """A streamed chat completion by this script."""
    body = {"model": server.alias, "messages": MESSAGES, "chat_template_kwargs": {"script": script}, **fields}
    return {"method": "POST", "url": f"{server.url}/v1/chat/completions", "json": {**body, "stream": True}}


def stream(client: httpx.Client, request: dict[str, Any], *, end_after: int | None = None) -> dict[str, Any]:
    """Read a stream; after so many pieces of reasoning make the control call. Gives what was said and the answers."""
    said: dict[str, Any] = {"reasoning": [], "content": [], "after": 0, "control": None, "finish": None}
    reader = FrameReader()
    with client.stream(**request) as response:
        assert response.status_code == 200
        for data in response.iter_raw():
            for frame in reader.feed(data):
                if frame.data in {None, b"[DONE]"}:
                    continue
                chunk = msgspec.json.decode(frame.data or b"")
                for choice in chunk["choices"]:
                    _take(said, choice)
                if end_after is not None and said["control"] is None and len(said["reasoning"]) >= end_after:
                    order = {"id": chunk["id"], "action": "reasoning_end"}
                    said["control"] = client.post(f"{request['url']}/control", json=order).json()
                    said["after"] = len(said["reasoning"])
    return said


def _take(said: dict[str, Any], choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    if delta.get("reasoning_content"):
        said["reasoning"].append(delta["reasoning_content"])
    if delta.get("content"):
        said["content"].append(delta["content"])
    said["finish"] = choice["finish_reason"] or said["finish"]


def test_it_thinks_as_scripted_and_answers(llama: LlamaServer) -> None:
    """The generated model says what its script says."""
    with httpx.Client(timeout=60) as client:
        said = stream(client, ask(llama, "short", max_tokens=60))
    assert "".join(said["reasoning"]).endswith("".join(SHORT.words))
    assert ("".join(said["content"]), said["finish"]) == ("The answer is 42.", "stop")


def test_the_control_call_ends_the_reasoning(llama: LlamaServer) -> None:
    """A completion that opted in stops thinking when told to, and answers."""
    with httpx.Client(timeout=60) as client:
        said = stream(client, ask(llama, "loop", max_tokens=900, reasoning_control=True), end_after=50)
    assert said["control"] == {"success": True}
    assert ("".join(said["content"]), said["finish"]) == ("The answer is 42.", "stop")


def test_a_completion_that_did_not_opt_in_refuses(llama: LlamaServer) -> None:
    """Without `reasoning_control` the call is refused with status 200, and thinking goes on to the cap."""
    with httpx.Client(timeout=60) as client:
        said = stream(client, ask(llama, "loop", max_tokens=400), end_after=50)
    assert said["control"]["success"] is False
    assert (said["content"], said["finish"]) == ([], "length")


def test_success_is_no_promise(llama: LlamaServer) -> None:
    """A budget of 0 leaves a block that cannot be closed: the call says success, and thinking goes on to the cap."""
    with httpx.Client(timeout=60) as client:
        request = ask(llama, "loop", max_tokens=400, reasoning_control=True, thinking_budget_tokens=0)
        said = stream(client, request, end_after=50)
    assert said["control"] == {"success": True}
    assert (said["content"], said["finish"]) == ([], "length")


def test_a_stubborn_model_thinks_again_as_text(start_llama: StartLlama, models: Path) -> None:
    """A model that re-opens its thinking after it was ended does so in visible text."""
    server = start_llama(stubborn(models))
    with httpx.Client(timeout=60) as client:
        said = stream(client, ask(server, "loop", max_tokens=300, reasoning_control=True), end_after=50)
    assert said["control"] == {"success": True}
    assert "<think>" in "".join(said["content"])


def test_a_wider_model_is_slower(models: Path) -> None:
    """The speed of the server can be chosen; 1024 more columns are at most a few thousand tokens a second."""
    wide, narrow = thinker(models, width=1024), thinker(models)
    assert wide.stat().st_size > 5 * narrow.stat().st_size


def test_a_server_that_cannot_start_says_why(models: Path) -> None:
    """A file that is no model stops the start with what the server said."""
    broken = models / "broken.gguf"
    broken.write_bytes(b"no model")
    with pytest.raises(RuntimeError, match="did not start"), llama_server(broken):
        pass  # pragma: no cover - never reached


def test_the_model_is_the_same_every_time(tmp_path: Path) -> None:
    """A generated model has no chance in it, and needs no wheel to be written."""
    scripts = {"loop": LOOP, "two": Script(["a", "b"])}
    first, second = (write_model(tmp_path / name, scripts, ["yes"]) for name in ("1.gguf", "2.gguf"))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(b"GGUF")
