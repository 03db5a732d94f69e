"""One run of one of upstream's tests: the binary is started, and what it prints becomes outcomes."""

from __future__ import annotations

import enum
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import processes
from scheduler.catalog.schedulerplugins import SCHEDULER_PLUGINS
from scheduler.gates import SETTABLE_GATES
from tests.upstream.source import Package
from tests.upstream.unrunnable import skipped_subtests

CHECKOUT = Path(__file__).parents[2]
TEST_SECONDS = 2700
"""When a test that hangs is ended: TestPreemption with ours takes half an hour on busy cores."""
_OWN_PLUGINS = [plugin.name for plugin in SCHEDULER_PLUGINS if "scheduler-plugins" in plugin.flavours]
"""Plugins that ours has, which the tests of scheduler-plugins register in Go."""
_REFUSED_PLUGINS = ("PodGroupPodsCount", "TopologyPlacementGenerator")
"""Plugins whose work GangScheduling does: a configuration that names them is refused."""
_FLAGS = "-v 4 --decision-details 0"
_OUTCOME = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)


class Side(enum.StrEnum):
    """Which scheduler a run has: upstream's own, or ours with one of its compatibilities."""

    GO = "go"
    UPSTREAM = "upstream"
    SAFE = "safe"


@dataclass
class Run:
    """What came of a test (with its subtests) that was run by itself.

    Attributes:
        passed: how many cases passed: subtests, or the test itself where it has none.
        failed: names of cases that did not.
        skipped: how many upstream skips itself.
        started: how often our scheduler was started.
        unjudged: why it was not, as often as it was not.
        troubles: how our schedulers ended that were not ended by the test.
        seconds: how long it took.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    started: int = 0
    unjudged: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    seconds: float = 0.0


def names(package: Package, servers: Mapping[str, str]) -> list[str]:
    """The tests of a package, in its order. A binary starts its servers even for this, unless it is told of some."""
    output = printed([str(package.binary), "-test.list", "."], package.directory, servers, TEST_SECONDS)
    return [line for line in output.splitlines() if line.startswith("Test")]


def run(package: Package, test: str, side: Side, servers: Mapping[str, str], logs: Path) -> Run:
    """Run one test; `servers` are variables of `servers.servers_of`, `logs` is a directory for what test and schedulers
    print."""
    command = [str(package.binary), "-test.v", "-test.run", f"^{test}$", f"-test.timeout={TEST_SECONDS}s"]
    if side is not Side.GO:
        command += ["-test.skip", skipped_subtests(package.minor, package.name, test)]
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "starts").unlink(missing_ok=True)
    began = time.monotonic()
    variables = {**package.environment, **servers, **judged(side, package.minor, logs, _FLAGS)}
    # The binary ends itself when the time is over; if it cannot, it is ended.
    output = printed(command, package.directory, variables, TEST_SECONDS + 60)
    (logs / "test.log").write_text(output)
    result = outcomes(output, test)
    result.seconds = time.monotonic() - began
    for line in _lines(logs / "starts"):
        word, _, text = line.partition(" ")
        if word == "started":
            result.started += 1
        elif word == "unjudged":
            result.unjudged.append(text)
        else:
            result.troubles.append(text)
    return result


def outcomes(output: str, test: str) -> Run:
    """Read what `-test.v` prints. A test that has subtests counts by them; one that ended without a word has failed."""
    printed = {match[2]: match[1] for match in _OUTCOME.finditer(output)}
    parents = {name.rpartition("/")[0] for name in printed}
    cases = {name: word for name, word in printed.items() if name not in parents}
    result = Run()
    for name, word in cases.items():
        if word == "PASS":
            result.passed += 1
        elif word == "SKIP":
            result.skipped += 1
        else:
            result.failed.append(name)
    # A failure of the test itself beside its subtests, or an end in their midst: a panic, or the time was over.
    if not result.failed and printed.get(test, "FAIL") == "FAIL":
        result.failed.append(test)
    return result


def judged(side: Side, minor: str, logs: Path, flags: str) -> Mapping[str, str]:
    """What tells a binary which scheduler to start, with which further flags, and where to put its log."""
    if side is Side.GO:
        return {}
    return {
        "JUDGED_SCHEDULER": f"{sys.executable} -m scheduler {flags}",
        "JUDGED_SCHEDULER_OPTIONS": json.dumps({"compatibility": side.value, "kubernetesVersion": minor}),
        "JUDGED_SCHEDULER_GATES": ",".join(sorted(SETTABLE_GATES)),
        "JUDGED_SCHEDULER_OWN": ",".join(_OWN_PLUGINS),
        "JUDGED_SCHEDULER_NEVER": ",".join(_REFUSED_PLUGINS),
        "JUDGED_SCHEDULER_STARTS": str(logs),
        # The binary runs in a directory of upstream's; ours is found all the same.
        "PYTHONPATH": str(CHECKOUT),
    }


def printed(command: list[str], directory: Path, variables: Mapping[str, str], seconds: float) -> str:
    """Run a binary with further variables for so many seconds at most; return what it has printed by then. What it
    leaves running has ended, too."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as temporary:
        try:
            environment = {**os.environ, **variables, "TMPDIR": temporary, processes.CLUSTER_MARKER: temporary}
            return _printed_by_group(command, directory, environment, seconds)
        finally:
            # Servers of a binary that ended in the midst: they are in groups of their own.
            processes.sweep(Path(temporary))


def _printed_by_group(command: list[str], directory: Path, environment: Mapping[str, str], seconds: float) -> str:
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return output


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
