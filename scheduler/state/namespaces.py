"""What the pods with a node request, added up by namespace: quotas are judged by it.

Upstream's CapacityScheduling counts along in Reserve and in handlers of pod events, and stays wrong once it has missed
one. These sums follow from the pods in the cache, as everything else here.
"""

from collections.abc import Callable, Iterable, Mapping

from scheduler.framework import PodAmounts, PodInfo, Resources

Sums = Mapping[str, Resources]


class NamespaceSums:
    """Sums that a plugin has asked for once, kept up to date from then on; no other sum is kept.

    The owner reports every pod that is placed or removed, also on nodes that are not known.
    """

    def __init__(self, everyone: Callable[[], Iterable[PodInfo]]) -> None:
        """`everyone` yields every pod with a node."""
        self._everyone = everyone
        self._sums: dict[PodAmounts, dict[str, dict[str, int]]] = {}

    def sums_of(self, amounts: PodAmounts) -> Sums:
        """Return the sums of what a function says of a pod; what sums up to 0 is left out. A live mapping."""
        sums = self._sums.get(amounts)
        if sums is None:
            sums = self._sums[amounts] = {}
            for pod in self._everyone():
                _add(sums, pod.namespace, amounts(pod), 1)
        return sums

    def add(self, pod: PodInfo, sign: int) -> None:
        """Count a pod (+1), or no longer (-1)."""
        for amounts, sums in self._sums.items():
            _add(sums, pod.namespace, amounts(pod), sign)

    def replace(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod as it is now instead of as it was."""
        for amounts, sums in self._sums.items():
            before, after = amounts(old), amounts(new)
            if before != after:
                _add(sums, old.namespace, before, -1)
                _add(sums, new.namespace, after, 1)


def moved_sums(sums: Sums, amounts: PodAmounts, moves: Iterable[tuple[PodInfo, int]]) -> Sums:
    """Return the sums after pods were put on nodes (+1) or taken from them (-1)."""
    changed: dict[str, dict[str, int]] = {}
    for pod, sign in moves:
        total = changed.get(pod.namespace)
        if total is None:
            total = changed[pod.namespace] = dict(sums.get(pod.namespace, {}))
        _count(total, amounts(pod), sign)
    return {**sums, **changed}


def _add(sums: dict[str, dict[str, int]], namespace: str, amounts: Resources, sign: int) -> None:
    total = sums.setdefault(namespace, {})
    _count(total, amounts, sign)
    if not total:
        del sums[namespace]


def _count(total: dict[str, int], amounts: Resources, sign: int) -> None:
    for name, amount in amounts.items():
        if left := total.get(name, 0) + sign * amount:
            total[name] = left
        else:
            total.pop(name, None)
