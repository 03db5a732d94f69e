"""Making room for a gang: who goes, and what is said where that does not help (podgrouppreemption.go of kube-scheduler
1.37). A random test holds it to upstream's own loop."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.core import GangPostFilterOutcome, decide, decide_gang, run_gang_post_filters
from scheduler.framework import (
    GANG_UNITS,
    SCHEDULING_GROUP,
    Extender,
    Gang,
    GangTopology,
    MemberTries,
    PodInfo,
    Preemptor,
    ProfileRunner,
    Work,
    conclude,
)
from scheduler.preemption.groups import UnitsInView
from scheduler.preemption.trials import PDB, Budgets
from scheduler.state import ClusterState, Snapshot
from tests.unit.scheduler.core.builders import NOW, container, pod
from tests.unit.scheduler.preemption.test_group_victims import (
    ALL,
    HIGH,
    LOW,
    MID,
    SINGLE,
    TOP,
    alone,
    drawn_members,
    member,
    profile_on,
    rules_on,
    world,
)
from tests.unit.scheduler.preemption.test_preemption import budget, with_budgets

VERSION = "1.37"


def apart(key: str, **labels: str) -> dict[str, Any]:
    """Keep away from pods with these labels."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(key: str, **labels: str) -> dict[str, Any]:
    """Stay near pods with these labels."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(key: str, **labels: str) -> list[dict[str, Any]]:
    selector = {"labelSelector": {"matchLabels": labels}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selector}]


def incoming(number: int, cpu: str = "300m", **spec: Any) -> list[PodInfo]:
    """The members of group `g`."""
    more = {"priority": HIGH, "labels": {"app": "g"}, "schedulingGroup": {"podGroupName": "g"}, **spec}
    return [pod(f"g-{index}", container(cpu), **more) for index in range(number)]


def gang(pods: Sequence[PodInfo], minimum: int | None = None, **fields: Any) -> Gang:
    identity = ("scheduling.k8s.io/v1beta1", "PodGroup", "default", "g", "uid-g", "1")
    rest = ("test", fields.pop("priority", HIGH), fields.pop("may_preempt", True), tuple(pods), SCHEDULING_GROUP)
    compares = fields.pop("compares_victims", False)
    tries = fields.pop("tries", MemberTries.WHILE_POSSIBLE)
    needed = len(pods) if minimum is None else minimum
    preemptor = Preemptor("podgroup", *identity, *rest, compares_victims=compares)
    return Gang("pod group default/g", tuple(pods), needed, 0, 300.0, tries, preemptor=preemptor, **fields)


def preempt(
    state: ClusterState, pods: Sequence[PodInfo], minimum: int | None = None, *, work: Work | None = None, **fields: Any
) -> GangPostFilterOutcome:
    """Look for room for a group."""
    extenders = fields.pop("extenders", ())
    together = gang(pods, minimum, **fields)
    runner = profile_on(state, VERSION)
    chance = random.Random(0)
    work = work or Work(GANG_UNITS)
    return run_gang_post_filters(state.snapshot(NOW), together, pods, runner, chance, work, extenders)


def gone(outcome: GangPostFilterOutcome) -> set[str]:
    assert outcome.result is not None, outcome.message
    return {victim.name for victim in outcome.result.victims}


def nodes(outcome: GangPostFilterOutcome) -> dict[str, str]:
    assert outcome.result is not None, outcome.message
    return dict(outcome.result.nominated)


def test_each_member_takes_the_place_of_a_pod() -> None:
    state = world([alone("a", "n1", "400m"), alone("b", "n2", "400m")], {}, "n1", "n2")
    outcome = preempt(state, incoming(2))
    assert gone(outcome) == {"a", "b"}
    assert set(nodes(outcome).values()) == {"n1", "n2"}
    assert outcome.message == "pod group preemption: found a placement for podgroup, preempting 2 victims"


def test_pods_on_nodes_that_no_member_was_given_stay() -> None:
    state = world([alone("a", "n1", "400m"), alone("b", "n2", "500m")], {}, "n1", "n2")
    assert gone(preempt(state, incoming(1, nodeSelector={"kubernetes.io/hostname": "n2"}))) == {"b"}


def test_members_may_share_a_node_with_who_stays() -> None:
    pods = [alone(f"p{number}", "n1", "900m", age=100 + number) for number in range(4)]
    state = world(pods, {}, "n1", cpu="4")
    assert gone(preempt(state, incoming(2, "1100m"))) == {"p0", "p1"}


def test_the_most_important_stays() -> None:
    pods = [alone("low", "n1", "200m"), alone("mid", "n1", "200m", MID)]
    assert gone(preempt(world(pods, {}, "n1"), incoming(1))) == {"low"}


def test_a_budget_is_kept_where_it_can_be() -> None:
    pods = [alone("low", "n1", "200m", labels={"app": "a"}), alone("mid", "n1", "200m", MID)]
    state = world(pods, {}, "n1")
    with_budgets(state, budget("a", 0, {"app": "a"}))
    assert gone(preempt(state, incoming(1))) == {"mid"}


def test_a_group_that_goes_as_a_whole_goes_on_all_nodes() -> None:
    pods = [member("a", "h", "n1", "400m"), member("b", "h", "n2", "400m"), alone("c", "n3", "500m", MID)]
    state = world(pods, {"h": ALL}, "n1", "n2", "n3")
    assert gone(preempt(state, incoming(1, nodeSelector={"kubernetes.io/hostname": "n1"}))) == {"a", "b"}


def test_two_nodes_with_pods_of_one_group_are_tried_together() -> None:
    """Both nodes have room for one of the group's pods; on the second there is none for the other one."""
    pods = [member("a", "h", "n1", "100m"), member("b", "h", "n2", "300m"), alone("c", "n1", "100m")]
    state = world(pods, {"h": ALL}, "n1", "n2")
    assert gone(preempt(state, incoming(2))) == {"a", "b"}


def test_members_that_keep_away_from_a_pod_elsewhere_have_it_evicted() -> None:
    noisy = alone("noisy", "n2", "100m", labels={"app": "noisy"})
    state = world([noisy, alone("quiet", "n2", "100m")], {}, "n1/z", "n2/z")
    pods = incoming(1, affinity=apart("zone", app="noisy"), nodeSelector={"kubernetes.io/hostname": "n1"})
    assert gone(preempt(state, pods)) == {"noisy"}


def test_a_pod_that_keeps_away_from_members_is_evicted() -> None:
    """kube-scheduler 1.37 leaves it, and the group waits for ever."""
    shy = alone("shy", "n2", "100m", affinity=apart("zone", app="g"))
    state = world([shy, alone("bold", "n2", "100m")], {}, "n1/z", "n2/z")
    assert gone(preempt(state, incoming(1, nodeSelector={"kubernetes.io/hostname": "n1"}))) == {"shy"}


def test_members_that_want_to_be_together_spare_whom_they_can() -> None:
    pods = [alone(f"p{number}", f"n{number % 2}", "200m", age=number) for number in range(4)]
    state = world(pods, {}, "n0/z", "n1/z")
    assert len(gone(preempt(state, incoming(2, affinity=near("zone", app="g"))))) == 2


def test_nobody_goes_for_a_group_that_would_not_fit_all_the_same() -> None:
    state = world([alone("a", "n1", "400m")], {}, "n1")
    outcome = preempt(state, incoming(2), held_back=lambda fit, failed, untried, domains: f"{fit} fit, {untried} left")
    assert outcome == GangPostFilterOutcome("pod group preemption: 1 fit, 0 left")


@pytest.mark.parametrize(
    ("fields", "pods", "reason"),
    [
        ({}, [alone("a", "n1", "400m", HIGH)], "No preemption victims found for incoming preemptor"),
        ({"may_preempt": False}, [alone("a", "n1", "400m")], "not eligible due to preemptionPolicy=Never."),
    ],
)
def test_who_may_not_preempt_is_told_why(fields: Mapping[str, Any], pods: list[PodInfo], reason: str) -> None:
    outcome = preempt(world(pods, {}, "n1"), incoming(1), **fields)
    assert (outcome.result, outcome.message) == (None, f"pod group preemption: {reason}")


def test_a_member_whose_policy_is_never_keeps_all_from_preempting() -> None:
    pods = [*incoming(1), pod("never", container("300m"), priority=HIGH, preemptionPolicy="Never")]
    outcome = preempt(world([alone("a", "n1", "400m")], {}, "n1", "n2"), pods)
    assert outcome.message == "pod group preemption: not eligible due to preemptionPolicy=Never."


def test_members_that_run_already_are_no_victims() -> None:
    """Even where one has a lower priority than the others."""
    state = world([member("mate", "g", "n1", "400m")], {"g": SINGLE}, "n1")
    assert preempt(state, incoming(1)).result is None


def test_an_extender_with_a_say_keeps_the_group_from_preempting() -> None:
    state = world([alone("a", "n1", "400m")], {}, "n1")
    outcome = preempt(state, incoming(1), extenders=[Extender("http://example.com", filter_verb="filter")])
    assert outcome.result is None
    assert "extender" in outcome.message


def test_what_would_be_too_much_work_is_given_up() -> None:
    pods = [alone(f"p{number}", "n1", "1m") for number in range(100)]
    outcome = preempt(world(pods, {}, "n1"), incoming(1, "500m"), work=Work(100))
    assert outcome.over_budget
    assert outcome.result is None


# Of several ways the one that hurts least -----------------------------------------------------------------------------


def compare(state: ClusterState, pods: Sequence[PodInfo], *levels: str, **fields: Any) -> GangPostFilterOutcome:
    """Look for room for a group whose victims are compared, in one domain of a label."""
    topology = GangTopology(levels) if levels else None
    tries = MemberTries.UNTIL_ENOUGH
    minimum = fields.pop("minimum", None)
    return preempt(state, pods, minimum, tries=tries, compares_victims=True, topology=topology, **fields)


def racks(victims: Mapping[str, tuple[str, int]], *names: str) -> ClusterState:
    """Nodes `rack-number`, whose zone is their rack, and on each of some a pod of so much CPU and a priority."""
    pods = [alone(f"on-{name}", name, cpu, priority) for name, (cpu, priority) in victims.items()]
    return world(pods, {}, *[f"{name}/{name.partition('-')[0]}" for name in names])


def test_the_domain_with_the_fewest_victims_is_taken() -> None:
    full = ("400m", LOW)
    victims = {"a-0": full, "a-1": full, "b-0": full}
    outcome = compare(racks(victims, "a-0", "a-1", "b-0", "b-1"), incoming(2), "zone")
    assert gone(outcome) == {"on-b-0"}
    assert set(nodes(outcome).values()) == {"b-0", "b-1"}


def test_a_lower_victim_is_less_than_fewer_ones() -> None:
    victims = {"a-0": ("400m", LOW), "a-1": ("400m", LOW), "b-0": ("400m", MID)}
    assert gone(compare(racks(victims, "a-0", "a-1", "b-0", "b-1"), incoming(2), "zone")) == {"on-a-0", "on-a-1"}


def test_a_budget_decides_between_domains_first() -> None:
    victims = {"a-0": ("400m", LOW), "b-0": ("400m", MID)}
    state = racks(victims, "a-0", "b-0")
    state.upsert_pod(alone("on-a-0", "a-0", "400m", LOW, labels={"app": "a"}), NOW)
    with_budgets(state, budget("a", 0, {"app": "a"}))
    assert gone(compare(state, incoming(1), "zone")) == {"on-b-0"}


def test_of_domains_that_hurt_alike_the_one_with_the_least_room_to_spare_is_taken() -> None:
    victims = dict.fromkeys(("a-0", "a-1", "a-2", "b-0", "b-1"), ("400m", LOW))
    outcome = compare(racks(victims, *victims), incoming(2), "zone")
    assert set(nodes(outcome).values()) == {"b-0", "b-1"}


def test_the_narrowest_level_with_a_domain_is_taken() -> None:
    victims = dict.fromkeys(("a-0", "a-1", "b-0", "b-1"), ("400m", LOW))
    state = racks(victims, *victims)
    outcome = compare(state, incoming(1), "kubernetes.io/hostname", "zone")
    assert len(gone(outcome)) == 1
    assert len(gone(compare(state, incoming(2), "kubernetes.io/hostname", "zone"))) == 2


def test_nobody_of_higher_priority_goes_where_the_lowest_are_enough() -> None:
    """By their scores members would go to the emptier node, where a more important pod runs."""
    state = world(
        [alone("low", "n1", "300m"), alone("filler", "n1", "100m", TOP), alone("mid", "n2", "300m", MID)],
        {},
        "n1",
        "n2",
    )
    assert gone(compare(state, incoming(1))) == {"low"}


def test_more_important_ones_go_where_they_have_to() -> None:
    state = world([alone("low", "n1", "300m"), alone("mid", "n2", "300m", MID)], {}, "n1", "n2")
    assert gone(compare(state, incoming(2))) == {"low", "mid"}


def test_no_more_members_are_placed_than_are_needed() -> None:
    state = world([alone(f"p{number}", f"n{number}", "400m") for number in range(3)], {}, "n0", "n1", "n2")
    assert len(gone(compare(state, incoming(3), minimum=2))) == 2


def test_nominated_members_do_not_count_for_each_other() -> None:
    """Their victims are gone, and the room that they made is enough for both."""
    state = world([alone("stays", "n1", "100m")], {}, "n1")
    pods = [
        msgspec.structs.replace(each, nominated_node="n1", priority=HIGH) for each in incoming(2, "200m", nodeName="")
    ]
    for each in pods:
        state.nominator.set(each, "n1")
    profile = profile_on(state, VERSION)
    asking = decide_gang(state.snapshot(NOW), gang(pods), pods, lambda _: profile, random.Random(0), 2)
    assert [placement.node for placement in conclude(asking).placed] == ["n1", "n1"]


def upstream_victims(state: ClusterState, pods: Sequence[PodInfo], nominated: Mapping[str, str]) -> set[str]:
    """Follow selectVictimsOnDomain literally for members on their nodes: one unit after the other, all members asked
    each time."""
    view, profile, rules = state.snapshot(NOW), profile_on(state, VERSION), rules_on(state, VERSION)
    lower = [(row, each) for row in view.rows.tolist() for each in view.pods_on(row) if each.priority < HIGH]
    in_view = UnitsInView(rules.groups, view)
    units = list({unit.uids: unit for unit in [in_view.unit_of(row, each) for row, each in lower]}.values())
    kept = view.overlay()
    for row, each in lower:
        kept.remove_pod(each, row)
    budgets = Budgets(view.objects.every(PDB), rules.kubernetes)
    important = rules.units_by_importance(units, NOW)
    order = sorted(zip(important, budgets.count(important), strict=True), key=lambda each: not each[1])
    placed = [(each, nominated[each.uid]) for each in pods if each.uid in nominated]
    victims = set()
    for unit, _ in order:
        for row, each in unit.members:
            kept.add_pod(each, row)
        if not all_fit(kept, placed, profile):
            victims |= {each.name for _, each in unit.members}
            for row, each in unit.members:
                kept.remove_pod(each, row)
    return victims


def all_fit(view: Snapshot, placed: Sequence[tuple[PodInfo, str]], profile: ProfileRunner) -> bool:
    beside = view.overlay()
    for each, name in placed:
        row = beside.row(name)
        beside.narrow(np.array([row], dtype=np.intp))
        if conclude(decide(beside, each, profile, random.Random(0), from_scratch=True)).node is None:
            return False
        beside.add_pod(each, row)
    return True


def random_spec(chance: random.Random) -> dict[str, Any]:
    """What makes members look beyond their nodes, or nothing."""
    return chance.choice(
        [
            {},
            {},
            {"affinity": apart("kubernetes.io/hostname", app="g")},
            {"affinity": apart("zone", app="b")},
            {"affinity": near("zone", app="g")},
        ]
    )


def test_random_groups_evict_as_if_one_pod_after_the_other_were_tried() -> None:
    compared = looked_further = 0
    for seed in range(80):
        chance = random.Random(seed)
        groups = {name: chance.choice([ALL, ALL, SINGLE, None]) for name in "hi"}
        names = [f"n{number}/z{number % 2}" for number in range(chance.randint(1, 5))]
        running = drawn_members(chance, groups, [name.partition("/")[0] for name in names], 12)
        state = world(running, groups, *names)
        with_budgets(state, *(budget(app, chance.randint(0, 3), {"app": app}) for app in "ab"))
        spec = random_spec(chance)
        pods = incoming(chance.randint(1, 4), f"{chance.randint(1, 5)}00m", **spec)
        minimum = chance.randint(1, len(pods))
        outcome = preempt(state, pods, minimum)
        if outcome.result is not None:
            expected = upstream_victims(state, pods, outcome.result.nominated)
            assert gone(outcome) == expected, f"seed {seed}"
            compared += bool(expected)
            looked_further += bool(expected and spec)
    assert compared > 25
    assert looked_further > 8
