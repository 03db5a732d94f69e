"""SharedNodes: care on nodes where another scheduler places pods, too. Of this project; upstream has nothing like it.

Neither scheduler sees what the other decided a moment ago, and kubelets reject what does not fit. Two remedies:

- headroom: on nodes that have pods of other schedulers, a share of what is allocatable is left to them.
- after a kubelet has rejected a pod for want of a resource, pods that request it go elsewhere for some seconds.

Both are wishes: where no other node fits, the plugin steps back. So no pod waits on their account, and none is
preempted; autoscalers, which do not know them, cannot be misled. Pods of DaemonSets and static pods do not make a node
shared: every node has some. Counter: `stepped_back/SharedNodes` (attempts), by the core.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from scheduler.catalog import SharedNodesArgs
from scheduler.framework import (
    BoolArray,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    SpecInfo,
    Verdicts,
    YieldingFilter,
    gather,
)
from scheduler.helpers import KubeletRejections, StaleRows

# Which nodes have pods of other schedulers, as a column that is kept up to date.

_EVERYWHERE = frozenset({"DaemonSet", "Node"})
"""Controllers of pods that every node has; that of a static pod is its node."""


class SharedColumn:
    """True where a pod of another scheduler is, by row."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = frozenset(own)
        self._stale = StaleRows()
        self._shared: BoolArray = np.zeros(0, dtype=np.bool_)

    def by_row(self, view: NodeView) -> BoolArray:
        """Return the column. What a what-if view moves are our own pods, or victims: it does not count here."""
        begins, rows = self._stale.take(view)
        if begins:
            self._shared = np.zeros(view.size, dtype=np.bool_)
        for row in rows:
            self._shared[row] = self._has_other(view.pods_on(row))
        return self._shared

    def _has_other(self, pods: Iterable[PodInfo]) -> bool:
        return any(
            pod.scheduler_name not in self._own and (pod.controller is None or pod.controller.kind not in _EVERYWHERE)
            for pod in pods
        )


NAME = "SharedNodes"
REJECTED = "node(s) whose kubelet rejected a pod a moment ago"
_PODS = "pods"
"""What every pod takes one of, without a request."""


class SharedNodes(FilterPlugin, YieldingFilter, LocalPlugin):
    """Leaves other schedulers some room, and nodes that have just turned out to be full alone."""

    name = NAME

    def __init__(self, args: SharedNodesArgs, context: PluginContext) -> None:
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

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject shared nodes that would keep less than the headroom, and nodes with a recent rejection."""
        if state.read(NAME, bool):
            return None
        bits = np.zeros(len(rows), dtype=np.int64)
        shared = self._shared.by_row(view)[rows]
        if shared.any():
            for bit, (name, share) in enumerate(self._headroom):
                bits |= (shared & self._exceeds(pod.spec, view, rows, name, share)).astype(np.int64) << bit
        for node, lacking in self._rejections(view).items():
            if _requests_any(pod.spec, lacking) and (row := view.row(node)) >= 0:
                bits[rows == row] |= 1 << (len(self._reasons) - 1)
        if not bits.any():
            return None
        codes = np.where(bits == 0, 0, Code.UNSCHEDULABLE).astype(np.int8)
        return Verdicts(codes, bits, self._reasons)

    def step_back(self, state: CycleState) -> bool:
        """Let all nodes pass for the rest of an attempt."""
        state.write(NAME, True)
        return True

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Verdicts follow from the node, its pods, and the rejections."""
        fits = self._fits(pod.spec, view)
        return Locality(filters=DependsOn.PODS, version=partial(self._version, pod.spec), fits=fits)

    def _exceeds(self, spec: SpecInfo, view: NodeView, rows: RowArray, name: str, share: int) -> BoolArray:
        request = spec.requests.get(name, 0)
        allocatable, requested = (gather(view, column(name), rows) for column in (view.allocatable, view.requested))
        exceeding: BoolArray = (requested + request > _usable(allocatable, share)) & (request > 0)
        return exceeding

    def _rejections(self, view: NodeView) -> Mapping[str, frozenset[str]]:
        return view.objects.derived(KubeletRejections).since(self._monotonic() + -self._avoid_seconds)

    def _version(self, spec: SpecInfo, view: NodeView) -> Hashable:
        avoided = [node for node, lacking in self._rejections(view).items() if _requests_any(spec, lacking)]
        return view.membership, frozenset(avoided)

    def _fits(self, spec: SpecInfo, view: NodeView) -> Callable[[NodeView, int], bool]:
        """Return `filter` on one row."""
        limits = [
            (float(request), share, view.allocatable(name).item, view.requested(name).item)
            for name, share in self._headroom
            if (request := spec.requests.get(name, 0)) > 0
        ]

        def fits(now: NodeView, row: int) -> bool:
            if self._shared.by_row(now).item(row):
                for request, share, allocatable, requested in limits:
                    if requested(row) + request > _usable(allocatable(row), share):
                        return False
            rejections = self._rejections(now)
            lacking = rejections.get(now.name(row)) if rejections else None
            return lacking is None or not _requests_any(spec, lacking)

        return fits


def _usable(allocatable: Any, share: int) -> Any:
    return allocatable * (100 - share) / 100


def _requests_any(spec: SpecInfo, resources: frozenset[str]) -> bool:
    return any(name == _PODS or spec.requests.get(name, 0) > 0 for name in resources)
