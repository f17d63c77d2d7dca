"""Counts what a piece of Python executes: bytecode instructions, calls into C, and in whose code. The same everywhere.

No clock: on the same Python the same code gives the same counts, on an idle machine as on one that is on its knees. The
interpreter's own tracing does it (`sys.settrace` with opcode events, `sys.setprofile` for calls into C); what traced
before, a coverage for one, is put back.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from msgspec import Struct, field

RUNS: Final = 8


class Counts(Struct):
    """What ran."""

    operations: int = 0
    """Bytecode instructions, in whatever module."""
    calls: int = 0
    """Calls into functions written in C."""
    modules: set[str] = field(default_factory=set)
    """Whose Python code or C functions ran, by top-level package."""
    where: Counter[str] = field(default_factory=Counter)
    """Instructions by function, for a message that says what grew."""

    @property
    def told(self) -> str:
        """The functions that ran most, most first."""
        return ", ".join(f"{name} {count}" for name, count in self.where.most_common(12))


@contextmanager
def _tracing_put_back() -> Iterator[None]:
    trace, profile, collecting = sys.gettrace(), sys.getprofile(), gc.isenabled()
    gc.disable()  # what it finds, and when, is not the code's doing
    try:
        yield
    finally:
        sys.setprofile(profile)
        sys.settrace(trace)
        if collecting:
            gc.enable()


def count(action: Callable[[], object], only: tuple[str, ...] = ()) -> Counts:
    """Run the action until two runs in a row count the same, and give that. It must find the same state each time.

    `only`: packages whose instructions count; none: all. Calls into C count wherever they come from.

    The first runs fill caches, and CPython 3.13 sees opcodes only of code that was traced before. Raises RuntimeError
    for an action that never does the same twice.
    """
    last = _once(action, only)
    for _ in range(RUNS):
        counts = _once(action, only)
        if counts.operations == last.operations and (only or counts.calls == last.calls):
            return counts
        last = counts
    raise RuntimeError(f"{RUNS} runs, and no two the same: {last.told}")


def _once(action: Callable[[], object], only: tuple[str, ...]) -> Counts:
    counts = Counts()

    def inside(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            counts.operations += 1
            counts.where[f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}"] += 1
        return inside

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call":
            return None
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        counts.modules.add(package)
        if only and package not in only:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return inside

    def into_c(_: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function is not sys.setprofile:
            counts.calls += 1
            owner = getattr(function, "__self__", None)
            module = getattr(function, "__module__", None) or type(owner).__module__
            counts.modules.add(str(module).partition(".")[0])

    with _tracing_put_back():
        sys.settrace(enter)
        sys.setprofile(into_c)
        try:
            action()
        finally:
            sys.setprofile(None)
            sys.settrace(None)
    return counts
