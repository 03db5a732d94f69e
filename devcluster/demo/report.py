"""The demo's tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from devcluster.node_agent.podman.host import AGENT_LABEL
from devcluster.state import Containers

HOT_CPU = 0.5
WARM_CPU = 0.2


@dataclass(frozen=True)
class NodeRow:
    """One simulated node: its size and the CPU that it used before the workload came, as a fraction."""

    name: str
    size: str
    cpu: float

    @property
    def temperature(self) -> str:
        """hot, warm or cold."""
        if self.cpu >= HOT_CPU:
            return "hot"
        return "warm" if self.cpu >= WARM_CPU else "cold"


def placement_table(rows: list[NodeRow], ours: Counter[str], default: Counter[str]) -> Table:
    """Pods per node beside the node's load, hottest first, with a sum per temperature."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="CPU before the workload, and pods per node",
        title_justify="left",
        caption="Ours goes by what the nodes use; the default by what pods request, which tells nothing of that.",
        caption_justify="left",
    )
    for heading in ("node", "size", "CPU", "", "pods, ours", "pods, default"):
        numeric = heading not in ("node", "size", "")
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=True)
    colours = {"hot": "red", "warm": "yellow", "cold": "cyan"}
    for row in sorted(rows, key=lambda row: (-row.cpu, row.name)):
        colour = colours[row.temperature]
        table.add_row(
            row.name,
            row.size,
            f"{row.cpu:.0%}",
            f"[{colour}]{row.temperature}[/]",
            str(ours[row.name] or "·"),
            str(default[row.name] or "·"),
        )
    table.add_section()
    for temperature, colour in colours.items():
        names = [row.name for row in rows if row.temperature == temperature]
        table.add_row(
            f"all {len(names)} {temperature}",
            "",
            "",
            f"[{colour}]{temperature}[/]",
            str(sum(ours[name] for name in names)),
            str(sum(default[name] for name in names)),
        )
    return table


def outputs_table(outputs: Mapping[str, Any]) -> Table:
    """`pulumi stack output`, one line per value."""
    table = Table(box=box.SIMPLE_HEAD, title="pulumi stack output", title_justify="left", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _flatten(outputs, depth=3):
        table.add_row(name, value if isinstance(value, str) else json.dumps(value))
    return table


def _flatten(values: Mapping[str, Any], depth: int, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`a.b.c` and value, `depth` levels deep; empty mappings say nothing and are left out."""
    for name, value in values.items():
        if isinstance(value, dict) and depth > 1:
            yield from _flatten(value, depth - 1, f"{prefix}{name}.")
        elif value != {}:
            yield f"{prefix}{name}", value


def farewell(console: Console, *, name: str, seconds: float, containers: Containers) -> None:
    """Say what is left running and how to look around."""
    console.print(f"\nThe demo took {seconds:.0f} s. The cluster is still running; look around:", highlight=False)
    podman = f'podman ps --filter label={AGENT_LABEL} --format "{{{{.Names}}}}  {{{{.Status}}}}"'
    lines = (
        (f'eval "$(.venv/bin/secondary-scheduler cluster env --name {name})"', "kubectl and pulumi in this shell"),
        ("kubectl -n demo get pods -o wide", "the workload"),
        ("kubectl -n demo describe pod", "which scheduler placed it"),
        ("kubectl -n openshift-secondary-scheduler-operator get secondaryscheduler cluster -o yaml", "its status"),
        (f"secondary-scheduler cluster load --name {name}", "what the nodes use"),
        (f"secondary-scheduler cluster load sim-000 --name {name} --cpu 10%", "make a hot node cold"),
        ("pulumi preview --stack local", "nothing to change"),
        *([(podman, "the operator and the scheduler as containers")] if containers == Containers.PODMAN else []),
        ("make clean-demo", "stop everything and delete the state"),
    )
    width = max(len(command) for command, _ in lines)
    for command, text in lines:
        console.print(f"  {command:<{width}}  # {text}", markup=False, highlight=False, soft_wrap=True)
