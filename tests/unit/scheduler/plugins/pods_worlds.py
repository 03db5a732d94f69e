"""Random clusters whose pods spread and care for each other: few labels and domains, so that matches are common."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from scheduler.framework import CycleState, Diagnosis, NodeInfo, PodInfo, ProfileRunner
from scheduler.state import CODEC_OF_KIND, ClusterState, Snapshot
from tests.unit.scheduler.core.builders import cluster, node, pod
from tests.unit.scheduler.plugins.pods_reference import Cluster

NAMESPACES = {"default": {}, "red": {"team": "red", "stage": "prod"}, "blue": {"team": "blue"}}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KEYS = (ZONE, ZONE, HOST, "tier", "absent")
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))

pod_labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["web", "db"]), "version": st.sampled_from(["1", "2"])}
)
selectors = st.one_of(
    st.just({"matchLabels": {"app": "web"}}),
    st.just({"matchLabels": {"app": "web"}}),
    st.just({"matchLabels": {"app": "db", "version": "1"}}),
    st.just({}),
    st.just({"matchExpressions": [{"key": "version", "operator": "Exists"}]}),
    st.just({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
    st.just({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
    st.none(),
)
namespace_selectors = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"team": "red"}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
        {"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]},
    ]
)


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": draw(st.sampled_from(KEYS)), "labelSelector": draw(selectors)}
    if draw(st.integers(0, 3)) == 0:
        term["namespaces"] = draw(st.lists(st.sampled_from([*NAMESPACES, "nowhere"]), min_size=1, max_size=2))
    if draw(st.integers(0, 2)) == 0:
        term["namespaceSelector"] = draw(namespace_selectors)
    return {key: value for key, value in term.items() if value is not None}


@st.composite
def affinities(draw: st.DrawFn, kinds: tuple[str, ...] = (REQUIRED, PREFERRED)) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    for part in ("podAffinity", "podAntiAffinity"):
        for kind in kinds:
            if draw(st.integers(0, 2)):
                continue
            drawn = draw(st.lists(terms(), min_size=1, max_size=2))
            if kind == PREFERRED:
                drawn = [{"weight": draw(st.sampled_from([1, 7, 100])), "podAffinityTerm": term} for term in drawn]
            affinity.setdefault(part, {})[kind] = drawn
    return affinity


@st.composite
def constraints(draw: st.DrawFn) -> list[dict[str, Any]]:
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        action = draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
        constraint: dict[str, Any] = {
            "maxSkew": draw(st.sampled_from([1, 1, 2, 5])),
            "topologyKey": draw(st.sampled_from(KEYS)),
            "whenUnsatisfiable": action,
            "labelSelector": draw(selectors),
        }
        if draw(st.booleans()):
            constraint["nodeAffinityPolicy"] = draw(st.sampled_from(["Honor", "Ignore"]))
            constraint["nodeTaintsPolicy"] = draw(st.sampled_from(["Honor", "Ignore"]))
        if action == "DoNotSchedule" and draw(st.integers(0, 2)) == 0:
            constraint["minDomains"] = draw(st.integers(1, 4))
        if draw(st.integers(0, 2)) == 0:
            constraint["matchLabelKeys"] = draw(st.lists(st.sampled_from(["app", "version"]), min_size=1, unique=True))
        drawn.append({key: value for key, value in constraint.items() if value is not None})
    return drawn


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeInfo:
    labels = {}
    if draw(st.integers(0, 5)):
        labels[ZONE] = draw(st.sampled_from(["a", "b", "c", ""]))
    if draw(st.booleans()):
        labels["tier"] = draw(st.sampled_from(["gold", "tin"]))
    taints = [("k", "", draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])))] if draw(st.booleans()) else []
    info = node(name, labels=labels, taints=taints)
    if draw(st.integers(0, 6)) == 0:
        info = msgspec.structs.replace(info, labels=labels)
    return info


@st.composite
def pods(draw: st.DrawFn, name: str, extra: st.SearchStrategy[dict[str, Any]] | None = None) -> PodInfo:
    words: dict[str, Any] = {} if extra is None else draw(extra)
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if draw(st.integers(0, 7)) == 0 else {}
    if draw(st.booleans()):
        kind, owner = draw(
            st.sampled_from([("ReplicaSet", "rs"), ("StatefulSet", "ss"), ("ReplicationController", "rc")])
        )
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        metadata["ownerReferences"] = [{"apiVersion": version, "kind": kind, "name": owner, "controller": True}]
    return pod(
        name,
        namespace=draw(st.sampled_from(list(NAMESPACES))),
        labels=draw(pod_labels),
        metadata=metadata,
        **words,
    )


spreading = st.fixed_dictionaries(
    {},
    optional={
        "topologySpreadConstraints": constraints(),
        "nodeSelector": st.just({"tier": "gold"}),
        "tolerations": st.just([{"key": "k", "operator": "Exists"}]),
    },
)
caring = affinities().map(lambda affinity: {"affinity": affinity} if affinity else {})


@st.composite
def worlds(draw: st.DrawFn, extra: st.SearchStrategy[dict[str, Any]] | None = None) -> tuple[ClusterState, Cluster]:
    infos = [draw(nodes(f"n{index}")) for index in range(draw(st.integers(1, 5)))]
    bound = {
        info.name: [draw(pods(f"{info.name}-{index}", extra)) for index in range(draw(st.integers(0, 3)))]
        for info in infos
    }
    state = cluster(*infos, pods=bound)
    world = Cluster([], NAMESPACES)
    for name, labels in NAMESPACES.items():
        put(state, "Namespace", name, {}, labels=labels)
    if draw(st.booleans()):
        world.services = {"default": [{"app": "web"}, {}], "red": [{"version": "1"}]}
        for namespace, services in world.services.items():
            for index, selector in enumerate(services):
                put(state, "Service", f"s{index}", {"selector": selector}, namespace=namespace)
    if draw(st.booleans()):
        world.owners = {
            ("default", "ReplicaSet", "rs"): {"app": "web", "version": "1"},
            ("red", "StatefulSet", "ss"): {"app": "db"},
            ("blue", "ReplicationController", "rc"): {"app": "web"},
        }
        for (namespace, kind, name), labels in world.owners.items():
            selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
            put(state, kind, name, {"selector": selector}, namespace=namespace)
    return state, seen(state, world)


def seen(state: ClusterState, world: Cluster) -> Cluster:
    """The reference's world with the nodes and pods a state has now."""
    nodes = [(info, list(state.pods_on(name))) for name in state.node_names if (info := state.node(name)) is not None]
    return Cluster(nodes, world.namespaces, world.services, world.owners)


def put(
    state: ClusterState,
    kind: str,
    name: str,
    spec: dict[str, Any],
    *,
    namespace: str = "",
    labels: dict[str, str] | None = None,
) -> None:
    data = {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}
    state.objects.upsert(kind, CODEC_OF_KIND[kind].decode(msgspec.json.encode(data)))


def only(name: str) -> dict[str, Any]:
    """Plugin sets in which one plugin filters and scores alone."""
    return {
        "multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": plugin} for plugin in ("PrioritySort", "DefaultBinder", name)],
        }
    }


def filtered(
    profile: ProfileRunner, view: Snapshot, info: PodInfo, moves: list[tuple[PodInfo, int, int]]
) -> dict[int, tuple[int, str]]:
    """Code and message by row of a node that is rejected once pods were added (1) to rows or removed (-1)."""
    state = CycleState()
    status, _, _ = profile.run_pre_filter(state, info, view)
    assert status.is_success
    state = state.clone()
    for other, row, sign in moves:
        (profile.run_add_pod if sign > 0 else profile.run_remove_pod)(state, info, other, view, row)
    diagnosis = Diagnosis(view.node_count)
    profile.run_filters(state, info, view, view.rows, diagnosis)
    return {
        int(row): (int(code), rejection.status(index).message)
        for rejection in diagnosis.rejections
        for index, (row, code) in enumerate(zip(rejection.rows, rejection.codes, strict=True))
    }
