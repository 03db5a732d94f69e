"""A plan as a table, or as JSON or YAML. Names from the cluster are shown as plain text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from msgspec import UNSET, Struct, UnsetType, field

from scheduler.answers import API_VERSION
from scheduler.config import REBALANCED_RESOURCES
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.output import FullOutputFormat, aligned, counted, document_text, fitted
from secondary_scheduler.rebalancestatus import StoppedBy, Workload
from secondary_scheduler.rebalancing import NodeChange, PlannedMove, PlanSummary, RebalancePlan, unevenness

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

Figures = Mapping[str, float | None]
"""By resource; None where it was not measured."""


class LoadSummary(Struct, frozen=True, rename="camel"):
    """The nodes before or after the plan; loads and thresholds in percent.

    Attributes:
        with_room: how many nodes may take pods.
    """

    thresholds: Figures
    target_thresholds: Figures
    spread: Figures
    overloaded: tuple[str, ...]
    with_room: int


class LoadChange(Struct, frozen=True):
    """A node's load in percent."""

    before: Figures
    after: Figures


class ChangedNode(Struct, frozen=True):
    """A node that a move changes."""

    node: str
    load: LoadChange


class Gain(Struct, frozen=True, rename="camel"):
    """The points that a move gains; `refused_by` is the plugin whose filter refuses the pod's own node."""

    total: int
    minimum: int
    attainable: int
    plugins: Mapping[str, int]
    refused_by: str | UnsetType = UNSET


class PodShare(Struct, frozen=True, rename="camel"):
    """What the pod is taken to add to its node; `assumed` names the resources without a measurement."""

    source: str
    cpu_millicores: int
    memory_bytes: int
    assumed: list[str]


class Move(
    Struct,
    frozen=True,
    rename="camel",
):
    """A pod to evict, and the node that the scheduler would choose."""

    round: int
    pod: str
    uid: str
    workload: Workload
    source: ChangedNode = field(name="from")
    target: ChangedNode = field(name="to")
    equally_good_nodes: int
    gain: Gain
    share: PodShare
    forbids_next: str


class StayingPod(Struct, frozen=True):
    """An example of a pod that stays."""

    pod: str
    detail: str


class NotMoved(Struct, frozen=True):
    """The pods that one rule lets stay."""

    reason: str
    rule: int
    message: str
    pods: int
    examples: list[StayingPod]


class RebalancePlanDocument(Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag="RebalancePlan"):
    """The plan as a whole."""

    api_version: str = API_VERSION
    rounds: int
    before: LoadSummary | None
    after: LoadSummary | None
    moves: list[Move]
    stopped: list[StoppedBy]
    pods: int
    not_moved: list[NotMoved]
    assumptions: list[str]


def document(plan: RebalancePlan) -> RebalancePlanDocument:
    """Return everything that a program may want to know; names from the cluster as plain text."""
    return RebalancePlanDocument(
        rounds=plan.rounds,
        before=_summary(plan.before),
        after=_summary(plan.after),
        moves=[_move(move) for move in plan.moves],
        stopped=[
            StoppedBy(refusal.reason.value, refusal.reason.rule, printable(refusal.message)) for refusal in plan.stopped
        ],
        pods=plan.pods,
        not_moved=[
            NotMoved(
                reason.value,
                reason.rule,
                reason.words,
                count,
                [StayingPod(printable(pod), printable(detail)) for pod, detail in plan.stays[reason].examples],
            )
            for reason, count in plan.counts.most_common()
        ],
        assumptions=[printable(text) for text in plan.assumptions],
    )


def _summary(summary: PlanSummary | None) -> LoadSummary | None:
    if summary is None:
        return None
    return LoadSummary(
        _figures(summary.limits.low),
        _figures(summary.limits.high),
        _figures(summary.spread),
        tuple(summary.overloaded),
        summary.with_room,
    )


def _move(move: PlannedMove) -> Move:
    gain, share = move.gain, move.share
    return Move(
        round=move.round,
        pod=move.pod,
        uid=move.uid,
        workload=Workload(*move.workload),
        source=_node(move.source),
        target=_node(move.target),
        equally_good_nodes=move.equally_good,
        gain=Gain(gain.total, move.minimum_gain, gain.attainable, gain.plugins, gain.refused_by or UNSET),
        share=PodShare(share.source, round(share.cpu), round(share.memory), sorted(share.assumed)),
        forbids_next=printable(move.forbids_next),
    )


def _node(change: NodeChange) -> ChangedNode:
    return ChangedNode(change.name, LoadChange(_figures(change.before), _figures(change.after)))


def _figures(values: Mapping[str, float]) -> Figures:
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
