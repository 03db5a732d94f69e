"""Whoever walks through a long list charges the attempt for it, wherever the list comes from; and an attempt that is
more than it may be is parked in the name of the plugin with which it became that."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.core import decide, run_post_filters
from scheduler.framework import Code, PodInfo, ProfileRunner, conclude, cycle as meter
from scheduler.kube.model.bounds import ROWS, Kind
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.hostile import HOST, HOSTILE, ZONE, required, selector
from tests.unit.scheduler.plugins import devices, numa, quotas, storage
from tests.unit.scheduler.plugins.storage import made, mount, put
from tests.unit.scheduler.plugins.test_networkoverhead import GROUP, WORKLOAD, app_group

Situation = tuple[ClusterState, PodInfo]
FEW, MANY = 10, 400
"""Entries of the list in question; a pod that lists `MANY` itself lists much."""


def some_cluster(nodes: int = 2) -> ClusterState:
    room = {"cpu": "64", "pods": "1000"}
    return cluster(*(node(f"n{n}", labels={ZONE: f"z{n}"}, allocatable=room) for n in range(nodes)))


def volumes_of_the_class(number: int) -> Situation:
    state = put(some_cluster(), storage.storage_class(), storage.claim("c", size="9Gi"))
    return put(state, *(storage.volume(f"v{n}") for n in range(number))), pod("p", **mount("c"))


def claims_of_the_pod(number: int) -> Situation:
    state = put(some_cluster(), storage.storage_class())
    put(state, *(storage.claim(f"c{n}", volume=f"v{n}") for n in range(number)))
    put(state, *(storage.volume(f"v{n}", for_claim=f"c{n}", zone="z0") for n in range(number)))
    return state, pod("p", **mount(*(f"c{n}" for n in range(number))))


def capacities(number: int) -> Situation:
    state = put(some_cluster(), storage.storage_class(), storage.claim("c"))
    put(state, made("CSIDriver", storage.DRIVER, spec={"storageCapacity": True}))
    reports = (
        made("CSIStorageCapacity", f"r{n}", "kube-system", storageClassName="fast", nodeTopology={}, capacity="9Gi")
        for n in range(number)
    )
    return put(state, *reports), pod("p", **mount("c"))


def topologies_of_the_class(number: int) -> Situation:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [f"z{n}"]}]} for n in range(number)]
    state = put(some_cluster(), storage.storage_class(allowedTopologies=terms), storage.claim("c"))
    return state, pod("p", **mount("c"))


def selector_of_the_claim(build: Callable[[int], dict[str, Any]]) -> Callable[[int], Situation]:
    def situation(number: int) -> Situation:
        state = put(some_cluster(), storage.storage_class(), storage.volume("v"))
        return put(state, storage.claim("c", spec={"selector": build(number)})), pod("p", **mount("c"))

    return situation


def keys(number: int) -> list[str]:
    return [f"k{n}" for n in range(number)]


def disk(name: str) -> dict[str, Any]:
    return {"name": f"d-{name}", "gcePersistentDisk": {"pdName": name}}


def disks_of_other_pods(number: int) -> Situation:
    state = some_cluster()
    state.upsert_pod(pod("old", nodeName="n0", volumes=[disk(f"other-{n}") for n in range(number)]))
    return state, pod("p", volumes=[disk("own")])


def volumes_of_pods_near_the_limit(number: int) -> Situation:
    state = put(some_cluster(), storage.storage_class(), storage.claim("c", volume="v"), storage.limit("n0", number))
    put(state, storage.volume("v", for_claim="c"), *(storage.claim(f"c{n}", volume=f"v{n}") for n in range(number)))
    put(state, *(storage.volume(f"v{n}", for_claim=f"c{n}") for n in range(number)))
    state.upsert_pod(pod("old", nodeName="n0", **mount(*(f"c{n}" for n in range(number)))))
    return state, pod("p", **mount("c"))


def services(number: int) -> Situation:
    state = some_cluster()
    put(state, *(made("Service", f"s{n}", "default", spec={"selector": {"a": "b"}}) for n in range(number)))
    return state, pod("p", labels={"app": "x"})


def namespaces(number: int) -> Situation:
    state = put(some_cluster(), *(made("Namespace", f"ns{n}") for n in range(number)))
    term = {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": selector("team")}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return state, pod("p", affinity=affinity)


def terms_of_other_pods(number: int) -> Situation:
    state = some_cluster()
    state.upsert_pod(pod("old", nodeName="n0", **required(selector(f"k{n}") for n in range(number))))
    return state, pod("p", labels={"k1": "x"})


def dependencies(number: int) -> Situation:
    group = app_group({"p1": {f"d{n}": 1 for n in range(number)}})
    return put(some_cluster(), group), pod("p", labels={GROUP: "basic", WORKLOAD: "p1"})


def places(number: int) -> Situation:
    group = app_group({"p1": {"p2": 1}})
    return put(some_cluster(number), group), pod("p", labels={GROUP: "basic", WORKLOAD: "p1"})


def elastic_quotas(number: int) -> Situation:
    return quotas.with_quotas(some_cluster(), *(quotas.quota(f"ns{n}", {"cpu": "1"}) for n in range(number))), pod("p")


def profiles(number: int) -> Situation:
    path = "operator/default/p{}.json"
    contexts = [
        container(
            name=f"c{n}",
            securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": path.format(n)}},
        )
        for n in range(number)
    ]
    return some_cluster(), pod("p", *contexts)


def requests_of_containers(number: int) -> Situation:
    state = put(some_cluster(), numa.topology("n0", numa.zone(0, cpu="64")))
    return state, numa.guaranteed(*({"cpu": "1m", "memory": "1Mi"} for _ in range(number)))


def claims_for_devices(number: int) -> Situation:
    state = put(some_cluster(), devices.device_class())
    allocation = {"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": [selector(ZONE)]}}
    put(state, *(devices.claim(f"c{n}", status={"allocation": allocation}) for n in range(number)))
    named = [{"name": f"r{n}", "resourceClaimName": f"c{n}"} for n in range(number)]
    return state, pod("p", resourceClaims=named)


CASES: dict[str, tuple[str, Callable[[int], Situation]]] = {
    "volumes of the class": ("VolumeBinding", volumes_of_the_class),
    "volumes of the pod": ("VolumeBinding", claims_of_the_pod),
    "volumes of the pod, by zone": ("VolumeZone", claims_of_the_pod),
    "volumes of the pod, of one pod only": ("VolumeRestrictions", claims_of_the_pod),
    "volumes of the pod, to be attached": ("NodeVolumeLimits", claims_of_the_pod),
    "labels of a selector": (
        "VolumeBinding",
        selector_of_the_claim(lambda n: {"matchLabels": dict.fromkeys(keys(n), "v")}),
    ),
    "expressions of a selector": (
        "VolumeBinding",
        selector_of_the_claim(
            lambda n: {"matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in keys(n)]}
        ),
    ),
    "values of a selector": (
        "VolumeBinding",
        selector_of_the_claim(lambda n: {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": keys(n)}]}),
    ),
    "capacities of drivers": ("VolumeBinding", capacities),
    "topologies of the class": ("VolumeBinding", topologies_of_the_class),
    "disks of other pods": ("VolumeRestrictions", disks_of_other_pods),
    "volumes of pods near the limit": ("NodeVolumeLimits", volumes_of_pods_near_the_limit),
    "Services of the namespace": ("PodTopologySpread", services),
    "namespaces": ("InterPodAffinity", namespaces),
    "terms of other pods": ("InterPodAffinity", terms_of_other_pods),
    "dependencies of the workload": ("NetworkOverhead", dependencies),
    "places of nodes": ("NetworkOverhead", places),
    "ElasticQuotas": ("CapacityScheduling", elastic_quotas),
    "profiles of the pod": ("SySched", profiles),
    "requests of containers": ("NodeResourceTopologyMatch", requests_of_containers),
    "claims for devices": ("DynamicResources", claims_for_devices),
}
"""By what there are many of, the plugin that walks through them."""


def profile_of(plugin: str) -> ProfileRunner:
    enabled = [{"name": name} for name in (plugin, "PrioritySort", "DefaultBinder")]
    return runner({"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}})


def charged(plugin: str, situation: Situation) -> int:
    state, info = situation
    placement = conclude(decide(state.snapshot(NOW), info, profile_of(plugin), random.Random(1)))
    assert placement.code is not Code.ERROR, placement.message
    return placement.state.work.done


@pytest.mark.parametrize("case", CASES)
def test_a_long_list_is_charged_for_and_parks_the_pod_beyond_the_limit(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, build = CASES[case]
    small, units = charged(plugin, build(FEW)), charged(plugin, build(MANY))
    assert units - small >= (MANY - FEW) // 2
    state, info = build(MANY)
    for limit, parked in ((units, False), (units - 1, True)):
        monkeypatch.setattr(meter, "ATTEMPT_UNITS", limit)
        for from_scratch in (False, True):
            placement = conclude(
                decide(state.snapshot(NOW), info, profile_of(plugin), random.Random(1), from_scratch=from_scratch)
            )
            assert (placement.rejectors == {"AttemptBudget"}) is parked
            assert placement.counters.get(f"over_budget/{plugin}", 0) == parked


def test_victims_and_budgets_are_charged_for() -> None:
    state = cluster(node("n0", allocatable={"cpu": "1", "pods": "100"}))
    for n in range(10):
        state.upsert_pod(pod(f"low-{n}", container("100m"), nodeName="n0", labels={"app": f"{n}"}))
    for n in range(300):
        state.objects.upsert("PodDisruptionBudget", quotas.budget(f"b{n}", "default", 9, f"{n}"))
    placement = conclude(
        decide(state.snapshot(NOW), pod("high", container("1"), priority=9), runner(), random.Random(1))
    )
    assert conclude(run_post_filters(state.snapshot(NOW), placement, runner())).victims
    # All ten are compared with each of the budgets.
    assert placement.state.work.done > 10 * 300


SHOWN_BY = {
    ("LabelSelector", "match_labels"): "labels of a selector",
    ("LabelSelector", "match_expressions"): "expressions of a selector",
    ("LabelSelectorRequirement", "values"): "values of a selector",
    ("NodeSelector", "node_selector_terms"): "node selector terms",
    ("NodeSelectorTerm", "match_expressions"): "node selector expressions",
    ("NodeSelectorTerm", "match_fields"): "node names",
    ("NodeSelectorRequirement", "values"): "node selector values",
    ("NodeAffinity", "preferred_during_scheduling_ignored_during_execution"): "preferred node terms",
    ("PodAffinity", "required_during_scheduling_ignored_during_execution"): "required",
    ("PodAffinity", "preferred_during_scheduling_ignored_during_execution"): "keys of their own",
    ("PodAffinityTerm", "namespaces"): "namespaces of a term",
    ("TopologySpreadConstraint", "match_label_keys"): "keys of constraints",
    ("PodSpec", "node_selector"): "node selector",
    ("PodSpec", "tolerations"): "tolerations",
    ("PodSpec", "containers"): "images",
    ("PodSpec", "init_containers"): "init containers",
    ("PodSpec", "topology_spread_constraints"): "constraints",
    ("PodSpec", "volumes"): "volumes of the pod",
    ("PodSpec", "resource_claims"): "claims for devices",
    ("Container", "ports"): "host ports",
    ("ResourceRequirements", "requests"): "resources",
}
"""By field that an attempt is charged for, the case here or among `HOSTILE` or `MORE` that has many of it."""
REQUIRED_NODES, PREFERRED_NODES = (
    f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
)


def node_affinity(**content: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": content}}


def requiring(**term: Any) -> dict[str, Any]:
    return node_affinity(**{REQUIRED_NODES: {"nodeSelectorTerms": [term]}})


MORE: dict[str, Callable[[int], dict[str, Any]]] = {
    "node names": lambda n: requiring(
        matchFields=[{"key": "metadata.name", "operator": "NotIn", "values": [f"x{i}"]} for i in range(n)]
    ),
    "node selector values": lambda n: requiring(
        matchExpressions=[{"key": HOST, "operator": "In", "values": [f"n{i}" for i in range(20 * n)]}]
    ),
    "preferred node terms": lambda n: node_affinity(
        **{PREFERRED_NODES: [{"weight": 1, "preference": selector(HOST, "In", f"n{i}")} for i in range(n)]}
    ),
    "namespaces of a term": lambda n: {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": HOST, "labelSelector": {}, "namespaces": [f"ns{i}" for i in range(n)]}
                ]
            }
        }
    },
    "node selector": lambda n: {"nodeSelector": {f"k{i}": "x" for i in range(n)}},
    "init containers": lambda n: {"initContainers": [container(name=f"i{i}", image=f"i{i}") for i in range(n)]},
    "keys of constraints": lambda n: {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector("app"),
                "matchLabelKeys": [f"k{i}" for i in range(n)],
            }
        ]
    },
}
"""By what there are many of, a pod's spec."""


def test_every_field_that_is_charged_for_has_a_case() -> None:
    assert set(SHOWN_BY) == {field for field, bound in ROWS.items() if bound.kind is Kind.CHARGED}
    assert not set(SHOWN_BY.values()) - {*CASES, *HOSTILE, *MORE}


@pytest.mark.parametrize("case", MORE)
def test_an_attempt_is_charged_for_what_its_pod_lists(case: str) -> None:
    state, profile = some_cluster(), runner()
    info = pod("p", container("1m"), labels={"app": "x"}, **MORE[case](MANY))
    ordinary = conclude(
        decide(state.snapshot(NOW), pod("q", container("1m"), **MORE[case](FEW)), profile, random.Random(1))
    )
    large = conclude(decide(state.snapshot(NOW), info, profile, random.Random(1)))
    assert ordinary.state.work.done == 0, "an ordinary pod"
    assert large.state.work.done > 0
