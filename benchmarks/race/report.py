"""The results of a race: JSON, a table, and a plot of the bindings over time."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from pydantic import BaseModel, ConfigDict

from benchmarks.harness.contestants import NULL, OURS, PEER, ROOT
from benchmarks.harness.figures import summary, text_of
from benchmarks.harness.scenario import Metric, RatioBound, Scenario, Workload

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
    paths = ["scheduler", "secondary_scheduler", "benchmarks/harness", "benchmarks/race", "benchmarks/scenarios"]
    last = _git("log", "-1", "--format=%h", "--", *paths) or "unknown"
    return last + ("+changes" if _git("status", "--porcelain", "--untracked-files=no", "--", *paths) else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def document(
    scenario: Scenario, workload: Workload, rounds: Sequence[RaceRound], about: dict[str, Any]
) -> dict[str, Any]:
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
        before, now = (text_of([pair[side] for pair in pairs]) for side in (0, 1))
        lines.append(f"{name:<20} {before:>28} {now:>28} {text_of([b / a for a, b in pairs]):>24}  {unit}".rstrip())
    return "\n".join(lines)


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


def plot(scenario: Scenario, workload: Workload, rounds: Sequence[RaceRound]) -> str:
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


RATIOS = (
    "drain_rate",
    "sustained_rate",
    "cpu_per_pod",
    "latency_p99",
    "rss",
    "start_to_first_bind",
    "load_stddev",
)
"""What is given as a ratio, ours divided by the peer's. Rates are better when larger, all others when smaller."""
UNITS = {
    "drain_rate": "pods/s",
    "sustained_rate": "pods/s",
    "cpu_per_pod": "ms",
    "api_cpu_per_pod": "ms",
    "etcd_cpu_per_pod": "ms",
    "latency_p50": "ms",
    "latency_p99": "ms",
    "rss": "MiB",
    "start_to_first_bind": "s",
    "start_cpu": "s of processor time by then",
    "load_stddev": "% of a node's CPU",
    "load_max": "% of a node's CPU",
    "livez_p99": "ms",
    "livez_max": "ms",
    "event_age_max": "s",
    "events": "",
    "bound": "",
    "hints_used": "pods",
    "hints_not_used": "pods",
}


class ContestantRun(BaseModel):
    """One contestant in one round: figures by name, in the units of `UNITS`, and the curve of bindings."""

    model_config = ConfigDict(extra="forbid")

    figures: dict[str, float]
    curve: list[tuple[float, float]]
    """Seconds since the start of the process, pods bound by then."""


class RaceRound(BaseModel):
    """All contestants on one set of servers."""

    model_config = ConfigDict(extra="forbid")

    number: int
    key: str
    """What was raced: rounds of another commit, machine or size are not mixed with these."""
    load_before: float
    """The machine's load average before the round: what else was running."""
    stolen_seconds: float
    runs: dict[str, ContestantRun]


def drain_rate(times: Iterable[float]) -> float:
    """Bindings per second between the first 5 % and the last 5 %."""
    ordered = sorted(times)
    low, high = int(len(ordered) * 0.05), max(int(len(ordered) * 0.95) - 1, 0)
    span = ordered[high] - ordered[low] if ordered else 0.0
    return (high - low) / span if span > 0 else 0.0


def curve(times: Iterable[float], origin: float, points: int = 80) -> list[tuple[float, float]]:
    """The cumulative number of bindings at some moments."""
    ordered = sorted(times)
    if not ordered:
        return []
    picked = sorted({round(index * (len(ordered) - 1) / points) for index in range(points + 1)})
    return [(round(ordered[index] - origin, 3), float(index + 1)) for index in picked]


def spread(loads: Iterable[float]) -> tuple[float, float]:
    """Standard deviation and maximum."""
    values = list(loads)
    return statistics.pstdev(values), max(values)


def ratios(
    rounds: Sequence[RaceRound], other: str = PEER, names: Iterable[str] = RATIOS
) -> dict[str, dict[str, float]]:
    """Ours divided by another's, per round, as median, minimum and maximum; what one of the two lacks is left out."""
    summaries: dict[str, dict[str, float]] = {}
    for name in names:
        values = [
            run.runs[OURS].figures[name] / theirs
            for run in rounds
            if OURS in run.runs
            and other in run.runs
            and name in run.runs[OURS].figures
            and (theirs := run.runs[other].figures.get(name, 0.0)) > 0
        ]
        if values:
            summaries[name] = summary(values)
    return summaries


def share_of_null_binder(rounds: Sequence[RaceRound]) -> dict[str, dict[str, float]]:
    """Our rates divided by the null binder's."""
    return ratios(rounds, NULL, ("drain_rate", "sustained_rate"))


def figures(rounds: Sequence[RaceRound]) -> dict[str, dict[str, dict[str, float]]]:
    """Each contestant's figures as median, minimum and maximum over the rounds."""
    summaries: dict[str, dict[str, dict[str, float]]] = {}
    for role in (OURS, PEER, NULL):
        runs = [race_round.runs[role] for race_round in rounds if role in race_round.runs]
        if runs:
            names = [name for name in UNITS if any(name in run.figures for run in runs)]
            summaries[role] = {
                name: summary([run.figures[name] for run in runs if name in run.figures]) for name in names
            }
    return summaries


def excesses(summaries: Mapping[str, Mapping[str, Mapping[str, float]]], limits: Mapping[str, float]) -> list[str]:
    """The limits that a figure of ours goes beyond, one line each."""
    return [
        f"{name}: {most:g} {UNITS[name]}, at most {limit:g} wanted"
        for name, limit in limits.items()
        if (most := summaries[OURS][name]["max"]) > limit
    ]


def shortfalls(summaries: Mapping[str, Mapping[str, float]], thresholds: Mapping[Metric, RatioBound]) -> list[str]:
    """The thresholds that the medians miss, one line each."""
    lines = []
    for name, bound in thresholds.items():
        median = summaries.get(name, {}).get("median")
        if median is None:
            lines.append(f"{name}: no ratio was measured")
        elif bound.least is not None and median < bound.least:
            lines.append(f"{name}: {median:g} times the peer's, at least {bound.least:g} wanted")
        elif bound.most is not None and median > bound.most:
            lines.append(f"{name}: {median:g} times the peer's, at most {bound.most:g} wanted")
    return lines
