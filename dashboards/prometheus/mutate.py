#!/usr/bin/env python3
"""Plants one fault after another into the rules and asks whether the promtool tests notice.

    python dashboards/prometheus/mutate.py [--promtool PATH] [--every N]

Every rule is once left out, every `and` and `unless` clause once dropped, every `for` once set to nothing; FAULTS adds
what people get wrong by hand. Prints a table; exit 1 if a fault survives, 2 if the tests fail without any.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

HERE: Final = Path(__file__).resolve().parent
RULE_FILES: Final = ("recording.rules.yml", "alerts.rules.yml")
CLAUSE: Final = re.compile(r"\n( *)(?:and|unless)\b[^\n]*\n(?:\1 +[^\n]*(?:\n|$))+")
"""A line that starts with `and` or `unless`, and the deeper lines after it."""


class Rule(msgspec.Struct, omit_defaults=True):
    """A recording rule or an alert, as Prometheus reads it."""

    record: str = ""
    alert: str = ""
    expr: str = ""
    hold: str = msgspec.field(name="for", default="")
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def title(self) -> str:
        """The name of what it records or fires."""
        return self.record or self.alert


class Group(msgspec.Struct):
    """Rules that are evaluated one after another."""

    name: str
    rules: list[Rule]
    interval: str = "1m"


class RuleFile(msgspec.Struct):
    """One of RULE_FILES."""

    groups: list[Group]


class TestFile(msgspec.Struct):
    """The head of a promtool test: the groups it is about."""

    group_eval_order: list[str]


class Fault(msgspec.Struct, frozen=True):
    """`old` becomes `new` in the expression of each rule whose name matches; no `old`: see `kind`."""

    kind: str
    rules: str
    """A regular expression for the whole name."""
    old: str = ""
    new: str = ""


FINISH: Final = "job_model_upstream_reported:thinkcap_finish_reasons:"
TURNS: Final = "job_model_upstream:thinkcap_finish_reasons:"
OVERRUNS: Final = "job_model_upstream:thinkcap_output_overruns_per_output_capped_requests:ratio_"
GROWN: Final = "sum by (job, model, upstream, reported) (increase(thinkcap_finish_reasons_total[{}]{}))"
OF_SUM: Final = "sum by (job, model, upstream, reported) (thinkcap_finish_reasons_total)"

FAULTS: Final = (
    Fault("what we returned told apart", FINISH + "increase.*", "upstream, reported)", "upstream, reported, returned)"),
    Fault("a gauge's delta", FINISH + "increase1h", "increase(", "delta("),
    Fault("sum before increase", FINISH + "increase1h", GROWN.format("1h", ""), f"increase({OF_SUM}[1h:1m])"),
    Fault("sum before increase", FINISH + "increase15m", GROWN.format("15m", ""), f"increase({OF_SUM}[15m:1m])"),
    Fault("baseline overlaps the hour", FINISH + "increase1d_offset1h", " offset 1h", ""),
    Fault("baseline of six hours", FINISH + "increase1d_offset1h", "[1d]", "[6h]"),
    Fault("replicas kept apart", FINISH + "increase1h", "(job, model", "(instance, job, model"),
    Fault("empty window divided by", FINISH + "share15m", " > 0)", ")"),
    Fault("empty window divided by", FINISH + "share1h", " > 0)", ")"),
    Fault("empty window divided by", FINISH + "share1d_offset1h", " > 0)", ")"),
    Fault("vanished reason forgotten", FINISH + "share_delta15m", f"or\n      0 * {FINISH}share1d_offset1h", ""),
    Fault("vanished reason forgotten", FINISH + "share_delta1h", f"or\n      0 * {FINISH}share1d_offset1h", ""),
    Fault("new reason forgotten", FINISH + "share_delta15m", f"or\n      0 * {FINISH}share15m", ""),
    Fault("new reason forgotten", FINISH + "share_delta1h", f"or\n      0 * {FINISH}share1h", ""),
    Fault("distance not halved", TURNS + "tvd1h", "0.5 *", "1 *"),
    Fault("distance not halved", TURNS + "tvd15m", "0.5 *", "1 *"),
    Fault("noise too small", TURNS + "tvd1h_noise", "0.3989", "0.1"),
    Fault("noise of an empty hour", TURNS + "tvd1h_noise", "increase1h > 0", "increase1h"),
    Fault("threshold too high", "FinishReasonDrift", "> 15", "> 50"),
    Fault("threshold too low", "FinishReasonFirstSeen", ">= 5", ">= 1"),
    Fault("another reason", "FinishReasonMissing", "missing", "other"),
    Fault("threshold too low", "FinishReasonMissing", "> 5", "> 1"),
    Fault("empty window divided by", OVERRUNS + ".*", " > 0)", ")"),
    Fault("one verdict only", OVERRUNS + "increase1h", "overruns_total[", 'overruns_total{verdict="upgraded"}['),
    Fault("a gauge's delta", OVERRUNS + "increase30m", "increase(thinkcap_output_over", "delta(thinkcap_output_over"),
    Fault("budget doubled", "job_model_upstream:thinkcap_output_overrun_budget:ratio", "0.05", "0.1"),
    Fault("own budget ignored", "job_model_upstream:thinkcap_output_overrun_budget:ratio",
          "* on (model) group_left () model:thinkcap_output_overrun_budget:ratio", "* 0.05"),
    Fault("factor too high", "OutputCapOverrunFastBurn", "3 *", "6 *"),
    Fault("factor too low", "OutputCapOverrunFastBurn", "3 *", "2 *"),
    Fault("factor too low", "OutputCapOverrunSlowBurn", "2 *", "1 *"),
    Fault("factor too high", "OutputCapOverrunSlowBurn", "2 *", "3 *"),
    Fault("threshold too low", "ThinkingGivenUp", "> 5", "> 1"),
    Fault("threshold too low", "EndReasoningFailing", "> 20", "> 5"),
    Fault("timeouts not counted", "job_upstream:thinkcap_end_reasoning.*", 'result!="ended"', 'result="refused"'),
    Fault("watch taken for a fault", ".*unable_per.*|ThinkingCapUnable", 'method!="watch"', 'method!="none"'),
    Fault("every outcome taken for unable", ".*unable_per.*", ',outcome="unable"', ""),
    Fault("threshold too low", "ThinkingCapUnable", "> 10", "> 4"),
    Fault("second refusal forgiven", ".*level_retries_failed.*", 'outcome!="ok"', 'outcome="failed"'),
    Fault("threshold too low", "LevelRetriesFailing", "> 20", "> 5"),
    Fault("memory hides the client", ".*level_unfit_requests.*", '"refused", "(.*)"', '"none", "(.+)"'),
    Fault("threshold too low", "LevelRefusalsPersist", ">= 10", ">= 5"),
    Fault("threshold too low", "UsageMissing", "> 10", "> 4"),
    Fault("callers' mistakes counted", "job_upstream:thinkcap_upstream_errors.*", '{kind!="http_4xx"}', ""),
    Fault("429 taken for a caller's mistake", "job_upstream:thinkcap_upstream_errors.*", "http_4xx", "http_4.."),
    Fault("threshold too high", "UpstreamErrors", "> 10", "> 50"),
    Fault("median for the 99th", "job_dialect:thinkcap_overhead_seconds:.*", "0.99", "0.5"),
    Fault("threshold too high", "GatewayOverheadHigh", "> 50", "> 500"),
    Fault("no target, no alert", "GatewayDown", ' or absent(up{job="thinkcap"})', ""),
    Fault("another job", "GatewayDown", 'up{job="thinkcap"} == 0', "up == 0"),
    Fault("a gateway that is down", "MetricMissing", " == 1", ""),
)  # fmt: skip
"""What is easily got wrong by hand. The three that come by themselves (rule, clause, for) are made by `faults`."""


def rules_of(path: Path) -> list[Group]:
    """The groups of a rule file."""
    return msgspec.yaml.decode(path.read_bytes(), type=RuleFile).groups


def faults(groups: Sequence[Group]) -> Iterator[Fault]:
    """All faults, those that come by themselves first."""
    for rule in (rule for group in groups for rule in group.rules):
        name = re.escape(rule.title)
        yield Fault("rule left out", name)
        for clause in CLAUSE.finditer(rule.expr):
            yield Fault("clause dropped", name, clause.group(), "\n")
        if rule.hold:
            yield Fault("for: nothing", name)
    yield from FAULTS


def planted(groups: Sequence[Group], fault: Fault) -> tuple[list[Group], set[str]]:
    """The groups with the fault in them, and the names of those it changed."""
    changed: set[str] = set()
    result = []
    for group in groups:
        rules = []
        for rule in group.rules:
            hit = re.fullmatch(fault.rules, rule.title) is not None
            changed |= {group.name} if hit else set()
            if hit and fault.kind == "rule left out":
                continue
            rules.append(spoilt(rule, fault) if hit else rule)
        result.append(Group(group.name, rules, group.interval))
    return result, changed


def spoilt(rule: Rule, fault: Fault) -> Rule:
    """The rule with the fault; ValueError where there is no place for it."""
    if fault.kind == "for: nothing":
        return msgspec.structs.replace(rule, hold="0s")
    if fault.old not in rule.expr:
        raise ValueError(f"{fault.kind}: {rule.title} has no {fault.old!r}")
    return msgspec.structs.replace(rule, expr=rule.expr.replace(fault.old, fault.new))


def promtool(program: str, *args: str, cwd: Path) -> bool:
    """Whether promtool is content."""
    return subprocess.run([program, *args], cwd=cwd, capture_output=True, check=False).returncode == 0  # noqa: S603 - the program is the operator's choice


def failing(program: str, groups: Sequence[Group], about: set[str]) -> str | None:
    """The first test file that fails on these rules among those about one of the groups; `invalid`: not even rules.

    A test sees the groups that it names, no others: that is half the time.
    """
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        tests = Path(shutil.copytree(HERE / "tests", root / "tests"))
        for test in sorted(tests.glob("*.test.yml"), key=lambda path: (path.stem.endswith("_day"), path.name)):
            order = msgspec.yaml.decode(test.read_bytes(), type=TestFile).group_eval_order
            if not about.intersection(order):
                continue
            seen = [group for group in groups if group.name in order]
            for name in RULE_FILES:
                alerts = name.startswith("alerts")
                part = [group for group in seen if group.name.endswith("-alerts") == alerts]
                (root / name).write_bytes(msgspec.yaml.encode(RuleFile(part)))
            if not promtool(program, "check", "rules", *RULE_FILES, cwd=root):
                return "invalid"
            if not promtool(program, "test", "rules", test.name, cwd=tests):
                return test.name
    return None


def main() -> int:
    """Plant, test, tell."""
    parser = argparse.ArgumentParser(description="Plant faults into the rules; the tests must notice each.")
    parser.add_argument("--promtool", default="promtool", help="program to test with")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="plant only every Nth fault")
    options = parser.parse_args()
    groups = [group for name in RULE_FILES for group in rules_of(HERE / name)]
    if broken := failing(options.promtool, groups, {group.name for group in groups}):
        sys.stderr.write(f"{broken} fails without any fault\n")
        return 2
    chosen = list(faults(groups))[:: options.every]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(lambda fault: failing(options.promtool, *planted(groups, fault)), chosen))
    for fault, verdict in zip(chosen, verdicts, strict=True):
        where = fault.rules.replace("\\", "")
        what = " ".join(fault.old.split())[:60] if fault.kind == "clause dropped" else ""
        sys.stdout.write(f"{verdict or 'SURVIVED':29} {fault.kind:32} {where} {what}\n")
    lost = sum(verdict in (None, "invalid") for verdict in verdicts)
    sys.stdout.write(f"{len(chosen)} faults, {len(chosen) - lost} caught, {lost} not\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
