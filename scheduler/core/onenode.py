"""What every plugin says of a pod on one node: why not there, or how far from the best.

A decision stops at the first filter that rejects a node. Who asks about one node wants to hear of them all, as a node
that is drained of the first reason may be rejected for the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from scheduler.answers import NodeVerdict, PluginVerdict
from scheduler.core.detail import MAX_REASON, scored_node, with_detail
from scheduler.core.explain import CODE_NAMES, Explanation, explain
from scheduler.core.feasible import park
from scheduler.framework import Code, CycleState, OverBudgetError, PodInfo, ProfileRunner, Status, filter_row
from scheduler.state import Snapshot

_CODES = {**CODE_NAMES, Code.SUCCESS: "Success", Code.SKIP: "Skip"}


def judge_node(
    snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, node: str, compared: str | None = None
) -> NodeVerdict:
    """Return what the plugins say of a pod on a node of a snapshot.

    The node where preemption made room for the pod gets no preference.

    Args:
        node: its name.
        compared: the node to compare with; None, or where the pod does not fit there: one with the best score.

    Raises:
        KeyError: there is no such node.
    """
    row = snapshot.row(node)
    if row < 0:
        raise KeyError(node)
    pod = msgspec.structs.replace(pod, nominated_node="")
    explanation = explain(snapshot, pod, profile)
    if explanation.error is not None:
        return NodeVerdict(node, None, False, (), 0, None, 0, (), explanation.error[:MAX_REASON])
    own = explanation.node(node)
    stepped_back = {rejection.plugin for rejection in explanation.diagnosis.taken_back}
    verdicts = tuple(
        replace(verdict, stepped_back=verdict.plugin in stepped_back and verdict.rejects)
        for verdict in _verdicts(snapshot, pod, profile, row)
    )
    rank, ties, nodes = None, 0, []
    if own.feasible:
        rank = int((explanation.totals > own.total).sum()) + 1
        ties = int((explanation.totals == own.total).sum())
        nodes.append(node)
    other = _compared(explanation, compared)
    if other is not None and other != node:
        nodes.append(other)
    return NodeVerdict(
        node,
        None if own.rejection is None else _verdict(own.rejection, "Filter"),
        not own.feasible and not any(verdict.objects for verdict in verdicts),
        verdicts,
        len(explanation.feasible),
        rank,
        ties,
        tuple(scored_node(explanation, snapshot, name, compared) for name in nodes),
    )


def without_own_use(snapshot: Snapshot, pod: PodInfo) -> tuple[Snapshot, PodInfo]:
    """Return the cluster as if a placed pod were not on its node, and the pod as if it waited.

    Measured load contains the pod's own all the same.
    """
    row = snapshot.row(pod.node_name)
    waiting = msgspec.structs.replace(pod, node_name="", nominated_node="")
    if row < 0:
        return snapshot, waiting
    view = snapshot.overlay()
    view.remove_pod(pod, row)
    return view, waiting


def _compared(explanation: Explanation, compared: str | None) -> str | None:
    if compared is not None:
        try:
            if explanation.node(compared).feasible:
                return compared
        except KeyError:
            pass  # it has gone
    return explanation.best[0] if explanation.best else None


def _verdicts(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, row: int) -> Iterator[PluginVerdict]:
    state = CycleState()
    try:
        status, names, restricting = profile.run_pre_filter(state, pod, snapshot)
    except OverBudgetError as error:
        status, names, restricting = park(state, error), None, ()
    if not status.is_success:
        yield _verdict(status, "PreFilter")
        return
    if names is not None and snapshot.name(row) not in names:
        for name in restricting:
            yield PluginVerdict(name, "PreFilter", "UnschedulableAndUnresolvable", ("it names other nodes",))
    for plugin in profile.filters:
        yield _verdict(filter_row(state, plugin, pod, snapshot, row), "Filter")


def _verdict(status: Status, point: str) -> PluginVerdict:
    reasons = status.reasons or ((status.message,) if status.message else ())
    code = _CODES.get(status.code, status.code.name)
    *others, last = reasons or ("",)
    texts = (*(reason[:MAX_REASON] for reason in others), with_detail(last, status.detail))
    return PluginVerdict(status.plugin, point, code, texts if any(texts) else ())
