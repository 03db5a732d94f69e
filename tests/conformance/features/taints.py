"""Taints, tolerations, cordoned nodes."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Feature, Json, needs

_EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
_KEYS = ("dedicated", "gpu", "maintenance")
_VALUES = ("", "a", "b")


def _taint_node(rng: random.Random, node: Json) -> None:
    chosen = {(rng.choice(_KEYS), rng.choice(_EFFECTS)): rng.choice(_VALUES) for _ in range(rng.randint(0, 3))}
    taints = [{"key": key, "effect": effect, "value": value} for (key, effect), value in chosen.items()]
    if taints:
        node["spec"]["taints"] = node["spec"].get("taints", []) + taints


def _tolerate(rng: random.Random, pod: Json) -> None:
    for _ in range(rng.randint(0, 3)):
        effect = rng.choice(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
        toleration: Json = {"operator": rng.choice(["Exists", "Equal", "Equal"])}
        if effect:
            toleration["effect"] = effect
        if toleration["operator"] == "Equal" or rng.random() < 0.8:
            toleration["key"] = rng.choice(_KEYS)
        if toleration["operator"] == "Equal":
            toleration["value"] = rng.choice(_VALUES)
            if rng.random() < 0.3:
                del toleration["operator"]
        pod["spec"].setdefault("tolerations", []).append(toleration)


def _cordon(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.5:
        node["spec"]["unschedulable"] = True


def _tolerate_cordon(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4:
        toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
        if rng.random() < 0.7:
            toleration["effect"] = rng.choice(["NoSchedule", "NoExecute"])
        pod["spec"].setdefault("tolerations", []).append(toleration)


FEATURES = (
    Feature("taints", needs("TaintToleration"), node=_taint_node, incoming=_tolerate),
    Feature("unschedulable", needs("NodeUnschedulable"), node=_cordon, incoming=_tolerate_cordon),
)
