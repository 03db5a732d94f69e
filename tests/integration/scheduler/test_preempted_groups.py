"""PodGroups of scheduling.k8s.io as victims of one pod: the real kube-scheduler of 1.37 and of 1.38, and ours, on an
API server of 1.37. Each scenario is played by one, then by the other; both must evict the same pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.scheduler.podgroups import GATES, OURS, REAL, SERVED, Stage, both_running

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def two_nodes_of_all(stage: Stage) -> None:
    """A member on each of two nodes; either would do."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "all")
    stage.run("a", "n1", "g", age=200)
    stage.run("b", "n2", "g")


def evicts_all_members(stage: Stage) -> None:
    """The group goes as a whole though one of its pods is in the way."""
    two_nodes_of_all(stage)
    stage.come(nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def evicts_one_member(stage: Stage) -> None:
    """Mode `single`: only the pod in the way goes."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "single")
    stage.run("a", "n1", "g")
    stage.run("b", "n2", "g")
    stage.come(nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def evicts_one_member_by_default(stage: Stage) -> None:
    """Without a mode: only the pod in the way goes."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "")
    stage.run("a", "n1", "g")
    stage.run("b", "n2", "g")
    stage.come(nodeSelector={"kubernetes.io/hostname": "n2"})
    stage.wait_preempted()


def prefers_one_pod(stage: Stage) -> None:
    """A pod of its own is less than a group, though it started before."""
    two_nodes_of_all(stage)
    stage.add_nodes("n3")
    stage.run("alone", "n3", age=900)
    stage.come()
    stage.wait_preempted()


def prefers_the_smaller_group(stage: Stage) -> None:
    """Of two groups on unlike nodes the one with fewer pods goes."""
    two_nodes_of_all(stage)
    stage.add_nodes("n3", "n4", "n5")
    stage.group("h", "all")
    for node in ("n3", "n4", "n5"):
        stage.run(f"h-{node}", node, "h", age=1)
    stage.come(nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()
    stage.come("second")
    stage.wait_preempted("second")


def keeps_the_group(stage: Stage) -> None:
    """On one node a group is given another chance before a pod of its own, which started before."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "all")
    stage.run("a", "n1", "g", cpu="900m", age=10)
    stage.run("b", "n2", "g", cpu="900m", age=10)
    stage.run("alone", "n1", cpu="900m", age=900)
    stage.come(cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def keeps_the_larger_group(stage: Stage) -> None:
    """On one node the group with more pods is given another chance first, though it started later."""
    stage.add_nodes("n1", "n2", "n3")
    stage.group("g", "all")
    stage.group("h", "all")
    stage.run("g1", "n1", "g", cpu="900m", age=10)
    stage.run("g2", "n2", "g", cpu="900m", age=10)
    stage.run("h1", "n1", "h", cpu="900m", age=900)
    stage.come(cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def keeps_the_older_group(stage: Stage) -> None:
    """Of groups of one size that one goes whose oldest pod, on another node, is younger."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "all")
    stage.group("h", "all")
    stage.run("g1", "n1", "g", cpu="900m", age=500)
    stage.run("g2", "n2", "g", cpu="900m", age=400)
    stage.run("h1", "n1", "h", cpu="900m", age=10)
    stage.run("h2", "n2", "h", cpu="900m", age=900)
    stage.come(cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def weighs_a_single_member(stage: Stage) -> None:
    """1.37: a member of a group of mode `single` counts for more than an older pod of its own. 1.38: for less."""
    stage.add_nodes("n1")
    stage.group("g", "single")
    stage.run("a", "n1", "g", cpu="900m", age=10)
    stage.run("alone", "n1", cpu="900m", age=900)
    stage.come(cpu="900m")
    stage.wait_preempted()


def keeps_a_budget(stage: Stage) -> None:
    """The pod of its own has a budget, so the group goes."""
    keeps_the_group_without_preemptor(stage)
    stage.protect("alone", 0)
    stage.come(cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def keeps_a_budget_elsewhere(stage: Stage) -> None:
    """A budget for the member on the other node is kept, and the pod of its own goes."""
    keeps_the_group_without_preemptor(stage)
    stage.protect("member", 0)
    stage.come(cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def breaks_a_budget(stage: Stage) -> None:
    """There is no other way than to break the budget of a group."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "all")
    stage.run("a", "n1", "g", labels={"app": "member"})
    stage.run("b", "n2", "g", labels={"app": "member"})
    stage.protect("member", 1)
    stage.come(nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def counts_broken_budgets(stage: Stage) -> None:
    """Two groups with budgets: of the one two pods break it, of the other, which is larger, one."""
    stage.add_nodes("n1", "n2", "n3", "n4", "n5")
    stage.group("g", "all")
    stage.group("h", "all")
    for node in ("n1", "n2"):
        stage.run(f"g-{node}", node, "g", labels={"app": "g"})
    for node in ("n3", "n4", "n5"):
        stage.run(f"h-{node}", node, "h", labels={"app": "h"})
    stage.protect("g", 0)
    stage.protect("h", 2)
    stage.come()
    stage.wait_preempted()


def keeps_the_group_without_preemptor(stage: Stage) -> None:
    stage.add_nodes("n1", "n2")
    stage.group("g", "all")
    stage.run("a", "n1", "g", cpu="900m")
    stage.run("b", "n2", "g", cpu="900m", labels={"app": "member"})
    stage.run("alone", "n1", cpu="900m", age=900, labels={"app": "alone"})


def needs_the_member_elsewhere_gone(stage: Stage) -> None:
    """The preemptor keeps away from the group's pods in the whole zone, so both have to go: together they can."""
    stage.add_nodes("n1", "n2", zone="z")
    stage.add_nodes("n3", cpu="1", zone="z")
    stage.group("g", "all")
    stage.run("a", "n1", "g", labels={"app": "g"})
    stage.run("b", "n2", "g", labels={"app": "g"})
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "g"}}}
    stage.come(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    stage.wait_preempted()


def cannot_remove_the_member_elsewhere(stage: Stage) -> None:
    """The same in mode `single`: no node's pods are enough."""
    stage.add_nodes("n1", "n2", zone="z")
    stage.group("g", "single")
    stage.run("a", "n1", "g", labels={"app": "g"})
    stage.run("b", "n2", "g", labels={"app": "g"})
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "g"}}}
    stage.come(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    stage.wait_refused()


def spreads_over_what_is_left(stage: Stage) -> None:
    """The preemptor's spread counts the group's pods in two zones: the group leaves both at once."""
    stage.add_nodes("n1", zone="y")
    stage.add_nodes("n2", zone="z")
    stage.group("g", "all")
    stage.run("a1", "n1", "g", cpu="900m", labels={"app": "s"})
    stage.run("a2", "n1", "g", cpu="900m", labels={"app": "s"})
    stage.run("b", "n2", "g", cpu="900m", labels={"app": "s"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    stage.come(cpu="1500m", topologySpreadConstraints=[constraint], nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_preempted()


def spares_equals(stage: Stage) -> None:
    """A group of the preemptor's own priority stays, all of it."""
    stage.add_nodes("n1", "n2")
    stage.group("g", "all", "high")
    stage.run("a", "n1", "g", priority="high")
    stage.run("b", "n2", "g", priority="high")
    stage.come()
    stage.wait_refused()


def takes_lower_groups_first(stage: Stage) -> None:
    """Of groups of unlike priority the lower one goes, though it is larger."""
    stage.add_nodes("n1", "n2", "n3")
    stage.group("g", "all", "low")
    stage.group("h", "all", "mid")
    stage.run("a", "n1", "g")
    stage.run("b", "n2", "g")
    stage.run("c", "n3", "h", priority="mid")
    stage.come()
    stage.wait_preempted()


SCENARIOS: tuple[Callable[[Stage], None], ...] = (
    evicts_all_members,
    evicts_one_member,
    evicts_one_member_by_default,
    prefers_one_pod,
    prefers_the_smaller_group,
    keeps_the_group,
    keeps_the_larger_group,
    keeps_the_older_group,
    weighs_a_single_member,
    keeps_a_budget,
    keeps_a_budget_elsewhere,
    breaks_a_budget,
    counts_broken_budgets,
    needs_the_member_elsewhere_gone,
    cannot_remove_the_member_elsewhere,
    spreads_over_what_is_left,
    spares_equals,
    takes_lower_groups_first,
)
TIES = (counts_broken_budgets, takes_lower_groups_first, needs_the_member_elsewhere_gone, prefers_the_smaller_group)
"""Scenarios in which either node of the victim will do: which one the preemptor gets is chance."""


@pytest.fixture(scope="module", params=["1.37", "1.38"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    minor: str = request.param
    with both_running(minor, GATES[SERVED], tmp_path_factory.mktemp("victims"), Stage) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_one_pod_preempts_groups_as_with_kube_scheduler(stage: Stage, scenario: Callable[[Stage], None]) -> None:
    stories = []
    for scheduler in (REAL, OURS):
        stage.scheduler = scheduler
        stage.clear()
        scenario(stage)
        stories.append(stage.story())
        print(scheduler, stories[-1])
    stage.clear()
    real, ours = stories
    if scenario in TIES:
        for story in stories:
            story["left"] = [name for name, _ in story["left"]]
            story["events"] = [name for name, _ in story["events"]]
    assert ours == real
