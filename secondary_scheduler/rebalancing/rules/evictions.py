"""Rules 4 and 9: how a pod is made to go, and what the API server's answer means.

Only by the eviction API, which asks PodDisruptionBudgets and admission webhooks, and only the very pod that was judged:
its UID is a precondition. Nothing lifts that. In Predictive mode the same request carries `dryRun: [All]`.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from typing import Any

from scheduler.framework import PodInfo
from scheduler.kube.model import PodDisruptionBudget, compiled_selector
from scheduler.kube.primitives import Selector, SelectorError
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

EVACUATION_SECONDS = 600.0
"""So long a move counts as in progress that somebody else carries out ("evacuation triggered")."""
_EVACUATION = "evacuation"


class EvictionReply(enum.StrEnum):
    """What became of a request."""

    EVICTED = "evicted"
    EVACUATING = "evacuating"
    REFUSED = "refused"
    """Not retried within the interval."""
    GONE = "gone"
    """The pod that was judged is no longer there, or another one has its name."""
    FAILED = "failed"


def eviction_of(pod: PodInfo, *, dry_run: bool) -> dict[str, Any]:
    """Return the body that asks for the eviction of a pod, and of no other that has its name by then.

    Raises:
        ValueError: the pod has no UID, so that nothing would protect its successor.
    """
    if not pod.uid:
        raise ValueError(f"pod {pod.key} has no UID; it is not evicted by name alone")
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    metadata = {"name": pod.name, "namespace": pod.namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}


def answer_of(code: int, message: str) -> EvictionReply:
    """Return what the answer to an eviction means. 429 and 500 are answers, not failures to be tried again.

    Args:
        code: HTTP status.
        message: of the Status that came with it, "" on success.
    """
    if 200 <= code < 300:
        return EvictionReply.EVICTED
    if code == 429:
        return EvictionReply.EVACUATING if _EVACUATION in message.lower() else EvictionReply.REFUSED
    if code in (404, 409):
        return EvictionReply.GONE
    # 500: several budgets cover the pod. 403: a policy, or our own rights.
    return EvictionReply.REFUSED if code in (403, 500) else EvictionReply.FAILED


class Disruptions:
    """What PodDisruptionBudgets allow, by what their status said and what a plan has used up since.

    The API server decides; this saves a plan from what it would refuse.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[Selector | None, PodDisruptionBudget]]] = {}
        self._used: Counter[str] = Counter()
        for budget in budgets:
            # Where the API server cannot read a selector it evicts nothing: it counts as one that matches.
            selector = _selector(budget)
            self._by_namespace.setdefault(budget.metadata.namespace, []).append((selector, budget))

    def refusal(self, pod: PodInfo, *, without_any: bool) -> MoveRefusal | None:
        """Return why a pod may not be evicted.

        Args:
            pod: to be evicted.
            without_any: whether a pod may be that no budget covers.
        """
        covering = self._covering(pod)
        if not covering:
            return None if without_any else MoveRefusal(Reason.NO_BUDGET)
        names = ", ".join(budget.metadata.name for budget in covering[:3])
        if len(covering) > 1:
            return MoveRefusal(Reason.BUDGET, f"{len(covering)} of them cover it ({names}), and the API allows one")
        allowed = covering[0].status.disruptions_allowed - self._used[covering[0].metadata.key]
        return MoveRefusal(Reason.BUDGET, names) if allowed < 1 else None

    def take(self, pod: PodInfo) -> None:
        """Count an eviction."""
        self._used.update(budget.metadata.key for budget in self._covering(pod))

    def _covering(self, pod: PodInfo) -> list[PodDisruptionBudget]:
        return [
            budget
            for selector, budget in self._by_namespace.get(pod.namespace, ())
            if selector is None or selector.matches(pod.labels)
        ]


def _selector(budget: PodDisruptionBudget) -> Selector | None:
    try:
        return compiled_selector(budget.spec.selector)
    except SelectorError:
        return None
