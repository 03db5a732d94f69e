"""The page in the cluster: its name and its rights."""

from scheduler.catalog.descriptor import PolicyRule
from scheduler.catalog.registry import OPERAND, PAGE_SUFFIX

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
