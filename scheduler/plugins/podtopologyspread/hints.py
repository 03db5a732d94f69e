"""Which events may make room for a pod that was rejected for its spread."""

from collections.abc import Callable, Mapping, Sequence

from scheduler.catalog import ActionType, KubernetesVersion
from scheduler.framework import NODE, POD, Hint, HintRegistration, NodeInfo, PodInfo
from scheduler.plugins.podtopologyspread.constraints import Constraint

ConstraintsOf = Callable[[PodInfo], Sequence[Constraint]]
_A = ActionType


class SpreadHints:
    """The hints (isSchedulableAfterPodChange and isSchedulableAfterNodeChange of kube-scheduler)."""

    def __init__(self, constraints_of: ConstraintsOf, kubernetes: KubernetesVersion) -> None:
        self._constraints_of = constraints_of
        self._counts_nominated = kubernetes.nominated_pods_spread

    def registrations(self) -> tuple[HintRegistration, ...]:
        """Return the events of interest with their hints."""
        pods = _A.ADD | _A.DELETE | _A.UPDATE_POD_LABEL | _A.UPDATE_POD_TOLERATION
        nodes = _A.ADD | _A.DELETE | _A.UPDATE_NODE_LABEL | _A.UPDATE_NODE_TAINT
        return (HintRegistration(POD, pods, self.pod_changed), HintRegistration(NODE, nodes, self.node_changed))

    def pod_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A matching pod came or went, or a pod began or ceased to match; or the pod itself tolerates more."""
        before = old if isinstance(old, PodInfo) else None
        after = new if isinstance(new, PodInfo) else None
        if any(other is not None and not self._concerns(other, pod) for other in (before, after)):
            return Hint.SKIP
        constraints = self._constraints_of(pod)
        if before is None or after is None:
            labels = after.labels if after is not None else before.labels if before is not None else {}
            return _queue_if(any(constraint.selector.matches(labels) for constraint in constraints))
        if (
            after.uid == pod.uid
            and after.spec.tolerations != before.spec.tolerations
            and any(constraint.honor_taints for constraint in constraints)
        ):
            return Hint.QUEUE
        return _queue_if(
            any(
                constraint.selector.matches(before.labels) != constraint.selector.matches(after.labels)
                for constraint in constraints
            )
        )

    def _concerns(self, other: PodInfo, pod: PodInfo) -> bool:
        placed = bool(other.node_name or (self._counts_nominated and other.nominated_node))
        return other.uid == pod.uid or (placed and other.namespace == pod.namespace)

    def node_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A node that has all keys came or went, moved to another domain, or has other taints."""
        constraints = self._constraints_of(pod)
        before = old if isinstance(old, NodeInfo) else None
        after = new if isinstance(new, NodeInfo) else None
        had = before is not None and _has_keys(before.labels, constraints)
        has_keys = after is not None and _has_keys(after.labels, constraints)
        if before is None or after is None:
            return _queue_if(had or has_keys)
        if had != has_keys:
            return Hint.QUEUE
        moved = any(
            before.labels.get(constraint.topology_key) != after.labels.get(constraint.topology_key)
            for constraint in constraints
        )
        return _queue_if(has_keys and (moved or before.taints != after.taints))


def _has_keys(labels: Mapping[str, str], constraints: Sequence[Constraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP
