"""A cluster of many pods, pods that list thousands of things, and how much work an attempt at them is."""

import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from scheduler.core import Placement, decide
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
MANY = 1000
Spec = dict[str, Any]


def crowded(nodes: int, pods: int) -> ClusterState:
    """Nodes in three zones, and pods of 100 deployments, of which each also carries one of a thousand rare keys."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    state = cluster(*(node(f"n{index}", labels={ZONE: f"z{index % 3}"}, allocatable=room) for index in range(nodes)))
    sample = pod("sample", container("10m"))
    for index in range(pods):
        name = f"old-{index}"
        labels = {"app": f"app-{index % 100}", f"rare-{index % MANY}": "x"}
        changes = {"uid": name, "name": name, "key": f"default/{name}", "labels": labels}
        state.upsert_pod(msgspec.structs.replace(sample, node_name=f"n{index % nodes}", **changes))
    return state


def selector(key: str, operator: str = "Exists", *values: str) -> Spec:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def near(selectors: Iterable[Spec], keys: tuple[str, ...] = (ZONE,), *, kind: str = "podAffinity") -> Spec:
    """Preferred terms; of anti-affinity too, where `kind` says so."""
    terms = required(selectors, keys, kind=kind)["affinity"][kind][REQUIRED]
    weighted = [{"weight": 1 + index % 100, "podAffinityTerm": term} for index, term in enumerate(terms)]
    return {"affinity": {kind: {PREFERRED: weighted}}}


def required(selectors: Iterable[Spec], keys: tuple[str, ...] = (HOST,), *, kind: str = "podAntiAffinity") -> Spec:
    terms = [{"topologyKey": keys[index % len(keys)], "labelSelector": each} for index, each in enumerate(selectors)]
    return {"affinity": {kind: {REQUIRED: terms}}}


def node_terms(terms: list[Spec]) -> Spec:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def carried(count: int) -> Spec:
    """A selector of everybody, but for those who carry one of so many keys, which some pod carries each."""
    return {
        "matchExpressions": [
            {"key": "app", "operator": "Exists"},
            *({"key": f"rare-{index}", "operator": "NotIn", "values": ["x", "y"]} for index in range(count)),
        ]
    }


def spread(keys: Iterable[str], action: str, means: Spec | None = None) -> Spec:
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": action,
            "labelSelector": means or selector(f"none-{index}"),
        }
        for index, key in enumerate(keys)
    ]
    return {"topologySpreadConstraints": constraints}


def ordinary(name: str, app: int) -> PodInfo:
    """A pod of a deployment that prefers the zone of its like: the first of its class."""
    labels = {"app": f"app-{app}"}
    return pod(name, container("10m"), labels=labels, **near([selector("app", "In", f"app-{app}")]))


HOSTILE: dict[str, Callable[[], Spec]] = {
    "keys of their own": lambda: near(selector(f"none-{index}") for index in range(MANY)),
    "keys that must be absent": lambda: near(selector(f"none-{index}", "DoesNotExist") for index in range(MANY)),
    "keys that pods carry": lambda: near((selector(f"rare-{index}") for index in range(MANY)), (HOST,)),
    "values of a common key": lambda: near(selector("app", "NotIn", f"app-{index}") for index in range(MANY)),
    "topology keys of their own": lambda: near(
        (selector("app") for _ in range(MANY)), tuple(f"t{index}" for index in range(MANY))
    ),
    "required": lambda: required(
        (selector(f"none-{index}", "DoesNotExist") for index in range(MANY)), kind="podAffinity"
    ),
    "required not": lambda: required(selector(f"none-{index}") for index in range(MANY)),
    "a selector of many values": lambda: near([selector("app", "In", *(f"v{index}" for index in range(10 * MANY)))]),
    "constraints": lambda: spread((f"t{index}" for index in range(MANY)), "ScheduleAnyway"),
    "hard constraints": lambda: spread((f"t{index}" for index in range(MANY)), "DoNotSchedule"),
    "a constraint of many requirements": lambda: spread([ZONE], "DoNotSchedule", carried(MANY)),
    "a soft constraint of many requirements": lambda: spread([ZONE], "ScheduleAnyway", carried(MANY)),
    "node selector terms": lambda: node_terms([selector(f"t{index}", "DoesNotExist") for index in range(MANY)]),
    "node selector expressions": lambda: node_terms(
        [{"matchExpressions": [{"key": f"t{index}", "operator": "DoesNotExist"} for index in range(MANY)]}]
    ),
    "tolerations": lambda: {"tolerations": [{"key": f"t{index}", "operator": "Exists"} for index in range(5 * MANY)]},
    "host ports": lambda: {
        "containers": [container(ports=[{"containerPort": port, "hostPort": port} for port in range(1, 2 * MANY)])]
    },
    "images": lambda: {"containers": [container(name=f"c{index}", image=f"i{index}") for index in range(MANY)]},
    "resources": lambda: {
        "containers": [container(requests={f"example.com/r{index}": "0" for index in range(2 * MANY)})]
    },
}
"""By what a pod lists, its spec."""


def hostile(name: str, case: str, *, of_class: str = "a") -> PodInfo:
    spec = HOSTILE[case]()
    containers = spec.pop("containers", [container("10m")])
    tolerations = [*spec.pop("tolerations", ()), {"key": f"class-{of_class}", "operator": "Exists"}]
    return pod(name, *containers, labels={"app": "hostile"}, tolerations=tolerations, **spec)


class Work:
    """Counts the calls of functions, Python's and C's, in a `with` block: the same on every machine."""

    def __init__(self) -> None:
        self.calls = 0

    def _count(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

    def __enter__(self) -> "Work":
        sys.setprofile(self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)


def attempt(state: ClusterState, info: PodInfo, profile: ProfileRunner) -> Placement:
    """Decide about a pod, and assume it where it fits."""
    placement = conclude(decide(state.snapshot(NOW), info, profile, random.Random(1)))
    if placement.node is not None:
        state.assume(info, placement.node, NOW)
    return placement


def work_of(state: ClusterState, info: PodInfo, profile: ProfileRunner) -> int:
    with Work() as work:
        attempt(state, info, profile)
    return work.calls
