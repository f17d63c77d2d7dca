"""The servers all SDKs talk to: the scripted upstream, one that lets nobody in, and a gateway in front of both."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import msgspec
import pytest

from gateway.demo.upstream import running as upstream_running
from tests.running import Running, running

SETTINGS: Final = """
[output_cap]
hold_seconds = 5.0
[upstreams.demo]
url = "{direct}"
dialects = ["chat", "responses", "messages", "gemini"]
[upstreams.shut]
url = "{shut}"
dialects = ["chat", "responses", "messages", "gemini"]
[models.shut]
upstream = "shut"
"""


class _Shut(BaseHTTPRequestHandler):
    """Tells everybody that their key is none, in the dialect of the path."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Refuse."""
        self.rfile.read(int(self.headers["content-length"]))
        said = {"message": "This key is none.", "type": "authentication_error"}
        error: dict[str, object] = {"type": "error", "error": said}
        if "generateContent" in self.path or "GenerateContent" in self.path:
            error = {"error": {"code": 401, "message": said["message"], "status": "UNAUTHENTICATED"}}
        body = msgspec.json.encode(error)
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("x-request-id", "req-7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the standard library's
        """Say nothing."""


@pytest.fixture(scope="session")
def direct() -> Iterator[str]:
    """The address of an upstream that takes no time a token."""
    with upstream_running(pace=0) as url:
        yield url


@pytest.fixture(scope="session")
def shut() -> Iterator[str]:
    """The address of an upstream that lets nobody in."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Shut)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join(10)
    server.server_close()


@pytest.fixture(scope="session")
def gateway(direct: str, shut: str) -> Iterator[Running]:
    """A gateway process in front of both."""
    with running(SETTINGS.format(direct=direct, shut=shut)) as gateway:
        yield gateway


@pytest.fixture
def through(gateway: Running) -> str:
    """The gateway's address."""
    return gateway.url


@pytest.fixture(params=["without the gateway", "through the gateway"])
def url(request: pytest.FixtureRequest, direct: str) -> str:
    """Where an SDK is pointed: what it sees must be the same in both places."""
    through: str = request.getfixturevalue("through")
    return direct if request.param == "without the gateway" else through
