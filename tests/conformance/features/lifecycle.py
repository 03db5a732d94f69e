"""Pods that end or have ended, priorities, gates, disruption budgets."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, needs, request
from tests.conformance.surroundings import PRIORITIES


def _ended(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4:
        pod.setdefault("status", {})["phase"] = rng.choice(["Succeeded", "Failed"])


def _ending(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4 and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
        pod["metadata"]["deletionTimestamp"] = "now"


def _priority(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.8:
        pod["spec"]["priorityClassName"] = rng.choice(list(PRIORITIES))


def _gates(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.5:
        pod["spec"]["schedulingGates"] = [{"name": f"example.com/gate-{number}"} for number in range(rng.randint(1, 2))]


def _preemption(rng: random.Random, draft: Draft) -> None:
    for number, pod in enumerate(draft.existing):
        pod["spec"]["priorityClassName"] = rng.choice(["lowest", "low", "middle"])
        request(pod["spec"]["containers"][0], "cpu", rng.choice(["300m", "600m", "900m"]))
        if rng.random() < 0.7 and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            started = f"2026-01-01T00:00:{(number * 7) % 60:02d}Z"
            pod.setdefault("status", {})["startTime"] = started
    for node in draft.nodes:
        node["status"]["allocatable"]["cpu"] = rng.choice(["1", "1500m", "2"])
    for pod in draft.incoming:
        pod["spec"]["priorityClassName"] = rng.choice(["high", "high", "middle", "polite", "low"])
        request(pod["spec"]["containers"][0], "cpu", rng.choice(["700m", "1", "1400m", "2500m"]))


def _budgets(rng: random.Random, draft: Draft) -> None:
    _preemption(rng, draft)
    for number in range(rng.randint(1, 3)):
        selector = rng.choice([{"matchLabels": {"app": rng.choice(["web", "db", "cache"])}}, {}])
        draft.others.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{number}", "namespace": rng.choice(["default", "team-a"])},
                "spec": {"selector": selector, "minAvailable": 1},
                "status": {
                    "disruptionsAllowed": rng.choice([0, 0, 1, 2]),
                    "currentHealthy": 3,
                    "desiredHealthy": 1,
                    "expectedPods": 3,
                    "observedGeneration": 1,
                },
            }
        )


FEATURES = (
    Feature("ended-pods", existing=_ended),
    Feature("ending-pods", existing=_ending),
    Feature("priorities", existing=_priority, incoming=_priority),
    Feature("gates", needs("SchedulingGates"), incoming=_gates),
    Feature("preemption", needs("DefaultPreemption"), cluster=_preemption),
    Feature("disruption-budgets", needs("DefaultPreemption"), cluster=_budgets),
)
