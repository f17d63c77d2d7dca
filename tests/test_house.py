"""Holds the house rules: who may import whom, what stays pure, and no file or function that grows without end."""

import subprocess
from pathlib import Path

import pytest

from tests.house import HOUSE, Source, check_imports, check_shape, check_text, row_of

ROOT = Path(__file__).parent.parent
KNOWN = frozenset({"gateway", "gateway.words", "gateway.rules", "gateway.rules.output_cap", "gateway.dialects"})


def files_of_the_project() -> list[Path]:
    """Every file that is or would be committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607 - whichever git is first
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return [path for name in listing.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


FILES = {path.relative_to(ROOT).as_posix(): path for path in files_of_the_project()}
PYTHON = {name: path.read_text(encoding="utf-8") for name, path in FILES.items() if name.endswith(".py")}


def sources() -> list[Source]:
    """The modules of both packages."""
    found = []
    for name, text in PYTHON.items():
        parts = name.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        if parts[0] in ("gateway", "telemetry"):
            found.append(Source(".".join(parts[:-1] if is_package else parts), is_package, text))
    return found


def test_imports_keep_to_the_house() -> None:
    """Nobody imports what the table does not allow, and pure modules stay pure."""
    all_of_them = sources()
    known = frozenset(source.module for source in all_of_them)
    problems = [problem for source in all_of_them for problem in check_imports(source, known)]
    assert not problems, "\n".join(problems)


def test_files_and_functions_keep_their_measure() -> None:
    """Files, functions and parameter lists stay short, named and documented; errors are not swallowed."""
    problems = [problem for name, text in PYTHON.items() for problem in check_shape(name, text)]
    assert not problems, "\n".join(problems)


def test_no_file_names_a_place_that_others_lack() -> None:
    """Nothing committed depends on one machine's folders or on where its packages come from."""
    problems: list[str] = []
    for name, path in FILES.items():
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:  # an image, a recording
            continue
        problems += check_text(name, text)
    assert not problems, "\n".join(problems)


def test_the_table_is_a_staircase() -> None:
    """A row names only modules of its own layer or of those above it, so that no import can go round in a circle."""
    layers = [layer for layer in HOUSE if layer not in ("root", "telemetry")]
    for number, layer in enumerate(layers):
        for module, allowed in HOUSE[layer].items():
            for word in allowed.split():
                row = row_of(f"gateway.{word}")
                assert row is not None, f"the row of {module} names {word}, which has no row"
                assert row[0] in (*layers[: number + 1], "rules"), (
                    f"{module} ({layer}) may not look down at {word} ({row[0]})"
                )


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [
        pytest.param("gateway.sse", "import gateway.relay", "may import: words", id="a leaf imports the core"),
        pytest.param("gateway.words", "from gateway import rules", "nothing of ours", id="from package import package"),
        pytest.param(
            "gateway.rules.x", "from gateway.rules import output_cap", "may import", id="a rule imports a rule"
        ),
        pytest.param("gateway.rules.x", "from . import output_cap", "may import", id="a relative import"),
        pytest.param(
            "gateway.relay", "from gateway.dialects.chat import Chat", "dialects.base", id="the relay knows chat"
        ),
        pytest.param("gateway.relay", "import asyncio", "pure", id="the relay waits"),
        pytest.param("gateway.tokens", "from time import monotonic", "pure", id="a leaf reads the clock"),
        pytest.param("gateway.policy", "if 1:\n def f():\n  import os.path", "pure", id="a hidden import"),
        pytest.param("gateway.exchange", "import httpx", "go through there", id="a second file knows the HTTP client"),
        pytest.param("gateway.front", "import telemetry.metrics", "only app serve", id="a door knows telemetry"),
        pytest.param(
            "gateway.front", "from prometheus_client import Counter", "only telemetry", id="the gateway counts"
        ),
        pytest.param("telemetry.spans", "from gateway.relay import Relay", "may import", id="telemetry looks inside"),
        pytest.param("gateway.novelty", "", "has no row", id="a module without a row"),
    ],
)
def test_a_planted_import_is_caught(module: str, text: str, says: str) -> None:
    """The import check sees each kind of violation and says what to do about it."""
    problems = list(check_imports(Source(module, is_package=False, text=text), KNOWN))
    assert len(problems) == 1
    assert says in problems[0]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        pytest.param(
            "gateway.rules.output_cap", "from gateway.deltas import Finish\nfrom msgspec import Struct", id="a rule"
        ),
        pytest.param("gateway.relay", "from gateway.dialects.base import Dialect", id="the relay and the base"),
        pytest.param("gateway.app", "import telemetry.metrics, gateway.front", id="the composition root"),
        pytest.param("gateway.upstream", "import asyncio, httpx", id="the shell does I/O"),
        pytest.param(
            "telemetry.observer", "import time\nfrom gateway import words\nimport telemetry.labels", id="telemetry"
        ),
    ],
)
def test_an_allowed_import_passes(module: str, text: str) -> None:
    """The import check lets pass what the table allows."""
    assert list(check_imports(Source(module, is_package=False, text=text), KNOWN)) == []


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        pytest.param("gateway/utils.py", '"""Doc."""\n', "`utils` says nothing", id="a file named utils"),
        pytest.param("gateway/core/x.py", '"""Doc."""\n', "`core` says nothing", id="a package named core"),
        pytest.param("x.py", '"""Doc."""\n' + "A = 1\n" * 300, "301 lines", id="a long file"),
        pytest.param("x.py", "A = 1\n", "no docstring", id="no docstring"),
        pytest.param("x.py", '"""Doc."""\ndef f():\n' + "    g()\n" * 50, "51 lines", id="a long function"),
        pytest.param(
            "x.py", '"""Doc."""\ndef f(a, /, b, c, *d, e, g, **h): ...\n', "7 parameters", id="many parameters"
        ),
        pytest.param("x.py", '"""Doc."""\ntry:\n    f()\nexcept:\n    raise\n', "bare except", id="a bare except"),
        pytest.param("x.py", '"""Doc."""\ntry:\n    f()\nexcept E:\n    pass\n', "swallowed", id="except and pass"),
        pytest.param("x.py", '"""Doc."""\ntry:\n    f()\nexcept E:\n    ...\n', "swallowed", id="except and dots"),
    ],
)
def test_a_planted_shape_is_caught(path: str, text: str, says: str) -> None:
    """The shape check sees each excess and says what to do about it."""
    problems = list(check_shape(path, text))
    assert len(problems) == 1
    assert says in problems[0]


def test_self_is_no_parameter() -> None:
    """A method may take six parameters beside itself."""
    text = '"""Doc."""\nclass A:\n    def f(self, a, b, c, d, e, g): ...\n'
    assert list(check_shape("x.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "see /wor" + "k/main/x",
        "open('../share" + "d/cases')",
        "share" + "d/tools/x.py",
        "HOME=/roo" + "t",
        "https://pypi.or" + "g/simple",
    ],
    ids=["a work folder", "a folder beside the repository", "the same without dots", "a home", "a package index"],
)
def test_a_planted_place_is_caught(text: str) -> None:
    """The text check sees paths and hosts of one machine."""
    assert len(list(check_text("x.md", f"fine\n{text}\n"))) == 1


@pytest.mark.parametrize(
    "text", ["the network/ and artwork/ folders", "GET /v1/root/x", "unshared/x", "a shared client"]
)
def test_ordinary_text_passes(text: str) -> None:
    """Words that only look like such places are let pass."""
    assert list(check_text("x.md", text)) == []
