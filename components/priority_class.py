"""The priority of the scheduler's own pods."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.kube_object import KubeObject, child


@dataclass(frozen=True)
class SchedulerPriorityArgs:
    """Attributes:
    name: of the PriorityClass.
    value: the highest that users may set; only the cluster's own components are above it.
    """

    name: str
    value: int = 1_000_000_000


class SchedulerPriority(pulumi.ComponentResource):
    """A PriorityClass, so that ordinary pods are preempted or evicted before the scheduler that schedules them."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: SchedulerPriorityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:SchedulerPriority", name, None, opts)
        priority = KubeObject(
            f"{name}-priorityclass",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": args.name},
                "value": args.value,
                "globalDefault": False,
                "description": "Secondary scheduler",
            },
            child(self),
        )
        self.name = priority.object_name
        self.register_outputs({"name": self.name})
