"""Runs cases from the command line: `python -m tests.cases --only 009 --verbose`, or `python tests/cases`.

Prints each failing case with its first difference, then how many passed. Exit status 1: some failed, or none ran.
"""

import argparse
import asyncio
import json
import shlex
import sys
from pathlib import Path

if not __package__:  # started by its path
    sys.path[0] = str(Path(__file__).parents[2])

from tests.cases.exact import Json
from tests.cases.gateway_process import SERVE
from tests.cases.runner import HERE, Options, Verdict, load, run


def main() -> int:
    """Pick the cases, run them, print the verdicts."""
    arguments = _arguments().parse_args()
    options = Options(
        command=tuple(shlex.split(arguments.command)) if arguments.command else SERVE,
        spans=not (arguments.no_spans or arguments.wire_only),
        counters=not arguments.wire_only,
        jobs=arguments.jobs,
    )
    cases = [case for case in load(arguments.paths) if _is_picked(case, arguments, options)]
    verdicts = asyncio.run(_run(cases, options, verbose=arguments.verbose))
    if arguments.json:
        arguments.json.write_text(
            json.dumps([_row(verdict) for verdict in verdicts], indent=1) + "\n", encoding="utf-8"
        )
    failed = sum(bool(verdict.differences) for verdict in verdicts)
    sys.stdout.write(f"{len(verdicts) - failed} passed, {failed} failed\n")
    return 1 if failed or not verdicts else 0


async def _run(cases: list[Json], options: Options, *, verbose: bool) -> list[Verdict]:
    verdicts = []
    async for verdict in run(cases, options):
        verdicts.append(verdict)
        case = verdict.case
        if verbose:
            lines = [
                f"---- {case['id']} {case['title']}",
                *verdict.transcript,
                *(f"! {d}" for d in verdict.differences),
            ]
            sys.stdout.write("\n".join([*lines, ""]))
        if verdict.differences:
            sys.stdout.write(f"FAIL {case['id']} {case['slug']} ({case['area']}): {verdict.differences[0]}\n")
        sys.stdout.flush()
    return sorted(verdicts, key=lambda verdict: str(verdict.case["id"]))


def _is_picked(case: Json, arguments: argparse.Namespace, options: Options) -> bool:
    return (
        (not arguments.only or bool({case["id"], case["slug"]} & set(arguments.only.split(","))))
        and arguments.area in (None, case["area"])
        and arguments.dialect in (None, case["dialect"])
        and (options.spans or "spans" not in case.get("needs", []))
        and not (arguments.skip_debatable and case["debatable"])
    )


def _row(verdict: Verdict) -> Json:
    about = {key: verdict.case[key] for key in ("id", "slug", "area", "dialect", "debatable")}
    return about | {"passed": not verdict.differences, "differences": verdict.differences}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cases", description="Run black-box cases against a gateway.")
    add = parser.add_argument
    add("paths", nargs="*", type=Path, default=[HERE], help="case files or folders (default: all beside this program)")
    add("--command", help="how to start a gateway; {settings} stands for its settings file (default: this source tree)")
    add("--jobs", type=int, default=Options.jobs, help="gateways at a time")
    add("--only", help="ids or slugs, separated by commas")
    add("--area", help="cases of one area")
    add("--dialect", help="cases of one dialect")
    add("--json", type=Path, help="write every verdict to this file")
    add("--verbose", action="store_true", help="print every exchange")
    add("--skip-debatable", action="store_true", help="leave out cases for which another outcome can be argued")
    add("--no-spans", action="store_true", help="judge no spans")
    add("--wire-only", action="store_true", help="judge neither counters nor spans, only what goes over the wire")
    return parser


if __name__ == "__main__":
    sys.exit(main())
