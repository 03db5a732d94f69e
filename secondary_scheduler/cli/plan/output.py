"""The comparison as a table, as JSON or YAML, or in a few lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Any

import msgspec

from scheduler.framework import FloatArray
from scheduler.kube.primitives import format_time
from secondary_scheduler.balance import Spread
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import aligned, fitted
from secondary_scheduler.cli.plan.comparing import Change, ComparedPod
from secondary_scheduler.cli.plan.options import Over, PlanFormat
from secondary_scheduler.cli.plan.results import PlanResult, ReplayedSide, SideSummary
from secondary_scheduler.cli.plan.summary import clock, markdown_lines, nothing_compared, summary_lines
from secondary_scheduler.cli.replay.replaying import FIGURES, LOAD, REQUESTS, STATISTICS, Peak

API_VERSION = "secondary-scheduler.io/v1"
KIND = "PlanResult"
_MOST_PODS = 5
_MOST_NODES = 10
_TITLES = {
    Over.PENDING: "PENDING PODS",
    Over.ALL: "PODS, PLACED AGAIN",
    Over.RECORDING: "PODS THAT WAITED OR ARRIVED",
}
_WORDS = {
    Change.SAME: "same node",
    Change.MOVED: "other node",
    Change.SCHEDULABLE: "newly schedulable",
    Change.UNSCHEDULABLE: "newly unschedulable",
    Change.NEITHER: "unschedulable with both",
}


def write(result: PlanResult, out: IO[bytes], form: PlanFormat, *, summary_only: bool) -> None:
    """Write the result."""
    if form is PlanFormat.JSON:
        out.write(msgspec.json.format(msgspec.json.encode(document(result)), indent=1) + b"\n")
    elif form is PlanFormat.YAML:
        # Here, since other forms need no YAML library to be imported.
        from secondary_scheduler.yamltext import dump_yaml

        out.write(dump_yaml(document(result)))
    else:
        if form is PlanFormat.MARKDOWN:
            lines: Sequence[str] = markdown_lines(result)
        else:
            shown = summary_lines(result) if summary_only else _table(result, wide=form is PlanFormat.WIDE)
            lines = list(fitted(shown))
        out.write("".join(f"{line}\n" for line in lines).encode())
    out.flush()


# For programs ---------------------------------------------------------------------------------------------------------


def document(result: PlanResult) -> dict[str, Any]:
    """Return everything as data that is ready for JSON."""
    comparison = result.comparison
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "over": str(result.over),
        "seed": result.seed,
        **_recording(result),
        "changes": list(result.changes),
        "counts": {
            "pods": len(comparison.pods),
            **{str(change): count for change, count in comparison.counts.items()},
            "equallyGood": comparison.equally_good,
        },
        **{name: _side(side) for name, side in result.sides.items()},
        "differences": [_difference(pod) for pod in comparison.pods if pod.old.node != pod.new.node],
        "nodes": [_node(result, index) for index in result.nodes_by_change()],
    }


def _recording(result: PlanResult) -> dict[str, Any]:
    if result.replayed is None:
        return {}
    replayed = result.replayed
    return {
        "recording": {
            "start": rfc3339(replayed.start),
            "end": rfc3339(replayed.end),
            "gaps": list(replayed.gaps),
            "podsOnNodes": replayed.recorded,
        }
    }


def _side(side: SideSummary) -> dict[str, Any]:
    figures: dict[str, dict[str, Any]] = {REQUESTS: {}, LOAD: {}}
    for kind, resource in FIGURES:
        spread = side.spread(kind, resource)
        figures[kind][resource] = None if spread is None else _rounded_spread(spread)
    return {
        "source": side.source,
        "hash": side.configuration.hash,
        "schedulerNames": list(side.configuration.scheduler_names),
        **figures,
        **({} if side.replayed is None else _replayed(side.replayed)),
    }


def _replayed(replayed: ReplayedSide) -> dict[str, Any]:
    worst: dict[str, dict[str, Any]] = {REQUESTS: {}, LOAD: {}}
    for kind, resource in FIGURES:
        peaks = {name: replayed.worst.spreads.get((kind, resource, name)) for name in STATISTICS}
        known = {name: _peak(peak) for name, peak in peaks.items() if peak is not None}
        worst[kind][resource] = known or None
    return {"asRecorded": replayed.as_recorded, "worst": {**worst, "waiting": _peak(replayed.worst.waiting)}}


def _peak(peak: Peak) -> dict[str, Any]:
    return {"value": round(peak.value, 3), "time": rfc3339(peak.time) if peak.time else None}


def rfc3339(seconds: float) -> str:
    """Return a time as the API writes it."""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _rounded_spread(spread: Spread) -> dict[str, float]:
    return {"stddev": round(spread.stddev, 3), "p95": round(spread.p95, 3), "max": round(spread.max, 3)}


def _difference(pod: ComparedPod) -> dict[str, Any]:
    return {
        "pod": pod.pod,
        "change": str(pod.change),
        "old": {"node": pod.old.node, "message": pod.old.message},
        "new": {"node": pod.new.node, "message": pod.new.message},
        "equallyGood": pod.equally_good,
    }


def _node(result: PlanResult, index: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"node": result.old.figures.names[index]}
    for name, side in result.sides.items():
        shown[name] = {"pods": int(side.figures.pods[index]), REQUESTS: {}, LOAD: {}}
        for kind, resource in FIGURES:
            value = float(side.values(kind, resource)[index])
            shown[name][kind][resource] = None if math.isnan(value) else round(value, 3)
    return shown


# For people -----------------------------------------------------------------------------------------------------------


def _table(result: PlanResult, *, wide: bool) -> Iterator[str]:
    yield from (printable(line) for line in _changes(result))
    yield from (printable(line) for line in _time(result))
    rows = [[_TITLES[result.over], "COUNT", ""]]
    for change, count in result.comparison.counts.items():
        chance = result.comparison.equally_good if change is Change.MOVED else 0
        rows.append([_WORDS[change], str(count), f"{chance} by chance among equally good nodes" if chance else ""])
    yield from aligned(rows)
    if nothing := nothing_compared(result):
        yield nothing
    yield from _pods(result, None if wide else _MOST_PODS)
    yield ""
    yield from aligned(_spread_rows(result))
    yield from _worst(result)
    yield from _nodes(result, wide=wide)


def _changes(result: PlanResult) -> Iterator[str]:
    if result.changes:
        yield "The new configuration changes:"
        yield from (f"  {line}" for line in result.changes)
    else:
        yield "Both configurations say the same."
    yield ""


def _time(result: PlanResult) -> Iterator[str]:
    if result.replayed is None:
        return
    replayed = result.replayed
    yield f"Replayed: {clock(replayed.start)} to {clock(replayed.end)}."
    yield from (f"  {line}" for line in replayed.gaps)
    if replayed.recorded and result.old.replayed is not None and result.new.replayed is not None:
        yield (
            f"On the node where the recording has them, of {replayed.recorded} pods: {result.old.replayed.as_recorded} "
            f"with the old configuration, {result.new.replayed.as_recorded} with the new one."
        )
    yield ""


def _pods(result: PlanResult, most: int | None) -> Iterator[str]:
    """List the pods that differ, those first that have no node any more."""
    for change in (Change.UNSCHEDULABLE, Change.SCHEDULABLE, Change.MOVED):
        pods = result.comparison.of(change)
        if not pods:
            continue
        rows = [[_WORDS[change].upper(), "OLD NODE", "NEW NODE", "REASON"]]
        for pod in pods[:most]:
            reason = pod.new.message if pod.new.node is None else pod.old.message
            note = "equally good" if pod.equally_good else ""
            rows.append([pod.pod, pod.old.node or "-", pod.new.node or "-", reason or note])
        if all(not row[-1] for row in rows[1:]):
            rows = [row[:-1] for row in rows]
        yield ""
        yield from aligned([[printable(cell) for cell in row] for row in rows])
        if most is not None and len(pods) > most:
            yield f"and {len(pods) - most} more (-o wide)"


def _spread_rows(result: PlanResult) -> Iterator[list[str]]:
    yield ["PER NODE, %", "STDDEV", "P95", "MAX"]
    for kind, resource in FIGURES:
        old, new = result.old.spread(kind, resource), result.new.spread(kind, resource)
        if old is not None and new is not None:
            pairs = ((old.stddev, new.stddev), (old.p95, new.p95), (old.max, new.max))
            name = f"{resource} {'load, estimated' if kind == LOAD else 'requests'}"
            yield [name, *(f"{before:.1f} → {after:.1f}" for before, after in pairs)]


def _worst(result: PlanResult) -> Iterator[str]:
    """Show the highest values over time, and when the new configuration has them."""
    if result.old.replayed is None or result.new.replayed is None:
        return
    old, new = result.old.replayed.worst, result.new.replayed.worst
    rows = [["WORST OVER TIME, %", *(name.upper() for name in STATISTICS), "MAX OF THE NEW ONE AT"]]
    for kind, resource in FIGURES:
        keys = [(kind, resource, name) for name in STATISTICS]
        pairs = [(old.spreads.get(key), new.spreads.get(key)) for key in keys]
        cells = [f"{before.value:.1f} → {after.value:.1f}" for before, after in pairs if before and after]
        if len(cells) == len(keys):
            name = f"{resource} {'load, estimated' if kind == LOAD else 'requests'}"
            rows.append([name, *cells, clock(new.spreads[kind, resource, "max"].time)])
    yield ""
    yield from aligned(rows)
    yield f"pods waiting at a time, at most: {old.waiting.value:.0f} → {new.waiting.value:.0f}"


def _nodes(result: PlanResult, *, wide: bool) -> Iterator[str]:
    ranked = result.nodes_by_change()
    shown = ranked if wide else [index for index in ranked[:_MOST_NODES] if result.node_changes(index)]
    if not shown:
        return
    figures = [figure for figure in FIGURES if result.old.spread(*figure) is not None]
    titles = [f"{resource.upper()} {'LOAD' if kind == LOAD else 'REQUESTS'} %" for kind, resource in figures]
    rows = [["NODE" if wide else "NODES THAT CHANGE MOST", "PODS", *titles]]
    for index in shown:
        cells = [_pair(result.old.figures.pods, result.new.figures.pods, index)]
        cells += [_pair(result.old.values(*figure), result.new.values(*figure), index) for figure in figures]
        rows.append([printable(result.old.figures.names[index]), *cells])
    yield ""
    yield from aligned(rows)
    if not wide:
        changed = sum(result.node_changes(index) for index in ranked)
        if changed > len(shown):
            yield f"and {changed - len(shown)} more (-o wide)"


def _pair(old: FloatArray, new: FloatArray, index: int) -> str:
    before, after = (f"{values[index]:.0f}" if math.isfinite(values[index]) else "-" for values in (old, new))
    return before if before == after else f"{before} → {after}"
