"""What a workload reports about itself, as a stack's output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi_kubernetes as k8s

from scheduler.operand import shortage_of

_LOAD = "LoadDataFresh"
_ROUND = "Rebalancing"
_OF_A_ROLLOUT = ("outcome", "image", "configurationHash")


def health_of(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a SecondaryScheduler's conditions, whether there is fresh load, how the last rollout ended, and why
    fewer replicas run than were asked for."""
    status = status or {}
    conditions = {str(each["type"]): str(each["status"]) for each in status.get("conditions") or ()}
    health: dict[str, Any] = {}
    # It changes from round to round, and says nothing of the installation.
    conditions.pop(_ROUND, None)
    if _LOAD in conditions:
        health[_LOAD] = conditions.pop(_LOAD)
    health["conditions"] = conditions
    if shortage := shortage_of(status.get("conditions") or ()):
        health["replicas"] = shortage
    if rollout := status.get("lastRollout"):
        health["lastRollout"] = {name: rollout[name] for name in _OF_A_ROLLOUT if name in rollout}
    return health


def health_of_deployment(status: k8s.apps.v1.outputs.DeploymentStatus | None) -> dict[str, Any]:
    """Return a Deployment's conditions."""
    conditions = (status.conditions if status else None) or ()
    return {"conditions": {str(condition.type): str(condition.status) for condition in conditions}}
