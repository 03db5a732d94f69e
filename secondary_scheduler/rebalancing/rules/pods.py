"""Rule 1, and what the settings and annotations say of a pod: which pods may be moved at all.

Rule 1 is not lifted by any setting or annotation: only pods whose replacement our own scheduler would place, that run
and are ready, and whose controller replaces them. No pod of a DaemonSet or a node, no bare one, none that is gated,
part of a gang, or being deleted; none that Kueue manages, as it would hold the replacement until its queue has room;
none with a priority of the system, none in a namespace of the system or of the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from scheduler.catalog import NEVER_OPTED_IN, NEVER_OPTED_IN_PREFIXES, SYSTEM_PRIORITY_CLASSES, parse_duration
from scheduler.config import RebalanceSettings
from scheduler.framework import PodInfo
from scheduler.kube.model import POD_GROUP_LABEL
from secondary_scheduler.rebalancing.objects import REPLACING, ClusterFacts, Workloads, is_ready
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

SYSTEM_PRIORITY = 2_000_000_000
"""Priorities from here on are the system's."""
ANNOTATION = "secondary-scheduler.io/rebalance"
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
MANAGED_BY_KUEUE = "kueue.x-k8s.io/managed"
HELD_BY_KUEUE = frozenset({"kueue.x-k8s.io/role-hash", "kueue.x-k8s.io/pod-suspending-parent"})
"""A label, and annotations: on pods that Kueue lets start itself, not on its Jobs'. A StatefulSet's have no label."""
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules with what they are applied to.

    Attributes:
        served: scheduler names of the profiles.
        own_namespaces: where the scheduler and the rebalancer run.
        namespaces: annotations of namespaces, by name.
    """

    settings: RebalanceSettings
    facts: ClusterFacts
    workloads: Workloads
    served: Collection[str]
    own_namespaces: Collection[str]
    namespaces: Mapping[str, Mapping[str, str]]

    def refusal(self, pod: PodInfo, now: float) -> MoveRefusal | None:
        """Return the first rule that forbids to move a pod; None where none does.

        Args:
            pod: on a node.
            now: seconds since the epoch.
        """
        return next(self._safety(pod), None) or next(self._choice(pod, now), None)

    def _safety(self, pod: PodInfo) -> Iterator[MoveRefusal]:
        """Yield what rule 1 says; nothing lifts it."""
        if pod.scheduler_name not in self.served:
            yield MoveRefusal(Reason.OTHER_SCHEDULER, pod.scheduler_name)
        if pod.deleting:
            yield MoveRefusal(Reason.TERMINATING)
        if not is_ready(pod):
            yield MoveRefusal(Reason.NOT_READY, pod.phase)
        namespace = pod.namespace
        if (
            namespace in NEVER_OPTED_IN
            or namespace.startswith(NEVER_OPTED_IN_PREFIXES)
            or namespace in self.own_namespaces
        ):
            yield MoveRefusal(Reason.SYSTEM_NAMESPACE, namespace)
        if pod.priority >= SYSTEM_PRIORITY or pod.priority_class in SYSTEM_PRIORITY_CLASSES:
            yield MoveRefusal(Reason.CRITICAL, pod.priority_class or str(pod.priority))
        if pod.spec.gates:
            yield MoveRefusal(Reason.GATED)
        facts = self.facts.pods.get(pod.key)
        if MANAGED_BY_KUEUE in pod.labels or (facts is not None and not HELD_BY_KUEUE.isdisjoint(facts.annotations)):
            yield MoveRefusal(Reason.QUEUED, "Kueue manages it")
        if pod.labels.get(POD_GROUP_LABEL) or pod.scheduling_group or pod.workload_ref:
            yield MoveRefusal(Reason.GANG)
        yield from self._replacement(pod)
        if pod.key not in self.facts.pods:
            yield MoveRefusal(Reason.UNKNOWN)

    def _replacement(self, pod: PodInfo) -> Iterator[MoveRefusal]:
        owner = pod.controller
        if owner is None:
            yield MoveRefusal(Reason.NO_REPLACEMENT, "it has none")
        elif owner.kind not in REPLACING:
            yield MoveRefusal(Reason.NO_REPLACEMENT, owner.kind)
        else:
            exists, replicas = self.workloads.controller(pod)
            if not exists:
                yield MoveRefusal(Reason.NO_REPLACEMENT, f"{owner.kind} {owner.name} is another one by now")
            elif replicas == 0:
                yield MoveRefusal(Reason.NO_REPLACEMENT, f"{owner.kind} {owner.name} wants no pods")

    def _choice(self, pod: PodInfo, now: float) -> Iterator[MoveRefusal]:
        """Yield what settings and annotations say."""
        settings, facts = self.settings, self.facts.pods[pod.key]
        chosen = settings.namespaces
        outside = bool(chosen.include) and pod.namespace not in chosen.include
        if outside or pod.namespace in chosen.exclude or not settings.pod_selector.compiled().matches(pod.labels):
            yield MoveRefusal(Reason.NOT_SELECTED)
        if annotation := self._opted_out(pod, facts.annotations, now):
            yield MoveRefusal(Reason.OPTED_OUT, annotation)
        if settings.priority_threshold is not None and pod.priority >= settings.priority_threshold:
            yield MoveRefusal(Reason.PRIORITY, str(pod.priority))
        asked_for = EVICT in facts.annotations
        if facts.local_storage and not settings.evict_local_storage and not asked_for:
            yield MoveRefusal(Reason.LOCAL_STORAGE)
        if facts.persistent_volumes and not asked_for:
            yield MoveRefusal(Reason.VOLUMES)
        if pod.spec.claims or pod.claim_names:
            yield MoveRefusal(Reason.DEVICES)
        if pod.controller is not None and pod.controller.kind == "Job" and not settings.evict_jobs:
            yield MoveRefusal(Reason.JOB)
        # A pod of unknown age is as young as can be.
        if not now - pod.started_at >= settings.min_pod_age_seconds:
            yield MoveRefusal(Reason.TOO_YOUNG)
        workload = self.workloads.of(pod)
        if workload is None or workload.replicas < settings.min_replicas:
            yield MoveRefusal(Reason.FEW_REPLICAS, str(workload.replicas if workload is not None else 0))

    def _opted_out(self, pod: PodInfo, annotations: Mapping[str, str], now: float) -> str:
        """Return the annotation that forbids it; "" if none does."""
        if annotations.get(ANNOTATION) == "false":
            return ANNOTATION
        if self.namespaces.get(pod.namespace, {}).get(ANNOTATION) == "false":
            return f"{ANNOTATION} of the namespace"
        if PREFER_NO_EVICTION in annotations:
            return PREFER_NO_EVICTION
        if annotations.get(SAFE_TO_EVICT) == "false":
            return SAFE_TO_EVICT
        value = annotations.get(DO_NOT_DISRUPT)
        return DO_NOT_DISRUPT if value is not None and _is_protected(value, now - pod.started_at) else ""


def _is_protected(value: str, age: float) -> bool:
    """Tell whether Karpenter would leave a pod of this age alone: always, or for a time. What is neither, protects."""
    if value == "false":
        return False
    try:
        return not age >= parse_duration(value)
    except ValueError:
        return True
