"""A comparison as a table, as its document, or in at most five lines of text or Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO

import msgspec

from scheduler.core import Change
from scheduler.framework import FloatArray
from secondary_scheduler.balance import FIGURES, LOAD, REQUESTS, STATISTICS
from secondary_scheduler.cli.clusterrecording.reading import Recording
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, escaped, fitted
from secondary_scheduler.cli.plan.document import PlanDocument, plan_document
from secondary_scheduler.cli.plan.options import Over, PlanFormat
from secondary_scheduler.simulation.comparing import ComparedPod, Comparison

_POD_LIMIT = 5
_NODE_LIMIT = 10
"""Pods of each change, and nodes, in a table that is not wide."""
_NAME_LIMIT = 3
"""Pods that the summary names."""
_NAMES_WIDTH = 120
_REASON_WIDTH = 160
_TABLE_TITLES = {
    Over.PENDING: "PENDING PODS",
    Over.ALL: "PODS, PLACED AGAIN",
    Over.RECORDING: "PODS THAT WAITED OR ARRIVED",
}
_TITLES = {
    Over.PENDING: "pending pods",
    Over.ALL: "pods, placed again",
    Over.RECORDING: "pods of a recording",
}
_WORDS = {
    Change.SAME: "same node",
    Change.MOVED: "other node",
    Change.GAINED: "newly schedulable",
    Change.LOST: "newly unschedulable",
    Change.NEITHER: "unschedulable with both",
}


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What was compared on what.

    Attributes:
        sources: where the configuration of each side comes from, as the user named it.
        recording: what was replayed.
    """

    over: Over
    seed: int
    sources: Mapping[str, str]
    comparison: Comparison
    recording: Recording | None = None

    @property
    def document(self) -> PlanDocument:
        """The same for programs."""
        return plan_document(str(self.over), self.seed, self.sources, self.comparison, self.recording)


def write(result: PlanResult, out: IO[bytes], form: PlanFormat, *, summary_only: bool) -> None:
    """Write the result."""
    if form is PlanFormat.JSON:
        out.write(msgspec.json.format(msgspec.json.encode(result.document), indent=1) + b"\n")
    elif form is PlanFormat.YAML:
        # Here, since other forms need no YAML library to be imported.
        from secondary_scheduler.yamltext import dump_yaml

        out.write(dump_yaml(msgspec.to_builtins(result.document)))
    else:
        if form is PlanFormat.MARKDOWN:
            lines: Sequence[str] = markdown_lines(result)
        else:
            text = summary_lines(result) if summary_only else _table(result, wide=form is PlanFormat.WIDE)
            lines = list(fitted(text))
        out.write("".join(f"{line}\n" for line in lines).encode())
    out.flush()


# For people -----------------------------------------------------------------------------------------------------------


def _table(result: PlanResult, *, wide: bool) -> Iterator[str]:
    yield from (printable(line) for line in _changes(result.comparison.changes))
    yield from (printable(line) for line in _time(result))
    rows = [[_TABLE_TITLES[result.over], "COUNT", ""]]
    for change, count in result.comparison.counts.items():
        chance = result.comparison.equally_good if change is Change.MOVED else 0
        rows.append([_WORDS[change], str(count), f"{chance} by chance among equally good nodes" if chance else ""])
    yield from aligned(rows)
    if nothing := _nothing_compared(result):
        yield nothing
    yield from _pods(result.comparison, None if wide else _POD_LIMIT)
    yield ""
    yield from aligned(_spread_rows(result.comparison))
    yield from _worst_rows(result.comparison)
    yield from _nodes(result.comparison, wide=wide)


def _changes(changes: Sequence[str]) -> Iterator[str]:
    if changes:
        yield "The new configuration changes:"
        yield from (f"  {line}" for line in changes)
    else:
        yield "Both configurations say the same."
    yield ""


def _time(result: PlanResult) -> Iterator[str]:
    if result.recording is None:
        return
    yield f"Replayed: {clock(result.recording.start)} to {clock(result.recording.end)}."
    yield from (f"  {line}" for line in result.recording.gaps)
    if result.comparison.recorded:
        old, new = (side.as_recorded for side in result.comparison.sides.values())
        yield (
            f"On the node where the recording has them, of {result.comparison.recorded} pods: "
            f"{old} with the old configuration, {new} with the new one."
        )
    yield ""


def _pods(comparison: Comparison, limit: int | None) -> Iterator[str]:
    """List the pods that differ, those first that have no node any more."""
    for change in (Change.LOST, Change.GAINED, Change.MOVED):
        pods = comparison.of(change)
        if not pods:
            continue
        rows = [[_WORDS[change].upper(), "OLD NODE", "NEW NODE", "REASON"]]
        for pod in pods[:limit]:
            reason = pod.new.message if pod.new.node is None else pod.old.message
            note = "equally good" if pod.equally_good else ""
            rows.append([pod.name, pod.old.node or "-", pod.new.node or "-", reason or note])
        if all(not row[-1] for row in rows[1:]):
            rows = [row[:-1] for row in rows]
        yield ""
        yield from aligned([[printable(cell) for cell in row] for row in rows])
        if limit is not None and len(pods) > limit:
            yield f"and {len(pods) - limit} more (-o wide)"


def _spread_rows(comparison: Comparison) -> Iterator[list[str]]:
    yield ["PER NODE, %", *(name.upper() for name in STATISTICS)]
    for kind, resource, old, new in comparison.spreads():
        pairs = ((old.stddev, new.stddev), (old.p95, new.p95), (old.max, new.max))
        yield [_title(kind, resource), *(f"{before:.1f} → {after:.1f}" for before, after in pairs)]


def _title(kind: str, resource: str) -> str:
    return f"{resource} {'load, estimated' if kind == LOAD else 'requests'}"


def _worst_rows(comparison: Comparison) -> Iterator[str]:
    """Show the highest values over time, and when the new configuration has them."""
    old, new = comparison.old.worst, comparison.new.worst
    if old is None or new is None:
        return
    rows = [["WORST OVER TIME, %", *(name.upper() for name in STATISTICS), "MAX OF THE NEW ONE AT"]]
    for kind, resource in FIGURES:
        keys = [(kind, resource, name) for name in STATISTICS]
        pairs = [(old.spreads.get(key), new.spreads.get(key)) for key in keys]
        cells = [f"{before.value:.1f} → {after.value:.1f}" for before, after in pairs if before and after]
        if len(cells) == len(keys):
            rows.append([_title(kind, resource), *cells, clock(new.spreads[kind, resource, "max"].time)])
    yield ""
    yield from aligned(rows)
    yield f"pods waiting at a time, at most: {old.waiting.value:.0f} → {new.waiting.value:.0f}"


def _nodes(comparison: Comparison, *, wide: bool) -> Iterator[str]:
    ranked = comparison.nodes_by_change()
    indexes = ranked if wide else [index for index in ranked[:_NODE_LIMIT] if comparison.node_changes(index)]
    if not indexes:
        return
    old, new = comparison.old.figures, comparison.new.figures
    figures = [figure for figure in FIGURES if old.spread(*figure) is not None]
    titles = [f"{resource.upper()} {'LOAD' if kind == LOAD else 'REQUESTS'} %" for kind, resource in figures]
    rows = [["NODE" if wide else "NODES THAT CHANGE MOST", "PODS", *titles]]
    for index in indexes:
        cells = [_pair(old.pods, new.pods, index)]
        cells += [_pair(old.values(*figure), new.values(*figure), index) for figure in figures]
        rows.append([printable(old.names[index]), *cells])
    yield ""
    yield from aligned(rows)
    if not wide:
        changed = sum(comparison.node_changes(index) for index in ranked)
        if changed > len(indexes):
            yield f"and {changed - len(indexes)} more (-o wide)"


def _pair(old: FloatArray, new: FloatArray, index: int) -> str:
    before, after = (f"{values[index]:.0f}" if math.isfinite(values[index]) else "-" for values in (old, new))
    return before if before == after else f"{before} → {after}"


# In a few lines -----------------------------------------------------------------------------------------------------


def summary_lines(result: PlanResult) -> list[str]:
    """Return the lines, most important first; none begins with a mark."""
    lines = [_headline(result)]
    comparison = result.comparison
    for change in (Change.LOST, Change.GAINED):
        pods = comparison.of(change)
        if pods and len(lines) < 2:
            reason = f": {_cut(pods[0].new.message or '', _REASON_WIDTH)}" if change is Change.LOST else ""
            lines.append(f"{_WORDS[change]}: {_names(pods)}{reason}")
    lines += _spread_lines(result)
    lines += _worst_line(comparison)
    return [printable(line) for line in lines[:5]]


def markdown_lines(result: PlanResult) -> list[str]:
    """Return the lines as Markdown: the first one bold, a list below it."""
    first, *rest = (escaped(line) for line in summary_lines(result))
    return [f"**{first}**", *(f"- {line}" for line in rest)]


def _headline(result: PlanResult) -> str:
    """Return the counts in one line."""
    counts, comparison = result.comparison.counts, result.comparison
    total = f"{len(comparison.pods)} {_TITLES[result.over]}"
    if nothing := _nothing_compared(result):
        return f"{total}: {nothing}"
    if not comparison.differing:
        unschedulable = counts[Change.NEITHER]
        also = f" ({unschedulable} unschedulable with both)" if unschedulable else ""
        return f"{total}: no placement differs{also}"
    chance = f" ({comparison.equally_good} by chance among equals)" if comparison.equally_good else ""
    parts = [
        f"{counts[Change.SAME]} on the same node",
        f"{counts[Change.MOVED]} on another node{chance}",
        f"{counts[Change.GAINED]} newly schedulable",
        f"{counts[Change.LOST]} newly unschedulable",
    ]
    if counts[Change.NEITHER]:
        parts.append(f"{counts[Change.NEITHER]} unschedulable with both")
    return f"{total}: {', '.join(parts)}"


def _nothing_compared(result: PlanResult) -> str:
    """Return what to do where no pod waits; "" where pods are compared."""
    if result.comparison.pods or result.over is not Over.PENDING:
        return ""
    return "none is compared; --over all compares those that run, placed again"


def clock(seconds: float) -> str:
    """Return a time in UTC, to the second."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _names(pods: list[ComparedPod]) -> str:
    names = _cut(", ".join(pod.name for pod in pods[:_NAME_LIMIT]), _NAMES_WIDTH)
    return f"{names} and {len(pods) - _NAME_LIMIT} more" if len(pods) > _NAME_LIMIT else names


def _spread_lines(result: PlanResult) -> Iterator[str]:
    """Requests of both resources in one line, and estimated load in another."""
    parts: dict[str, list[str]] = {}
    for kind, resource, old, new in result.comparison.spreads():
        parts.setdefault(kind, []).append(
            f"{'CPU' if resource == 'cpu' else resource} standard deviation {old.stddev:.1f} → {new.stddev:.1f}, "
            f"p95 {old.p95:.0f} → {new.p95:.0f} %, maximum {old.max:.0f} → {new.max:.0f} %"
        )
    at_end = " at the end" if result.recording is not None else ""
    for kind, texts in parts.items():
        yield f"{'estimated load' if kind == LOAD else 'requests'} per node{at_end}: {'; '.join(texts)}"


def _worst_line(comparison: Comparison) -> Iterator[str]:
    """The highest CPU figure over time, and how many pods waited."""
    old, new = comparison.old.worst, comparison.new.worst
    if old is None or new is None:
        return
    parts = []
    for kind, words in ((LOAD, "estimated load of CPU"), (REQUESTS, "requests of CPU")):
        before, after = (worst.spreads.get((kind, "cpu", "max")) for worst in (old, new))
        if before is not None and after is not None:
            parts.append(f"{words} on one node {before.value:.0f} → {after.value:.0f} %")
            break
    parts.append(f"pods waiting {old.waiting.value:.0f} → {new.waiting.value:.0f}")
    yield f"worst over time: {', '.join(parts)}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
