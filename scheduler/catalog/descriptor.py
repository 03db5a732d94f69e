"""The description of a plugin, without its implementation."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntFlag, StrEnum
from typing import Any, NamedTuple

from scheduler.catalog.types import ArgsModel
from scheduler.catalog.upstream import KubernetesVersion


class ExtensionPoint(StrEnum):
    """The extension points, under the names the configuration gives them and in the order a cycle runs them."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"


GO_INTERFACES: dict[ExtensionPoint, str] = {
    ExtensionPoint.PRE_ENQUEUE: "PreEnqueuePlugin",
    ExtensionPoint.QUEUE_SORT: "QueueSortPlugin",
    ExtensionPoint.PRE_FILTER: "PreFilterPlugin",
    ExtensionPoint.FILTER: "FilterPlugin",
    ExtensionPoint.POST_FILTER: "PostFilterPlugin",
    ExtensionPoint.PRE_SCORE: "PreScorePlugin",
    ExtensionPoint.SCORE: "ScorePlugin",
    ExtensionPoint.RESERVE: "ReservePlugin",
    ExtensionPoint.PERMIT: "PermitPlugin",
    ExtensionPoint.PRE_BIND: "PreBindPlugin",
    ExtensionPoint.BIND: "BindPlugin",
    ExtensionPoint.POST_BIND: "PostBindPlugin",
}
"""Upstream's interface names; its error messages contain them, and ours repeat those messages."""


class ActionType(IntFlag):
    """What happened to an object, as specifically as can be determined (k8s.io/kube-scheduler/framework ActionType)."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_POD_LABEL = 1 << 7
    UPDATE_POD_SCALE_DOWN = 1 << 8
    UPDATE_POD_TOLERATION = 1 << 9
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 10
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 11
    UPDATE_NODE_DECLARED_FEATURE = 1 << 12
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_NODE_DECLARED_FEATURE
    )
    ALL = ADD | DELETE | UPDATE


class Watch(NamedTuple):
    """A resource that a plugin reads in addition to nodes and pods, such as ("apps/v1", "replicasets")."""

    api_version: str
    resource: str


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One RBAC rule: for resources, or for the paths of `non_resource_urls` and then without groups and resources."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as an entry of a ClusterRole's `rules`."""
        if self.non_resource_urls:
            return {"nonResourceURLs": list(self.non_resource_urls), "verbs": list(self.verbs)}
        rule: dict[str, Any] = {
            "apiGroups": list(self.api_groups),
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        if self.resource_names:
            rule["resourceNames"] = list(self.resource_names)
        return rule


@dataclass(frozen=True, slots=True)
class PluginDescriptor:
    """Everything that validation, RBAC and rendering need to know about a plugin. Out-of-tree packages provide this
    type too.

    Attributes:
        name: name in the configuration.
        points: extension points the plugin implements, in the newest version.
        args_model: model of `pluginConfig[].args`; None means that the plugin takes no args.
        default_weight: weight in the default profile; 0 for a plugin that does not score there. Of a plugin of a
            package: its weight where a configuration enables it without one, 0 being 1.
        rules: what it needs from the API server beyond `base_rules()`.
        crds: names of the CustomResourceDefinitions it reads.
        watches: what the daemon must list and watch for it.
        implemented: whether this scheduler can run it.
        default: whether the default profile's multiPoint lists it, of some version.
        flavours: families of images that know the name (`ours`, `kube-scheduler`, `scheduler-plugins`).
        factory: `module:attribute` of the constructor, for out-of-tree plugins only.
    """

    name: str
    points: frozenset[ExtensionPoint]
    args_model: type[ArgsModel] | None = None
    default_weight: int = 0
    rules: tuple[PolicyRule, ...] = ()
    crds: tuple[str, ...] = ()
    implemented: bool = False
    default: bool = False
    flavours: frozenset[str] = field(default_factory=lambda: frozenset({"ours", "kube-scheduler", "scheduler-plugins"}))
    factory: str = ""
    watches: tuple[Watch, ...] = ()

    def with_points(self, points: frozenset[ExtensionPoint]) -> "PluginDescriptor":
        """Return the plugin with these extension points."""
        return self if points == self.points else replace(self, points=points)

    def points_as(self, kubernetes: KubernetesVersion) -> frozenset[ExtensionPoint]:
        """Return the extension points that the plugin has in a version."""
        missing = {point for name, point in kubernetes.missing_points if name == self.name}
        return frozenset(point for point in self.points if point not in missing) if missing else self.points


def points(names: Iterable[str]) -> frozenset[ExtensionPoint]:
    """Return extension points by their configuration names."""
    return frozenset(ExtensionPoint(name) for name in names)
