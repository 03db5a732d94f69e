"""How many pods may be taken away at once."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, LabelSelector, Object


class PodDisruptionBudgetSpec(Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudgetSpec; without a selector it covers no pod."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudgetStatus; `disrupted_pods` are on their way out and counted already."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(Object, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
