"""What the demo will show, on a recording: something true to read while the control plane is built.

`cluster.json` is the demo's cluster as `secondary-scheduler snapshot` wrote it, with its 60 pods before any scheduler
had placed them. `secondary-scheduler simulate` decides about them with the scheduler's own code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from devcluster.demo.report import NodeRow, placement_table
from devcluster.errors import ServiceError
from devcluster.inventory import simulated_nodes

_DIRECTORY = Path(__file__).parent
CLUSTER = _DIRECTORY / "cluster.json"
BY_LOAD = _DIRECTORY / "by-load.yaml"
BY_REQUESTS = _DIRECTORY / "by-requests.yaml"


def show(console: Console, checkout: Path) -> None:
    """Print where the recorded pods go by load and by requests, and the commands that show it.

    Raises ServiceError when `simulate` fails.
    """
    by_load, by_requests = _places(BY_LOAD), _places(BY_REQUESTS)
    console.print(placement_table(_nodes(), by_load, by_requests))
    configuration, snapshot = (
        path.relative_to(checkout) if path.is_relative_to(checkout) else path for path in (BY_LOAD, CLUSTER)
    )
    console.print(
        "Look around meanwhile, in another shell: how each pod was decided, and the same in a browser:",
        highlight=False,
    )
    for command in ("simulate", "ui"):
        text = f"  .venv/bin/secondary-scheduler {command} --config {configuration} --snapshot {snapshot}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print()


def _places(configuration: Path) -> Counter[str]:
    """How many of the recorded pods each node gets."""
    command = [sys.executable, "-m", "secondary_scheduler.cli", "simulate", "--config", str(configuration)]
    command += ["--snapshot", str(CLUSTER), "-o", "json", "--detail", "none"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"simulate on {CLUSTER} failed: {done.stderr.strip()[-300:]}")
    decisions: list[dict[str, Any]] = json.loads(done.stdout)["decisions"]
    return Counter(decision["node"] for decision in decisions if decision["node"])


def _nodes() -> list[NodeRow]:
    """The simulated nodes with the CPU that the recording's Prometheus had of them, as a fraction."""
    items: list[dict[str, Any]] = json.loads(CLUSTER.read_text())["items"]
    load = next(item for item in items if item["kind"] == "NodeLoad")["data"]["NodeMetricsMap"]
    count = sum(1 for name in load if name.startswith("sim-"))
    return [NodeRow(node.name, node.size.name, _cpu(load[node.name])) for node in simulated_nodes(count)]


def _cpu(node: dict[str, Any]) -> float:
    values = [m["value"] for m in node["metrics"] if (m["type"], m["operator"]) == ("CPU", "AVG")]
    return float(values[0]) / 100
