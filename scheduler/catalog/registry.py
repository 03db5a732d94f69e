"""Looking plugins up by name, and the ClusterRoles that follow from them."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points

from scheduler.catalog.descriptor import PluginDescriptor, PolicyRule
from scheduler.catalog.intree import IN_TREE
from scheduler.catalog.schedulerplugins import OPTIONS_DESCRIPTOR, SCHEDULER_PLUGINS

OPERATOR_NAMESPACE = "openshift-secondary-scheduler-operator"
"""Where upstream's operator lives, and ours unless told otherwise."""

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
    found: dict[str, PluginDescriptor] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        descriptor = entry.load()
        if not isinstance(descriptor, PluginDescriptor) or not descriptor.factory:
            raise PluginPackageError(
                f"plugin package entry point {entry.name!r} ({entry.value}) is not a PluginDescriptor with a factory"
            )
        if descriptor.name in _BUILT_IN or descriptor.name in found:
            raise PluginPackageError(f"a plugin named {descriptor.name} already exists; {entry.value} offers it again")
        found[descriptor.name] = descriptor
    return tuple(found.values())


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


def cluster_role_binding_name(role: str, namespace: str, scheduler: str = "secondary-scheduler") -> str:
    """Return the name under which a scheduler's account is bound to one of the static ClusterRoles.

    Who runs the operator may write bindings of these names only, so both sides make them here.
    """
    if not role.startswith("secondary-scheduler:"):
        # One of the cluster's own, whose binding has its name already.
        role = f"secondary-scheduler:{role.replace(':', '-')}"
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, "secondary-scheduler"):
        return role
    return f"secondary-scheduler:{namespace}:{scheduler}:{role.partition(':')[2]}"


GO_CLUSTER_ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""The cluster's own roles, which an image of the Go scheduler is written for: beside its plugins' it gets these."""

FLOW_SCHEMAS = ("leases", "requests")
"""What each scheduler has a FlowSchema for."""


def flow_schema_name(purpose: str, namespace: str, scheduler: str = "secondary-scheduler") -> str:
    """Return the name of a scheduler's FlowSchema, which is the cluster's."""
    if (namespace, scheduler) == (OPERATOR_NAMESPACE, "secondary-scheduler"):
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
