"""Who has to go, on which node, and what the pod is told. Named cases follow kube-scheduler's own tables
(plugins/defaultpreemption, framework/preemption); properties are checked on random clusters."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import PostFilterOutcome, decide
from scheduler.framework import Code, CycleState, PodInfo, ProfileRunner, conclude
from scheduler.kube.model import PodDisruptionBudget
from scheduler.preemption.trials import dry_run
from scheduler.preemption.victims import Candidate, VictimRules, choose
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.plugins.quotas import names, preempt

HIGH, MID, LOW = 100, 50, 10


@pytest.fixture(scope="module")
def profile() -> ProfileRunner:
    return runner()


def start_time(seconds_ago: float) -> dict[str, Any]:
    """A pod's status that says when it started."""
    moment = int(NOW - seconds_ago)
    clock = f"{moment // 3600 % 24:02}:{moment // 60 % 60:02}:{moment % 60:02}"
    return {"phase": "Running", "startTime": f"2023-11-14T{clock}Z"}


def running(name: str, cpu: str, priority: int, *, age: float = 3600, **fields: Any) -> PodInfo:
    return pod(name, container(cpu), priority=priority, status=start_time(age), **fields)


def budget(name: str, allowed: int, labels: Mapping[str, str], **fields: Any) -> PodDisruptionBudget:
    disrupted = dict.fromkeys(fields.pop("disrupted", ()), "2023-11-14T00:00:00Z")
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": fields.pop("namespace", "default")},
            "spec": {"selector": fields.pop("selector", {"matchLabels": dict(labels)})},
            "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted},
        },
        PodDisruptionBudget,
    )


def with_budgets(state: ClusterState, *budgets: PodDisruptionBudget) -> ClusterState:
    for budget in budgets:
        state.objects.upsert("PodDisruptionBudget", budget)
    return state


NESTED = "no new claims to deallocate, preemption: "


# Who may preempt ----------------------------------------------------------------------------------------------------


def test_a_pod_with_policy_never_preempts_nobody(profile: ProfileRunner) -> None:
    state = cluster(node("n1"), pods={"n1": [running("low", "3", LOW)]})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH, preemptionPolicy="Never"), profile)
    assert outcome.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {NESTED}not eligible due to preemptionPolicy=Never."
    )
    assert outcome.nominated_node is None


def on_its_way_out(reason: str = "PreemptionByScheduler", status: str = "True") -> PodInfo:
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    return pod(
        "going",
        container("3"),
        priority=LOW,
        metadata={"deletionTimestamp": "2023-11-14T22:00:00Z"},
        status={**start_time(60), "conditions": [condition]},
    )


def nominated(node_name: str, cpu: str = "2") -> PodInfo:
    return pod("p", container(cpu), priority=HIGH, status={"nominatedNodeName": node_name})


def test_a_pod_waits_for_the_pods_it_preempted_before(profile: ProfileRunner) -> None:
    state = cluster(node("n1"), node("n2"), pods={"n1": [on_its_way_out()], "n2": [running("low", "3", LOW)]})
    outcome = preempt(state, nominated("n1"), profile)
    assert outcome.message.endswith(f"{NESTED}not eligible due to a terminating pod on the nominated node.")
    assert outcome.nominated_node is None
    assert not outcome.victims


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(on_its_way_out("EvictionByEvictionAPI"), id="going for another reason"),
        pytest.param(on_its_way_out(status="False"), id="condition not true"),
        pytest.param(running("low", "3", LOW), id="not going"),
    ],
)
def test_other_pods_on_the_nominated_node_do_not_hold_it_back(profile: ProfileRunner, victim: PodInfo) -> None:
    state = cluster(node("n1"), node("n2"), pods={"n1": [victim], "n2": [running("mid", "3", MID)]})
    outcome = preempt(state, nominated("n1"), profile)
    assert (outcome.nominated_node, names(outcome.victims)) == ("n1", [victim.name])


def test_a_nominated_node_that_cannot_help_any_more_is_given_up(profile: ProfileRunner) -> None:
    state = cluster(
        node("n1", unschedulable=True),
        node("n2"),
        pods={"n1": [on_its_way_out()], "n2": [running("low", "3", LOW)]},
    )
    assert preempt(state, nominated("n1"), profile).nominated_node == "n2"


# Where it helps -----------------------------------------------------------------------------------------------------


def test_nodes_that_no_deletion_can_help_are_not_tried(profile: ProfileRunner) -> None:
    state = cluster(
        node("small", allocatable={"cpu": "1"}),
        node("tainted", taints=[("k", "v", "NoSchedule")]),
        pods={"small": [running("a", "1", LOW)], "tainted": [running("b", "3", LOW)]},
    )
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert outcome.message.endswith(f"{NESTED}0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
    assert outcome.nominated_node == ""


def test_pods_of_the_same_priority_stay(profile: ProfileRunner) -> None:
    state = cluster(node("n1"), pods={"n1": [running("same", "3", HIGH)]})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert outcome.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {NESTED}"
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_the_reason_left_after_all_victims_are_gone_is_in_the_message(profile: ProfileRunner) -> None:
    state = cluster(
        node("n1"),
        node("n2", unschedulable=True),
        pods={"n1": [running("low", "1", LOW), running("same", "3", HIGH)]},
    )
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert outcome.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        f"{NESTED}0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling."
    )


def test_a_message_of_success_has_no_part_of_preemption(profile: ProfileRunner) -> None:
    state = cluster(node("n1"), pods={"n1": [running("low", "3", LOW)]})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert outcome.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert (outcome.nominated_node, names(outcome.victims)) == ("n1", ["low"])


def test_without_dynamicresources_only_preemption_gives_a_reason() -> None:
    alone = runner({"postFilter": {"disabled": [{"name": "DynamicResources"}]}})
    state = cluster(node("n1"), pods={"n1": [running("same", "3", HIGH)]})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), alone)
    assert outcome.message.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes")


def test_without_postfilter_plugins_the_nomination_stays_as_it_is() -> None:
    none = runner({"postFilter": {"disabled": [{"name": "*"}]}})
    state = cluster(node("n1"), pods={"n1": [running("low", "3", LOW)]})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), none)
    assert outcome == PostFilterOutcome("0/1 nodes are available: 1 Insufficient cpu.")


# Victims on a node --------------------------------------------------------------------------------------------------


def test_as_many_as_possible_stay_the_important_ones_first(profile: ProfileRunner) -> None:
    pods = [running("a", "1", LOW), running("b", "1", MID), running("c", "1", LOW + 1), running("d", "1", LOW)]
    outcome = preempt(cluster(node("n1"), pods={"n1": pods}), pod("p", container("2"), priority=HIGH), profile)
    assert sorted(names(outcome.victims)) == ["a", "d"]


def test_of_equal_priority_the_older_stays(profile: ProfileRunner) -> None:
    pods = [running("young", "2", LOW, age=10), running("old", "2", LOW, age=1000)]
    outcome = preempt(cluster(node("n1"), pods={"n1": pods}), pod("p", container("2"), priority=HIGH), profile)
    assert names(outcome.victims) == ["young"]


def test_a_pod_that_has_not_started_counts_as_the_youngest(profile: ProfileRunner) -> None:
    pods = [pod("starting", container("2"), priority=LOW), running("young", "2", LOW, age=1)]
    outcome = preempt(cluster(node("n1"), pods={"n1": pods}), pod("p", container("2"), priority=HIGH), profile)
    assert names(outcome.victims) == ["starting"]


def test_victims_are_named_the_most_important_first(profile: ProfileRunner) -> None:
    pods = [running("a", "1", 1), running("b", "1", 3), running("c", "2", 2)]
    outcome = preempt(cluster(node("n1"), pods={"n1": pods}), pod("p", container("4"), priority=HIGH), profile)
    assert names(outcome.victims) == ["b", "c", "a"]


def test_an_anti_affinity_of_a_lower_pod_is_a_reason_to_evict_it(profile: ProfileRunner) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "p"}}, "topologyKey": "kubernetes.io/hostname"}
    refusing = running(
        "refusing",
        "100m",
        LOW,
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    state = cluster(node("n1"), pods={"n1": [refusing, running("other", "100m", LOW)]})
    outcome = preempt(state, pod("p", container("100m"), priority=HIGH, labels={"app": "p"}), profile)
    assert names(outcome.victims) == ["refusing"]


def test_spreading_counts_without_the_victims(profile: ProfileRunner) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "p"}},
    }
    same = {"labels": {"app": "p"}}
    state = cluster(
        node("n1"),
        node("full"),
        pods={
            "n1": [running("low-1", "1", LOW, **same), running("low-2", "1", MID, **same)],
            "full": [running("high", "4", HIGH)],
        },
    )
    incoming = pod("p", container("1"), priority=HIGH, topologySpreadConstraints=[constraint], **same)
    outcome = preempt(state, incoming, profile)
    assert (outcome.nominated_node, sorted(names(outcome.victims))) == ("n1", ["low-1", "low-2"])


def test_room_promised_to_others_is_not_taken(profile: ProfileRunner) -> None:
    """The node has room for one after its victim is gone, and that is nominated already."""
    state = cluster(node("n1"), pods={"n1": [running("low", "3", LOW)]})
    state.nominator.set(pod("first", container("3"), priority=HIGH), "n1")
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert outcome.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_room_promised_to_a_lower_pod_is_taken(profile: ProfileRunner) -> None:
    state = cluster(node("n1"), pods={"n1": [running("low", "3", LOW)]})
    state.nominator.set(pod("first", container("3"), priority=MID), "n1")
    assert preempt(state, pod("p", container("2"), priority=HIGH), profile).nominated_node == "n1"


# Budgets ------------------------------------------------------------------------------------------------------------


def two_with_a_budget(*budgets: PodDisruptionBudget, **fields: Any) -> ClusterState:
    """Both have the same priority; without a budget the younger one goes."""
    pods = [running("young", "2", LOW, age=10, labels={"app": "a"}, **fields), running("old", "2", LOW, age=1000)]
    return with_budgets(cluster(node("n1"), pods={"n1": pods}), *budgets)


@pytest.mark.parametrize(
    ("budgets", "victim"),
    [
        pytest.param([budget("b", 0, {"app": "a"})], "old", id="used up: its pod stays"),
        pytest.param([budget("b", 1, {"app": "a"})], "young", id="something left"),
        pytest.param([budget("b", 0, {"app": "x"})], "young", id="of other pods"),
        pytest.param([budget("b", 0, {"app": "a"}, namespace="else")], "young", id="of another namespace"),
        pytest.param([budget("b", 0, {}, selector={})], "young", id="empty selector covers nothing"),
        pytest.param([budget("b", 0, {}, selector=None)], "young", id="no selector covers nothing"),
        pytest.param(
            [budget("b", 0, {}, selector={"matchExpressions": [{"key": "app", "operator": "Near"}]})],
            "young",
            id="invalid selector covers nothing",
        ),
        pytest.param([budget("b", 0, {"app": "a"}, disrupted=["young"])], "young", id="disrupted already"),
        pytest.param([budget("b", 1, {"app": "a"}), budget("c", 0, {"app": "a"})], "old", id="one of two used up"),
    ],
)
def test_budgets_decide_who_stays(profile: ProfileRunner, budgets: list[PodDisruptionBudget], victim: str) -> None:
    state = two_with_a_budget(*budgets)
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), profile)
    assert names(outcome.victims) == [victim]


def test_a_budget_that_must_be_broken_is_broken(profile: ProfileRunner) -> None:
    state = with_budgets(
        cluster(node("n1"), pods={"n1": [running("a", "3", LOW, labels={"app": "a"})]}), budget("b", 0, {"app": "a"})
    )
    assert names(preempt(state, pod("p", container("2"), priority=HIGH), profile).victims) == ["a"]


def test_a_node_without_violations_wins_over_less_important_victims(profile: ProfileRunner) -> None:
    state = cluster(
        node("n1"),
        node("n2"),
        pods={"n1": [running("a", "3", LOW, labels={"app": "a"})], "n2": [running("b", "3", MID)]},
    )
    with_budgets(state, budget("b", 0, {"app": "a"}))
    assert preempt(state, pod("p", container("2"), priority=HIGH), profile).nominated_node == "n2"


# Choice of the node -------------------------------------------------------------------------------------------------


def candidate(name: str, *victims: PodInfo, violations: int = 0) -> Candidate:
    return Candidate(name, tuple(sorted(victims, key=lambda victim: -victim.priority)), violations)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        pytest.param(
            [
                candidate("a", running("1", "1", LOW), violations=1),
                candidate("b", running("2", "1", MID), running("3", "1", MID)),
            ],
            "b",
            id="fewest violations",
        ),
        pytest.param(
            [candidate("a", running("1", "1", MID)), candidate("b", *[running(f"{i}", "1", LOW) for i in range(5)])],
            "b",
            id="lowest highest priority",
        ),
        pytest.param(
            [
                candidate("a", running("1", "1", MID), running("2", "1", LOW)),
                candidate("b", running("3", "1", MID), running("4", "1", LOW - 1)),
            ],
            "b",
            id="smallest sum of priorities",
        ),
        pytest.param(
            [
                candidate("a", running("1", "1", -10), running("2", "1", -10), running("3", "1", -10)),
                candidate("b", running("4", "1", -10), running("5", "1", -10)),
            ],
            "b",
            id="negative priorities do not make more victims better",
        ),
        pytest.param(
            [
                candidate("a", running("1", "1", MID, age=100), running("2", "1", LOW, age=1)),
                candidate("b", running("3", "1", MID, age=50), running("4", "1", LOW, age=1000)),
            ],
            "b",
            id="latest start of the most important",
        ),
        pytest.param(
            [
                candidate("a", running("1", "1", MID, age=100), running("2", "1", MID, age=1)),
                candidate("b", running("3", "1", MID, age=50), running("4", "1", MID, age=60)),
            ],
            "b",
            id="earliest among the most important counts",
        ),
    ],
)
def test_the_node_where_it_hurts_least(candidates: list[Candidate], expected: str) -> None:
    for order in (candidates, candidates[::-1]):
        assert choose(order, NOW, random.Random(3)).node == expected


def test_equal_nodes_are_drawn_from() -> None:
    victims = [running(f"v{number}", "1", LOW, age=100) for number in range(3)]
    equal = [candidate(victim.name, victim) for victim in victims]
    drawn = {choose(equal, NOW, random.Random(seed)).node for seed in range(30)}
    assert drawn == {"v0", "v1", "v2"}
    assert len({choose(equal, NOW, random.Random(5)).node for _ in range(5)}) == 1


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 0}, 16, id="upstream's 16"),
        pytest.param({"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 10}, 30, id="share"),
        pytest.param({"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 45}, 45, id="absolute"),
        pytest.param({}, 60, id="default: at least 100"),
    ],
)
def test_the_search_ends_with_enough_candidates(args: dict[str, int], expected: int) -> None:
    profile = runner(args={"DefaultPreemption": args})
    plugin = profile.plugins["DefaultPreemption"]
    state = cluster(
        *(node(f"n{number}") for number in range(60)),
        pods={f"n{number}": [running(f"v{number}", "3", LOW)] for number in range(60)},
    )
    snapshot = state.snapshot(NOW)
    incoming = pod("p", container("2"), priority=HIGH)
    placement = conclude(decide(snapshot, incoming, profile, random.Random(1)))
    wanted = plugin._candidates_wanted(60)  # type: ignore[attr-defined]
    result = dry_run(placement.state, incoming, snapshot, profile, snapshot.rows, wanted, VictimRules())
    assert len(result.candidates) == expected


# Properties ---------------------------------------------------------------------------------------------------------


class OneByOne:
    """The filters of a profile, of which it is said that they look beyond the node."""

    def __init__(self, runner: ProfileRunner) -> None:
        self._runner = runner

    def looks_beyond_node(self, state: CycleState) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[ClusterState, PodInfo]:
    number = draw(st.integers(1, 5))
    sizes = [str(draw(st.integers(2, 6))) for _ in range(number)]
    nodes = [node(f"n{index}", allocatable={"cpu": size, "pods": "6"}) for index, size in enumerate(sizes)]
    pods: dict[str, list[PodInfo]] = {info.name: [] for info in nodes}
    for index in range(draw(st.integers(0, 4 * number))):
        name = f"n{draw(st.integers(0, number - 1))}"
        cpu = f"{draw(st.integers(1, 30))}00m"
        labels = {"app": draw(st.sampled_from("abc"))} if draw(st.booleans()) else {}
        age = draw(st.integers(1, 5)) * 100
        pods[name].append(running(f"p{index}", cpu, draw(st.integers(0, 4)) * 10, age=age, labels=labels))
    state = cluster(*nodes, pods=pods)
    for label in "abc":
        if draw(st.booleans()):
            with_budgets(state, budget(label, draw(st.integers(0, 2)), {"app": label}))
    if draw(st.booleans()):
        promised = pod("promised", container(f"{draw(st.integers(1, 3))}"), priority=draw(st.integers(0, 4)) * 10)
        state.nominator.set(promised, f"n{draw(st.integers(0, number - 1))}")
    incoming = pod("incoming", container(f"{draw(st.integers(10, 60))}00m"), priority=draw(st.integers(0, 5)) * 10)
    return state, incoming


def fits(state: ClusterState, incoming: PodInfo, name: str, without: Iterable[PodInfo], profile: ProfileRunner) -> bool:
    """Whether the pod fits on one node when some pods are gone, asked on a cluster of its own."""
    gone = {info.uid for info in without}
    info = state.node(name)
    assert info is not None
    alone = cluster(info, pods={name: [kept for kept in state.pods_on(name) if kept.uid not in gone]})
    alone.nominator.by_node = {key: pods for key, pods in state.nominator.by_node.items() if key == name}
    return conclude(decide(alone.snapshot(NOW), incoming, profile, random.Random(0))).node == name


@settings(max_examples=tries(150), deadline=None)
@given(clusters())
def test_victims_are_necessary_and_enough(profile: ProfileRunner, example: tuple[ClusterState, PodInfo]) -> None:
    state, incoming = example
    snapshot = state.snapshot(NOW)
    placement = conclude(decide(snapshot, incoming, profile, random.Random(0)))
    if placement.node is not None:
        return
    rows = placement.node_codes(snapshot).rows(Code.UNSCHEDULABLE)
    result = dry_run(placement.state, incoming, snapshot, profile, rows, len(rows), VictimRules())
    for chosen in result.candidates:
        assert all(victim.priority < incoming.priority for victim in chosen.victims)
        assert fits(state, incoming, chosen.node, chosen.victims, profile)
        for victim in chosen.victims:
            others = [other for other in chosen.victims if other is not victim]
            assert not fits(state, incoming, chosen.node, others, profile), f"{victim.name} need not go"
    tried = {chosen.node for chosen in result.candidates}
    for row in rows.tolist():
        if (name := snapshot.name(row)) not in tried:
            lower = [placed for placed in state.pods_on(name) if placed.priority < incoming.priority]
            assert not lower or not fits(state, incoming, name, lower, profile), f"{name} would do"


@settings(max_examples=tries(150), deadline=None)
@given(clusters())
def test_trying_nodes_together_gives_what_trying_them_alone_gives(
    profile: ProfileRunner, example: tuple[ClusterState, PodInfo]
) -> None:
    state, incoming = example
    snapshot = state.snapshot(NOW)
    placement = conclude(decide(snapshot, incoming, profile, random.Random(0)))
    if placement.node is not None:
        return
    rows = placement.node_codes(snapshot).rows(Code.UNSCHEDULABLE)
    together = dry_run(placement.state, incoming, snapshot, profile, rows, len(rows), VictimRules())
    alone = dry_run(placement.state, incoming, snapshot, OneByOne(profile), rows, len(rows), VictimRules())
    assert together.candidates == alone.candidates
    assert together.message(len(snapshot.rows)) == alone.message(len(snapshot.rows))
    assert together.errors == alone.errors == []


# By version ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [{"app": "a"}, {}])
@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}])
def test_a_budget_for_all_pods_protects_them_from_1_38_on(selector: dict[str, Any], labels: dict[str, str]) -> None:
    covered = running("covered", "2", LOW, age=10, labels=labels)
    foreign = running("foreign", "2", LOW, age=1000, namespace="else")
    state = with_budgets(cluster(node("n1"), pods={"n1": [covered, foreign]}), budget("b", 0, {}, selector=selector))
    victims = {
        version: names(preempt(state, pod("p", container("2"), priority=HIGH), runner(kubernetes=version)).victims)
        for version in ("1.37", "1.38")
    }
    before = ["covered"] if not selector or not labels else ["foreign"]
    assert victims == {"1.37": before, "1.38": ["foreign"]}


def test_of_victims_alike_the_smaller_uid_stays_from_1_38_on() -> None:
    pods = [running("b", "2", LOW, uid="2"), running("a", "2", LOW, uid="1")]
    for ordered in (pods, pods[::-1]):
        state = cluster(node("n1"), pods={"n1": ordered})
        outcome = preempt(state, pod("p", container("2"), priority=HIGH), runner(kubernetes="1.38"))
        assert names(outcome.victims) == ["b"]


@pytest.mark.parametrize(("version", "victim"), [("1.37", "ahead"), ("1.38", "unstarted")])
def test_a_pod_that_has_not_started_is_younger_than_any_other_from_1_38_on(version: str, victim: str) -> None:
    # The clock of the node may be ahead of ours.
    pods = [running("ahead", "2", LOW, age=-60), pod("unstarted", container("2"), priority=LOW)]
    state = cluster(node("n1"), pods={"n1": pods})
    outcome = preempt(state, pod("p", container("2"), priority=HIGH), runner(kubernetes=version))
    assert names(outcome.victims) == [victim]
