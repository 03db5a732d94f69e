"""From observed times to the figures of a run, and from the runs' figures to ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from benchmarks.race.contestants import NULL, OURS, PEER
from benchmarks.race.scenario import Bound, Metric

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


class Round(BaseModel):
    """All contestants on one set of servers."""

    model_config = ConfigDict(extra="forbid")

    number: int
    key: str
    """What was raced: rounds of another commit, machine or size are not mixed with these."""
    load_before: float
    """The machine's load average before the round: what else was running."""
    stolen_seconds: float
    runs: dict[str, ContestantRun]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


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


def ratios(rounds: Sequence[Round], other: str = PEER, names: Iterable[str] = RATIOS) -> dict[str, dict[str, float]]:
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


def share_of_null_binder(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """Our rates divided by the null binder's."""
    return ratios(rounds, NULL, ("drain_rate", "sustained_rate"))


def figures(rounds: Sequence[Round]) -> dict[str, dict[str, dict[str, float]]]:
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


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum, to four significant digits."""
    return {
        name: float(f"{value:.4g}")
        for name, value in (("median", statistics.median(values)), ("min", min(values)), ("max", max(values)))
    }


def excesses(summaries: Mapping[str, Mapping[str, Mapping[str, float]]], limits: Mapping[str, float]) -> list[str]:
    """The limits that a figure of ours goes beyond, one line each."""
    return [
        f"{name}: {most:g} {UNITS[name]}, at most {limit:g} wanted"
        for name, limit in limits.items()
        if (most := summaries[OURS][name]["max"]) > limit
    ]


def shortfalls(summaries: Mapping[str, Mapping[str, float]], thresholds: Mapping[Metric, Bound]) -> list[str]:
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
