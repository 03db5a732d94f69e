"""The comparison in at most five lines, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import escaped
from secondary_scheduler.cli.plan.comparing import Change, ComparedPod
from secondary_scheduler.cli.plan.options import Over
from secondary_scheduler.cli.plan.results import PlanResult
from secondary_scheduler.cli.replay.replaying import FIGURES, LOAD

_TITLES = {
    Over.PENDING: "pending pods",
    Over.ALL: "pods, placed again",
    Over.RECORDING: "pods of a recording",
}
_NAMED = 3
_LONGEST_NAMES = 120
_LONGEST_REASON = 160


def summary_lines(result: PlanResult) -> list[str]:
    """Return the lines, most important first; none begins with a mark."""
    lines = [headline(result)]
    comparison = result.comparison
    for change, words in ((Change.UNSCHEDULABLE, "newly unschedulable"), (Change.SCHEDULABLE, "newly schedulable")):
        pods = comparison.of(change)
        if pods and len(lines) < 2:
            reason = f": {_cut(pods[0].new.message or '', _LONGEST_REASON)}" if change is Change.UNSCHEDULABLE else ""
            lines.append(f"{words}: {_names(pods)}{reason}")
    lines += _spreads(result)
    lines += _worst(result)
    return [printable(line) for line in lines[:5]]


def markdown_lines(result: PlanResult) -> list[str]:
    """Return the lines as Markdown: the first one bold, a list below it."""
    first, *rest = (escaped(line) for line in summary_lines(result))
    return [f"**{first}**", *(f"- {line}" for line in rest)]


def headline(result: PlanResult) -> str:
    """Return the counts in one line."""
    counts, comparison = result.comparison.counts, result.comparison
    total = f"{len(comparison.pods)} {_TITLES[result.over]}"
    if nothing := nothing_compared(result):
        return f"{total}: {nothing}"
    if not comparison.differs:
        unschedulable = counts[Change.NEITHER]
        also = f" ({unschedulable} unschedulable with both)" if unschedulable else ""
        return f"{total}: no placement differs{also}"
    parts = [
        f"{counts[Change.SAME]} on the same node",
        f"{counts[Change.MOVED]} on another node{_of_chance(comparison.equally_good)}",
        f"{counts[Change.SCHEDULABLE]} newly schedulable",
        f"{counts[Change.UNSCHEDULABLE]} newly unschedulable",
    ]
    if counts[Change.NEITHER]:
        parts.append(f"{counts[Change.NEITHER]} unschedulable with both")
    return f"{total}: {', '.join(parts)}"


def nothing_compared(result: PlanResult) -> str:
    """Return what to do where no pod waits; "" where pods are compared."""
    if result.comparison.pods or result.over is not Over.PENDING:
        return ""
    return "none is compared; --over all compares those that run, placed again"


def clock(seconds: float) -> str:
    """Return a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _of_chance(count: int) -> str:
    return f" ({count} by chance among equals)" if count else ""


def _names(pods: list[ComparedPod]) -> str:
    shown = _cut(", ".join(pod.pod for pod in pods[:_NAMED]), _LONGEST_NAMES)
    return f"{shown} and {len(pods) - _NAMED} more" if len(pods) > _NAMED else shown


def _spreads(result: PlanResult) -> Iterator[str]:
    """Requests of both resources in one line, and estimated load in another."""
    for kind in dict.fromkeys(kind for kind, _ in FIGURES):
        parts = []
        for resource in ("cpu", "memory"):
            old, new = result.old.spread(kind, resource), result.new.spread(kind, resource)
            if old is not None and new is not None:
                parts.append(
                    f"{'CPU' if resource == 'cpu' else resource} standard deviation {old.stddev:.1f} → "
                    f"{new.stddev:.1f}, p95 {old.p95:.0f} → {new.p95:.0f} %, maximum {old.max:.0f} → {new.max:.0f} %"
                )
        if parts:
            at_end = " at the end" if result.replayed is not None else ""
            yield f"{'estimated load' if kind == LOAD else 'requests'} per node{at_end}: {'; '.join(parts)}"


def _worst(result: PlanResult) -> Iterator[str]:
    """The highest CPU figure over time, and how many pods waited."""
    if result.old.replayed is None or result.new.replayed is None:
        return
    old, new = result.old.replayed.worst, result.new.replayed.worst
    parts = []
    for kind, words in ((LOAD, "estimated load of CPU"), ("requests", "requests of CPU")):
        before, after = (worst.spreads.get((kind, "cpu", "max")) for worst in (old, new))
        if before is not None and after is not None:
            parts.append(f"{words} on one node {before.value:.0f} → {after.value:.0f} %")
            break
    parts.append(f"pods waiting {old.waiting.value:.0f} → {new.waiting.value:.0f}")
    yield f"worst over time: {', '.join(parts)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
