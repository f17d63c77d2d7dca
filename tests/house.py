"""The house rules as functions over source text; test_house.py runs them, and CONTRIBUTING.md says what they are for.

The tables at the top are meant to be amended: a new module gets a row in HOUSE, a module that needs a neighbour gets a
word in its row. What they must stay is a staircase: nothing imports what stands below it.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

HOUSE: Final[dict[str, dict[str, str]]] = {
    "leaves": {
        "bulk": "",
        "words": "",
        "calls": "words",
        "coding": "",
        "deltas": "words",
        "errors": "words",
        "headers": "words calls mask",
        "mask": "",
        "routes": "words errors",
        "splice": "",
        "sse": "words",
        "surrogates": "",
        "template": "deltas sse",
        "tokens": "words",
    },
    "values": {
        "events": "words calls deltas",
        "config": "words errors config rules.patterns",
        "catalog": "words",
        "policy": "words calls deltas errors config catalog rules",
    },
    "rules": {
        "rules": "words calls deltas",
        "rules.refusals": "words calls deltas rules.envelopes rules.patterns rules.wordings",  # its own tables
    },
    "wire": {
        "dialects": "words calls deltas errors splice sse surrogates template dialects",
        "assemble": "words deltas splice sse surrogates",
    },
    "core": {
        "actions": "words rules",
        "answer": "words deltas events tokens rules dialects.base",
        "capping": "words deltas events rules answer",
        "hold": "words deltas sse rules",
        "retelling": "words deltas sse rules dialects.base hold",
        "relay": "words calls deltas events splice sse template tokens rules dialects.base actions answer capping hold retelling",
        "whole": "words deltas events dialects.base answer capping retelling",
    },
    "shell": {
        "heads": "",
        "deadline": "",
        "send_timeout": "",
        "protocol": "caller channel deadline heads send_timeout",
        "http1": "errors bulk",
        "connection": "errors http1 deadline",
        "pool": "errors connection",
        "resolve": "",
        "transport": "errors http1 connection pool resolve",
        "line": "bulk headers http1 transport",
        "upstream": "words calls errors headers mask http1 line transport",
        "memory": "words deltas",
        "keys": "words config",
        "channel": "",
        "caller": "words bulk errors headers channel",
        "reads": "errors http1",
        "pump": "words errors events sse rules actions relay caller reads",
        "context": "words calls events headers policy dialects.base caller memory upstream",
        "retry": "words calls events policy rules dialects.levels memory context",
        "thinking": (
            "words calls errors events headers policy rules dialects.base dialects.budgets caller context memory upstream"
        ),
        "bodies": "words calls coding errors mask sse assemble upstream",
        "delivery": (
            "words bulk calls coding deltas errors events headers sse policy rules dialects.base actions answer relay whole "
            "bodies caller context pump reads retry thinking upstream"
        ),
        "exchange": (
            "words bulk calls coding deltas errors events headers sse policy rules dialects.base actions answer relay whole "
            "bodies caller context delivery http1 memory pump reads retry thinking upstream"
        ),
        "forward": "words calls errors events headers policy bodies caller context delivery exchange pump upstream",
        "limits": "",
        "models": "words calls errors headers routes config policy caller keys upstream",
        "front": (
            "words calls errors events headers routes policy dialects "
            "caller context exchange forward keys limits memory models upstream"
        ),
    },
    "root": {
        "app": "*",
        "serve": "words errors config app protocol",
        "demo": "words sse demo",
        "check": "words errors config catalog mask policy rules dialects",
        "cli": "words errors config catalog policy rules keys app check demo serve",
        "__main__": "cli",
        "": "",
    },
    "telemetry": {"telemetry": "words calls deltas events"},
}
"""Layer -> module or package of the gateway -> what of the gateway it may import (packages stand for their modules)."""

PURE: Final = ("leaves", "values", "rules", "wire", "core")
"""Layers that take values and give values: they touch no socket, no clock, no log."""

IMPURE: Final = (
    "aiohttp anyio asyncio concurrent httpcore httpx litestar logging opentelemetry os prometheus_client requests "
    "select selectors socket ssl starlette structlog subprocess threading time urllib3 uvicorn uvloop"
)

ONLY: Final[dict[str, str]] = {
    "httpx": "upstream line transport pool connection http1 demo",
    "opentelemetry": "telemetry",
    "prometheus_client": "telemetry",
    "rich": "demo",
    "telemetry": "app serve telemetry",
    "uvicorn": "protocol serve demo",
}
"""Packages that only these modules may know: each stands behind one door."""

MAX_LINES, MAX_FUNCTION, MAX_PARAMETERS = 300, 50, 6
VAGUE: Final = frozenset(("utils", "helpers", "common", "core", "types", "manager", "service"))
ELSEWHERE: Final = re.compile(
    r"""(?<![\w.})-])/(?:wor[k]|roo[t]|home/\w+|Users/\w+|opt/(?:wheels|pypi))(?![\w-])"""  # a machine's folders
    r"""|(?<![\w/-])(?:\.\./)*share[d]/"""  # a folder beside the repository
    r"""|pypi\.or[g]|pythonhosted\.or[g]|deb\.debian\.or[g]|registry\.npmjs\.or[g]"""  # where packages come from
)


class Source(NamedTuple):
    """One Python file: its dotted module name (`gateway.rules.output_cap`), whether it is a package, and its text."""

    module: str
    is_package: bool
    text: str


def modules_imported(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Dotted names of all modules that a source imports. `known` tells a module from a name in it."""
    here = source.module.split(".")
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = here[: len(here) - node.level + source.is_package] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{origin}.{alias.name}"
                yield name if name in known else origin


def row_of(module: str) -> tuple[str, str, str] | None:
    """Layer, place and allowed imports of a module of ours; None when the table has no row for it."""
    package, _, place = module.partition(".")
    place = package if package == "telemetry" else place
    rows = ((layer, name, allowed) for layer, rows in HOUSE.items() for name, allowed in rows.items())
    fitting = [row for row in rows if covers(row[1], place)]
    return max(fitting, key=lambda row: len(row[1]), default=None)


def covers(row: str, module: str) -> bool:
    """Whether a word of the table means this module: the module itself, or a package that holds it."""
    return row in ("*", module) or (bool(row) and module.startswith(f"{row}."))


def check_imports(source: Source, known: frozenset[str]) -> Iterator[str]:
    """Imports that the table does not allow."""
    row = row_of(source.module)
    if row is None:
        yield f"{source.module} has no row: say in HOUSE in tests/house.py where it stands and what it may import"
        return
    layer, place, allowed = row
    for name in sorted(set(modules_imported(source, known))):
        root, _, ours = name.partition(".")
        if root == "gateway" and not any(covers(word, ours) for word in allowed.split()):
            yield (
                f"{source.module} imports {name}; {place or 'gateway'} may import: {allowed or 'nothing of ours'}. "
                "Move the code to where it may stand, or amend its row in HOUSE in tests/house.py"
            )
        if root in ONLY and not any(covers(word, place) for word in ONLY[root].split()):
            yield f"{source.module} imports {name}, which only {ONLY[root]} may know: go through there"
        if layer in PURE and root in IMPURE.split():
            yield f"{source.module} imports {name}, but {layer} are pure: take values, let the shell do the rest"


def check_shape(path: str, text: str) -> Iterator[str]:
    """A file that is too long, named for nothing, or undocumented; functions that are too long or take too much."""
    lines = len(text.splitlines())
    if lines > MAX_LINES:
        yield f"{path} has {lines} lines, at most {MAX_LINES}: find the second thing it does and give it a file"
    for part in re.split(r"[/.]", path)[:-1]:
        if part in VAGUE:
            yield f"{path}: `{part}` says nothing; name it after what it holds"
    tree = ast.parse(text)
    if not ast.get_docstring(tree):
        yield f"{path} has no docstring: say in one to six lines what it is for"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _check_function(path, node)
        elif isinstance(node, ast.ExceptHandler):
            yield from _check_handler(path, node)


def _check_function(path: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > MAX_FUNCTION:
        yield f"{path}:{node.lineno} {node.name} has {length} lines, at most {MAX_FUNCTION}: split it by its decisions"
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))]
    count = len(names) - (names[:1] in (["self"], ["cls"]))
    if count > MAX_PARAMETERS:
        yield f"{path}:{node.lineno} {node.name} has {count} parameters, at most {MAX_PARAMETERS}: join some"


def _check_handler(path: str, node: ast.ExceptHandler) -> Iterator[str]:
    if node.type is None:
        yield f"{path}:{node.lineno} a bare except catches the end of the process too: name what is expected"
    if all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for s in node.body
    ):
        yield f"{path}:{node.lineno} an error is swallowed: handle it, or say contextlib.suppress(ThatOne) and why"


def check_text(path: str, text: str) -> Iterator[str]:
    """Names of places that exist on one machine only."""
    for found in ELSEWHERE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{path}:{line} names {found[0]!r}, which other machines lack: use a relative path, or no name"
