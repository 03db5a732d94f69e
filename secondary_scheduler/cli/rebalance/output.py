"""A plan as a table, or as JSON or YAML. Names from the cluster are shown as plain text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from scheduler.answers import API_VERSION
from scheduler.config import REBALANCED_RESOURCES
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import FullOutputFormat, aligned, counted, document_text, fitted
from secondary_scheduler.rebalancing import NodeChange, PlannedMove, PlanSummary, RebalancePlan, unevenness

KIND = "RebalancePlan"
_MIB = 1 << 20
_MAX_OVERLOADED = 3


def write(plan: RebalancePlan, out: IO[bytes], form: FullOutputFormat, *, several_rounds: bool) -> None:
    """Write a plan."""
    if form.is_document:
        out.write(document_text(document(plan), form).encode())
    else:
        lines = _lines(plan, wide=form is FullOutputFormat.WIDE, several_rounds=several_rounds)
        out.write("".join(f"{line}\n" for line in fitted(lines)).encode())
    out.flush()


# For programs ---------------------------------------------------------------------------------------------------------


def document(plan: RebalancePlan) -> dict[str, Any]:
    """Return everything as data that is ready for JSON; what was not measured is null."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "rounds": plan.rounds,
        "before": _summary(plan.before),
        "after": _summary(plan.after),
        "moves": [_move(move) for move in plan.moves],
        "stopped": [
            {"reason": refusal.reason.value, "rule": refusal.reason.rule, "message": printable(refusal.message)}
            for refusal in plan.stopped
        ],
        "pods": plan.pods,
        "notMoved": [
            {
                "reason": reason.value,
                "rule": reason.rule,
                "message": reason.words,
                "pods": count,
                "examples": [
                    {"pod": printable(pod), "detail": printable(detail)} for pod, detail in plan.stays[reason].examples
                ],
            }
            for reason, count in plan.counts.most_common()
        ],
        "assumptions": [printable(text) for text in plan.assumptions],
    }


def _summary(summary: PlanSummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {
        "thresholds": _figures(summary.limits.low),
        "targetThresholds": _figures(summary.limits.high),
        "spread": _figures(summary.spread),
        "overloaded": list(summary.overloaded),
        "withRoom": summary.with_room,
    }


def _move(move: PlannedMove) -> dict[str, Any]:
    kind, namespace, name = move.workload
    gain = move.gain
    return {
        "round": move.round,
        "pod": move.pod,
        "uid": move.uid,
        "workload": {"kind": kind, "namespace": namespace, "name": name},
        "from": _node(move.source),
        "to": _node(move.target),
        "equallyGoodNodes": move.equally_good,
        "gain": {
            "total": gain.total,
            "minimum": move.minimum_gain,
            "attainable": gain.attainable,
            "plugins": dict(gain.plugins),
            **({"refusedBy": gain.refused_by} if gain.refused_by else {}),
        },
        "share": {
            "source": move.share.source,
            "cpuMillicores": round(move.share.cpu),
            "memoryBytes": round(move.share.memory),
            "assumed": sorted(move.share.assumed),
        },
        "forbidsNext": printable(move.forbids_next),
    }


def _node(change: NodeChange) -> dict[str, Any]:
    return {"node": change.name, "load": {"before": _figures(change.before), "after": _figures(change.after)}}


def _figures(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: round(value, 3) if math.isfinite(value) else None for name, value in values.items()}


# For people -----------------------------------------------------------------------------------------------------------


def _lines(plan: RebalancePlan, *, wide: bool, several_rounds: bool) -> Iterator[str]:
    yield _headline(plan, several_rounds=several_rounds)
    if plan.before is not None and plan.after is not None and plan.before.spread:
        yield f"load of the nodes, standard deviation: {_spread(plan.before, plan.after)}"
    for refusal in plan.stopped:
        yield printable(f"nothing is moved (rule {refusal.reason.rule}): {refusal.message}")
    if plan.moves:
        yield ""
        yield from aligned(_move_rows(plan, wide=wide, several_rounds=several_rounds))
    if plan.stays:
        yield ""
        yield from aligned(_stay_rows(plan, wide=wide))
    if plan.assumptions:
        yield ""
        yield from (printable(f"assumed: {text}") for text in plan.assumptions)


def _headline(plan: RebalancePlan, *, several_rounds: bool) -> str:
    moves = counted(len(plan.moves), "move") if plan.moves else "no moves"
    if several_rounds:
        moves += f" in {counted(plan.rounds, 'round')}"
    before = plan.before
    if before is None or not before.limits.resources:
        return moves
    high = " or ".join(f"{resource} above {value:.0f} %" for resource, value in before.limits.high.items())
    if not before.overloaded:
        return f"{moves}: no node is overloaded ({high})"
    names = ", ".join(before.overloaded[:_MAX_OVERLOADED])
    more = len(before.overloaded) - _MAX_OVERLOADED
    overloaded = f"{names} and {more} more" if more > 0 else names
    left = f"; {len(plan.after.overloaded)} after it" if plan.moves and plan.after is not None else ""
    return printable(f"{moves}: {counted(len(before.overloaded), 'overloaded node')} ({high}): {overloaded}{left}")


def _spread(before: PlanSummary, after: PlanSummary) -> str:
    parts = [
        f"{resource} {points:.1f} → {after.spread.get(resource, math.nan):.1f}"
        for resource, points in before.spread.items()
    ]
    if len(parts) > 1:
        parts.append(f"together {unevenness(before.spread):.1f} → {unevenness(after.spread):.1f}")
    return ", ".join(parts)


def _move_rows(plan: RebalancePlan, *, wide: bool, several_rounds: bool) -> Iterator[list[str]]:
    judged = plan.before.limits.resources if plan.before is not None else REBALANCED_RESOURCES
    yield [
        *(["ROUND"] if several_rounds else []),
        *("POD", "FROM", "TO"),
        *(title for resource in judged for title in (f"{resource.upper()} % FROM", f"{resource.upper()} % TO")),
        *("GAIN", "SHARE"),
        *(["GAIN BY PLUGIN"] if wide else []),
        "THE NEXT ONE STAYS",
    ]
    for move in plan.moves:
        cells = [
            *([str(move.round)] if several_rounds else []),
            *(move.pod, move.source.name, move.target.name),
            *(
                f"{change.before[resource]:.0f} → {change.after[resource]:.0f}"
                for resource in judged
                for change in (move.source, move.target)
            ),
            f"{move.gain.total} of {move.gain.attainable}",
            _share(move, judged),
            *([_by_plugin(move)] if wide else []),
            move.forbids_next,
        ]
        yield [printable(cell) for cell in cells]


def _share(move: PlannedMove, judged: Sequence[str]) -> str:
    amounts = {"cpu": f"{move.share.cpu:.0f}m", "memory": f"{move.share.memory / _MIB:.0f}Mi"}
    return f"{' '.join(amounts[resource] for resource in judged)} by {move.share.source}"


def _by_plugin(move: PlannedMove) -> str:
    parts = [f"{plugin}={points:+d}" for plugin, points in move.gain.plugins.items()]
    if move.gain.refused_by:
        parts.insert(0, f"its own node is refused by {move.gain.refused_by}")
    return ",".join(parts) or "-"


def _stay_rows(plan: RebalancePlan, *, wide: bool) -> Iterator[list[str]]:
    yield ["PODS THAT STAY", "RULE", "WHY", *(["SUCH AS"] if wide else [])]
    for reason, count in plan.counts.most_common():
        cells = [str(count), str(reason.rule or "-"), reason.words]
        if wide:
            examples = (f"{pod} ({detail})" if detail else pod for pod, detail in plan.stays[reason].examples)
            cells.append("; ".join(examples))
        yield [printable(cell) for cell in cells]
