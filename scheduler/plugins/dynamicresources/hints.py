"""Which changes may let a pod with claims run (EventsToRegister of kube-scheduler's DynamicResources)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from scheduler.catalog import ActionType, KubernetesVersion
from scheduler.framework import NODE, POD, Concern, Hint, HintRegistration, Objects, PodInfo
from scheduler.kube.model import DeviceTaintRule, ResourceClaim
from scheduler.plugins.dynamicresources.claims import CLAIM, CLASS, RULE, SLICE, ClaimProblem, pod_claims
from scheduler.plugins.dynamicresources.extended import special_owner

_ADD_OR_UPDATE = ActionType.ADD | ActionType.UPDATE


class Hints:
    """The hints, which look at the pod's claims in the store."""

    def __init__(self, objects: Callable[[], Objects | None], kubernetes: KubernetesVersion) -> None:
        self._objects = objects
        self._kubernetes = kubernetes

    def registrations(self) -> Sequence[HintRegistration]:
        """Return the events of interest."""
        kubernetes, claim_actions = self._kubernetes, _ADD_OR_UPDATE
        if kubernetes.backs_extended_resources or kubernetes.wakes_at_lost_claims:
            claim_actions |= ActionType.DELETE
        concern = Concern(_awaited, _named, self._helps_all)
        rules = HintRegistration(RULE, _ADD_OR_UPDATE | ActionType.DELETE, self._rule_changed)
        return (
            HintRegistration(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE),
            HintRegistration(CLAIM, claim_actions, self._claim_changed, concern),
            HintRegistration(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._pod_changed, concern),
            HintRegistration(CLASS, _ADD_OR_UPDATE),
            HintRegistration(SLICE, _ADD_OR_UPDATE),
            *((rules,) if kubernetes.follows_taint_rules else ()),
        )

    @staticmethod
    def _rule_changed(pod: PodInfo, old: object, new: object) -> Hint:
        is_same = isinstance(old, DeviceTaintRule) and isinstance(new, DeviceTaintRule) and old.spec == new.spec
        return Hint.SKIP if is_same else Hint.QUEUE

    def _helps_all(self, old: object, new: object) -> bool:
        """Tell whether a claim has lost its devices."""
        if not isinstance(old, ResourceClaim) or old.status.allocation is None:
            return False
        if new is None:
            return self._kubernetes.wakes_at_lost_claims
        return isinstance(new, ResourceClaim) and new.status.allocation is None

    def _claim_deleted(self, pod: PodInfo, claim: ResourceClaim) -> Hint:
        if special_owner(claim) == pod.uid:
            # The pod waits for that: the claim was of an attempt that failed.
            return Hint.QUEUE
        lost = self._kubernetes.wakes_at_lost_claims and claim.status.allocation is not None
        return Hint.QUEUE if lost and self._claims_of(pod) is not None else Hint.SKIP

    def _claims_of(self, pod: PodInfo) -> list[ResourceClaim] | None:
        objects = self._objects()
        if objects is None:
            return []
        try:
            return pod_claims(pod, objects)
        except ClaimProblem:
            return None

    def _claim_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        if new is None and isinstance(old, ResourceClaim):
            return self._claim_deleted(pod, old)
        if not isinstance(new, ResourceClaim):
            return Hint.QUEUE
        before = old if isinstance(old, ResourceClaim) else None
        claims = self._claims_of(pod)
        if claims is None:
            return Hint.SKIP
        if self._helps_all(old, new):
            # Somebody's devices are free again.
            return Hint.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return Hint.SKIP
        return Hint.SKIP if before is not None and before.status == new.status else Hint.QUEUE

    def _pod_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, PodInfo):
            return Hint.QUEUE
        if pod.uid != new.uid:
            return Hint.SKIP
        return Hint.SKIP if self._claims_of(new) is None else Hint.QUEUE


def _awaited(pod: PodInfo) -> Collection[str]:
    """Return the claims that a pod names or has from templates, and the pod itself."""
    generated = [name for entry in pod.claim_names if (name := entry.partition("=")[2])]
    named = [wanted.resource_claim_name for wanted in pod.spec.claims if wanted.resource_claim_name is not None]
    return (_pod(pod.uid), *(_claim(pod.namespace, name) for name in (*named, *generated)))


def _named(old: object, new: object) -> Collection[str]:
    """Return the claim that changed, and the pod whose extended resources it is for; or the pod that changed."""
    changed = old if new is None else new
    if isinstance(changed, PodInfo):
        return (_pod(changed.uid),)
    if not isinstance(changed, ResourceClaim):
        return ()
    owner = special_owner(changed)
    claim = _claim(changed.metadata.namespace, changed.metadata.name)
    return (claim, _pod(owner)) if owner else (claim,)


def _pod(uid: str) -> str:
    return f"pod/{uid}"


def _claim(namespace: str, name: str) -> str:
    return f"claim/{namespace}/{name}"
