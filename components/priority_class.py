"""The priority of the scheduler's own pods."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from .kube_object import child, name_of


@dataclass(frozen=True)
class SchedulerPriorityArgs:
    """Attributes:
    name: of the PriorityClass.
    value: the highest that users may set; only the cluster's own components are above it.
    """

    name: pulumi.Input[str]
    value: int = 1_000_000_000


class SchedulerPriority(pulumi.ComponentResource):
    """A PriorityClass, so that ordinary pods are preempted or evicted before the scheduler that schedules them."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerPriorityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerPriority", name, None, opts)
        priority = k8s.scheduling.v1.PriorityClass(
            f"{name}-priorityclass",
            metadata={"name": args.name},
            value=args.value,
            global_default=False,
            description="Secondary scheduler",
            opts=child(self),
        )
        self.name = name_of(priority)
        self.register_outputs({"name": self.name})
