"""The workloads of scheduler_perf, as the files beside the benchmarks describe them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scheduler.gates import GATES, SETTABLE_GATES, is_on

LABEL = "performance"
"""What upstream measures; other workloads are small and test the benchmark itself."""
THROUGHPUT = "SchedulingThroughput"
_FILE = "performance-config.yaml"


@dataclass(frozen=True)
class Workload:
    """A workload that upstream measures.

    Attributes:
        package: such as `misc`.
        name: such as `SchedulingBasic/500Nodes`.
        threshold: pods per second that upstream wants of its own machines; None: none, or of another metric.
        gates: feature gates that it sets.
    """

    package: str
    name: str
    threshold: float | None
    gates: Mapping[str, bool]

    def unlike_ours(self, minor: str) -> str:
        """The gates that ours has otherwise in a minor version and cannot set, as `A=true, B=false`; "" for none."""
        number = int(minor.partition(".")[2])
        return ", ".join(
            f"{gate}={str(chosen).lower()}"
            for gate, chosen in sorted(self.gates.items())
            # One that ours does not list is on for good.
            if gate not in SETTABLE_GATES and chosen is not (is_on(gate, number, {}) or gate not in GATES)
        )


def read(package: str, directory: Path) -> Iterator[Workload]:
    """Yield the measured workloads of a package, in upstream's order; `directory` is the package's."""
    file = directory / _FILE
    for case in yaml.safe_load(file.read_text()) if file.exists() else ():
        for workload in case["workloads"]:
            if LABEL in (*case.get("labels", ()), *workload.get("labels", ())):
                yield _workload(package, case, workload)


def _workload(package: str, case: Mapping[str, Any], workload: Mapping[str, Any]) -> Workload:
    selector = workload.get("thresholdMetricSelector") or case.get("defaultThresholdMetricSelector")
    threshold = workload.get("threshold")
    if selector is not None and selector["name"] != THROUGHPUT:
        threshold = None
    gates = {**case.get("featureGates", {}), **workload.get("featureGates", {})}
    return Workload(package, f"{case['name']}/{workload['name']}", threshold, gates)
