"""Random clusters and pods for property tests: small numbers, so that ties, full nodes and misfits are common."""

from typing import Any

from hypothesis import strategies as st

from scheduler.framework import NodeInfo, PodInfo
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import cluster, container, node, pod

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ZONES = ("a", "b", "c")
QUANTITIES = st.sampled_from([None, "0", "1m", "100m", "333m", "1", "1500m", "4", "9"])
MEMORY = st.sampled_from([None, "0", "1", "100Mi", "1Gi", "7Gi", "16Gi", "17Gi", "1e3", "0.5Gi"])

taints = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["", "v"]), st.sampled_from(EFFECTS)), max_size=2)
tolerations = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["", "x", "y", "node.kubernetes.io/unschedulable"]),
            "operator": st.sampled_from(["", "Equal", "Exists"]),
            "value": st.sampled_from(["", "v"]),
            "effect": st.sampled_from(["", *EFFECTS]),
        }
    ),
    max_size=2,
)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["zone", "size", "absent"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from([*ZONES, "1", "2"]), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["zone", "absent"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["size", "zone"]), "operator": st.sampled_from(["Gt", "Lt"]), "values": st.just(["1"])}
    ),
    st.just({"key": "zone", "operator": "Bad", "values": ["a"]}),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from(["n0", "n1", "n9"]), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {"matchExpressions": st.lists(expressions, max_size=2), "matchFields": st.lists(fields, max_size=1)}
)


@st.composite
def affinities(draw: st.DrawFn) -> dict[str, Any] | None:
    affinity: dict[str, Any] = {}
    if draw(st.booleans()):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": draw(st.lists(terms, min_size=1, max_size=2))
        }
    if draw(st.booleans()):
        good = st.fixed_dictionaries(
            {
                "matchExpressions": st.lists(
                    expressions.filter(
                        lambda expression: (
                            expression["operator"] != "Bad"
                            and not (expression["operator"] in ("Gt", "Lt") and expression["key"] == "zone")
                        )
                    ),
                    min_size=1,
                    max_size=2,
                )
            }
        )
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = draw(
            st.lists(st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": good}), max_size=3)
        )
    return {"nodeAffinity": affinity} if affinity else None


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeInfo:
    labels = {"zone": draw(st.sampled_from(ZONES))} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        labels["size"] = draw(st.sampled_from(["1", "2", "many"]))
    return node(
        name,
        labels=labels,
        taints=draw(taints),
        unschedulable=draw(st.integers(0, 9)) == 0,
        allocatable={
            "cpu": draw(st.sampled_from(["0", "1", "4", "3333m"])),
            "memory": draw(st.sampled_from(["0", "1Gi", "16Gi", "12345678901"])),
            "pods": draw(st.sampled_from(["1", "3", "110"])),
            "example.com/gpu": draw(st.sampled_from(["0", "2"])),
        },
    )


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodInfo:
    containers = []
    for index in range(draw(st.integers(1, 2))):
        requests = {"example.com/gpu": "1"} if draw(st.integers(0, 5)) == 0 else {}
        limits = {"cpu": draw(st.sampled_from(["0", "200m"]))} if draw(st.booleans()) else {}
        containers.append(container(draw(QUANTITIES), draw(MEMORY), name=f"c{index}", requests=requests, limits=limits))
    extra: dict[str, Any] = {}
    affinity = draw(affinities())
    if affinity:
        extra["affinity"] = affinity
    if draw(st.integers(0, 3)) == 0:
        extra["nodeSelector"] = {"zone": draw(st.sampled_from(ZONES))}
    if draw(st.integers(0, 5)) == 0:
        extra["overhead"] = {"cpu": "50m", "memory": "10Mi"}
    return pod(name, *containers, tolerations=draw(tolerations), priority=draw(st.integers(0, 2)), **extra)


@st.composite
def clusters(draw: st.DrawFn, max_nodes: int = 4) -> ClusterState:
    infos = [draw(nodes(f"n{index}")) for index in range(draw(st.integers(1, max_nodes)))]
    bound = {
        info.name: [draw(pods(f"{info.name}-{index}")) for index in range(draw(st.integers(0, 2)))] for info in infos
    }
    return cluster(*infos, pods=bound)
