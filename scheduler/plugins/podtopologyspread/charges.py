"""What the work of an attempt is charged with for constraints."""

from collections.abc import Sequence

from scheduler.framework import CycleState, NodeView, PodInfo
from scheduler.plugins.podtopologyspread.constraints import Constraint, lists_many

_NAME = "PodTopologySpread"
_FEW_SERVICES = 256


def charge(state: CycleState, pod: PodInfo, view: NodeView, constraints: Sequence[Constraint]) -> None:
    """Charge for constraints of a kind. Counts of few constraints are kept, and cost next to nothing."""
    if not lists_many(pod):
        return
    keys = sum(1 for constraint in constraints if view.labels(constraint.topology_key).values)
    units = 10 * len(constraints) + keys * (50 + len(view.rows) // 20 + view.label_set_count)
    state.work.charge(units, "constraints x (nodes + sets of pod labels)")


def charge_for_services(state: CycleState, pod: PodInfo, view: NodeView) -> None:
    """Charge for the Services of a namespace, among which default constraints look for those of the pod."""
    services = len(view.objects.in_namespace("Service", pod.namespace))
    if services > _FEW_SERVICES:
        state.work.charge_once(
            (_NAME, pod.namespace, frozenset(pod.labels.items())), services, "Services of the namespace"
        )
