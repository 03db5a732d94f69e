"""Plugins by name, and the ClusterRoles and object names that follow from them.

Annotations with which a scheduler says on its Lease what only it knows: the operator and the fleet's gate read them.

Changing a name breaks upgrades: during a rollout, old schedulers are read by a new operator and the other way round.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from scheduler.catalog.args_trimaran import PeaksArgs, TrimaranArgs
from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule
from scheduler.catalog.intree import IN_TREE
from scheduler.catalog.schedulerplugins import OPTIONS_DESCRIPTOR, SCHEDULER_PLUGINS
from scheduler.catalog.types import ArgsModel
from scheduler.catalog.upstream import DEFAULT_KUBERNETES, KubernetesVersion

OPERATOR_NAMESPACE = "openshift-secondary-scheduler-operator"
"""Namespace of upstream's operator, and the default of ours."""

INSTANCE_NAME = "cluster"
"""The SecondaryScheduler whose objects have upstream's names."""
OPERAND = "secondary-scheduler"
CANARY_SUFFIX = "-canary"
"""Suffix of the names of canaries, and of the profiles in their configuration."""
_MAX_OPERAND_LENGTH = 39
"""Services and label values are named after it, with at most 63 characters."""

LOG_VERBOSITY = {"Normal": 2, "Debug": 4, "Trace": 6, "TraceAll": 8}
"""`spec.logLevel` of a SecondaryScheduler -> the scheduler's `-v`; the names are OpenShift's."""

BASE_CLUSTER_ROLE = "secondary-scheduler:base"
METRICS_READER_CLUSTER_ROLE = "secondary-scheduler:metrics-reader"
"""The right to read /metrics of schedulers and operator: to be bound to the ServiceAccount of a Prometheus."""
REBALANCER_CLUSTER_ROLE = "secondary-scheduler:rebalancer"
"""What a rebalancer that the operator runs may do: read what plugins and safety rules read, and evict."""
REBALANCER_SUFFIX = "-rebalancer"
"""Of the names of a scheduler's rebalancer: ServiceAccount, Deployment, Lease and the ConfigMap with its status."""
PAGE_SUFFIX = "-page"
LOAD_WATCHER_SUFFIX = "-load-watcher"
_OF_COMPANIONS = (CANARY_SUFFIX, REBALANCER_SUFFIX, PAGE_SUFFIX, LOAD_WATCHER_SUFFIX)
"""A scheduler's companions have its name and one of these: no scheduler may be called so."""
ENTRY_POINT_GROUP = "secondary_scheduler.plugins"

_BUILT_IN: dict[str, PluginDescriptor] = {
    descriptor.name: descriptor for descriptor in (*IN_TREE, *SCHEDULER_PLUGINS, OPTIONS_DESCRIPTOR)
}

_BASE_RULES = (
    PolicyRule(("",), ("nodes", "namespaces"), ("list", "watch")),
    # NodeResourcesFit asks whether an extended resource stands for the devices of a class.
    PolicyRule(("resource.k8s.io",), ("deviceclasses",), ("list", "watch")),
    # One pod is read again when the response to its Binding was lost.
    PolicyRule(("",), ("pods",), ("get", "list", "watch")),
    PolicyRule(("",), ("pods/binding",), ("create",)),
    PolicyRule(("",), ("pods/status",), ("patch",)),
    PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
    # Who may read /metrics and /configz is the API server's to say; system:kube-scheduler has these too.
    PolicyRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    PolicyRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)


_READING = frozenset({"get", "list", "watch"})
_REBALANCER_RULES = (
    # What the safety rules read, whatever the plugins do.
    PolicyRule(("apps",), ("deployments", "replicasets", "statefulsets"), ("list", "watch")),
    PolicyRule(("",), ("replicationcontrollers",), ("list", "watch")),
    PolicyRule(("policy",), ("poddisruptionbudgets",), ("list", "watch")),
    PolicyRule(("metrics.k8s.io",), ("pods",), ("list",)),
    PolicyRule(("",), ("pods/eviction",), ("create",)),
    PolicyRule(("events.k8s.io",), ("events",), ("create", "patch")),
    # Who may read /metrics is the API server's to say.
    PolicyRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    PolicyRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
_METRICS_READER_RULES = (PolicyRule((), (), ("get",), non_resource_urls=("/metrics",)),)


class PluginPackageError(Exception):
    """An installed package offers a plugin that cannot be used."""


@cache
def out_of_tree_descriptors() -> tuple[PluginDescriptor, ...]:
    """Return the descriptors that installed packages offer under the entry-point group `secondary_scheduler.plugins`.

    An entry point resolves to a `PluginDescriptor` whose `factory` names the constructor as `module:attribute`; the
    module that holds the descriptor must import without the scheduler's run-time dependencies, as the Pulumi program
    imports it too.

    Raises:
        PluginPackageError: a package's entry point is something else, or takes the name of another plugin.
    """
    # Here, as it takes 18 ms, and only who names a plugin that is not ours waits for it.
    from importlib.metadata import entry_points

    by_name: dict[str, PluginDescriptor] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        descriptor = entry.load()
        if not isinstance(descriptor, PluginDescriptor) or not descriptor.factory:
            raise PluginPackageError(
                f"plugin package entry point {entry.name!r} ({entry.value}) is not a PluginDescriptor with a factory"
            )
        if descriptor.name in _BUILT_IN or descriptor.name in by_name:
            raise PluginPackageError(
                f"a plugin named {descriptor.name} already exists; {entry.value} provides it again"
            )
        by_name[descriptor.name] = descriptor
    return tuple(by_name.values())


def descriptors() -> tuple[PluginDescriptor, ...]:
    """Return every known plugin: in-tree in the default profile's order, then scheduler-plugins', then installed
    packages'."""
    return tuple(_all().values())


def _all() -> dict[str, PluginDescriptor]:
    extra = out_of_tree_descriptors()
    return {**_BUILT_IN, **{descriptor.name: descriptor for descriptor in extra}} if extra else _BUILT_IN


def is_custom_resource(name: str) -> bool:
    """Return whether this is the name of a CustomResourceDefinition that a plugin of ours reads."""
    return any(name in descriptor.crds for descriptor in _BUILT_IN.values())


def lookup(name: str) -> PluginDescriptor | None:
    """Return the plugin of this exact name, or None."""
    return _BUILT_IN.get(name) or _all().get(name)


def reads_load(name: str) -> bool:
    """Tell whether a plugin scores by measured load."""
    return _has_args(name, TrimaranArgs, PeaksArgs)


def takes_metric_provider(name: str) -> bool:
    """Tell whether a plugin's args may name a metric provider; Peaks reads a load-watcher only."""
    return _has_args(name, TrimaranArgs)


def _has_args(name: str, *models: type[ArgsModel]) -> bool:
    descriptor = lookup(name)
    return descriptor is not None and descriptor.args_model is not None and issubclass(descriptor.args_model, models)


def known_names() -> tuple[str, ...]:
    """Return the names that are valid in a plugin set."""
    return tuple(name for name in _all() if name != OPTIONS_DESCRIPTOR.name)


def default_plugins(kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> Iterator[PluginDescriptor]:
    """Yield the plugins of a version's default profile in multiPoint order, with their weights there."""
    weights = dict(kubernetes.default_weights)
    for name in kubernetes.default_plugins:
        descriptor, weight = _BUILT_IN[name], weights.get(name)
        yield descriptor if weight is None else dataclasses.replace(descriptor, default_weight=weight)


def cluster_role_name(plugin: str) -> str:
    """Return the name of the static ClusterRole of a plugin."""
    return f"secondary-scheduler:plugin:{plugin.lower()}"


def cluster_role_binding_name(role: str, namespace: str, scheduler: str = OPERAND) -> str:
    """Return the name under which a scheduler's account is bound to one of the static ClusterRoles.

    The operator's RBAC allows it to write bindings of these names only, so both sides take the name from here.
    """
    if not role.startswith("secondary-scheduler:"):
        # A role of the cluster itself; a binding of that name already exists.
        role = f"secondary-scheduler:{role.replace(':', '-')}"
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, OPERAND):
        return role
    return f"secondary-scheduler:{namespace}:{scheduler}:{role.partition(':')[2]}"


def operand_name(instance: str) -> str:
    """Return the name of a SecondaryScheduler's ServiceAccount, Deployment and Lease: upstream's for `cluster`, else
    one derived from the instance's name.

    A name that is too long, invalid for a Service, or the operator's, or that could be a companion's (`page` would be
    the page of `cluster`, `batch-load-watcher` the load-watcher of `batch`), is shortened and made unique by a hash.
    """
    if instance == INSTANCE_NAME:
        return OPERAND
    operand = f"{OPERAND}-{instance}"
    reserved = operand == f"{OPERAND}-operator" or operand.endswith(_OF_COMPANIONS)
    if len(operand) > _MAX_OPERAND_LENGTH or "." in instance or reserved:
        digest = hashlib.sha256(instance.encode()).hexdigest()[:8]
        operand = f"{operand[: _MAX_OPERAND_LENGTH - 9].replace('.', '-').rstrip('-')}-{digest}"
    return operand


def rebalancer_name(operand: str = OPERAND) -> str:
    """Return the name of a scheduler's rebalancer: of its objects in the scheduler's namespace, its Lease and its
    status."""
    return f"{operand}{REBALANCER_SUFFIX}"


def eviction_policy_name(namespace: str, scheduler: str = OPERAND) -> str:
    """Return the name of the policy, which has no namespace, that the operator makes for a rebalancer's evictions.

    It is not the Pulumi program's for the same rebalancer: a stack that made its own hands over to the operator.
    """
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, OPERAND):
        return f"{OPERAND}-evictions"
    return f"{namespace}.{scheduler}-evictions"


GO_CLUSTER_ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""The roles of the cluster's own scheduler, which Go images need in addition to those of their plugins."""

STATUS_KINDS = ("podgroups", "elasticquotas")
"""Plurals of the kinds of `scheduling.x-k8s.io` whose status the operator can maintain."""

FLOW_SCHEMAS = ("leases", "requests")
"""The purposes for which each scheduler has a FlowSchema."""


def flow_schema_name(purpose: str, namespace: str, scheduler: str = OPERAND) -> str:
    """Return the name of a scheduler's FlowSchema, which has no namespace."""
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, OPERAND):
        return f"secondary-scheduler-{purpose}"
    return f"{namespace}.{scheduler}-{purpose}"


def base_rules() -> tuple[PolicyRule, ...]:
    """Return the rules that the daemon needs with any plugins. A Role in its own namespace covers its Lease."""
    return _BASE_RULES


def plugin_rules(name: str) -> tuple[PolicyRule, ...]:
    """Return the rules that a plugin needs beyond `base_rules()`; none for an unknown plugin."""
    descriptor = lookup(name)
    return descriptor.rules if descriptor else ()


def rebalancer_rules(plugins: Iterable[str]) -> list[PolicyRule]:
    """Return a rebalancer's rights in all namespaces: what these plugins of the scheduler read, and evictions.

    It decides as the scheduler does, and writes nothing that a plugin writes.
    """
    rules = [*_BASE_RULES, *(rule for name in dict.fromkeys(plugins) for rule in plugin_rules(name))]
    read = (dataclasses.replace(rule, verbs=tuple(verb for verb in rule.verbs if verb in _READING)) for rule in rules)
    return [*dict.fromkeys(rule for rule in read if rule.verbs), *_REBALANCER_RULES]


def static_cluster_roles() -> dict[str, tuple[PolicyRule, ...]]:
    """Return name -> rules of the ClusterRoles that schedulers are bound to: the base, and every usable plugin that
    has rules."""
    roles = {BASE_CLUSTER_ROLE: base_rules()}
    for descriptor in descriptors():
        if descriptor.implemented and descriptor.rules:
            roles[cluster_role_name(descriptor.name)] = descriptor.rules
    return roles


def shipped_cluster_roles() -> dict[str, tuple[PolicyRule, ...]]:
    """Return name -> rules of the ClusterRoles an installation may ship: those of schedulers, the rebalancer's and the
    metrics reader's.

    The rebalancer's holds for any configuration: the operator, which binds it, may not make a role of its own.
    """
    usable = (descriptor.name for descriptor in descriptors() if descriptor.implemented)
    return {
        **static_cluster_roles(),
        REBALANCER_CLUSTER_ROLE: tuple(rebalancer_rules(usable)),
        METRICS_READER_CLUSTER_ROLE: _METRICS_READER_RULES,
    }


_LIST = ("list",)
_READ: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers")),
    ("", ("services",)),
    ("apps", ("replicasets", "statefulsets")),
    ("appgroup.diktyo.x-k8s.io", ("appgroups",)),
    ("metrics.k8s.io", ("nodes",)),
    ("networktopology.diktyo.x-k8s.io", ("networktopologies",)),
    ("policy", ("poddisruptionbudgets",)),
    (
        "resource.k8s.io",
        ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
    ),
    ("scheduling.k8s.io", ("podgroups", "priorityclasses")),
    ("scheduling.x-k8s.io", ("elasticquotas", "podgroups")),
    ("security-profiles-operator.x-k8s.io", ("seccompprofiles",)),
    ("storage.k8s.io", ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments")),
    ("topology.node.k8s.io", ("noderesourcetopologies",)),
)


def page_name(operand: str = OPERAND) -> str:
    """Return the name of a scheduler's page: of its objects in the scheduler's namespace."""
    return f"{operand}{PAGE_SUFFIX}"


def page_rules() -> tuple[PolicyRule, ...]:
    """Return the page's own rights: to list what a snapshot holds and decisions depend on, and to ask who a visitor is
    and what that one may read. Nothing of it is lent to a visitor."""
    return (
        *(PolicyRule((group,), resources, _LIST) for group, resources in _READ),
        PolicyRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
        PolicyRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
    )


def page_namespace_rules(operand: str = OPERAND) -> tuple[PolicyRule, ...]:
    """Return the page's rights in the scheduler's namespace: to get the scheduler's Lease, whose versions tell that the
    cluster went back to an older state."""
    return (PolicyRule(("coordination.k8s.io",), ("leases",), ("get",), resource_names=(operand,)),)


HANDOVER_PATH = "/debug/handover"
HANDOVER_AUDIENCE = "secondary-scheduler.io/handover"
"""Of the tokens by which two replicas know each other. The API server takes them for nothing else."""
HANDOVER_DIRECTORY = "/var/run/secrets/secondary-scheduler/handover"
"""Where the scheduler's pod has its token of this audience, as the file `token`."""


ANNOTATION_CACHE_CURRENT: Final = "secondary-scheduler.io/cache-current"
"""`false` while the leader decides by what a cluster that went back to an older state has undone, else `true`."""
ANNOTATION_CACHE_MESSAGE: Final = "secondary-scheduler.io/cache-current-message"
"""When and how the cluster went back, and what has become of it; empty if it never did."""
ANNOTATION_CLUSTER_VERSION: Final = "secondary-scheduler.io/cluster-version"
"""The version of Kubernetes that the leader read, such as `1.36`."""
ANNOTATION_CONFIGURATION_HASH: Final = "secondary-scheduler.io/configuration-hash"
"""Of the configuration that is in effect; also on the pod template of the Deployment, which asks for it."""
ANNOTATION_LOAD_FRESH: Final = "secondary-scheduler.io/load-data-fresh"
"""`true` or `false`; absent where no plugin reads the load."""
ANNOTATION_LOAD_MESSAGE: Final = "secondary-scheduler.io/load-data-message"
ANNOTATION_OVERCOMMITTED: Final = "secondary-scheduler.io/nodes-overcommitted"
"""`true` or `false`."""
ANNOTATION_OVERCOMMITTED_MESSAGE: Final = "secondary-scheduler.io/nodes-overcommitted-message"
ANNOTATION_UNREAD: Final = "secondary-scheduler.io/unread-resources"
"""Resources that decisions go without, each with the reason; absent where there are none."""
ANNOTATION_VERSION: Final = "secondary-scheduler.io/kubernetes-version"
"""The version of kube-scheduler that the profiles behave as."""
ANNOTATION_VERSION_MESSAGE: Final = "secondary-scheduler.io/kubernetes-version-message"
"""Why that is not the cluster's version any more; empty where it is."""
