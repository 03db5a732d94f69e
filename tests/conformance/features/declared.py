"""Features of the kubelet that nodes declare and pods need."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Feature, Json, containers

_RESTART = "RestartAllContainersOnContainerExits"
_OTHERS = ("ExtendWebSocketsToKubelet", "UserNamespacesHostNetworkSupport")


def _declare(rng: random.Random, node: Json) -> None:
    declared = [name for name in (*_OTHERS, _RESTART) if rng.random() < (0.6 if name == _RESTART else 0.3)]
    if declared:
        node["status"]["declaredFeatures"] = sorted(declared)


def _need(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4:
        return
    action = "RestartAllContainers" if rng.random() < 0.8 else "Restart"
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [42]}}
    container = rng.choice(containers(pod))
    container.setdefault("restartPolicy", "Never")
    container["restartPolicyRules"] = [rule]


FEATURES = (Feature("declared-features", node=_declare, incoming=_need, since=36),)
