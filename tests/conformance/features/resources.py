"""What pods request and nodes offer."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, containers, needs, offer, request
from tests.conformance.surroundings import OVERHEADS

_FIT = needs("NodeResourcesFit")
_GPU = "example.com/gpu"
_GROUPED = "ignored.example.com/part"
_PREFIXED = "vendor.kubernetes.io/thing"


def _tight_node(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.7:
        offer(node, "cpu", rng.choice(["500m", "1", "1250m"]))
        offer(node, "memory", rng.choice(["256Mi", "1Gi", "1500M"]))


def _hungry(rng: random.Random, pod: Json) -> None:
    request(pod["spec"]["containers"][0], "cpu", rng.choice(["700m", "1", "1100m", "3", "40"]))
    if rng.random() < 0.5:
        request(pod["spec"]["containers"][0], "memory", rng.choice(["1Gi", "1400M", "900Mi", "1Ti"]))


_ODD_CPU = ("0.1", "1500m", "1e1", "2.5", "12e-1", "0.0005", "3333m", "1999m")
_ODD_MEMORY = ("1e9", "0.5Gi", "1000Ki", "1.5G", "128974848", "999999999", "0.1Gi", "2e10")


def _odd_node(rng: random.Random, node: Json) -> None:
    offer(node, "cpu", rng.choice(["1e1", "2.5", "7999m", "0.9", "1e3", "333e-2"]))
    offer(node, "memory", rng.choice(["1e10", "3.3Gi", "8191Mi", "9999999k", "16777216Ki", "1Ti", "0.7G"]))


def _odd_pod(rng: random.Random, pod: Json) -> None:
    for container in containers(pod):
        if rng.random() < 0.7:
            request(container, "cpu", rng.choice(_ODD_CPU))
        if rng.random() < 0.7:
            request(container, "memory", rng.choice(_ODD_MEMORY))


def _tiny_pod(rng: random.Random, pod: Json) -> None:
    for container in containers(pod):
        if rng.random() < 0.5:
            container.pop("resources", None)
        elif rng.random() < 0.6:
            request(container, rng.choice(["cpu", "memory"]), rng.choice(["0", "1", "1m", "1Ki"]))


def _limits_only(rng: random.Random, pod: Json) -> None:
    for container in containers(pod):
        if rng.random() < 0.6:
            container["resources"] = {"limits": {"cpu": rng.choice(["300m", "1"]), "memory": "300Mi"}}


def _extended_node(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.7:
        offer(node, _GPU, rng.choice(["1", "2", "8"]))
    if rng.random() < 0.3:
        offer(node, "example.com/ignored", "1")
    if rng.random() < 0.3:
        offer(node, _GROUPED, "2")


def _extended_pod(rng: random.Random, pod: Json) -> None:
    container = rng.choice(pod["spec"]["containers"])
    if rng.random() < 0.6:
        request(container, _GPU, rng.choice(["0", "1", "1", "2", "9"]), limit=True)
    if rng.random() < 0.25:
        request(container, "example.com/ignored", rng.choice(["1", "3"]), limit=True)
    if rng.random() < 0.25:
        request(container, _GROUPED, rng.choice(["1", "2", "5"]), limit=True)


def _huge_node(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.7:
        offer(node, "hugepages-2Mi", rng.choice(["0", "64Mi", "512Mi"]))


def _huge_pod(rng: random.Random, pod: Json) -> None:
    container = pod["spec"]["containers"][0]
    if rng.random() < 0.6:
        request(container, "cpu", "100m")
        request(container, "memory", "128Mi")
        request(container, "hugepages-2Mi", rng.choice(["2Mi", "32Mi", "128Mi"]), limit=True)


def _ephemeral_node(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.8:
        offer(node, "ephemeral-storage", rng.choice(["1Gi", "10Gi", "100G"]), rng.choice(["900Mi", "5Gi", "1Gi"]))


def _ephemeral_pod(rng: random.Random, pod: Json) -> None:
    for container in containers(pod):
        if rng.random() < 0.5:
            request(container, "ephemeral-storage", rng.choice(["100Mi", "800Mi", "2Gi", "0"]))


def _few_pods(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.6:
        offer(node, "pods", str(rng.choice([0, 1, 2, 3])))


def _reserved(rng: random.Random, node: Json) -> None:
    capacity = node["status"]["capacity"]
    if rng.random() < 0.8:
        node["status"]["allocatable"] = capacity | {"cpu": rng.choice(["400m", "900m", "1"]), "memory": "700Mi"}
    elif rng.random() < 0.5:
        node["status"]["allocatable"] = {k: v for k, v in capacity.items() if k != "memory"}


def _init(rng: random.Random, pod: Json) -> None:
    for _ in range(rng.randint(0, 3)):
        number = len(pod["spec"].get("initContainers", []))
        container: Json = {"name": f"init-{number}", "image": "init"}
        request(container, "cpu", rng.choice(["50m", "400m", "1", "1700m"]))
        if rng.random() < 0.6:
            request(container, "memory", rng.choice(["32Mi", "600Mi", "2Gi"]))
        pod["spec"].setdefault("initContainers", []).append(container)


def _sidecar(rng: random.Random, pod: Json) -> None:
    _init(rng, pod)
    for container in pod["spec"].get("initContainers", []):
        if rng.random() < 0.6:
            container["restartPolicy"] = "Always"


def _overhead(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.6:
        pod["spec"]["runtimeClassName"] = rng.choice(list(OVERHEADS))


def _pod_level(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.4:
        return
    for container in containers(pod):
        container["resources"] = {"requests": {"cpu": "50m"}} if rng.random() < 0.4 else {}
    wanted: Json = {}
    if rng.random() < 0.8:
        wanted["cpu"] = rng.choice(["600m", "1", "1500m", "4"])
    if rng.random() < 0.8 or not wanted:
        wanted["memory"] = rng.choice(["600Mi", "1Gi", "3Gi", "20G"])
    pod["spec"]["resources"] = {"requests": wanted}


def _only_pod_count(rng: random.Random, draft: Draft) -> None:
    for node in draft.nodes:
        if rng.random() < 0.3:
            for resource in ("cpu", "memory"):
                node["status"]["allocatable"].pop(resource, None)


def _prefixed_node(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.5:
        offer(node, _PREFIXED, rng.choice(["1", "3"]))


def _status(rng: random.Random, container: Json) -> Json:
    status: Json = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if rng.random() < 0.8:
        actual = {"cpu": rng.choice(["50m", "300m", "1200m"]), "memory": rng.choice(["10Mi", "700Mi"])}
        status["resources"] = {"requests": actual} if rng.random() < 0.9 else {}
    if rng.random() < 0.5:
        status["allocatedResources"] = {"cpu": rng.choice(["80m", "900m"]), "memory": "200Mi"}
    return status


def _resized(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.5:
        return
    time = "2026-01-01T00:00:00Z"
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": time}]
    if rng.random() < 0.4:
        reason = rng.choice(["Infeasible", "Deferred"])
        conditions.append({"type": "PodResizePending", "status": "True", "reason": reason, "lastTransitionTime": time})
    status = pod.setdefault("status", {})
    status["conditions"] = conditions
    for kind, field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        if pod["spec"].get(kind):
            status[field] = [_status(rng, container) for container in pod["spec"][kind]]


def _resized_whole(rng: random.Random, pod: Json) -> None:
    """A pod whose own resources are resized, beside those of its containers."""
    _pod_level(rng, pod)
    _resized(rng, pod)
    if "status" not in pod:
        return
    if rng.random() < 0.8:
        actual = {"cpu": rng.choice(["100m", "700m", "2"]), "memory": rng.choice(["100Mi", "900Mi"])}
        pod["status"]["resources"] = {"requests": actual}
    if rng.random() < 0.6:
        pod["status"]["allocatedResources"] = {"cpu": rng.choice(["150m", "1100m"]), "memory": "300Mi"}


FEATURES = (
    Feature("plain"),
    Feature("scarce", _FIT, node=_tight_node, incoming=_hungry),
    Feature("odd-quantities", _FIT, node=_odd_node, existing=_odd_pod, incoming=_odd_pod),
    Feature("tiny-requests", _FIT, existing=_tiny_pod, incoming=_tiny_pod),
    Feature("limits-only", _FIT, existing=_limits_only, incoming=_limits_only),
    Feature("extended", _FIT, node=_extended_node, existing=_extended_pod, incoming=_extended_pod),
    Feature("hugepages", _FIT, node=_huge_node, existing=_huge_pod, incoming=_huge_pod),
    Feature("ephemeral-storage", _FIT, node=_ephemeral_node, existing=_ephemeral_pod, incoming=_ephemeral_pod),
    Feature("pod-count", _FIT, node=_few_pods),
    Feature("reserved", _FIT, node=_reserved),
    Feature("no-allocatable", _FIT, cluster=_only_pod_count),
    Feature("foreign-resource", _FIT, node=_prefixed_node),
    Feature("init-containers", _FIT, existing=_init, incoming=_init),
    Feature("sidecars", _FIT, existing=_sidecar, incoming=_sidecar),
    Feature("overhead", _FIT, existing=_overhead, incoming=_overhead),
    Feature("pod-level", _FIT, existing=_pod_level, incoming=_pod_level),
    Feature("resized", _FIT, existing=_resized),
    Feature("resized-pods", _FIT, existing=_resized_whole, since=36),
)
