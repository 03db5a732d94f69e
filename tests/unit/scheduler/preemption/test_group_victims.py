"""PodGroups of scheduling.k8s.io as victims of one pod. Named cases are those of kube-scheduler 1.37 and 1.38
(TestSelectVictimsOnNode of plugins/defaultpreemption, util_test.go and victims_test.go of framework/preemption)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from scheduler.catalog import KUBERNETES_VERSIONS
from scheduler.core import decide
from scheduler.framework import (
    SCHEDULING_GROUP,
    CycleState,
    Eviction,
    Extender,
    ExtenderError,
    OverBudgetError,
    PodInfo,
    PodListener,
    PreemptAnswer,
    ProfileRunner,
    Work,
    conclude,
)
from scheduler.helpers.annotations import DISRUPTION
from scheduler.kube.model import POD_GROUP_LABEL, PODGROUPS, SCHEDULINGPODGROUPS, PriorityClass
from scheduler.preemption.evaluator import candidates_left
from scheduler.preemption.evictions import Evictions
from scheduler.preemption.groups import UnitsInView
from scheduler.preemption.trials import Budgets, dry_run
from scheduler.preemption.victims import Candidate, DryRunResult, VictimRules
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.plugins.quotas import names, only, preempt
from tests.unit.scheduler.preemption.test_preemption import budget, start_time, with_budgets

KIND = "PodGroup.scheduling.k8s.io/v1beta1"
LOW, MID, HIGH, TOP = 0, 100, 1000, 10000
VERSIONS = ("1.37", "1.38")
ALL, SINGLE = {"all": {}}, {"single": {}}


def drawn_members(chance: random.Random, groups: Iterable[str], nodes: Sequence[str], most: int) -> list[PodInfo]:
    """Some pods on nodes, of groups or of none, of unlike sizes, priorities and ages."""
    names = ["", "", *groups]
    return [
        member(
            f"p{number}",
            chance.choice(names),
            chance.choice(nodes),
            f"{chance.randint(1, 3)}00m",
            chance.choice((LOW, LOW, MID)),
            age=chance.choice((None, 10, 20, 30)),
            labels={"app": chance.choice("ab")},
        )
        for number in range(chance.randint(1, most))
    ]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def member(name: str, group: str, node_name: str, cpu: str = "200m", priority: int = LOW, **fields: Any) -> PodInfo:
    """A pod of a group, or of none, on a node."""
    age = fields.pop("age", 3600)
    status = {} if age is None else start_time(age)
    if group:
        fields["schedulingGroup"] = {"podGroupName": group}
    return pod(name, container(cpu), priority=priority, nodeName=node_name, status=status, **fields)


def alone(name: str, node_name: str, cpu: str = "200m", priority: int = LOW, **fields: Any) -> PodInfo:
    return member(name, "", node_name, cpu, priority, **fields)


def add_group(state: ClusterState, name: str, mode: Mapping[str, Any] | None = ALL) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}, **({"disruptionMode": mode} if mode else {})}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    state.objects.upsert(KIND, SCHEDULINGPODGROUPS.decode(json.dumps({"metadata": metadata, "spec": spec})))


def world(
    pods: Iterable[PodInfo], groups: Mapping[str, Mapping[str, Any] | None], *nodes: str, cpu: str = "500m"
) -> ClusterState:
    """Nodes by name, or by name and zone, with pods on them, and groups with their modes."""
    infos = [
        node(name.partition("/")[0], allocatable={"cpu": cpu}, labels={"zone": name.partition("/")[2]})
        for name in nodes or ("node1",)
    ]
    state = cluster(*infos)
    state.directory.index(SCHEDULING_GROUP)
    for name, mode in groups.items():
        add_group(state, name, mode)
    for placed in pods:
        add_pod(state, placed)
    return state


def add_pod(state: ClusterState, placed: PodInfo) -> None:
    state.directory.upsert(placed)
    state.upsert_pod(placed, NOW)


def profile_on(state: ClusterState, version: str, profile: ProfileRunner | None = None) -> ProfileRunner:
    profile = profile or runner(kubernetes=version)
    profile.use_objects(state.objects)
    profile.use_pods(state.directory)
    return profile


def rules_on(state: ClusterState, version: str) -> VictimRules:
    rules = VictimRules(KUBERNETES_VERSIONS[int(version.partition(".")[2])])
    rules.groups.use_objects(state.objects)
    rules.groups.use_pods(state.directory)
    return rules


def tried(
    state: ClusterState, incoming: PodInfo, version: str, *on: str, limit: int = 100, work: Work | None = None
) -> DryRunResult:
    """Try some nodes, or all."""
    profile = profile_on(state, version)
    view = state.snapshot(NOW)
    placement = conclude(decide(view, incoming, profile, random.Random(0)))
    if work is not None:
        placement.state.work = work
    rows = np.array([view.row(name) for name in on], dtype=np.intp) if on else view.rows
    return dry_run(placement.state, incoming, view, profile, rows, limit, rules_on(state, version))


class Case(NamedTuple):
    """What has to go from a node for a pod, with how many violations; `wanted` of none: preemption does not help."""

    pods: list[PodInfo]
    groups: Mapping[str, Mapping[str, Any] | None]
    wanted: set[str] | None
    violations: int = 0
    priority: int = HIGH
    nodes: tuple[str, ...] = ("node1",)
    protected: bool = False
    """Whether pods labelled app=foo have a budget that allows nothing."""
    spec: Mapping[str, Any] = {}


FOO = {"app": "foo"}
ANTI_AFFINITY = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "zone",
                    "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
                }
            ]
        }
    }
}
SPREAD = {
    "labels": {"foo": ""},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchExpressions": [{"key": "foo", "operator": "Exists"}]},
        }
    ],
}
ZONE = ("node-a/zone1", "node-b/zone1")
ZONES = (*ZONE, "node-c/zone2")


def apart(label_of_y: Mapping[str, str]) -> list[PodInfo]:
    return [member("pod-x", "pg1", "node-a", "0"), member("pod-y", "pg1", "node-b", "0", labels=label_of_y)]


def spread_out() -> list[PodInfo]:
    foo = {"foo": ""}
    return [
        member("pod-a", "pg1", "node-a", "0", labels=foo),
        member("pod-b", "pg1", "node-b", "0", labels=foo),
        alone("pod-c", "node-c", "0", TOP, labels=foo),
    ]


UPSTREAM = {
    "atomic preemption of a group": Case(
        [member("g1-1", "pg1", "node1", "100m"), member("g1-2", "pg1", "node1")], {"pg1": ALL}, {"g1-1", "g1-2"}
    ),
    "a pod of its own before a group": Case(
        [
            alone("p1", "node1", "100m"),
            member("g1-1", "pg1", "node1", "100m"),
            member("g1-2", "pg1", "node1", "100m"),
        ],
        {"pg1": ALL},
        {"p1"},
    ),
    "a lower group instead of a higher pod": Case(
        [alone("p1", "node1", priority=HIGH), member("g1-1", "pg1", "node1")], {"pg1": ALL}, {"g1-1"}, priority=TOP
    ),
    "a lower pod instead of a higher group": Case(
        [alone("p1", "node1"), member("g1-1", "pg1", "node1", priority=HIGH)], {"pg1": ALL}, {"p1"}, priority=TOP
    ),
    "a group with two violations": Case(
        [member("g1-1", "pg1", "node1", labels=FOO), member("g1-2", "pg1", "node1", labels=FOO)],
        {"pg1": ALL},
        {"g1-1", "g1-2"},
        2,
        protected=True,
    ),
    "a higher group instead of a budget, mode all": Case(
        [member("g1-1", "violating", "node1", labels=FOO), member("g2-1", "other", "node1", priority=MID)],
        {"violating": ALL, "other": ALL},
        {"g2-1"},
        protected=True,
    ),
    "a higher group instead of a budget, mode single": Case(
        [member("g1-1", "violating", "node1", labels=FOO), member("g2-1", "other", "node1", priority=MID)],
        {"violating": SINGLE, "other": SINGLE},
        {"g2-1"},
        protected=True,
    ),
    "anti-affinity to the pod on the other node": Case(
        apart({"foo": ""}), {"pg1": ALL}, {"pod-x", "pod-y"}, nodes=ZONE, spec=ANTI_AFFINITY
    ),
    "anti-affinity to the pod on this node": Case(
        apart({"foo": ""}), {"pg1": ALL}, {"pod-x", "pod-y"}, nodes=ZONE[::-1], spec=ANTI_AFFINITY
    ),
    "no pod that anti-affinity is about": Case(apart({}), {"pg1": ALL}, None, nodes=ZONE, spec=ANTI_AFFINITY),
    "a spread over what would be left": Case(spread_out(), {"pg1": ALL}, {"pod-a", "pod-b"}, nodes=ZONES, spec=SPREAD),
    "no victims on the node": Case(spread_out(), {"pg1": ALL}, None, nodes=("node-c/zone2", *ZONE), spec=SPREAD),
    "a group on two nodes": Case(
        [member("pod-a", "pg1", "node-a", "300m"), member("pod-b", "pg1", "node-b", "300m")],
        {"pg1": ALL},
        {"pod-a", "pod-b"},
        nodes=("node-a", "node-b"),
    ),
    "pods of a group of mode single": Case(
        [member("pod-a", "pg1", "node-a", "300m"), member("pod-b", "pg1", "node-b", "300m")],
        {"pg1": SINGLE},
        {"pod-a"},
        nodes=("node-a", "node-b"),
    ),
    "pods of a group that is gone": Case(
        [member("pod-a", "pg1", "node-a", "300m"), member("pod-b", "pg1", "node-b", "300m")],
        {},
        {"pod-a"},
        nodes=("node-a", "node-b"),
    ),
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_a_node_loses_the_victims_that_it_loses_with_kube_scheduler(name: str, version: str) -> None:
    case = UPSTREAM[name]
    state = world(case.pods, case.groups, *case.nodes)
    if case.protected:
        with_budgets(state, budget("b", 0, FOO))
    spec = dict(case.spec)
    incoming = pod("p", container("300m"), priority=case.priority, **spec)
    result = tried(state, incoming, version, case.nodes[0].partition("/")[0])
    if case.wanted is None:
        assert not result.candidates
        return
    (candidate,) = result.candidates
    assert (set(names(candidate.victims)), candidate.violations) == (case.wanted, case.violations)


# Importance -----------------------------------------------------------------------------------------------------------


class Unit(NamedTuple):
    """A group of mode `all` with pods that started so many seconds ago (None: not yet), or a pod of its own."""

    priority: int
    ages: tuple[float | None, ...]
    is_group: bool = True


def ordered(version: str, *units: Unit) -> list[int]:
    """Return the units by importance, by their position."""
    placed = [
        member(f"p{number}-{index}", f"g{number}" if unit.is_group else "", "node1", "1m", unit.priority, age=age)
        for number, unit in enumerate(units)
        for index, age in enumerate(unit.ages)
    ]
    groups = {f"g{number}": ALL for number, unit in enumerate(units) if unit.is_group}
    state = world(placed, {**groups, "some": ALL})
    view = state.snapshot(NOW)
    rules = rules_on(state, version)
    units_on_node = UnitsInView(rules.groups, view).units(view.row("node1"), view.pods_on(view.row("node1")))
    return [int(unit.pods[0].name[1]) for unit in rules.units_by_importance(units_on_node, NOW)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Unit(20, (5,), False), Unit(10, (50,), False), id="higher priority"),
        pytest.param(Unit(20, (5,), False), Unit(10, (50, 50)), id="higher priority, though not a group"),
        pytest.param(Unit(10, (5,)), Unit(10, (50,), False), id="a group"),
        pytest.param(Unit(10, (50,), False), Unit(10, (5,), False), id="the older pod"),
        pytest.param(Unit(10, (5, 5)), Unit(10, (50,)), id="the larger group"),
        pytest.param(Unit(10, (5, 50)), Unit(10, (40, 40)), id="the group with the oldest pod"),
        pytest.param(Unit(10, (5, 5)), Unit(10, (None, None)), id="a group that has started"),
    ],
)
def test_of_two_units_one_is_more_important(first: Unit, second: Unit, version: str) -> None:
    assert ordered(version, first, second) == [0, 1]
    assert ordered(version, second, first) == [1, 0]


def test_of_equals_the_one_with_the_smaller_uid_is_more_important_since_1_38() -> None:
    units = [Unit(10, (5, 5))] * 4
    assert ordered("1.38", *units) == [0, 1, 2, 3]


@pytest.mark.parametrize(("version", "victim"), [("1.36", "member"), ("1.37", "older"), ("1.38", "member")])
def test_1_37_favours_pods_of_groups_that_are_preempted_one_by_one(version: str, victim: str) -> None:
    pods = [member("member", "g", "node1", age=10), alone("older", "node1", age=100)]
    state = world(pods, {"g": SINGLE})
    (candidate,) = tried(state, pod("p", container("200m"), priority=HIGH), version).candidates
    assert names(candidate.victims) == [victim]


def test_pods_of_groups_are_pods_as_any_other_where_nothing_reads_groups(version: str) -> None:
    state = cluster(node("node1", allocatable={"cpu": "500m"}))
    for placed in (member("member", "g", "node1", age=10), alone("older", "node1", age=100)):
        add_pod(state, placed)
    (candidate,) = tried(state, pod("p", container("200m"), priority=HIGH), version).candidates
    assert names(candidate.victims) == ["member"]


def test_1_36_preempts_the_pods_of_a_group_one_by_one() -> None:
    pods = [member("a", "g", "node-a", "300m"), member("b", "g", "node-b", "300m")]
    state = world(pods, {}, "node-a", "node-b")
    metadata = {"name": "g", "namespace": "default"}
    group = {"metadata": metadata, "spec": {"disruptionMode": "PodGroup"}}
    state.objects.upsert("PodGroup.scheduling.k8s.io/v1alpha2", SCHEDULINGPODGROUPS.decode(json.dumps(group)))
    result = tried(state, pod("p", container("300m"), priority=HIGH), "1.36")
    assert [names(candidate.victims) for candidate in result.candidates] == [["a"], ["b"]]


# Budgets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "counts"),
    [(0, [2, 2]), (1, [1, 2]), (2, [0, 2]), (3, [0, 1]), (4, [0, 0])],
)
def test_each_pod_of_a_unit_takes_from_its_budget(allowed: int, counts: list[int], version: str) -> None:
    pods = [member(f"{group}-{index}", group, "node1", labels=FOO) for group in "gh" for index in range(2)]
    state = world(pods, {"g": ALL, "h": ALL}, cpu="4")
    rules = rules_on(state, version)
    view = state.snapshot(NOW)
    units = UnitsInView(rules.groups, view).units(0, pods)
    assert Budgets([budget("b", allowed, FOO)], rules.kubernetes).count(units) == counts


def test_a_budget_of_a_member_elsewhere_gives_the_group_another_chance_first(version: str) -> None:
    pods = [
        member("a", "g", "node-a", age=10),
        member("b", "g", "node-b", age=10, labels=FOO),
        alone("older", "node-a", priority=MID),
    ]
    incoming = pod("p", container("200m"), priority=HIGH)
    state = world(pods, {"g": ALL}, "node-a", "node-b")
    (candidate,) = tried(state, incoming, version, "node-a").candidates
    assert set(names(candidate.victims)) == {"a", "b"}
    with_budgets(state, budget("b", 0, FOO))
    (candidate,) = tried(state, incoming, version, "node-a").candidates
    assert (names(candidate.victims), candidate.violations) == (["older"], 0)


# What differs on purpose ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("important", ["a", "b"])
def test_pods_of_a_group_with_unlike_priorities_go_by_their_own(important: str, version: str) -> None:
    """Upstream places no such group, and would go by the group's priority or that of any of its pods."""
    pods = [member(name, "g", f"node-{name}", "300m", HIGH if name == important else LOW) for name in ("a", "b")]
    state, handle = world(pods, {"g": ALL}, "node-a", "node-b"), Said()
    profile = profile_on(state, version, runner(kubernetes=version, handle=handle))
    (victim,) = names(preempt(state, pod("p", container("300m"), priority=HIGH), profile).victims)
    assert victim != important
    note = "spec.disruptionMode all of PodGroup g is not followed, as its pods have unlike priorities"
    assert handle.events == [(victim, "DisruptionModeIgnored", note)]


def test_a_pod_whose_node_is_gone_goes_with_its_group(version: str) -> None:
    pods = [member("a", "g", "node-a", "300m"), member("b", "g", "node-b", "300m")]
    state = world(pods, {"g": ALL}, "node-a", "node-b")
    state.remove_node("node-b")
    (candidate,) = tried(state, pod("p", container("300m"), priority=HIGH, **ANTI_AFFINITY), version).candidates
    assert set(names(candidate.victims)) == {"a", "b"}


def test_assumed_pods_go_with_their_group_and_those_without_a_node_stay(version: str) -> None:
    state = world([member("a", "g", "node-a", "300m")], {"g": ALL}, "node-a", "node-b")
    for name in ("assumed", "pending"):
        state.directory.upsert(member(name, "g", "", "300m", age=None))
    state.assume(member("assumed", "g", "", "300m", age=None), "node-b", NOW)
    (candidate,) = tried(state, pod("p", container("300m"), priority=HIGH), version, "node-a").candidates
    assert set(names(candidate.victims)) == {"a", "assumed"}


def test_the_pods_of_a_group_count_as_work(version: str) -> None:
    """An attempt ends with the candidates that it has; without any, it is too much work."""
    pods = [member(f"m{number}", "g", f"n{number}", "300m") for number in range(160)]
    state = world(pods, {"g": ALL}, *(f"n{number}" for number in range(160)))
    incoming = pod("p", container("300m"), priority=HIGH)
    assert len(tried(state, incoming, version, limit=160).candidates) == 160
    # At most 20,000 pods are weighed at once, so there are candidates before the work is too much.
    assert len(tried(state, incoming, version, limit=160, work=Work(24_000)).candidates) == 126
    with pytest.raises(OverBudgetError):
        tried(state, incoming, version, limit=160, work=Work(10_000))


# Kept results ---------------------------------------------------------------------------------------------------------


def test_what_came_of_a_node_is_asked_again_where_a_pod_elsewhere_makes_the_difference(version: str) -> None:
    pods = [member("a", "g", "node-a", "300m"), alone("high", "node-b", "300m", HIGH)]
    state = world(pods, {"g": ALL}, "node-a", "node-b")
    profile = profile_on(state, version)
    incoming = pod("p", container("300m"), priority=HIGH)
    assert names(preempt(state, incoming, profile).victims) == ["a"]
    add_pod(state, member("b", "g", "node-b", "100m"))
    assert set(names(preempt(state, incoming, profile).victims)) == {"a", "b"}
    add_pod(state, member("important", "g", "node-b", "1m", HIGH))
    assert names(preempt(state, incoming, profile).victims) == ["a"]


def test_random_clusters_with_groups_are_tried_together_as_one_by_one(version: str) -> None:
    groups_gone = 0
    for seed in range(150):
        chance = random.Random(seed)
        groups = {name: chance.choice([ALL, ALL, SINGLE, None]) for name in "ghi"}
        nodes = [f"n{number}" for number in range(chance.randint(1, 4))]
        pods = drawn_members(chance, groups, nodes, 10)
        state = world(pods, groups, *nodes)
        with_budgets(state, *(budget(app, chance.randint(0, 3), {"app": app}) for app in "ab"))
        incoming = pod("p", container(f"{chance.randint(1, 5)}00m"), priority=HIGH)
        together = tried(state, incoming, version)
        outcomes = {candidate.node: candidate for candidate in together.candidates}
        for name in nodes:
            single = tried(state, incoming, version, name).candidates
            assert single == ([outcomes[name]] if name in outcomes else []), f"seed {seed}, {name}"
        for candidate in together.candidates:
            uids = {victim.uid for victim in candidate.victims}
            for victim in candidate.victims:
                mates = [mate for mate in pods if mate.scheduling_group == victim.scheduling_group]
                if groups.get(victim.scheduling_group) == ALL and len({mate.priority for mate in mates}) == 1:
                    assert uids.issuperset(mate.uid for mate in mates), f"seed {seed}: a part of a group goes"
                    groups_gone += len(mates) > 1
    assert groups_gone > 50


# The annotation of PodGroups of scheduling.x-k8s.io -------------------------------------------------------------------


def annotated_world(value: str | None, priority: int = LOW) -> ClusterState:
    """A group of one pod on each of two nodes, with the annotation."""
    state = world([], {}, "node-a", "node-b")
    state.directory.index(POD_GROUP_LABEL)
    annotations = {} if value is None else {DISRUPTION: value}
    metadata = {"name": "h", "namespace": "default", "uid": "uid-h", "resourceVersion": "1", "annotations": annotations}
    group = json.dumps({"metadata": metadata, "spec": {"minMember": 2}})
    state.objects.upsert("PodGroup", PODGROUPS.decode(group))
    for name, node_name, own in (("a", "node-a", LOW), ("b", "node-b", priority)):
        add_pod(state, alone(name, node_name, "400m", own, labels={POD_GROUP_LABEL: "h"}))
    return state


@pytest.mark.parametrize(
    ("value", "compatibility", "gone"),
    [
        ("All", "safe", {"a", "b"}),
        ("Single", "safe", {"a"}),
        (None, "safe", {"a"}),
        ("all", "safe", {"a"}),
        ("All", "upstream", {"a"}),
    ],
)
@pytest.mark.parametrize("kubernetes", ["1.34", "1.37"])
def test_an_annotation_has_the_pods_of_a_gang_preempted_together(
    value: str | None, compatibility: str, gone: set[str], kubernetes: str
) -> None:
    state = annotated_world(value)
    profile = profile_on(state, kubernetes, runner(kubernetes=kubernetes, compatibility=compatibility))
    incoming = pod("p", container("300m"), priority=HIGH, nodeSelector={"kubernetes.io/hostname": "node-a"})
    assert set(names(preempt(state, incoming, profile).victims)) == gone


def test_a_gang_whose_members_have_unlike_priorities_is_torn_apart_and_told_so(version: str) -> None:
    state, handle = annotated_world("All", MID), Said()
    profile = profile_on(state, version, runner(kubernetes=version, handle=handle))
    incoming = pod("p", container("300m"), priority=HIGH, nodeSelector={"kubernetes.io/hostname": "node-a"})
    assert names(preempt(state, incoming, profile).victims) == ["a"]
    note = f"annotation {DISRUPTION} All of PodGroup h is not followed, as its pods have unlike priorities"
    assert handle.events == [("a", "DisruptionModeIgnored", note)]


# Other plugins --------------------------------------------------------------------------------------------------------


def test_preemption_toleration_keeps_a_group_of_which_one_pod_is_exempted(version: str) -> None:
    def attempt(priority_class: str) -> list[str]:
        pods = [
            member("a", "g", "node-a", "300m"),
            member("b", "g", "node-b", "300m", priorityClassName=priority_class),
            alone("high", "node-b", "200m", TOP),
        ]
        state = world(pods, {"g": ALL}, "node-a", "node-b")
        annotations = {
            "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority": "5000",
            "preemption-toleration.scheduling.x-k8s.io/toleration-seconds": "-1",
        }
        tolerant = {"metadata": {"name": "tolerant", "annotations": annotations}, "value": LOW}
        state.objects.upsert("PriorityClass", msgspec.convert(tolerant, PriorityClass))
        profile = profile_on(state, version, only("PreemptionToleration", kubernetes=version))
        return sorted(names(preempt(state, pod("p", container("300m"), priority=HIGH), profile).victims))

    assert attempt("") == ["a", "b"]
    assert attempt("tolerant") == []


class Said:
    """As much of a Handle as evictions need."""

    def __init__(self) -> None:
        self.evictions: list[Eviction] = []
        self.events: list[tuple[str, str, str]] = []

    def watch_pods(self, listener: PodListener) -> None:
        """Nothing changes."""

    def evict(self, eviction: Eviction, finished: Any) -> None:
        self.evictions.append(eviction)

    def event(self, info: PodInfo, kind: str, reason: str, action: str, note: str, related: Any = None) -> None:
        self.events.append((info.name, reason, note))


def test_the_last_victim_to_go_is_one_that_the_preemptor_waits_for(version: str) -> None:
    pods = [member(name, "g", node_name, "300m") for name, node_name in (("z", "node-b"), ("a", "node-a"))]
    state = world(pods, {"g": ALL}, "node-a", "node-b")
    view, handle = state.snapshot(NOW), Said()
    kubernetes = KUBERNETES_VERSIONS[37]
    for victims in itertools.permutations(pods):
        evictions = Evictions("DefaultPreemption", handle, kubernetes)  # type: ignore[arg-type]
        evictions.start_for_pod(pod("p"), Candidate("node-a", victims, 0), (), view)
        assert names(handle.evictions[-1].victims) == ["z", "a"]


@pytest.mark.parametrize(
    ("mode", "warned"),
    [
        (ALL, True),
        ({"all": {"later": 1}}, True),
        ({"all": None}, False),
        (SINGLE, False),
        ("PodGroup", False),
        (None, False),
    ],
)
def test_who_tears_a_group_apart_says_so(mode: Any, warned: bool, version: str) -> None:
    """CapacityScheduling judges each pod by its namespace's quota."""
    pods = [member("a", "g", "node-a", "300m"), member("b", "g", "node-b", "300m")]
    state = world(pods, {"g": mode}, "node-a", "node-b")
    handle = Said()
    profile = profile_on(state, version, only("CapacityScheduling", kubernetes=version, handle=handle))
    outcome = preempt(state, pod("p", container("300m"), priority=HIGH), profile)
    assert len(outcome.victims) == 1
    assert [(name, reason) for name, reason, _ in handle.events] == [
        (outcome.victims[0].name, "DisruptionModeIgnored")
    ] * warned
    note = "spec.disruptionMode all of PodGroup g is not followed, as CapacityScheduling judges each pod by itself"
    assert all(text == note for *_, text in handle.events)


# Extenders ------------------------------------------------------------------------------------------------------------


def left_by(state: ClusterState, named: Iterable[str], version: str) -> Candidate:
    """What an extender leaves of the candidate node-a that names these victims."""
    view, rules = state.snapshot(NOW), rules_on(state, version)
    offered = {"node-a": Candidate("node-a", tuple(state.pods_on("node-a")) + tuple(state.pods_on("node-b")), 0)}
    answer = PreemptAnswer({"node-a": (tuple(f"uid-{name}" for name in named), 0)})
    incoming = pod("p", container("300m"), priority=HIGH)
    extender = Extender("http://fake", preempt_verb="preempt")
    return candidates_left(extender, CycleState(), incoming, view, offered, answer, rules)["node-a"]


@pytest.mark.parametrize("named", [("a",), ("a", "b"), ("b",)])
def test_an_extender_names_a_group_by_any_of_its_pods(named: tuple[str, ...], version: str) -> None:
    pods = [member("a", "g", "node-a"), member("b", "g", "node-b")]
    assert set(names(left_by(world(pods, {"g": ALL}, "node-a", "node-b"), named, version).victims)) == {"a", "b"}


def test_an_extender_cannot_name_other_pods_of_other_nodes(version: str) -> None:
    pods = [member("a", "g", "node-a"), alone("b", "node-b")]
    with pytest.raises(ExtenderError, match="the pod is not found on that node"):
        left_by(world(pods, {"g": ALL}, "node-a", "node-b"), ["b"], version)
