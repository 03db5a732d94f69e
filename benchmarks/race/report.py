"""The results of a race: JSON, a table, and a plot of the bindings over time."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.race.contestants import NULL, OURS, PEER, ROOT
from benchmarks.race.figures import RATIOS, UNITS, ContestantRun, Round, figures, ratios, share_of_null_binder, summary
from benchmarks.race.scenario import Scenario, Workload

_COLOURS = {OURS: "#1a7f5a", PEER: "#b3541e", NULL: "#8a8a8a"}
_LIBRARIES = ("numpy", "aiohttp", "msgspec", "uvloop", "structlog")


def machine(binaries: dict[str, Path]) -> dict[str, Any]:
    """Where it ran, and what."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "binaries": {name: path.name for name, path in sorted(binaries.items())},
        "commit": commit(),
    }


def commit() -> str:
    """The last commit that touched what races, with a mark when something of it has been changed since."""
    paths = ["scheduler", "secondary_scheduler", "benchmarks/race", "benchmarks/scenarios"]
    last = _git("log", "-1", "--format=%h", "--", *paths) or "unknown"
    return last + ("+changes" if _git("status", "--porcelain", "--untracked-files=no", "--", *paths) else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def document(scenario: Scenario, workload: Workload, rounds: Sequence[Round], about: dict[str, Any]) -> dict[str, Any]:
    """The result of one workload, ready for JSON."""
    return {
        "scenario": scenario.name,
        "workload": workload.name,
        "nodes": workload.params["nodes"],
        "pods": workload.params["pods"],
        "rounds": len(rounds),
        "peer": scenario.peer,
        "ratios": ratios(rounds),
        "ratios_to_null": share_of_null_binder(rounds),
        "figures": figures(rounds),
        "units": {name: unit for name, unit in UNITS.items() if unit},
        "machine": {
            **about,
            "load_before": [race_round.load_before for race_round in rounds],
            "stolen_seconds": [race_round.stolen_seconds for race_round in rounds],
        },
    }


def compared(runs: Sequence[Mapping[str, ContestantRun]], other: str) -> str:
    """Ours beside another checkout's as text: median (range) of each figure of both, and of their ratio in a round."""
    lines = [f"{'':<20} {other:>28} {'now':>28} {'now / ' + other:>24}"]
    for name, unit in UNITS.items():
        pairs = [(run[other].figures.get(name, 0.0), run[OURS].figures.get(name, 0.0)) for run in runs]
        if not all(before for before, _ in pairs):
            continue
        before, now = (_range([pair[side] for pair in pairs]) for side in (0, 1))
        lines.append(f"{name:<20} {before:>28} {now:>28} {_range([b / a for a, b in pairs]):>24}  {unit}".rstrip())
    return "\n".join(lines)


def _range(values: Sequence[float]) -> str:
    of = summary(values)
    return f"{of['median']:g} ({of['min']:g}-{of['max']:g})"


def table(result: dict[str, Any]) -> str:
    """Ratios and figures as text."""
    lines = [
        f"{result['scenario']}/{result['workload']}: {result['nodes']} nodes, {result['pods']} pods, "
        f"{result['rounds']} round(s), peer {result['peer']}",
        f"{'ours : peer':<22}{'min':>10}{'median':>10}{'max':>10}",
    ]
    for name in RATIOS:
        if name in result["ratios"]:
            ratio = result["ratios"][name]
            lines.append(f"{name:<22}{ratio['min']:>10.3g}{ratio['median']:>10.3g}{ratio['max']:>10.3g}")
    for name, ratio in result["ratios_to_null"].items():
        lines.append(f"{name + ' (null)':<22}{ratio['min']:>10.3g}{ratio['median']:>10.3g}{ratio['max']:>10.3g}")
    roles = [role for role in (OURS, PEER, NULL) if role in result["figures"]]
    lines.append(f"{'medians':<22}" + "".join(f"{role:>10}" for role in roles))
    for name, unit in UNITS.items():
        values = [result["figures"][role].get(name, {}).get("median") for role in roles]
        if any(value is not None for value in values):
            cells = "".join(f"{'-' if value is None else f'{value:.4g}':>10}" for value in values)
            lines.append(f"{name:<22}{cells}  {unit}")
    return "\n".join(lines)


def plot(scenario: Scenario, workload: Workload, rounds: Sequence[Round]) -> str:
    """An SVG: pods bound over the seconds since each process started, one line per contestant and round."""
    width, height, left, bottom, top = 720, 400, 70, 50, 50
    curves = [
        (role, race_round.runs[role].curve)
        for race_round in rounds
        for role in (NULL, PEER, OURS)
        if role in race_round.runs
    ]
    right = max((points[-1][0] for _, points in curves if points), default=1.0)
    most = max((points[-1][1] for _, points in curves if points), default=1.0)

    def x(seconds: float) -> float:
        return left + seconds / right * (width - left - 30)

    def y(pods: float) -> float:
        return height - bottom - pods / most * (height - top - bottom)

    title = escape(f"{scenario.name}, {workload.params['nodes']} nodes: pods bound since the start of the process")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-size="15">{title}</text>',
    ]
    for step in range(6):
        seconds, pods = right * step / 5, most * step / 5
        parts.append(f'<path d="M{left} {y(pods):.1f}H{width - 30}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{left - 8}" y="{y(pods) + 4:.1f}" text-anchor="end">{pods:.0f}</text>')
        parts.append(f'<text x="{x(seconds):.1f}" y="{height - bottom + 18}" text-anchor="middle">{seconds:.3g}</text>')
    parts.append(f'<text x="{width - 30}" y="{height - 12}" text-anchor="end">seconds</text>')
    for role, points in curves:
        path = " ".join(f"{x(seconds):.1f},{y(pods):.1f}" for seconds, pods in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[role]}" stroke-width="2"/>')
    names = {OURS: "secondary-scheduler", PEER: scenario.peer, NULL: "null binder"}
    for number, role in enumerate((OURS, PEER, NULL)):
        at = left + number * 190
        parts.append(f'<path d="M{at} 38h24" stroke="{_COLOURS[role]}" stroke-width="3"/>')
        parts.append(f'<text x="{at + 30}" y="42">{names[role]}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write(directory: Path, stem: str, result: dict[str, Any], svg: str) -> None:
    """Write `<stem>.json` and `<stem>.svg`."""
    (directory / f"{stem}.json").write_text(json.dumps(result, indent=1) + "\n")
    (directory / f"{stem}.svg").write_text(svg)
