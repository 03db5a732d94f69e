"""Taints and tolerations (k8s.io/api/core/v1, Toleration.ToleratesTaint)."""

from collections.abc import Iterable, Sequence

from scheduler.kube.model import Taint, Toleration

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


_FEW = 16
"""Up to so many tolerations are compared with each taint; sorting them out would cost more."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether one toleration covers one taint; empty effect and key cover all."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def relevant_tolerations(tolerations: Sequence[Toleration], taints: Iterable[Sequence[Taint]]) -> Sequence[Toleration]:
    """Return the tolerations that may cover one of some sets of taints: of thousands, few name a key there is, and a
    value that it has."""
    if len(tolerations) <= _FEW:
        return tolerations
    values: dict[str, set[str]] = {}
    for taint in (taint for taint_class in taints for taint in taint_class):
        values.setdefault(taint.key, set()).add(taint.value)
    return [
        toleration
        for toleration in dict.fromkeys(tolerations)
        if not toleration.key
        or (toleration.operator == "Exists" and toleration.key in values)
        or toleration.value in values.get(toleration.key, ())
    ]


def tolerated(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tell whether any of the tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def has_untolerated_taint(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Tell whether a taint keeps a pod off a node (effects NoSchedule and NoExecute)."""
    return any(taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(tolerations, taint) for taint in taints)


def count_untolerated_preferences(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> int:
    """Return how many PreferNoSchedule taints a pod does not tolerate."""
    preferring = [toleration for toleration in tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)]
    return sum(1 for taint in taints if taint.effect == PREFER_NO_SCHEDULE and not tolerated(preferring, taint))
