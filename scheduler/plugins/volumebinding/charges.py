"""What the work of an attempt is charged with for claims."""

from scheduler.framework import NodeView
from scheduler.helpers.volumes import CLASS, CSI_CAPACITY, VOLUME, claim_class, class_index_key, volume_index_key
from scheduler.kube.model import StorageClass
from scheduler.plugins.volumebinding.claims import PodClaims

WALKED = "claims x (volumes of their class + capacities of drivers + topologies of the class)"
_VOLUME_UNITS, _CAPACITY_UNITS, _TOPOLOGY_UNITS = 10, 5, 20
"""A volume is compared with the claim, and its nodes with those that have none yet; a capacity and a term of a
topology are a look, or a pass over the nodes."""


def units_of(view: NodeView, claims: PodClaims) -> int:
    """Return what it takes to look for volumes for claims that have none yet."""
    objects, total = view.objects, 0
    for claim in claims.delayed:
        name = claim_class(claim)
        total += _VOLUME_UNITS * len(objects.latest_by(VOLUME, volume_index_key, class_index_key(name)))
        storage_class: StorageClass | None = objects.get(CLASS, "", name) if name else None
        if storage_class is not None:
            terms = storage_class.allowed_topologies
            total += _TOPOLOGY_UNITS * sum(1 + len(term.match_label_expressions) for term in terms)
    return total + _CAPACITY_UNITS * len(claims.delayed) * objects.count(CSI_CAPACITY)


def requirements_of(claims: PodClaims) -> int:
    """Return what it takes to compile the selectors of claims that have no volume yet: 3 us per requirement."""
    selectors = [claim.spec.selector for claim in claims.delayed if claim.spec.selector is not None]
    return sum(
        3 * len(selector.match_labels) + sum(3 + len(each.values) for each in selector.match_expressions)
        for selector in selectors
    )
