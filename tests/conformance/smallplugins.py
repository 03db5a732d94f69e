"""Random clusters for NodeResourcesAllocatable, PodState, SySched and NetworkOverhead.

Every AppGroup and NetworkTopology that a pod asks for exists: where one is missing upstream's process ends.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance import schedulerplugins
from tests.conformance.case import Case, Json
from tests.conformance.profiles import document_of, scheduler_name

GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
ANNOTATION = "noted.seccomp.security.alpha.kubernetes.io/pod"
"""A key that the API server leaves alone: its own has to say what the security context says."""
_STARTED = {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}], "startTime": "2026-02-01T00:00:00Z"}

_COSTS = {"networkTopologyName": "nt-test"}
_GPU = [{"name": "example.com/gpu", "weight": 1 << 30}, {"name": "cpu", "weight": 3}, {"name": "pods", "weight": 5}]
PROFILES: dict[str, dict[str, Json]] = {
    "least": {"NodeResourcesAllocatable": {}},
    "most": {"NodeResourcesAllocatable": {"mode": "Most"}},
    "most-cpu": {"NodeResourcesAllocatable": {"mode": "Most", "resources": [{"name": "cpu", "weight": 7}]}},
    "least-wide": {"NodeResourcesAllocatable": {"mode": "Least", "resources": _GPU}},
    "state": {"PodState": {}},
    "calls": {"SySched": {}},
    "calls-other": {"SySched": {"defaultProfileNamespace": "team-a", "defaultProfileName": "s0"}},
    "network": {"NetworkOverhead": _COSTS},
    "network-measured": {
        "NetworkOverhead": {**_COSTS, "weightsName": "NetperfCosts", "namespaces": ["team-a", "default"]}
    },
    "everything": {
        "NodeResourcesAllocatable": {},
        "PodState": {},
        "SySched": {},
        "NetworkOverhead": _COSTS,
    },
}
_WEIGHTS = {"NodeResourcesAllocatable": 1, "PodState": 2, "SySched": 3, "NetworkOverhead": 5}
PLUGINS = frozenset(_WEIGHTS)


def configuration(kubeconfig: str, *, ours: bool) -> str:
    """The configuration of both; our own options stand in the file of ours only."""
    return document_of([_profile(name, plugins, ours=ours) for name, plugins in PROFILES.items()], kubeconfig)


def _profile(name: str, plugins: dict[str, Json], *, ours: bool) -> Json:
    # PodState takes no args; what preemption says is no matter of these plugins.
    config = [{"name": plugin, "args": args} for plugin, args in plugins.items() if args or plugin != "PodState"]
    points: Json = {
        "postFilter": {"disabled": [{"name": "*"}]},
        "score": {
            "enabled": [{"name": plugin, "weight": _WEIGHTS[plugin]} for plugin in plugins],
            "disabled": [{"name": "*"}],
        },
    }
    if "NetworkOverhead" in plugins:
        points |= {point: {"enabled": [{"name": "NetworkOverhead"}]} for point in ("preFilter", "filter")}
    return {
        "schedulerName": scheduler_name(f"small-{name}"),
        "plugins": points,
        "pluginConfig": [*config, *([schedulerplugins.options()] if ours else [])],
    }


def generate(seed: int, profile: str = "") -> Case:
    """A cluster, pods on it and waiting for it, and pods to place."""
    rng = random.Random(seed)
    profile = profile or rng.choice(list(PROFILES))
    plugins = PROFILES[profile]
    names = [f"t-{number}" for number in range(rng.randint(2, 9))]
    objects = [_node(rng, name) for name in names]
    group = f"app-{seed}"
    if "NetworkOverhead" in plugins:
        namespace = "team-a" if profile == "network-measured" and rng.random() < 0.5 else "default"
        objects += [_app_group(rng, group, namespace), _topology(rng)]
    if "SySched" in plugins:
        objects += _seccomp_profiles(rng)
    for number in range(rng.choice((0, 3, 8, 20))):
        objects.append(_pod(rng, f"there-{number}", plugins, group, nodeName=rng.choice(names)))
    if "PodState" in plugins:
        for number in range(rng.choice((0, 0, 1, 3))):
            objects.append(_nominated(f"waits-{number}", profile, rng.choice(names)))
    pods = tuple(_pod(rng, f"new-{number}", plugins, group) for number in range(3))
    return Case(seed, ("small",), f"small-{profile}", tuple(objects), pods)


def _meta(name: str, namespace: str = "default", **more: Any) -> Json:
    return {"name": name, "namespace": namespace, **more}


def _node(rng: random.Random, name: str) -> Json:
    labels = {REGION: rng.choice(("", "r1", "r1", "r2", "same")), ZONE: rng.choice(("", "z1", "z2", "z3", "same"))}
    amounts = {
        "cpu": rng.choice(("2", "4", "7910m", "16", "1m")),
        "memory": rng.choice(("4Gi", "8Gi", "33123456789", "1Ti", "200Ti")),
        "pods": rng.choice(("110", "250")),
    }
    if rng.random() < 0.4:
        amounts["example.com/gpu"] = str(rng.randint(0, 8))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"part": rng.choice("ab"), **{key: value for key, value in labels.items() if value}},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _app_group(rng: random.Random, name: str, namespace: str) -> Json:
    selectors = [*(f"w{number}" for number in range(rng.randint(1, 4))), ""]
    workloads = [
        {
            "workload": _workload(selector),
            "dependencies": [
                {"workload": _workload(rng.choice(selectors)), "maxNetworkCost": rng.choice((0, 1, 5, 40, 200))}
                for _ in range(rng.randint(0, 4))
            ],
        }
        for selector in rng.choices(selectors, k=len(selectors) + 1)
    ]
    spec = {"numMembers": 3, "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": _meta(name, namespace),
        "spec": spec,
    }


def _workload(selector: str) -> Json:
    return {"kind": "Deployment", "name": f"d-{selector}", "selector": selector}


def _topology(rng: random.Random) -> Json:
    weights = [
        {
            "name": name,
            "topologyList": rng.sample(
                [
                    {"topologyKey": REGION, "originList": _origins(rng, ("r1", "r2", "same"))},
                    {"topologyKey": ZONE, "originList": _origins(rng, ("z1", "z2", "z3", "same"))},
                ],
                rng.choice((2, 2, 2, 1)),
            ),
        }
        for name in rng.choices(("UserDefined", "NetperfCosts"), k=rng.choice((1, 2, 2, 3)))
    ]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": _meta("nt-test"),
        "spec": {"configmapName": "costs", "weights": weights},
    }


def _origins(rng: random.Random, names: Sequence[str]) -> list[Json]:
    return [
        {
            "origin": origin,
            "costList": [
                {"destination": other, "networkCost": rng.choice((0, 1, 5, 17, 40, 100, 300))}
                for other in names
                if rng.random() < 0.8
            ],
        }
        for origin in rng.sample(names, len(names))
        if rng.random() < 0.85
    ]


def _seccomp_profiles(rng: random.Random) -> list[Json]:
    calls = [f"call{number}" for number in range(rng.choice((10, 90)))]
    listed = [("default", f"s{number}") for number in range(4)] + [("team-a", "s0")]
    if rng.random() < 0.8:
        listed.append(("default", "all-syscalls"))
    return [
        {
            "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
            "kind": "SeccompProfile",
            "metadata": _meta(name, namespace),
            "spec": {
                "defaultAction": "SCMP_ACT_ERRNO",
                "syscalls": [
                    {"action": action, "names": rng.sample(calls, rng.randint(0, len(calls)))}
                    for action in rng.sample(("SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_KILL"), rng.randint(1, 3))
                ],
            },
        }
        for namespace, name in listed
    ]


def _pod(rng: random.Random, name: str, plugins: dict[str, Json], group: str, **spec: Any) -> Json:
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name, rng.choice(("default", "default", "team-a"))),
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause"}], **spec},
    }
    placed = "nodeName" in spec
    if placed and "PodState" in plugins and rng.random() < 0.4:
        pod["metadata"]["deletionTimestamp"] = "now"
    if "SySched" in plugins:
        _confine(rng, pod)
        if placed:
            pod["status"] = {"phase": "Pending", **_STARTED}
    if "NetworkOverhead" in plugins and rng.random() < 0.9:
        labels = {GROUP: group}
        if rng.random() < 0.9:
            labels[WORKLOAD] = rng.choice(("w0", "w1", "w2", "w3"))
        pod["metadata"]["labels"] = labels
        if not placed and rng.random() < 0.5:
            # Away from the pods that it would be near.
            pod["spec"]["nodeSelector"] = {"part": rng.choice("ab")}
    if rng.random() < 0.2:
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "1Gi"}}
    return pod


def _confine(rng: random.Random, pod: Json) -> None:
    def context() -> Json:
        namespace, name = rng.choice(
            (("default", "s0"), ("default", "s1"), ("default", "s2"), ("team-a", "s0"), ("x", "y"))
        )
        path = f"operator/{namespace}/{name}.json"
        return {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}

    spec = pod["spec"]
    shape = rng.random()
    if shape < 0.25:
        spec["securityContext"] = context()
    elif shape < 0.5:
        spec["containers"].append({"name": "d", "image": "registry.k8s.io/pause", "securityContext": context()})
        spec["containers"][0]["securityContext"] = context()
    elif shape < 0.6:
        spec["initContainers"] = [{"name": "i", "image": "registry.k8s.io/pause", "securityContext": context()}]
    elif shape < 0.75:
        path = context()["seccompProfile"]["localhostProfile"]
        pod["metadata"]["annotations"] = {ANNOTATION: f"localhost/{path}", "note": "default/s3.json"}
        if rng.random() < 0.5:
            spec["securityContext"] = context()
    elif shape < 0.85:
        spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}


def _nominated(name: str, profile: str, node: str) -> Json:
    """A pod that fits nowhere and is promised a node all the same."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name),
        "spec": {
            "schedulerName": scheduler_name(f"small-{profile}"),
            "nodeSelector": {"no": "such-node"},
            "containers": [{"name": "c", "image": "registry.k8s.io/pause"}],
        },
        "status": {"nominatedNodeName": node},
    }
