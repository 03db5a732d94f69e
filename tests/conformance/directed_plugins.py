"""More cases made by hand: what each plugin's rules say in places where random cases seldom go."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.case import Case, Json
from tests.conformance.directed import (
    _HOST,
    _NODES,
    _PREFERRED,
    _REQUIRED,
    _WEB,
    _ZONE,
    _node,
    _pod,
    _spread,
    _term,
)

_GIB = 1 << 30


def _selecting(key: str, operator: str, *values: str) -> Json:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def _preferring(*preferences: tuple[int, Json]) -> Json:
    return {"nodeAffinity": {_PREFERRED: [{"weight": weight, "preference": term} for weight, term in preferences]}}


def _containers(pod: Json, *containers: Json, init: Iterable[Json] = ()) -> Json:
    return pod | {"spec": pod["spec"] | {"containers": list(containers), "initContainers": list(init)}}


def _container(name: str, cpu: str = "", memory: str = "", **fields: object) -> Json:
    requests = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    return {"name": name, "image": "app-a", "resources": {"requests": requests}, **fields}


def _with_images(node: Json, **sizes: int) -> Json:
    images = [{"names": [name.replace("_", "/")], "sizeBytes": size} for name, size in sizes.items()]
    return node | {"status": node["status"] | {"images": images}}


def _wide(node: Json, **amounts: str) -> Json:
    amounts = node["status"]["allocatable"] | amounts
    return node | {"status": node["status"] | {"allocatable": amounts, "capacity": amounts}}


def _volume(name: str, claim: str, labels: Json | None = None, host: str = "") -> Json:
    expression = {"key": _HOST, "operator": "In", "values": [host]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim},
            **(affinity if host else {}),
        },
        "status": {"phase": "Bound"},
    }


def _attached(volume: Json) -> Json:
    spec = {key: value for key, value in volume["spec"].items() if key != "hostPath"}
    driver = {"driver": "driver.example.com", "volumeHandle": volume["metadata"]["name"]}
    return volume | {"spec": spec | {"csi": driver}}


def _csi_node(name: str, limit: int) -> Json:
    driver = {"name": "driver.example.com", "nodeID": name, "topologyKeys": [], "allocatable": {"count": limit}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def _claim(name: str, volume: str = "", storage_class: str = "", phase: str = "Bound") -> Json:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
        **({"volumeName": volume} if volume else {}),
    }
    metadata = {"name": name, "namespace": "default", "annotations": bound}
    status = {"status": {"phase": phase}} if volume else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, **status}


def _using(name: str, claim: str, node: str = "") -> Json:
    return _pod(name, node=node, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def _disk(name: str, node: str = "", *, read_only: bool, kind: str = "gcePersistentDisk") -> Json:
    source: Json = {"pdName": "d"} if kind == "gcePersistentDisk" else {"volumeID": "d"}
    return _pod(name, node=node, volumes=[{"name": "v", kind: source | {"readOnly": read_only}}])


def _budget(name: str, app: str, allowed: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        },
    }


_PREFER = {"key": "k", "value": "v", "effect": "PreferNoSchedule"}
_HALF_FULL = (_node("a", cpu="3"), _node("b", cpu="7"), _pod("x", "1", "a"), _pod("y", "3", "b"), _node("c", cpu="11"))

PLUGIN_CASES: dict[str, tuple[Iterable[Json], Iterable[Json], str]] = {
    # TaintToleration, NodeUnschedulable
    "taints: only tolerations of that effect, or of all, spare a preference": (
        [_node("a", taints=[_PREFER]), _node("b", taints=[_PREFER, {**_PREFER, "key": "l"}]), _node("c")],
        [
            _pod(f"p-{number}", tolerations=[{"key": "k", "operator": "Exists", **effect}])
            for number, effect in enumerate([{}, {"effect": "PreferNoSchedule"}, {"effect": "NoSchedule"}])
        ],
        "default",
    ),
    "taints: a value is compared unless only existence is asked": (
        [_node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])],
        [
            _pod("p", tolerations=[{"key": "k", "value": "w", "effect": "NoSchedule"}]),
            _pod("q", tolerations=[{"key": "k", "effect": "NoSchedule"}]),
            _pod("r", tolerations=[{"key": "k", "value": "v"}]),
        ],
        "default",
    ),
    "a closed node may be tolerated": (
        [_node("a") | {"spec": {"unschedulable": True}}, _node("b") | {"spec": {"unschedulable": True}}],
        [_pod("p"), _pod("q", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])],
        "default",
    ),
    # NodeAffinity
    "labels: what is absent is not in, and does not exist": (
        [_node("a", disk="ssd"), _node("b"), _node("c", disk="hdd")],
        [
            _pod("p", affinity=_selecting("disk", "NotIn", "ssd")),
            _pod("q", affinity=_selecting("disk", "DoesNotExist")),
            _pod("r", affinity=_selecting("disk", "In", "tape")),
        ],
        "default",
    ),
    "labels: numbers are compared as numbers, and what is none never matches": (
        [_node("a", rank="9"), _node("b", rank="10"), _node("c", rank="x")],
        [
            _pod("p", affinity=_selecting("rank", "Gt", "9")),
            _pod("q", affinity=_selecting("rank", "Lt", "10")),
            _pod("r", affinity=_selecting("rank", "Gt", "many")),
        ],
        "default",
    ),
    "labels: an empty term matches nothing, and prefers nothing": (
        _NODES,
        [
            _pod("p", affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}]}}}),
            _pod("q", affinity=_preferring((5, {}))),
        ],
        "default",
    ),
    "labels: weights of preferences add up": (
        [_node("a", disk="ssd", tier="gold"), _node("b", disk="ssd"), _node("c", tier="gold")],
        [
            _pod(
                "p",
                affinity=_preferring(
                    (3, {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}),
                    (7, {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}]}),
                ),
            )
        ],
        "default",
    ),
    "labels: the scheduler's own demands come first": (
        [_node("a", tier="gold", disk="ssd"), _node("b", tier="silver", disk="ssd"), _node("c", tier="silver")],
        [_pod("p", affinity=_selecting("disk", "Exists")), _pod("q", nodeSelector={"tier": "gold"})],
        "added-affinity",
    ),
    # NodePorts
    "ports: protocols do not meet, and sidecars keep theirs": (
        [
            _node("a"),
            _containers(
                _pod("x", node="a"),
                _container("c", ports=[{"containerPort": 1, "hostPort": 53, "protocol": "UDP"}]),
                init=[_container("s", ports=[{"containerPort": 2, "hostPort": 54}], restartPolicy="Always")],
            ),
        ],
        [
            _containers(_pod("p"), _container("c", ports=[{"containerPort": 1, "hostPort": 53}])),
            _containers(_pod("q"), _container("c", ports=[{"containerPort": 1, "hostPort": 53, "protocol": "UDP"}])),
            _containers(_pod("r"), _container("c", ports=[{"containerPort": 1, "hostPort": 54}])),
        ],
        "default",
    ),
    # NodeResourcesFit and NodeResourcesBalancedAllocation
    "resources: every reason is told": (
        [_wide(_node("a", cpu="1"), memory="1Gi", pods="0"), _wide(_node("b"), pods="1"), _pod("x", node="b")],
        [_containers(_pod("p"), _container("c", "2", "4Gi"))],
        "default",
    ),
    "resources: an init container beside earlier sidecars may need the most": (
        [_node("a", cpu="1"), _node("b", cpu="1500m"), _node("c", cpu="2")],
        [
            _containers(
                _pod("p"),
                _container("c", "500m"),
                init=[
                    _container("before", "900m"),
                    _container("sidecar", "400m", restartPolicy="Always"),
                    _container("after", "1"),
                ],
            )
        ],
        "default",
    ),
    "resources: a pod's own total counts for fitting and balance, not for the score of what is left": (
        [_node("a"), _node("b"), _pod("x", "2", "a"), _pod("y", "1", "b")],
        [_pod("p", cpu="", resources={"requests": {"cpu": "1", "memory": "1Gi"}})],
        "default",
    ),
    "resources: overhead comes on top": (
        [_node("a", cpu="1"), _node("b", cpu="2")],
        [_pod("p", cpu="900m", runtimeClassName="small-overhead"), _pod("q", runtimeClassName="wide-overhead")],
        "default",
    ),
    "resources: a share below zero is cut towards zero": (
        _HALF_FULL,
        [_pod("p", "700m"), _pod("q", "1300m")],
        "ratio-down",
    ),
    "resources: a share between two points is cut, the mean is rounded": (
        _HALF_FULL,
        [_pod("p", "700m"), _pod("q", "1300m")],
        "ratio-up",
    ),
    "resources: the fullest is best": (_HALF_FULL, [_pod("p", "700m"), _pod("q", "1300m")], "most"),
    "resources: three shares are balanced by their deviation": (
        [_wide(_node("a"), **{"example.com/gpu": "4"}), _wide(_node("b", cpu="8"), **{"example.com/gpu": "3"})],
        [
            _containers(
                _pod("p"),
                {
                    "name": "c",
                    "image": "app-a",
                    "resources": {
                        "requests": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"},
                        "limits": {"example.com/gpu": "1"},
                    },
                },
            )
        ],
        "balanced-wide",
    ),
    # ImageLocality
    "images: a large one on one of four nodes": (
        [_with_images(_node("a"), **{"app-a:latest": 800_000_000}), *(_node(name) for name in "bcd")],
        [_pod("p")],
        "default",
    ),
    "images: what nearly everybody has, what is too small, and init containers": (
        [
            _with_images(_node("a"), **{"app-a:latest": 5 * _GIB, "small:1": 1 << 20}),
            _with_images(_node("b"), **{"app-a:latest": 5 * _GIB, "host:5000_tool:latest": _GIB}),
            _node("c"),
        ],
        [
            _containers(
                _pod("p"),
                {"name": "c", "image": "app-a"},
                {"name": "d", "image": "small:1"},
                init=[{"name": "i", "image": "host:5000/tool"}],
            )
        ],
        "default",
    ),
    # PodTopologySpread
    "spread: nodes the pod cannot be on are domains if it says so": (
        [
            _node("a", "z1", disk="ssd"),
            _node("b", "z2"),
            _pod("x", node="a", labels={"app": "web"}),
        ],
        [
            _pod(
                f"p-{policy.lower()}",
                labels={"app": "web"},
                nodeSelector={"disk": "ssd"},
                topologySpreadConstraints=[_spread(_ZONE, "DoNotSchedule", _WEB, nodeAffinityPolicy=policy)],
            )
            for policy in ("Ignore", "Honor")
        ],
        "default",
    ),
    "spread: only pods of the same version count": (
        [
            *_NODES,
            _pod("x", node="a", labels={"app": "web", "version": "1"}),
            _pod("y", node="c", labels={"app": "web", "version": "2"}),
        ],
        [
            _pod(
                "p",
                labels={"app": "web", "version": "2"},
                topologySpreadConstraints=[_spread(_ZONE, "DoNotSchedule", _WEB, matchLabelKeys=["version"])],
            )
        ],
        "default",
    ),
    "spread: a node without the key is out, and scores nothing where it may be used": (
        [_node("a", "z1"), _node("b"), _node("c", "z2"), _pod("x", node="a", labels={"app": "web"})],
        [
            _pod("p", labels={"app": "web"}, topologySpreadConstraints=[_spread(_ZONE, "ScheduleAnyway", _WEB)]),
            _pod(
                "q",
                cpu="5",
                labels={"app": "web"},
                topologySpreadConstraints=[_spread(_ZONE, "DoNotSchedule", _WEB)],
            ),
        ],
        "default",
    ),
    "spread: a pod that does not count itself": (
        [*_NODES, _pod("x", node="a", labels={"app": "web"})],
        [_pod("p", labels={"app": "db"}, topologySpreadConstraints=[_spread(_HOST, "DoNotSchedule", _WEB)])],
        "default",
    ),
    "spread: two demands at once, and one wish": (
        [
            *_NODES,
            *(_pod(f"x{number}", node=node, labels={"app": "web"}) for number, node in enumerate("aab")),
        ],
        [
            _pod(
                "p",
                labels={"app": "web"},
                topologySpreadConstraints=[
                    _spread(_ZONE, "DoNotSchedule", _WEB, maxSkew=3),
                    _spread(_HOST, "DoNotSchedule", _WEB, maxSkew=2),
                    _spread("kubernetes.io/os", "ScheduleAnyway", _WEB),
                ],
            )
        ],
        "default",
    ),
    # InterPodAffinity
    "affinity: one pod has to match all terms": (
        [
            *_NODES,
            _pod("x", node="a", labels={"app": "web"}),
            _pod("y", node="c", labels={"app": "web", "tier": "gold"}),
        ],
        [
            _pod(
                "p",
                affinity={
                    "podAffinity": {
                        _REQUIRED: [_term(_HOST, _WEB), _term(_ZONE, {"matchLabels": {"tier": "gold"}})],
                    }
                },
            )
        ],
        "default",
    ),
    "affinity: the pod's own wishes are judged before those of others": (
        [
            *_NODES,
            _pod("x", node="a", labels={"app": "web"}),
            _pod(
                "y", node="b", affinity={"podAntiAffinity": {_REQUIRED: [_term(_HOST, {"matchLabels": {"app": "p"}})]}}
            ),
            _pod("z", node="c", labels={"app": "web"}),
        ],
        [_pod("p", labels={"app": "p"}, affinity={"podAntiAffinity": {_REQUIRED: [_term(_HOST, _WEB)]}})],
        "default",
    ),
    "affinity: label keys are folded in": (
        [
            *_NODES,
            _pod("x", node="a", labels={"app": "web", "version": "1"}),
            _pod("y", node="c", labels={"app": "web", "version": "2"}),
        ],
        [
            _pod(
                "p",
                labels={"version": "2"},
                affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB, matchLabelKeys=["version"])]}},
            ),
            _pod(
                "q",
                labels={"version": "2"},
                affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB, mismatchLabelKeys=["version"])]}},
            ),
        ],
        "default",
    ),
    "affinity: demands of others weigh as configured, or not at all": (
        [
            *_NODES,
            _pod("x", node="c", affinity={"podAffinity": {_REQUIRED: [_term(_ZONE, _WEB)]}}),
            _pod(
                "y",
                node="a",
                affinity={"podAffinity": {_PREFERRED: [{"weight": 9, "podAffinityTerm": _term(_HOST, _WEB)}]}},
            ),
        ],
        [_pod("p", labels={"app": "web"})],
        "interpod-own",
    ),
    # Volumes
    "volumes: a claim to be bound at once is not waited for": ([*_NODES, _claim("c")], [_using("p", "c")], "default"),
    "volumes: a claim that has lost its volume": (
        [*_NODES, _claim("c", "gone", phase="Lost")],
        [_using("p", "c")],
        "default",
    ),
    "volumes: a volume of one node": (
        [*_NODES, _volume("v", "c", host="b"), _claim("c", "v")],
        [_using("p", "c")],
        "default",
    ),
    "volumes: a volume of several zones": (
        [*_NODES, _node("d", "z3"), _node("e"), _volume("v", "c", {_ZONE: "z2__z3"}), _claim("c", "v")],
        [_using("p", "c")],
        "default",
    ),
    "volumes: a disk is shared only for reading, some not even so": (
        [_node("a"), _disk("x", "a", read_only=True), _disk("y", "a", read_only=True, kind="awsElasticBlockStore")],
        [
            _disk("p", read_only=False),
            _disk("q", read_only=True),
            _disk("r", read_only=True, kind="awsElasticBlockStore"),
        ],
        "default",
    ),
    "volumes: a node takes so many of a driver, and the same one once": (
        [
            _node("a"),
            _csi_node("a", 1),
            *(_attached(_volume(f"v{number}", f"c{number}")) for number in (1, 2)),
            *(_claim(f"c{number}", f"v{number}") for number in (1, 2)),
            _using("x", "c1", "a"),
        ],
        [_using("p", "c2"), _using("q", "c1")],
        "default",
    ),
    # SchedulingGates, DefaultPreemption
    "a gated pod is not tried": (_NODES, [_pod("p", schedulingGates=[{"name": "example.com/wait"}])], "default"),
    "preemption: a budget that must not be broken counts more than priority": (
        [
            _node("a"),
            _node("b"),
            _pod("x", "3", "a", labels={"app": "kept"}, priorityClassName="low"),
            _pod("y", "3", "b", priorityClassName="middle"),
            _budget("kept", "kept", 0),
        ],
        [_pod("p", "2", priorityClassName="high")],
        "default",
    ),
    "preemption: the pods that may stay do": (
        [
            _node("a"),
            _pod("w", "1", "a", priorityClassName="lowest"),
            _pod("x", "1", "a", priorityClassName="low"),
            _pod("y", "1", "a", priorityClassName="middle"),
        ],
        [_pod("p", "2", priorityClassName="high")],
        "default",
    ),
}

UNREADABLE = Case(
    0,
    (),
    "default",
    (_node("a", rank="1"), _node("b", rank="2")),
    (_pod("p", affinity=_preferring((5, {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["x"]}]}))),),
)
"""A preference that cannot be read: it fails the pod, in words of our own (docs/differences.md)."""
