"""Runs a module as `python -m` would, and ends it when standard input closes: no process outlives who started it.

python -m gateway.demo.leash gateway serve --port 0
"""

import os
import runpy
import signal
import sys
import threading


def _wait() -> None:
    """The other end is closed by whoever holds it, or by the system when that process dies."""
    while os.read(0, 4096):  # not through sys.stdin, whose lock a thread may not hold when Python ends
        continue
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the module the first argument names with the other arguments."""
    del sys.argv[0]
    threading.Thread(target=_wait, name="leash", daemon=True).start()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
