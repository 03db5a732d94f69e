"""Cases for CapacityScheduling and PreemptionToleration, from seeds."""

from __future__ import annotations

import random
import time

from scheduler.plugins.preemptiontoleration import MINIMUM, SECONDS
from tests.conformance.case import Case, Json
from tests.conformance.surroundings import NAMESPACES, OVERHEADS, PRIORITIES

PROFILES = {"capacity": "CapacityScheduling", "toleration": "PreemptionToleration"}
_PRIORITIES = (None, *PRIORITIES)
_GPU = "example.com/gpu"
_AGES = (5, 1000, 100_000)
"""Seconds since a pod was scheduled: far from every time that a class protects its pods."""


def _class(name: str, value: int, minimum: str | None, seconds: str | None) -> Json:
    annotations = {key: text for key, text in ((MINIMUM, minimum), (SECONDS, seconds)) if text is not None}
    metadata = {"name": f"protected-{name}", "annotations": annotations}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


CLASSES: tuple[Json, ...] = (
    _class("no-policy", 10, None, None),
    _class("no-time", 10, "1000", None),
    _class("no-minimum", 10, None, "3600"),
    _class("hour", 10, "1000", "3600"),
    _class("hour-of-middle", 20, "50", "3600"),
    _class("minutes", 20, "5000", "300"),
    _class("for-ever", 10, "1000", "-1"),
    _class("for-ever-of-nobody", 30, "30", "-7"),
    _class("signs", 10, "+1001", "+3600"),
    _class("unreadable-minimum", 10, "high", "-1"),
    _class("unreadable-time", 10, "1000", "1h"),
    _class("large-minimum", 10, "2147483648", "-1"),
    _class("centuries", 10, "1000", "9300000000"),
    _class("blank", 10, " 1000", "-1"),
)


def generate(seed: int, profile: str = "") -> Case:
    """The case of a seed: for a profile, or for the one that the seed stands for."""
    rng = random.Random(f"capacity:{seed}")
    chosen = rng.choice(("capacity", "capacity", "capacity", "toleration"))
    chosen = profile or chosen
    # Where nodes are full rather than quotas, preemption is what decides.
    crowded = rng.random() < 0.6
    names = [f"q{seed}-{number}" for number in range(rng.randint(1, 4))]
    objects = [_node(rng, name, ("1", "2", "3") if crowded else ("3", "4", "6")) for name in names]
    if chosen == "capacity":
        quota = _wide_quota if crowded else _quota
        objects += [quota(rng, namespace) for namespace in NAMESPACES if rng.random() < 0.75]
    count = rng.randint(2 * len(names), 5 * len(names)) if crowded else rng.randint(0, 4 * len(names))
    running = [_running(rng, number, rng.choice(names), chosen) for number in range(count)]
    objects += running
    if rng.random() < 0.3:
        objects += [_budget(rng, namespace) for namespace in NAMESPACES]
    pods = tuple(_pod(rng, f"new-{number}", chosen, large=not crowded, new=True) for number in range(rng.randint(2, 4)))
    return Case(seed, (chosen,), chosen, tuple(objects), pods)


def lost_class(seed: int) -> Case:
    """A pod of a class that is deleted before the next pod comes."""
    rng = random.Random(seed)
    short_lived = _class("x", 10, None, None)
    short_lived["metadata"]["name"] = "short-lived"
    node = _node(rng, f"q{seed}-lost", ("1",))
    running = _running(rng, 0, node["metadata"]["name"], "")
    running["metadata"].pop("deletionTimestamp", None)
    running["spec"] = {"nodeName": node["metadata"]["name"], "priorityClassName": "short-lived"}
    running["spec"]["containers"] = [_container_of("800m")]
    new = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": NAMESPACES[0]},
        "spec": {"containers": [_container_of("900m")], "priorityClassName": "high"},
    }
    return Case(seed, ("toleration",), "toleration", (short_lived, node, running), (new,))


def nominated(seed: int, room: str) -> Case:
    """A pod is nominated and will take what is left of a quota when the next one comes to a node with so much room."""
    rng = random.Random(seed)
    names = (f"q{seed}-here", f"q{seed}-there")
    nodes = [_node(rng, name, (cpu,)) for name, cpu in zip(names, (room, "3"), strict=True)]
    everything = {"memory": "64Gi", "ephemeral-storage": "64Gi"}
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": NAMESPACES[0]},
        "spec": {"min": {"cpu": "1", **everything}, "max": {"cpu": "6", **everything}},
    }
    lender = quota | {"metadata": {"name": "quota", "namespace": NAMESPACES[1]}, "spec": {"min": {"cpu": "90"}}}

    def pod(name: str, cpu: str, priority: str, node: str) -> Json:
        spec: Json = {"containers": [_container_of(cpu)], "priorityClassName": priority}
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        metadata = {"name": name, "namespace": NAMESPACES[0], "labels": {"app": "web"}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    running = []
    for number, name in enumerate(names):
        member = pod(f"there-{number}", "2", "low", name)
        member["spec"]["nodeName"] = name
        member["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:0{number}Z"}
        running.append(member)
    new = (pod("first", "3", "high", names[1]), pod("second", "2", "middle", names[0]))
    return Case(seed, ("capacity",), "capacity", (quota, lender, *nodes, *running), new)


def _container_of(cpu: str) -> Json:
    return {"name": "c", "image": "registry.k8s.io/pause", "resources": {"requests": {"cpu": cpu}}}


def _node(rng: random.Random, name: str, cpus: tuple[str, ...]) -> Json:
    resources = {
        "cpu": rng.choice(cpus),
        "memory": rng.choice(("4Gi", "8Gi")),
        "pods": "20",
        "ephemeral-storage": "20Gi",
    }
    if rng.random() < 0.4:
        resources[_GPU] = rng.choice(("1", "2", "4"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _quota(rng: random.Random, namespace: str) -> Json:
    spec: Json = {}
    if rng.random() < 0.9:
        spec["min"] = _amounts(rng, ("1", "2", "4", "6"), 0.9)
    if rng.random() < 0.75:
        spec["max"] = _amounts(rng, ("3", "5", "8"), 0.95)
    metadata = {"name": "quota", "namespace": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def _wide_quota(rng: random.Random, namespace: str) -> Json:
    """One that rather guarantees little or much than forbids."""
    everything = {"memory": "64Gi", "ephemeral-storage": "64Gi", _GPU: "9"}
    spec: Json = {"min": {"cpu": rng.choice(("0", "1", "2", "3", "5", "9")), **everything}}
    if rng.random() < 0.5:
        spec["max"] = {"cpu": rng.choice(("3", "4", "6", "9", "20")), **everything}
    metadata = {"name": "quota", "namespace": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def _amounts(rng: random.Random, cpus: tuple[str, ...], named: float) -> Json:
    amounts: Json = {}
    for name, choices, chance in (
        ("cpu", cpus, named),
        ("memory", ("2Gi", "4Gi", "16Gi", "8G"), named),
        ("ephemeral-storage", ("1Gi", "20Gi"), 0.5),
        ("pods", ("1", "5"), 0.15),
        (_GPU, ("0", "1", "3"), 0.5),
        ("requests.cpu", ("1",), 0.1),
    ):
        if rng.random() < chance:
            amounts[name] = rng.choice(choices)
    return amounts


def _running(rng: random.Random, number: int, node: str, profile: str) -> Json:
    pod = _pod(rng, f"there-{number}", profile, large=False, new=False)
    pod["spec"]["nodeName"] = node
    # Among equals upstream compares start times, and takes "now" for none.
    status: Json = {"phase": "Running", "startTime": f"2026-01-01T{number % 24:02d}:{number * 7 % 60:02d}:00Z"}
    if rng.random() < 0.85:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - rng.choice(_AGES)))
        truth = "True" if rng.random() < 0.9 else "False"
        status["conditions"] = [{"type": "PodScheduled", "status": truth, "lastTransitionTime": at}]
    pod["status"] = status
    if rng.random() < 0.06:
        pod["metadata"]["deletionTimestamp"] = "now"
    return pod


def _pod(rng: random.Random, name: str, profile: str, *, large: bool, new: bool) -> Json:
    containers = [_container(rng, f"c{number}", large=large) for number in range(rng.choice((1, 1, 1, 2)))]
    spec: Json = {"containers": containers}
    if rng.random() < 0.2:
        spec["initContainers"] = [_container(rng, "init", large=True)]
        if rng.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if rng.random() < 0.08:
        spec["runtimeClassName"] = rng.choice([name for name in OVERHEADS if "gpu" not in str(OVERHEADS[name])])
    if profile == "toleration" and not new and rng.random() < 0.7:
        spec["priorityClassName"] = rng.choice(CLASSES)["metadata"]["name"]
    else:
        chosen = rng.choice(_PRIORITIES if not new else (*_PRIORITIES, "middle", "high", "high", "high", "polite"))
        if chosen is not None:
            spec["priorityClassName"] = chosen
    namespace = NAMESPACES[0] if rng.random() < 0.4 else rng.choice(NAMESPACES)
    labels = {"app": rng.choice(("web", "db"))}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(rng: random.Random, name: str, *, large: bool) -> Json:
    requests: Json = {}
    if rng.random() < 0.95:
        requests["cpu"] = rng.choice(("500m", "1", "1500m", "2") if large else ("200m", "500m", "1"))
    if rng.random() < 0.6:
        requests["memory"] = rng.choice(("256Mi", "1Gi", "2G"))
    if rng.random() < 0.07:
        requests["ephemeral-storage"] = rng.choice(("100Mi", "2Gi"))
    limits = {}
    if rng.random() < 0.12:
        requests[_GPU] = limits[_GPU] = rng.choice(("0", "1", "2"))
    return {"name": name, "image": "registry.k8s.io/pause", "resources": {"requests": requests, "limits": limits}}


def _budget(rng: random.Random, namespace: str) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": rng.choice(("web", "db"))}}},
        "status": {
            "disruptionsAllowed": rng.choice((0, 0, 1, 2)),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }
