"""Pods that are only of use together (scheduling.x-k8s.io/v1alpha1 of scheduler-plugins)."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, Object, ResourceList


class PodGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSpec; `schedule_timeout_seconds` None leaves the plugin's own timeout."""

    min_member: Int32 = 0
    min_resources: ResourceList | None = None
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupStatus; written by the controller, not read by the scheduler."""

    phase: str = ""
    occupied_by: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: str | None = None


class PodGroup(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.x-k8s.io/v1alpha1 PodGroup: pods name it in their label `POD_GROUP_LABEL`."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Label by which a pod belongs to a PodGroup of its own namespace."""
