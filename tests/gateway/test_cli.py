"""The commands as people type them: what they print, and what they say when something is wrong."""

import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import gateway.serve
from gateway.cli import main
from gateway.config import Settings, parse_settings
from gateway.demo import play
from gateway.demo.play import Options
from gateway.keys import Keyring

SETTINGS = """
[upstreams.google]
url = "https://example.test"
kind = "gemini"
dialects = ["gemini"]

[models.thinker]
upstream = "google"
levels = ["low", "high"]
thinking_cap = 100
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in an empty folder: status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_check_reads_the_file_in_this_folder(run: Run, tmp_path: Path, mark: str) -> None:
    """Without -c it is ./thinkcap.toml that counts, in any editor's UTF-8."""
    (tmp_path / "thinkcap.toml").write_text(mark + SETTINGS, encoding="utf-8")
    status, out, err = run("check")
    assert (status, err) == (0, "")
    assert "https://example.test" in out
    assert "thinker" in out


def test_check_takes_the_built_in_settings_where_there_is_no_file(run: Run) -> None:
    """Every dialect then goes to its vendor."""
    status, out, _ = run("check")
    assert status == 0
    assert "https://api.anthropic.com" in out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[serv]\n", "serv: unknown setting 'serv'", id="an unknown key"),
        pytest.param('[upstreams.a]\nurl = "x"\ndialects = ["chat"]\n', "upstreams.a.url", id="a bad value"),
        pytest.param("[", "is no TOML", id="no TOML"),
    ],
)
@pytest.mark.parametrize(
    "command", [["check"], ["serve"], ["explain", "--model", "m"]], ids=["check", "serve", "explain"]
)
def test_what_is_wrong_with_the_settings_is_said_with_status_2(
    run: Run, tmp_path: Path, command: list[str], text: str, says: str
) -> None:
    """File, key path and problem on standard error; nothing on standard output, nothing is started."""
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    status, out, err = run(*command, "-c", str(file))
    assert (status, out) == (2, "")
    assert f"{file}: " in err
    assert says in err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="a file that is not there"),
        pytest.param(b"\xff\xfe[", "is no UTF-8 text", id="a file in another encoding"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(run: Run, tmp_path: Path, content: bytes | None, says: str) -> None:
    """The settings file itself is at fault: one line, status 2."""
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    assert run("check", "-c", str(file)) == (2, "", f"{file}: {says}\n")


def test_secrets_come_from_files_too(run: Run, tmp_path: Path) -> None:
    """A file the settings name is read; what stands in it is not shown."""
    (tmp_path / "key").write_text("hush-hush\n", encoding="utf-8")
    file = tmp_path / "mine.toml"
    text = SETTINGS.replace('kind = "gemini"', f'kind = "gemini"\napi_key_file = "{tmp_path / "key"}"')
    file.write_text(text, encoding="utf-8")
    status, out, err = run("check", "-c", str(file))
    assert (status, err) == (0, "")
    assert "hush-hush" not in out


def test_serve_lets_the_command_line_win(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and ports of the command line replace those of the settings; all else stays."""
    served: list[Settings] = []

    def serve(settings: Settings) -> int:
        served.append(settings)
        return 0

    monkeypatch.setattr(gateway.serve, "serve", serve)
    assert run("serve", "--host", "::1", "--port", "0", "--metrics-port", "9999")[0] == 0
    assert run("serve")[0] == 0
    ports = [(one.server.host, one.server.port, one.server.metrics_port) for one in served]
    assert ports == [("::1", 0, 9999), ("127.0.0.1", 8080, 9464)]


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_is_a_port(run: Run, port: str) -> None:
    """Other words are refused before anything starts."""
    status, _, err = run("serve", f"--port={port}")
    assert status == 2
    assert "from 0 to 65535" in err


def test_a_new_key_opens_the_door_its_entry_describes(run: Run) -> None:
    """The key is printed once, its entry holds the hash and the name, and the two belong together."""
    status, out, err = run("keys", "new", "--name", "team-a")
    assert (status, err) == (0, "")
    key = next(word for word in out.split() if word.startswith("tc-"))
    settings = parse_settings(SETTINGS + out[out.index("[[keys]]") :], {})
    assert out.count(key) == 1
    assert settings.keys[0].sha256 == sha256(key.encode()).hexdigest()
    assert Keyring(settings.keys).holder(key.encode()) == "team-a"


def test_two_keys_are_two(run: Run) -> None:
    """Keys are random, and a name is not needed."""
    first, second = run("keys", "new"), run("keys", "new")
    assert first[0] == second[0] == 0
    assert first[1] != second[1]
    assert 'name = "caller"' in first[1]


@pytest.mark.parametrize("name", ["", "two words", 'quo"te', "-dash", "x" * 65, "line\nbreak", "other"])
def test_a_key_is_named_as_the_settings_allow(run: Run, name: str) -> None:
    """A name the settings would refuse is refused here, and no key is made."""
    status, out, err = run("keys", "new", f"--name={name}")
    assert (status, out) == (2, "")
    assert "--name" in err


def test_explain_says_where_a_level_goes(run: Run, tmp_path: Path) -> None:
    """For one level, in any spelling, or for all."""
    (tmp_path / "thinkcap.toml").write_text(SETTINGS, encoding="utf-8")
    status, one, _ = run("explain", "--model", "thinker", "--level", "NONE")
    _, every, _ = run("explain", "--model", "thinker")
    assert status == 0
    assert [row.split()[:2] for row in one.splitlines() if row.startswith("off")] == [["off", "low"]]
    assert len(every.splitlines()) > len(one.splitlines())


def test_a_level_nobody_has_is_refused(run: Run) -> None:
    """With the words that there are."""
    status, _, err = run("explain", "--model", "m", "--level", "enormous")
    assert status == 2
    assert "off minimal low medium high xhigh max" in err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_demo_takes_some_time(run: Run, seconds: str) -> None:
    """A time that is none is refused."""
    status, _, err = run("demo", f"--seconds={seconds}")
    assert status == 2
    assert "above 0" in err


def test_demo_takes_its_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed is what is played, and its status is the command's."""
    asked: list[Any] = []

    def demo(options: Options) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr(play, "demo", demo)
    assert run("demo")[0] == 0
    assert run("demo", "--seconds", "2.5", "--port", "8081", "--live")[0] == 0
    assert asked == [Options(seconds=20.0, port=0, live=False), Options(seconds=2.5, port=8081, live=True)]


@pytest.mark.parametrize("words", [[], ["keys"], ["sing"]], ids=["no command", "half a command", "an unknown one"])
def test_a_command_is_needed(run: Run, words: list[str]) -> None:
    """Status 2 and the usage."""
    status, _, err = run(*words)
    assert status == 2
    assert "usage: thinkcap" in err


def test_commands_that_need_no_server_load_none() -> None:
    """`check` starts quickly: neither the web framework nor rich is imported for it."""
    code = "import sys; from gateway.cli import main; main(['keys', 'new']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - our own code
    assert not {"litestar", "uvicorn", "rich", "httpx", "opentelemetry"} & set(done.stdout.split())


def test_a_gateway_loads_what_it_serves_with() -> None:
    """Not rich, which httpx and structlog would take along; afterwards it can be had again. No exporter unasked."""
    code = """
import sys
from gateway import cli
cli.load = lambda _path: sys.exit(print(*sys.modules))
try:
    cli.main(["serve"])
finally:
    import pygments.util, rich.console
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own code
    loaded = set(done.stdout.split())
    assert {"gateway.serve", "litestar", "httpx", "structlog"} <= loaded, done.stderr
    assert not {"rich.console", "pygments.util", "httpx._main", "requests", "google.protobuf"} & loaded
    assert done.stderr == ""
