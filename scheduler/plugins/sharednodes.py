"""SharedNodes: care on nodes where another scheduler places pods, too. Of this project; upstream has nothing like it.

Neither scheduler sees what the other decided a moment ago, and kubelets reject what does not fit. Two remedies:

- headroom: on nodes that have pods of other schedulers, a share of what is allocatable is left to them.
- after a kubelet has rejected a pod for want of a resource, pods that request it go elsewhere for some seconds.

Both are wishes: where no other node fits, the plugin steps back. So no pod waits on their account, and none is
preempted; autoscalers, which do not know them, cannot be misled. Pods of DaemonSets and static pods do not make a node
shared: every node has some. Counter: `stepped_back/SharedNodes` (attempts), by the core.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import SharedNodesArgs
from scheduler.helpers import KubeletRejections, StaleRows

# Which nodes have pods of other schedulers, as a column that is kept up to date.

_EVERYWHERE = frozenset({"DaemonSet", "Node"})
"""Controllers of pods that every node has; that of a static pod is its node."""


class SharedColumn:
    """True where a pod of another scheduler is, by row."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = frozenset(own)
        self._stale = StaleRows()
        self._shared: fw.BoolArray = np.zeros(0, dtype=np.bool_)

    def by_row(self, view: fw.NodeView) -> fw.BoolArray:
        """Return the column. What a what-if view moves are our own pods, or victims: it does not count here."""
        begins, rows = self._stale.take(view)
        if begins:
            self._shared = np.zeros(view.size, dtype=np.bool_)
        for row in rows:
            self._shared[row] = self._has_other(view.pods_on(row))
        return self._shared

    def _has_other(self, pods: Iterable[fw.PodInfo]) -> bool:
        return any(
            pod.scheduler_name not in self._own and (pod.controller is None or pod.controller.kind not in _EVERYWHERE)
            for pod in pods
        )


NAME = "SharedNodes"
REJECTED = "node(s) whose kubelet rejected a pod a moment ago"
_PODS = "pods"
"""What every pod takes one of, without a request."""


class SharedNodes(fw.FilterPlugin, fw.YieldingFilter, fw.FilterRule):
    """Leaves other schedulers some room, and nodes that have just turned out to be full alone."""

    name = NAME

    def __init__(self, args: SharedNodesArgs, context: fw.PluginContext) -> None:
        own = context.environment.scheduler_names or {context.scheduler_name}
        self._shared = SharedColumn(own)
        headroom = (("cpu", args.headroom.cpu), ("memory", args.headroom.memory))
        self._headroom = tuple((name, share) for name, share in headroom if share)
        self._reasons = (
            *(f"node(s) shared with other schedulers, which keep {share}% of {name}" for name, share in self._headroom),
            REJECTED,
        )
        self._avoid_seconds = float(args.avoid_seconds)
        self._monotonic = context.clocks.monotonic

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject shared nodes that would keep less than the headroom, and nodes with a recent rejection."""
        if state.read(NAME, bool):
            return None
        return fw.verdicts_of(fw.masks_of(self.filter_rule, pod.spec, view, rows), self._reasons, fw.Code.UNSCHEDULABLE)

    def step_back(self, state: fw.CycleState) -> bool:
        """Let all nodes pass for the rest of an attempt."""
        state.write(NAME, True)
        return True

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule of `filter`: the headroom of each resource, then rejections."""
        nodes.value(partial(self._avoided, spec))
        shared = nodes.of_pods(self._shared.by_row)
        rejected = nodes.of_pods(partial(self._rejected, spec))
        limits = [
            (float(spec.requests.get(name, 0)), share, nodes.allocatable(name), nodes.requested(name))
            for name, share in self._headroom
        ]

        def failures(node: fw.Node) -> Sequence[Any]:
            shares = shared(node)
            return [
                *[
                    shares & (request > 0.0) & (requested(node) + request > _usable(allocatable(node), share))
                    for request, share, allocatable, requested in limits
                ],
                rejected(node),
            ]

        return failures

    def _rejected(self, spec: fw.SpecInfo, view: fw.NodeView) -> fw.BoolArray:
        """Return where a pod was rejected for want of something that pods with this spec request."""
        rejected = np.zeros(view.size, dtype=np.bool_)
        for node, lacking in self._rejections(view).items():
            if _requests_any(spec, lacking) and (row := view.row(node)) >= 0:
                rejected[row] = True
        return rejected

    def _rejections(self, view: fw.NodeView) -> Mapping[str, frozenset[str]]:
        return view.objects.derived(KubeletRejections).since(self._monotonic() + -self._avoid_seconds)

    def _avoided(self, spec: fw.SpecInfo, view: fw.NodeView) -> frozenset[str]:
        """Return the nodes that `_rejected` marks."""
        return frozenset([node for node, lacking in self._rejections(view).items() if _requests_any(spec, lacking)])


def _usable(allocatable: Any, share: int) -> Any:
    return allocatable * (100 - share) / 100


def _requests_any(spec: fw.SpecInfo, resources: frozenset[str]) -> bool:
    return any(name == _PODS or spec.requests.get(name, 0) > 0 for name in resources)
