"""What happens in the cluster, and which of it may make a rejected pod schedulable (ClusterEvent and QueueingHint of
kube-scheduler).

Without hints every event would move every unschedulable pod, and each would cost an attempt. The engine sends an event
for each kind of change, not one for the object: a node's heartbeat is none at all.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from scheduler.catalog import ActionType
from scheduler.framework.objects import NodeInfo, PodInfo

EventObject = object
"""PodInfo for pods, NodeInfo for nodes, a NodeView for their load, the decoded object for other kinds."""

POD, NODE, WILDCARD = "Pod", "Node", "*"
ASSIGNED_POD, UNSCHEDULABLE_POD = "AssignedPod", "UnschedulablePod"
NODE_LOAD = "NodeLoad"
"""Of no API object: the measured load of the nodes."""


class Hint(Enum):
    """A plugin's answer to whether an event is worth another attempt."""

    SKIP = 0
    QUEUE = 1


QueueingHint = Callable[[PodInfo, EventObject | None, EventObject | None], Hint]
"""hint(rejected pod, old object, new object). An exception counts as QUEUE."""


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


class Concern(NamedTuple):
    """Which pods a change concerns, by names: the queue does not ask the hints about others.

    For changes that concern one pod of thousands. It may not lose any: a pod that is not concerned is one for which
    the hint answers SKIP, and for which the plugin's PreEnqueue, if it rejects the pod, still does. So a plugin that
    has a Concern keeps pods gated for nothing but what `awaited` names, or says so where something else lets them pass
    (`Handle.look_at_gates`). Names are not empty.
    """

    awaited: Callable[[PodInfo], Collection[str]]
    """The names of what a rejected pod waits for; asked again when the pod changes."""
    named: Callable[[EventObject | None, EventObject | None], Collection[str]]
    """The names that a change, old and new object, is about."""
    helps_all: Callable[[EventObject | None, EventObject | None], bool] = lambda old, new: False
    """Whether a change concerns every pod that the plugin rejected and does not keep gated."""


class HintRegistration(NamedTuple):
    """An event of interest, and the function that looks closer; without one, every such event wakes the pod."""

    resource: str
    actions: ActionType
    hint: QueueingHint | None = None
    concern: Concern | None = None

    def event_names(self) -> list[str]:
        """Return its events as `Node/Add`, in upstream's words."""
        named: list[ActionType] = []
        rest = self.actions
        for group in (ActionType.ALL, ActionType.UPDATE):
            if rest & group == group:
                named.append(group)
                rest &= ~group
        return [f"{self.resource}/{_camel_case(action.name or '')}" for action in (*named, *rest)]


class ClusterEvent(NamedTuple):
    """Something that happened; `label` names it in metrics."""

    resource: str
    action: ActionType
    label: str = ""

    def matches(self, registration: HintRegistration) -> bool:
        """Tell whether a plugin registered for this event (pkg/scheduler/framework/types.go, ClusterEvent.Match)."""
        resource = registration.resource
        same = resource in (WILDCARD, self.resource) or (
            resource == POD and self.resource in (ASSIGNED_POD, UNSCHEDULABLE_POD)
        )
        return same and bool(self.action & registration.actions) and not self.action & ~registration.actions

    @property
    def is_wildcard(self) -> bool:
        """Tell whether the event wakes every pod whatever rejected it."""
        return self.resource == WILDCARD


_A = ActionType
ASSIGNED_POD_ADD = ClusterEvent(ASSIGNED_POD, _A.ADD, "AssignedPodAdd")
ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, _A.DELETE, "AssignedPodDelete")
UNSCHEDULABLE_POD_ADD = ClusterEvent(UNSCHEDULABLE_POD, _A.ADD, "UnschedulablePodAdd")
NODE_ADD = ClusterEvent(NODE, _A.ADD, "NodeAdd")
NODE_DELETE = ClusterEvent(NODE, _A.DELETE, "NodeDelete")
NODE_LOAD_UPDATE = ClusterEvent(NODE_LOAD, _A.UPDATE, "NodeLoadUpdate")
"""A load source was read, or could not be read. The new object is a `NodeView` of that moment, there is no old one."""
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, _A.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(WILDCARD, _A.ALL, "ForceActivate")


_NODE_BITS = (
    (_A.UPDATE_NODE_TAINT, "NodeUpdateNodeTaint"),
    (_A.UPDATE_NODE_ALLOCATABLE, "NodeUpdateNodeAllocatable"),
    (_A.UPDATE_NODE_LABEL, "NodeUpdateNodeLabel"),
    (_A.UPDATE_NODE_CONDITION, "NodeUpdateNodeCondition"),
    (_A.UPDATE_NODE_ANNOTATION, "NodeUpdateNodeAnnotation"),
    (_A.UPDATE_NODE_DECLARED_FEATURE, "NodeUpdateNodeDeclaredFeature"),
)
_POD_BITS = (
    (_A.UPDATE_POD_LABEL, "UpdatePodLabel"),
    (_A.UPDATE_POD_SCALE_DOWN, "UpdatePodScaleDown"),
    (_A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "UpdatePodSchedulingGatesEliminated"),
    (_A.UPDATE_POD_TOLERATION, "UpdatePodToleration"),
    (_A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, "UpdatePodGeneratedResourceClaim"),
)


def upstream_label(label: str, *, own: bool = False) -> str:
    """Return what an event is called in metrics since 1.37: `own` is that of the pod which it is about."""
    if not label.startswith(UNSCHEDULABLE_POD):
        return label
    updated = own and label.startswith(f"{UNSCHEDULABLE_POD}Update")
    return label.replace(UNSCHEDULABLE_POD, "TargetPod" if updated else "UnscheduledPod", 1)


def node_changes(old: NodeInfo, new: NodeInfo) -> ActionType:
    """Return what changed between two states of a node that a scheduler may care for; 0 for a heartbeat."""
    changes = ActionType(0)
    if old.unschedulable and not new.unschedulable:
        changes |= _A.UPDATE_NODE_TAINT  # upstream reports an uncordoned node as a taint change
    if old.taints != new.taints:
        changes |= _A.UPDATE_NODE_TAINT
    if old.allocatable != new.allocatable or old.allowed_pods != new.allowed_pods:
        changes |= _A.UPDATE_NODE_ALLOCATABLE
    if old.labels != new.labels:
        changes |= _A.UPDATE_NODE_LABEL
    if old.conditions != new.conditions:
        changes |= _A.UPDATE_NODE_CONDITION
    if old.annotations != new.annotations:
        changes |= _A.UPDATE_NODE_ANNOTATION
    if old.declared_features != new.declared_features:
        changes |= _A.UPDATE_NODE_DECLARED_FEATURE
    return changes


def pod_changes(old: PodInfo, new: PodInfo) -> ActionType:
    """Return what changed between two states of a pod, as specific as possible; 0 when nothing specific did."""
    changes = ActionType(0)
    if old.labels != new.labels:
        changes |= _A.UPDATE_POD_LABEL
    if any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items()):
        changes |= _A.UPDATE_POD_SCALE_DOWN
    if old.spec.gates and not new.spec.gates:
        changes |= _A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        changes |= _A.UPDATE_POD_TOLERATION
    if old.claim_names != new.claim_names:
        changes |= _A.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return changes


def node_update_events(old: NodeInfo, new: NodeInfo) -> tuple[ClusterEvent, ...]:
    """Return one event per kind of change; none for a heartbeat, which therefore costs nothing."""
    changes = node_changes(old, new)
    return tuple(ClusterEvent(NODE, bit, label) for bit, label in _NODE_BITS if changes & bit)


def pod_update_events(old: PodInfo, new: PodInfo) -> tuple[ClusterEvent, ...]:
    """Return one event per kind of change of a pod, or the generic update, which only wakes plugins registered for
    every update."""
    resource = ASSIGNED_POD if new.node_name else UNSCHEDULABLE_POD
    changes = pod_changes(old, new)
    events = tuple(ClusterEvent(resource, bit, f"{resource}{label}") for bit, label in _POD_BITS if changes & bit)
    return events or (ClusterEvent(resource, _A.UPDATE, f"{resource}Update"),)
