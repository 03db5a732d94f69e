"""Names for priorities (scheduling.k8s.io/v1)."""

from __future__ import annotations

from scheduler.kube.model.meta import Int32, Object


class PriorityClass(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""
