"""What a piece of work leaves to the garbage collector, for all that is the gateway's own should free itself."""

import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import gateway
import telemetry

OURS: Final = ("gateway", "telemetry")
FOLDERS: Final = tuple(str(Path(package.__path__[0])) for package in (gateway, telemetry))


async def left_by(work: Callable[[], Awaitable[object]]) -> list[str]:
    """Names of what of ours could not free itself, each once."""
    gc.collect()
    enabled, flags = gc.isenabled(), gc.get_debug()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await work()
        gc.collect()
        return sorted({name for thing in gc.garbage if (name := _ours(thing))})
    finally:
        gc.garbage.clear()
        gc.set_debug(flags)
        if enabled:
            gc.enable()


def _ours(thing: Any) -> str:
    """The name of a value, or of the code of a frame, that is the gateway's; "" for others."""
    code = getattr(thing, "f_code", None) or getattr(thing, "cr_code", None)
    if code is not None:
        return str(code.co_qualname) if code.co_filename.startswith(FOLDERS) else ""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__name__}" if kind.__module__.startswith(OURS) else ""
