"""What the steps of the self-test work with: the cluster, pods of the run, and how they are waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.kube.model import Taint
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.selftest.auditlog import AuditLog
from secondary_scheduler.cli.selftest.instances import Instances
from secondary_scheduler.cli.selftest.loadsource import LoadSource
from secondary_scheduler.cli.selftest.objects import OwnCluster, Right
from secondary_scheduler.kubeobjects import KubeObject, part
from secondary_scheduler.simulation.settingup import ReadyCluster

_BOUND_SECONDS = 60.0
"""How long a pod may wait for its node."""
_WAITING_SECONDS = 5.0
"""How long a pod that has to wait is watched."""
_PAUSE_SECONDS = 0.1
_ROOM_MILLICORES = 500.0
_ROOM_PODS = 12
WITH_ROOM = (
    f"without taints but those of --tolerate, and with room for {_ROOM_PODS} pods and {_ROOM_MILLICORES:.0f}m CPU"
)


class StepSkipped(Exception):
    """The step cannot be tried here; the text says why."""


class StepFailed(Exception):
    """The scheduler did not do what it should; the texts say what it did."""


@dataclass
class Bench:
    """What the steps work with.

    Attributes:
        before: the cluster as it was before the run, as the default profile sees it.
        pod_image: of the pods to place.
        tolerated: keys of taints that the pods tolerate.
        has_gangs: whether the profile has Coscheduling.
        may_preempt: whether there are PriorityClasses of the run.
        unable: why no scheduler can be started at all; "" where it can.
        usable: names of nodes with room.
        held: the rights of the instances that stand in Role and ClusterRole of the run.
        audit_logs: of the API servers.
    """

    cluster: OwnCluster
    instances: Instances
    before: ReadyCluster
    pod_image: str
    tolerated: Sequence[str]
    has_gangs: bool
    may_preempt: bool
    source: LoadSource | None
    unable: str = ""
    usable: list[str] = field(default_factory=list)
    held: Sequence[Right] = ()
    audit_logs: Sequence[AuditLog] = ()

    def pod(
        self,
        name: str,
        spec: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        *,
        millicores: int = 1,
        priority: str = "",
        scheduler_name: str = "",
    ) -> str:
        """Create a pod that asks for almost nothing, and whose image is never pulled; returns its name."""
        names = self.cluster.names
        content = {
            "schedulerName": scheduler_name or names.scheduler,
            "priorityClassName": (priority or names.low) if self.may_preempt else "",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "pause",
                    "image": self.pod_image,
                    "imagePullPolicy": "Never",
                    "resources": {"requests": {"cpu": f"{millicores}m", "memory": "1Mi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
            **(spec or {}),
        }
        content["tolerations"] = [{"key": key, "operator": "Exists"} for key in self.tolerated] + list(
            content.get("tolerations", ())
        )
        self.cluster.create_here("Pod", name, {"spec": content}, labels or {})
        return name

    def nodes_of(self, names: Sequence[str]) -> dict[str, str]:
        """The node of each of these pods; "" where it has none."""
        pods = self.cluster.pods()
        return {name: node_of(pods[name]) if name in pods else "" for name in names}

    def placed(self, names: Sequence[str], seconds: float = _BOUND_SECONDS) -> dict[str, str]:
        """Wait until each of these pods has a node; returns the nodes.

        Raises:
            StepFailed: one has none.
        """
        nodes: dict[str, str] = {}

        def are_placed() -> bool:
            nodes.update(self.nodes_of(names))
            return all(nodes.values())

        if until(are_placed, seconds):
            return nodes
        waiting = [name for name in names if not nodes[name]]
        raise StepFailed(f"after {seconds:.0f} s {', '.join(waiting)} has no node: {self.reason(waiting[0])}")

    def stays_waiting(self, name: str) -> str:
        """Watch that a pod gets no node; returns the reason that it is given.

        Raises:
            StepFailed: it got one.
        """
        if until(lambda: bool(self.nodes_of([name])[name]), _WAITING_SECONDS):
            raise StepFailed(f"{name} was placed on {self.nodes_of([name])[name]}")
        return self.reason(name)

    def reason(self, name: str) -> str:
        """The message of a pod's condition PodScheduled."""
        pod = self.cluster.pods().get(name)
        for condition in part(pod or {}, "status").get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("message"):
                return printable(str(condition["message"]))
        return self.instances.problem() or "no reason is given"

    def some_usable(self, number: int, limit: int = 1) -> list[str]:
        """So many nodes with room, or up to `limit` where there are.

        Raises:
            StepSkipped: there are fewer.
        """
        if len(self.usable) < number:
            raise StepSkipped(f"{number} nodes are needed {WITH_ROOM}; there are {len(self.usable)}")
        return self.usable[: max(number, limit)]


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; returns whether it came true."""
    end = time.monotonic() + seconds
    while True:
        if condition():
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(_PAUSE_SECONDS)


def find_usable(before: ReadyCluster, tolerated: Sequence[str]) -> list[str]:
    """Return the nodes that have room, and no taint but of these keys; those with the most free CPU first."""
    view = before.assembly.attempts.snapshot()
    free_cpu = view.allocatable("cpu") - view.requested("cpu")
    free_pods = view.allowed_pods - view.pod_count
    rows = [
        int(row)
        for row in view.rows
        if not view.info(row).unschedulable
        and not any(keeps_off(taint, tolerated) for taint in view.info(row).taints)
        and free_cpu[row] >= _ROOM_MILLICORES
        and free_pods[row] >= _ROOM_PODS
    ]
    return [view.name(row) for row in sorted(rows, key=lambda row: (-free_cpu[row], view.name(row)))]


def keeps_off(taint: Taint, tolerated: Sequence[str]) -> bool:
    """Whether a pod that tolerates these keys is not placed on a node with this taint."""
    return taint.effect in ("NoSchedule", "NoExecute") and taint.key not in tolerated


def node_of(pod: KubeObject) -> str:
    """The pod's node; "" where it has none."""
    return str(part(pod, "spec").get("nodeName") or "")
