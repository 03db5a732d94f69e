"""Looking plugins up by name, and the ClusterRoles that follow from them."""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points

from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule
from scheduler.catalog.intree import IN_TREE
from scheduler.catalog.schedulerplugins import OPTIONS_DESCRIPTOR, SCHEDULER_PLUGINS

OPERATOR_NAMESPACE = "openshift-secondary-scheduler-operator"
"""Where upstream's operator lives, and ours unless told otherwise."""

INSTANCE_NAME = "cluster"
"""The SecondaryScheduler whose objects have upstream's names."""
OPERAND = "secondary-scheduler"
CANARY_SUFFIX = "-canary"
"""Ends the names of candidates, and of the profiles in their configuration."""
_LONGEST_OPERAND = 39
"""Names made from it are a Service's or a label's value, which have 63 characters at most."""

LOG_VERBOSITY = {"Normal": 2, "Debug": 4, "Trace": 6, "TraceAll": 8}
"""`spec.logLevel` of a SecondaryScheduler -> the scheduler's `-v`; the names are OpenShift's."""

BASE_CLUSTER_ROLE = "secondary-scheduler:base"
ENTRY_POINT_GROUP = "secondary_scheduler.plugins"

_BUILT_IN: dict[str, PluginDescriptor] = {
    descriptor.name: descriptor for descriptor in (*IN_TREE, *SCHEDULER_PLUGINS, OPTIONS_DESCRIPTOR)
}

_BASE_RULES = (
    PolicyRule(("",), ("nodes", "pods", "namespaces"), ("get", "list", "watch")),
    PolicyRule(("",), ("pods/binding",), ("create",)),
    PolicyRule(("",), ("pods/status",), ("patch",)),
    PolicyRule(("", "events.k8s.io"), ("events",), ("create", "patch")),
)


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


def lookup(name: str) -> PluginDescriptor | None:
    """Return the plugin of this exact name, or None."""
    return _BUILT_IN.get(name) or _all().get(name)


def known_names() -> tuple[str, ...]:
    """Return the names that can stand in a plugin set."""
    return tuple(name for name in _all() if name != OPTIONS_DESCRIPTOR.name)


def default_plugins() -> Iterator[PluginDescriptor]:
    """Yield the plugins of the default profile in multiPoint order."""
    return (descriptor for descriptor in IN_TREE if descriptor.default)


def cluster_role_name(plugin: str) -> str:
    """Return the name of the static ClusterRole of a plugin."""
    return f"secondary-scheduler:plugin:{plugin.lower()}"


def cluster_role_binding_name(role: str, namespace: str, scheduler: str = OPERAND) -> str:
    """Return the name under which a scheduler's account is bound to one of the static ClusterRoles.

    Who runs the operator may write bindings of these names only, so both sides make them here.
    """
    if not role.startswith("secondary-scheduler:"):
        # One of the cluster's own, whose binding has its name already.
        role = f"secondary-scheduler:{role.replace(':', '-')}"
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, OPERAND):
        return role
    return f"secondary-scheduler:{namespace}:{scheduler}:{role.partition(':')[2]}"


def operand_name(instance: str) -> str:
    """Return what the ServiceAccount, Deployment and Lease of a SecondaryScheduler are called: upstream's name for
    `cluster`, one derived from its own for any other.

    A name that is too long, that a Service cannot have, or that would be the operator's or a candidate's, is cut and
    made unique by a hash.
    """
    if instance == INSTANCE_NAME:
        return OPERAND
    operand = f"{OPERAND}-{instance}"
    reserved = operand == f"{OPERAND}-operator" or operand.endswith(CANARY_SUFFIX)
    if len(operand) > _LONGEST_OPERAND or "." in instance or reserved:
        digest = hashlib.sha256(instance.encode()).hexdigest()[:8]
        operand = f"{operand[: _LONGEST_OPERAND - 9].replace('.', '-').rstrip('-')}-{digest}"
    return operand


GO_CLUSTER_ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""The cluster's own roles, which an image of the Go scheduler is written for: beside its plugins' it gets these."""

STATUS_KINDS = ("podgroups", "elasticquotas")
"""Kinds of `scheduling.x-k8s.io` whose status the operator can keep, by their plurals."""

FLOW_SCHEMAS = ("leases", "requests")
"""What each scheduler has a FlowSchema for."""


def flow_schema_name(purpose: str, namespace: str, scheduler: str = OPERAND) -> str:
    """Return the name of a scheduler's FlowSchema, which is the cluster's."""
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, OPERAND):
        return f"secondary-scheduler-{purpose}"
    return f"{namespace}.{scheduler}-{purpose}"


def base_rules() -> tuple[PolicyRule, ...]:
    """Return what the daemon needs whatever plugins it runs. Its Lease is covered by a Role in its own namespace."""
    return _BASE_RULES


def plugin_rules(name: str) -> tuple[PolicyRule, ...]:
    """Return what a plugin needs beyond `base_rules()`; nothing for an unknown one."""
    descriptor = lookup(name)
    return descriptor.rules if descriptor else ()


def static_cluster_roles() -> dict[str, tuple[PolicyRule, ...]]:
    """Return name -> rules of the ClusterRoles an installation ships: the base, and every usable plugin that has
    rules."""
    roles = {BASE_CLUSTER_ROLE: base_rules()}
    for descriptor in descriptors():
        if descriptor.implemented and descriptor.rules:
            roles[cluster_role_name(descriptor.name)] = descriptor.rules
    return roles
