"""The scripted LLM server: all four dialects over real HTTP, no key; the model a request names decides what it does.

By itself: `python -m gateway.demo.upstream --host 0.0.0.0 --port 9000` (`--list` prints the models).
In a test: `with running() as url: ...`.
"""

import argparse
import asyncio
import re
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import uvicorn

from gateway.demo.asgi import Receive, Request, Scope, Send, left, send_json, send_whole, start
from gateway.demo.asked import Asked, read
from gateway.demo.control import Completions
from gateway.demo.refusals import refuse
from gateway.demo.scripts import SCRIPTS, Fault, Script
from gateway.demo.turn import Turn
from gateway.demo.wire import NOW, Json, Wire, dump
from gateway.demo.wire_chat import ChatWire
from gateway.demo.wire_gemini import GeminiWire
from gateway.demo.wire_messages import MessagesWire
from gateway.demo.wire_responses import ResponsesWire
from gateway.words import DialectName, level_of

PACE: Final = 0.004
"""Seconds a token takes."""
WIRES: Final[dict[DialectName, type[Wire]]] = {
    "chat": ChatWire,
    "responses": ResponsesWire,
    "messages": MessagesWire,
    "gemini": GeminiWire,
}
PATHS: Final[dict[str, DialectName]] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}
GEMINI: Final = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):(generateContent|streamGenerateContent)")
CONTROL: Final = "/v1/chat/completions/control"
START_SECONDS: Final = 10.0


class Upstream:
    """The server as an ASGI application."""

    def __init__(self, pace: float = PACE) -> None:
        """`pace`: seconds a token takes, thought or said; 0 for as fast as it goes."""
        self._pace = pace
        self._completions = Completions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = await Request.read(scope, receive)
        if request.method == "GET":
            await send_json(send, *_listing(request.path))
        elif request.path == CONTROL:
            await send_json(send, *await self._completions.control(request.body))
        elif request.path == "/v1/messages/count_tokens":
            await send_json(send, 200, {"input_tokens": 12})
        else:
            await self._answer(request, receive, send)

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        called = GEMINI.fullmatch(request.path)
        dialect = "gemini" if called else PATHS.get(request.path)
        if dialect is None:
            await send_json(send, 404, ChatWire.error(Fault(status=404, message="There is no such path.")))
            return
        wire = WIRES[dialect]
        try:
            asked = read(
                dialect,
                request.body,
                called and called[1],
                stream=called[2] == "streamGenerateContent" if called else None,
            )
        except ValueError:
            await send_json(send, 400, wire.error(Fault(status=400, message="The body is no JSON object.")))
            return
        script = SCRIPTS.get(asked.model)
        if script is None:
            message = f"The model `{asked.model[:64]}` does not exist."
            await send_json(send, 404, wire.error(Fault(status=404, message=message)))
        elif not await _failed(script, asked, wire, send):
            await self._play(wire(Turn(script, asked)), receive, send)

    async def _play(self, wire: Wire, receive: Receive, send: Send) -> None:
        with self._completions.running(wire.turn):
            if wire.turn.asked.stream:
                await self._stream(wire, receive, send)
            else:
                await self._whole(wire, receive, send)

    async def _stream(self, wire: Wire, receive: Receive, send: Send) -> None:
        await start(send, 200, wire.media)
        async with left(receive) as gone:
            for step in wire.stream(self._pace):
                if gone.is_set():
                    return
                if isinstance(step, bytes):
                    await send({"type": "http.response.body", "body": step, "more_body": True})
                else:
                    await asyncio.sleep(step)
        if wire.turn.script.fault is None or wire.turn.script.fault.said != "cut":
            await send({"type": "http.response.body", "body": b""})

    async def _whole(self, wire: Wire, receive: Receive, send: Send) -> None:
        fault = wire.turn.script.fault
        async with left(receive) as gone:
            for piece in wire.turn.pieces():
                await asyncio.sleep(self._pace * piece.tokens)
                if gone.is_set():
                    return
        body = wire.whole() if fault is None else wire.error(fault)
        if fault is not None and fault.said == "cut":
            await start(send, 200, "application/json", length=1000)
            await send({"type": "http.response.body", "body": dump(body)[:20], "more_body": True})
            return  # uvicorn drops a connection whose answer is not complete
        await send_json(send, 200, body)


async def _failed(script: Script, asked: Asked, wire: type[Wire], send: Send) -> bool:
    """Whether the call was answered with an error instead of a turn."""
    fault, levels = script.fault, script.levels
    if fault is not None and fault.said == "status":
        headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
        await send_json(send, fault.status, wire.error(fault), headers)
        return True
    if fault is not None and fault.said == "html":
        await send_whole(send, fault.status, "text/html", b"<html><body><h1>Bad Gateway</h1></body></html>")
        return True
    if levels is None:
        return False
    level = levels.adapter if asked.level is None else level_of(asked.level)
    if level is None or level in levels.takes:
        return False
    status, body = refuse(levels, asked.dialect, level)
    if levels.in_200 and asked.stream:
        await send_whole(send, 200, wire.media, b"data: " + dump(body) + b"\n\n")
    else:
        await send_json(send, status, body)
    return True


def _listing(path: str) -> tuple[int, Json]:
    if path in {"/", "/health"}:
        return 200, {"status": "ok"}
    if path == "/v1/models":
        models = [{"id": name, "object": "model", "created": NOW, "owned_by": "demo"} for name in SCRIPTS]
        return 200, {"object": "list", "data": models}
    if path == "/v1beta/models":
        return 200, {"models": [{"name": f"models/{name}", "displayName": name} for name in SCRIPTS]}
    return 404, ChatWire.error(Fault(status=404, message="There is no such path."))


def listening(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A socket that listens. Raises OSError when the address cannot be had."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen()  # from here on connections are taken, and wait until somebody serves
    except OSError:
        sock.close()
        raise
    return sock


def server(pace: float = PACE) -> uvicorn.Server:
    """The server, not yet running."""
    config = uvicorn.Config(
        Upstream(pace),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # it would report every answer that is cut on purpose
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


@contextmanager
def running(host: str = "127.0.0.1", port: int = 0, *, pace: float = PACE) -> Iterator[str]:
    """Serve from a thread of this process, on a free port unless one is given; gives the address, ends cleanly.

    Raises OSError when the address cannot be had.
    """
    sock = listening(host, port)
    runner = server(pace)
    thread = threading.Thread(target=runner.run, kwargs={"sockets": [sock]}, name="demo-upstream", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{sock.getsockname()[1]}"
    finally:
        runner.should_exit = True
        thread.join(START_SECONDS)
        sock.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal comes; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gateway.demo.upstream", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--pace", type=float, default=PACE, help="seconds a token takes")
    parser.add_argument("--list", action="store_true", help="print the models and what each does, then end")
    options = parser.parse_args(argv)
    if options.list:
        sys.stdout.writelines(f"{name:26} {script.says}\n" for name, script in SCRIPTS.items())
        return 0
    try:
        sock = listening(options.host, options.port)
    except OSError as error:
        sys.stderr.write(f"{options.host}:{options.port} cannot be listened on: {error.strerror}\n")
        return 2
    sys.stdout.write(f"scripted upstream on http://{options.host}:{sock.getsockname()[1]}\n")
    sys.stdout.flush()
    server(options.pace).run(sockets=[sock])
    return 0


if __name__ == "__main__":
    sys.exit(main())
