"""`make next`: what the next minor of Kubernetes changes, as the list of the work that a column for it is.

The newest alpha, beta, candidate or release above the newest column is built. Its kube-scheduler and that of the newest
column say of themselves which gates, flags, defaults and metrics they have; and the new one is asked directed and
random cases, as ours answers them for the newest column. Nothing but caches changes.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.releases import RELEASES
from devcluster.toolchain import binaries, upcoming
from scheduler.catalog import KUBERNETES_VERSIONS
from tests.conformance import profiles
from tests.conformance.case import Case
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.directed import DIRECTED
from tests.conformance.directed_plugins import PLUGIN_CASES
from tests.conformance.features import available
from tests.conformance.generator import choose, generate
from tests.conformance.oracle import oracle_of
from tests.conformance.ours import Ours
from tests.conformance.runner import Runner

_GATE = re.compile(r"^\s+kube:(\w+)=true\|false \((\w+) - default=(true|false)\)", re.MULTILINE)
_FLAG = re.compile(r"^\s+(?:-\w, )?--([\w-]+)", re.MULTILINE)
_SCORE = re.compile(r"score of (\S+) on ")
_OUTCOME = re.compile(r"outcome: real (\w+) \(.*\), ours (\w+) \(")
_MAX_EXAMPLES = 3


def gates(usage: str) -> dict[str, str]:
    """GroupPlayer and default of each feature gate that `--help` lists."""
    return {name: f"{stage}, {'on' if default == 'true' else 'off'}" for name, stage, default in _GATE.findall(usage)}


def flags(usage: str) -> dict[str, str]:
    """The flags that `--help` lists."""
    return dict.fromkeys(_FLAG.findall(usage), "a flag")


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field of a configuration, by its path, with its value; plugins by their names."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from fields(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            name = below.get("name", number) if isinstance(below, dict) else number
            yield from fields(below, f"{path}[{name}]")
    else:
        yield path, str(value)


def metrics(text: str) -> dict[str, str]:
    """Type and labels of each metric of the scheduler."""
    described = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("scheduler_"):
            labels = sorted({name for sample in family.samples for name in sample.labels} - {"le"})
            described[family.name] = f"{family.type} by {', '.join(labels) or 'nothing'}"
    return described


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield what is new, gone, or another than before."""
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"+ {name}: {new[name]}"
        elif name not in new:
            yield f"- {name}: {old[name]}"
        elif old[name] != new[name]:
            yield f"  {name}: {old[name]} -> {new[name]}"


@dataclass
class Differences:
    """What differs in decisions, by what it is: how often, and the first cases that show it."""

    number: Counter[str] = field(default_factory=Counter)
    shown_by: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, reports: Iterable[str]) -> None:
        """Take in the reports of a case."""
        for kind in {kind for report in reports for kind in kinds_of(report)}:
            self.number[kind] += 1
            self.shown_by.setdefault(kind, []).append(name)

    def lines(self) -> Iterator[str]:
        """Yield what differs, the most frequent first."""
        for kind, number in self.number.most_common():
            yield f"  {kind}: {number} cases, such as {'; '.join(self.shown_by[kind][:_MAX_EXAMPLES])}"


def kinds_of(report: str) -> set[str]:
    """What differs in a report of a mismatch, without the nodes and amounts of its case."""
    kinds: set[str] = set()
    lines = report.splitlines()[1:]
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("again: "):
            break
        if match := _SCORE.match(text):
            kinds.add(f"score of {match[1]}")
        elif text == "message:":
            real, ours = (_reasons(lines[number + offset]) for offset in (1, 2))
            kinds |= {f"message: {reason}" for reason in real ^ ours} or {"message: other numbers"}
        elif match := _OUTCOME.match(text):
            kinds.add(f"outcome: real {match[1]}, ours {match[2]}")
        elif text.startswith(("feasible for ", "preemption: ")):
            kinds.add(text.partition(":")[0])
    return kinds or {"choice"}


def _reasons(line: str) -> set[str]:
    message = line.strip().partition(" ")[2].strip("'\"")
    parts = message.partition(" nodes are available: ")[2].partition(". ")[0].rstrip(".").split(", ")
    return {part.partition(" ")[2] if part[:1].isdigit() else part for part in parts if part} or {message}


def _usage(binary: Path) -> str:
    return subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout


def _defaults(binary: Path) -> dict[str, str]:
    """The configuration that a kube-scheduler completes from nothing."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "configuration.yaml"
        command = [str(binary), f"--write-config-to={file}", "--master=http://127.0.0.1:1"]
        subprocess.run(command, capture_output=True, check=True)
        return dict(fields(yaml.safe_load(file.read_text())))


def _scraped(plane: ControlPlane) -> dict[str, str]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(plane.metrics, context=context) as answer:
        return metrics(answer.read().decode())


def _directed() -> dict[str, Case]:
    return DIRECTED | {
        name: Case(0, (), profile, tuple(objects), tuple(pods))
        for name, (objects, pods, profile) in PLUGIN_CASES.items()
    }


async def _asked(
    plane: ControlPlane, cases: Iterable[tuple[str, Case]], differences: Differences, refused: list[str]
) -> None:
    async with oracle_of(plane) as oracle:
        runner = Runner(oracle, Ours(kubernetes=plane.kubernetes))
        for name, case in cases:
            reports = await runner.compare(case)
            if reports:
                differences.add(name, reports)
        refused += runner.summary.refused


def _random(plane: ControlPlane, number: int, seed: int) -> Iterator[tuple[str, Case]]:
    features = available(profiles.implemented(), plane.served)
    names = [variant.name for variant in profiles.variants()]
    for each in range(seed, seed + number):
        picked, profile = choose(each, features, names)
        yield f"--replay {each} --features {','.join(picked)} --profile {profile}", generate(each, picked, profile)


def _say(title: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    print(f"\n{title}: {len(lines) or 'nothing'}", flush=True)
    for line in lines:
        print(f"  {line}")


def _work_list(known: str, binary: Path, cases: int, seed: int) -> None:
    former = binaries.ensure(["kube-scheduler"], SilentReporter(), known)["kube-scheduler"]
    old, new = _usage(former), _usage(binary)
    _say("feature gates", changed(gates(old), gates(new)))
    _say("flags", changed(flags(old), flags(new)))
    _say("configuration as completed", changed(_defaults(former), _defaults(binary)))
    differences, refused = Differences(), list[str]()
    directed = _directed()
    named = [(f"directed {name}", case) for name, case in directed.items()]
    with control_plane_running(known) as plane:
        asyncio.run(_asked(plane, named, Differences(), []))
        before = _scraped(plane)
    with control_plane_running(known, scheduler=binary) as plane:
        asyncio.run(_asked(plane, named, differences, refused))
        _say("metrics after the directed cases", changed(before, _scraped(plane)))
        asyncio.run(_asked(plane, _random(plane, cases, seed), differences, refused))
    _say(f"decisions that differ, of {len(named)} directed and {cases} random cases", differences.lines())
    if refused:
        _say("cases that the API server refused", refused[:5])


def main(arguments: list[str]) -> int:
    """Exit code 0 when the list is printed, or there is nothing newer; 1 where it cannot be built; 2 on wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.upcoming", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="number of random cases (500)")
    parser.add_argument("--seed", type=int, default=70_000, metavar="S", help="first seed (70000)")
    parser.add_argument("--above", metavar="VERSION", help="what is newer than this, not than the newest column")
    options = parser.parse_args(arguments)
    newest = RELEASES[f"1.{max(KUBERNETES_VERSIONS)}"].version
    above = upcoming.version_of(options.above or newest)
    if above is None or above.minor not in KUBERNETES_VERSIONS:
        parser.error(f"--above: {options.above} is not a version of a column, such as {newest}")
    report = SilentReporter()
    try:
        version = upcoming.newest_above(above, upcoming.published(report))
        if version is None:
            print(f"nothing newer than {above.text}")
            return 0
        print(f"Kubernetes {version.text}, beside what is known as 1.{above.minor}", flush=True)
        _work_list(f"1.{above.minor}", upcoming.build(version, report), options.cases, options.seed)
    except DevClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
