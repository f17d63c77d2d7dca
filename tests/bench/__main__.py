"""`make bench`: what Thinkcap costs with everything on, beside nginx, no gateway at all, and (--peers) its peers.

python -m tests.bench [--peers] [--rounds 5] [--loads plain16,paced128] [--systems thinkcap,nginx] [--quick]
python -m tests.bench --against ../other/checkout        that tree as well, as `thinkcap-other`
python -m tests.bench --show build/bench/result.json     the tables of an earlier run
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from tests.bench.figures import Kept
from tests.bench.loads import LOADS
from tests.bench.peers import INSTALL, PEERS, install
from tests.bench.report import report
from tests.bench.rounds import Bench, say
from tests.bench.systems import ROOT, Ports, System, direct, free_port, thinkcap

BUILD: Final = ROOT / "build"
STARTS: Final = 5
CORES: Final = 2
MEASURED: Final = tuple(name for name, load in LOADS.items() if load.kind != "open")
OPENED: Final = tuple(name for name, load in LOADS.items() if load.kind == "open")


def main() -> int:
    """Install, measure, save, print. Exit status 2 where this machine cannot measure."""
    arguments = _arguments()
    if arguments.show:
        sys.stdout.write(report(msgspec.json.decode(arguments.show.read_bytes(), type=Kept)) + "\n")
        return 0
    cores = sorted(os.sched_getaffinity(0))[:CORES] if hasattr(os, "sched_getaffinity") else []
    if len(cores) < CORES:
        say("the benchmark needs Linux and two cores: one for the load, one for the system under test")
        return 2
    folder = arguments.out.resolve().parent / "run"  # peers are started elsewhere
    (folder / "temp").mkdir(parents=True, exist_ok=True)
    install(BUILD / "peers", list(INSTALL) if arguments.peers else ["nginx"])
    ports = Ports(free_port(), free_port())
    systems = list(_systems(arguments, folder, ports))
    say("systems:", ", ".join(system.name for system in systems))
    kept = Kept(python=platform.python_version(), kernel=platform.release(), commit=_commit())

    def save() -> None:
        arguments.out.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")

    os.nice(arguments.nice)  # everything started inherits it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that everything started is ended
    with Bench(folder, ports, (cores[0], cores[1])) as bench:
        if arguments.starts:
            bench.starts(systems, arguments.starts, kept)
        opened = [name for name in arguments.loads if name in OPENED]
        if opened:
            bench.memory(systems, opened, kept)
        save()
        measured = [name for name in arguments.loads if name in MEASURED]
        bench.rounds(systems, measured, arguments.rounds, kept, save)
    sys.stdout.write(report(kept) + "\n")
    say("kept in", arguments.out)
    return 0


def _systems(arguments: argparse.Namespace, folder: Path, ports: Ports) -> Iterator[System]:
    peers = BUILD / "peers"
    known = [direct(ports), PEERS["nginx"](folder, ports, peers)]
    known += [thinkcap(folder, ports, traced=True), thinkcap(folder, ports, traced=False)]
    if arguments.against:
        for traced in (True, False):
            there = thinkcap(folder, ports, traced=traced, source=arguments.against.resolve())
            known.append(structs.replace(there, name=there.name.replace("thinkcap", "thinkcap-other")))
    if arguments.peers:
        known += [make(folder, ports, peers) for name, make in PEERS.items() if name != "nginx"]
    for system in known:
        if arguments.systems and system.name not in arguments.systems:
            continue
        if system.there:
            yield system
        else:
            say("LEFT OUT", system.name, "which is not installed")


def _commit() -> str:
    git = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - a constant command
    return done.stdout.strip() or "unknown"


def _names(text: str) -> list[str]:
    return text.split(",")


def _loads(text: str) -> list[str]:
    unknown = [name for name in _names(text) if name not in LOADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such load: {', '.join(unknown)} (there are {', '.join(LOADS)})")
    return _names(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", action="store_true", help="install TensorZero, Portkey and LiteLLM and compare")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=STARTS, help="of each system (default: %(default)s; 0: none)")
    parser.add_argument("--loads", type=_loads, default=list(LOADS), help="some of: " + ", ".join(LOADS))
    parser.add_argument("--systems", type=_names, help="only these (default: all there are)")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another tree of Thinkcap, beside this one")
    parser.add_argument("--nice", type=int, default=0, help="of all that is measured; -10 (root) keeps strangers off")
    parser.add_argument("--out", type=Path, default=BUILD / "bench/result.json")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of this file and end")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
