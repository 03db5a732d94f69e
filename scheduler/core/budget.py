"""How much work one attempt may be, for each plugin that loops over what a pod lists.

Whoever may create a pod may list tens of thousands of terms, ports or volumes in it (1.5 MB, etcd's limit), and one
thread decides about all pods. Plugins are written so that this costs what it has to; the budget is the last resort
where even that would stop the scheduler for seconds. Upstream has none.

Work is counted before it is done, in units that follow from the pod and the snapshot, and never in seconds: the same
snapshot parks the same pod, on every machine. A unit is one comparison or one element of an array, 0.01 to 1 us; the
limits let an attempt take one or two seconds at most, and the watchdog of /livez waits for 60. Real workloads stay
below a hundredth of them. A pod that lists few things (`FEW_PARTS`) is not looked at any closer, as it is within every
budget: that keeps ordinary attempts free of all this.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scheduler.framework import OVER_BUDGET, CycleState, PodInfo, ProfileRunner, Status, unresolvable
from scheduler.kube.primitives import CompiledNodeSelectorTerm
from scheduler.state import Snapshot

REJECTOR = "AttemptBudget"
"""Stands for the budget among the plugins that rejected a pod. No event wakes such a pod, as asking the plugin whether
an event helps would be work of the same size: it is tried again every five minutes, as the cluster may have shrunk."""


class _Budget(NamedTuple):
    """How a plugin's work is counted, and how much it may be."""

    units: Callable[[Snapshot, PodInfo], int]
    limit: int
    formula: str


_MOST_COMPARISONS = 2_000_000
"""Of selectors with sets of labels, 0.5 to 1 us each: 50 terms at 40,000 pods, each with labels of its own."""


def _node_affinity(view: Snapshot, pod: PodInfo) -> int:
    spec = pod.spec
    terms = [*(spec.required.terms if spec.required is not None else ()), *(each.term for each in spec.preferred)]
    return (spec.node_selector.size + sum(map(_expressions, terms))) * view.node_count


def _expressions(term: CompiledNodeSelectorTerm) -> int:
    return term.labels.size + len(term.other_names)


def _tolerations(view: Snapshot, pod: PodInfo) -> int:
    return len(pod.spec.tolerations) * sum(map(len, view.taints.classes))


def _host_ports(view: Snapshot, pod: PodInfo) -> int:
    return len(pod.spec.host_ports) * view.node_count


def _resources(view: Snapshot, pod: PodInfo) -> int:
    return sum(1 for amount in pod.spec.requests.values() if amount) * view.node_count


def _images(view: Snapshot, pod: PodInfo) -> int:
    return sum(1 for name in pod.spec.images if view.image(name) is not None) * view.node_count


def _containers(view: Snapshot, pod: PodInfo) -> int:
    return len(pod.spec.containers) * view.node_count


def _volumes(view: Snapshot, pod: PodInfo) -> int:
    return len(pod.spec.volumes) * view.node_count


def _claims(view: Snapshot, pod: PodInfo) -> int:
    return len(pod.spec.claims) * view.node_count


def _affinity(view: Snapshot, pod: PodInfo) -> int:
    terms = pod.spec.terms
    selectors = [term.selector for term in (*terms.affinity, *terms.anti_affinity)]
    selectors += [weighted.term.selector for weighted in (*terms.preferred_affinity, *terms.preferred_anti_affinity)]
    # What it can be at most is known at once; what it is takes a look at each selector.
    most = len(selectors) * view.label_set_count
    return most if most <= _MOST_COMPARISONS else sum(map(view.label_sets, selectors))


def _spread(view: Snapshot, pod: PodInfo) -> int:
    keys = sum(1 for constraint in pod.spec.topology_spread if view.labels(constraint.topology_key).values)
    return len(pod.spec.topology_spread) + keys * (view.node_count + view.label_set_count)


def _dry_runs(view: Snapshot, pod: PodInfo) -> int:
    return (pod.spec.terms.number + len(pod.spec.topology_spread)) * int(view.pod_count.sum())


_BUDGETS: Mapping[str, _Budget] = {
    # A pass of numpy over all nodes each: 10,000 expressions at 5,000 nodes, 0.3 s.
    "NodeAffinity": _Budget(_node_affinity, 50_000_000, "expressions x nodes"),
    "NodeResourcesFit": _Budget(_resources, 20_000_000, "resources x nodes"),
    "ImageLocality": _Budget(_images, 50_000_000, "images x nodes"),
    # Python's comparisons, 0.1 to 0.5 us each.
    "TaintToleration": _Budget(_tolerations, 10_000_000, "tolerations x distinct taints"),
    "NodePorts": _Budget(_host_ports, 20_000_000, "host ports x nodes"),
    "InterPodAffinity": _Budget(_affinity, _MOST_COMPARISONS, "terms x sets of pod labels to compare"),
    "PodTopologySpread": _Budget(_spread, 5_000_000, "constraints x (nodes + sets of pod labels)"),
    # Claims are looked up and matched one by one, and per node.
    "VolumeBinding": _Budget(_volumes, 5_000_000, "volumes x nodes"),
    "VolumeRestrictions": _Budget(_volumes, 5_000_000, "volumes x nodes"),
    "VolumeZone": _Budget(_volumes, 5_000_000, "volumes x nodes"),
    "NodeVolumeLimits": _Budget(_volumes, 5_000_000, "volumes x nodes"),
    "DynamicResources": _Budget(_claims, 5_000_000, "claims x nodes"),
    # A few passes of numpy over all zones of all nodes per container.
    "NodeResourceTopologyMatch": _Budget(_containers, 5_000_000, "containers x nodes"),
}
"""By plugin. Those that are missing look at nothing of a pod of which there may be many."""
PREEMPTION_OVER_BUDGET = f"{OVER_BUDGET}/DefaultPreemption"
_PREEMPTION = _Budget(_dry_runs, 10_000_000, "(terms + constraints) x pods on nodes")


def attempt_rejection(view: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState) -> Status | None:
    """Return the rejection of a pod that would be too much work for one of the profile's plugins, else None."""
    for plugin, budget in _BUDGETS.items():
        if plugin in profile.plugins:
            units = budget.units(view, pod)
            if units > budget.limit:
                state.count(f"{OVER_BUDGET}/{plugin}")
                return unresolvable(_reason(plugin, budget, units), plugin=REJECTOR)
    return None


def is_over_budget(status: Status | None) -> bool:
    """Tell whether a pod's rejection is for the work that it would be."""
    return status is not None and status.plugin == REJECTOR


def preemption_rejection(view: Snapshot, pod: PodInfo, state: CycleState) -> str:
    """Return why preemption is not tried for a pod that fits nowhere; "" where it is."""
    if not pod.spec.lists_much:
        return ""
    units = _PREEMPTION.units(view, pod)
    if units <= _PREEMPTION.limit:
        return ""
    state.count(PREEMPTION_OVER_BUDGET)
    return f"preemption: {_reason('DefaultPreemption', _PREEMPTION, units)}."


def _reason(plugin: str, budget: _Budget, units: int) -> str:
    return (
        f"the pod is too much work for plugin {plugin}: {units} units ({budget.formula}), at most {budget.limit} are"
        " done in one attempt; list fewer in the pod's spec"
    )
