"""scheduling.k8s.io PodGroup: pods that Kubernetes itself wants placed together. The fields read here are alike in
v1alpha2 (Kubernetes 1.36) and v1beta1 (1.37), but for `disruptionMode`."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, Int64, Listed, Object


class GangSchedulingPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """GangSchedulingPolicy: how many pods must be placed at once."""

    min_count: Int32 = 1


class PodGroupSchedulingPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSchedulingPolicy; without `gang` it is the basic policy, which wants nothing together."""

    gang: GangSchedulingPolicy | None = None


class AllDisruptionMode(Struct, frozen=True, gc=False):
    """AllDisruptionMode: it has no fields."""


class DisruptionMode(Struct, frozen=True, gc=False, rename="camel"):
    """DisruptionMode of 1.37: with `all`, pods of the group are preempted together or not at all."""

    all: AllDisruptionMode | None = None


class SchedulingPodGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSpec; `disruption_mode` may be a word in alpha versions."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    disruption_mode: DisruptionMode | str | None = None

    @property
    def is_disrupted_as_one(self) -> bool:
        """Whether its pods are preempted together or not at all."""
        return isinstance(self.disruption_mode, DisruptionMode) and self.disruption_mode.all is not None


class PodGroupCondition(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Condition, with all fields: conditions are written as a whole list."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class SchedulingPodGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupStatus."""

    conditions: Listed[PodGroupCondition] = ()


class SchedulingPodGroup(Object, frozen=True, gc=False, rename="camel"):
    """PodGroup of scheduling.k8s.io: pods name it in `spec.schedulingGroup.podGroupName`."""

    spec: SchedulingPodGroupSpec = SchedulingPodGroupSpec()
    status: SchedulingPodGroupStatus = SchedulingPodGroupStatus()
