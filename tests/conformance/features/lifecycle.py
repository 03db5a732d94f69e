"""Pods that end or have ended, priorities, gates, disruption budgets."""

from __future__ import annotations

import copy
import random

from tests.conformance.features.draft import Draft, Feature, Json, needs, request
from tests.conformance.surroundings import PRIORITIES


def _ended(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4:
        pod.setdefault("status", {})["phase"] = rng.choice(["Succeeded", "Failed"])


def _ending(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4 and not _has_ended(pod):
        pod["metadata"]["deletionTimestamp"] = "now"


def _priority(rng: random.Random, draft: Draft) -> None:
    start_all(draft)
    for pod in (*draft.existing, *draft.incoming):
        if rng.random() < 0.8:
            pod["spec"]["priorityClassName"] = rng.choice(list(PRIORITIES))


def start_all(draft: Draft) -> None:
    """Give running pods start times of their own: among equals upstream compares them, and takes "now" for none."""
    for number, pod in enumerate(draft.existing):
        if not _has_ended(pod):
            started = f"2026-01-01T{number * 7 % 24:02d}:00:{number:02d}Z"
            pod.setdefault("status", {}).setdefault("startTime", started)


def _has_ended(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _gates(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.5:
        pod["spec"]["schedulingGates"] = [{"name": f"example.com/gate-{number}"} for number in range(rng.randint(1, 2))]


def _crowd(rng: random.Random, draft: Draft) -> None:
    """Leave few nodes, with two to four pods on each."""
    del draft.nodes[rng.randint(2, 4) :]
    names = [node["metadata"]["name"] for node in draft.nodes]
    for pod in draft.existing:
        pod["spec"]["nodeName"] = rng.choice(names)
    del draft.existing[4 * len(names) :]
    while draft.existing and len(draft.existing) < 2 * len(names):
        pod = copy.deepcopy(rng.choice(draft.existing))
        pod["metadata"] |= {"name": f"more-{len(draft.existing)}"}
        pod["spec"]["nodeName"] = rng.choice(names)
        draft.existing.append(pod)


def _preemption(rng: random.Random, draft: Draft) -> None:
    _crowd(rng, draft)
    start_all(draft)
    for pod in draft.existing:
        pod["spec"]["priorityClassName"] = rng.choice(["lowest", "low", "middle"])
        _want(pod, rng.choice(["300m", "600m", "900m"]))
    for node in draft.nodes:
        node["status"]["allocatable"]["cpu"] = rng.choice(["1", "1500m", "2"])
    for pod in draft.incoming:
        pod["spec"]["priorityClassName"] = rng.choice(["high", "high", "middle", "polite", "low"])
        _want(pod, rng.choice(["700m", "1", "1400m", "2500m"]))


def _want(pod: Json, cpu: str) -> None:
    # A pod whose requests stand at pod level may not have containers that ask for more.
    if "resources" not in pod["spec"]:
        request(pod["spec"]["containers"][0], "cpu", cpu)


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
    Feature("priorities", cluster=_priority),
    Feature("gates", needs("SchedulingGates"), incoming=_gates),
    Feature("preemption", needs("DefaultPreemption"), cluster=_preemption),
    Feature("disruption-budgets", needs("DefaultPreemption"), cluster=_budgets),
)
