"""PodGroups of scheduling.k8s.io that make room for themselves: the real kube-scheduler of 1.37, and ours, on one API
server. Each scenario is played by one, then by the other; both must evict the same pods and say the same."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.integration.scheduler.podgroups import GATES, OURS, REAL, TOPOLOGY_GATE, Json, Stage, both_running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_TIES = 6
"""How often both play a scenario again before another outcome counts as a difference."""
FACTS = ("left", "placed", "terminating", "events", "words", "condition")
_CLAIMS_NOTE = "deallocation and deletion of ResourceClaims completed, "
"""What DynamicResources of kube-scheduler says of every group, with and without claims."""


class Preempting(Stage):
    """A stage with a group `g` of high priority."""

    def come_together(
        self, *names: str, minimum: int, cpu: str = "1500m", key: str = "", priority: str = "high", **spec: Json
    ) -> None:
        """Make the group with so many pods, which are tried together: it comes last."""
        self.join(*names, cpu=cpu, priority=priority, **spec)
        self.group("g", priority=priority, minimum=minimum, key=key)

    def join(self, *names: str, cpu: str = "1500m", priority: str = "high", **spec: Json) -> None:
        """Make pods of the group."""
        for name in names:
            self.make(name, cpu, priority, group="g", labels={"app": "g"}, **spec)

    def wait_in_place(self, *names: str) -> None:
        """Wait until all of these pods have nodes."""
        eventually(lambda: set(names) <= set(self.placed()), f"{self.scheduler}: {names} are placed")

    def wait_told(self, *names: str) -> None:
        """Wait until these pods have been told why they have no node."""
        eventually(lambda: set(names) <= self.first_words().keys(), f"{self.scheduler}: {names} are told why")
        self.wait_condition("False")

    def has_settled(self, *names: str) -> bool:
        """Tell whether these pods have nodes, or preemption is of no use."""
        if set(names) <= set(self.placed()):
            return True
        condition = self.outcome().condition
        waits = any(text in condition.get("message", "") for text in ("found a placement", "ongoing preemption"))
        return condition.get("status") == "False" and not waits

    def nominations(self) -> dict[str, str]:
        """Return by pod the node that it is nominated to."""
        items = self.call("GET", self.pods)["items"]
        return {pod["metadata"]["name"]: pod["status"].get("nominatedNodeName", "") for pod in items}


def takes_all_nodes(stage: Preempting) -> None:
    """Each of two members takes the place of a pod."""
    stage.add_nodes("n1", "n2")
    stage.run("a", "n1")
    stage.run("b", "n2")
    stage.come_together("x", "y", minimum=2)
    stage.wait_in_place("x", "y")


def uses_what_is_free(stage: Preempting) -> None:
    """One of three nodes is free."""
    stage.add_nodes("n1", "n2", "n3")
    stage.run("a", "n1")
    stage.run("b", "n2")
    stage.come_together("x", "y", "z", minimum=3)
    stage.wait_in_place("x", "y", "z")


def waits_for_its_victims(stage: Preempting) -> None:
    """The victims take their time: members are nominated, and nobody else is evicted meanwhile."""
    stage.add_nodes("n1", "n2")
    stage.run("a", "n1", grace=30)
    stage.run("b", "n2", grace=30)
    stage.come_together("x", "y", minimum=2)
    stage.wait_terminating("a", "b")
    stage.wait_told("x", "y")
    eventually(lambda: {stage.nominations()[name] for name in "xy"} == {"n1", "n2"}, "both are nominated")


def takes_their_place(stage: Preempting) -> None:
    """The same, and then they go."""
    waits_for_its_victims(stage)
    stage.let_go("a", "b")
    stage.wait_in_place("x", "y")


def looks_no_further(stage: Preempting) -> None:
    """While its victims end, a node comes that helps one member; the group waits on."""
    waits_for_its_victims(stage)
    stage.run("c", "n2", cpu="100m")
    stage.let_go("a")
    text = "ongoing preemption on nominated nodes"
    eventually(lambda: text in stage.outcome().condition["message"], f"{stage.scheduler}: {text}")


def is_too_large(stage: Preempting) -> None:
    """Without any lower pod there is no room for all."""
    stage.add_nodes("n1", "n2")
    stage.run("a", "n1")
    stage.come_together("x", "y", "z", minimum=3)
    stage.wait_told("x", "y", "z")


def is_much_too_large(stage: Preempting) -> None:
    """Not all members are tried, with and without lower pods."""
    stage.add_nodes("n1")
    stage.run("a", "n1")
    stage.come_together("v", "w", "x", "y", "z", minimum=4)
    stage.wait_told("v", "w", "x", "y", "z")


def finds_nobody_lower(stage: Preempting) -> None:
    """All pods are of the group's own priority."""
    stage.add_nodes("n1", "n2")
    stage.run("a", "n1", priority="high")
    stage.come_together("x", "y", minimum=2)
    stage.wait_told("x", "y")


def may_not_preempt(stage: Preempting) -> None:
    """The members' policy is Never."""
    stage.add_nodes("n1", "n2")
    stage.run("a", "n1")
    stage.come_together("x", "y", minimum=2, priority="never")
    stage.wait_told("x", "y")


def spares_what_it_can(stage: Preempting) -> None:
    """Of two pods on a node the less important one goes."""
    stage.add_nodes("n1", "n2")
    stage.run("low-1", "n1", cpu="900m")
    stage.run("mid-1", "n1", cpu="900m", priority="mid")
    stage.run("low-2", "n2", cpu="900m")
    stage.run("mid-2", "n2", cpu="900m", priority="mid")
    stage.come_together("x", "y", minimum=2, cpu="1")
    stage.wait_in_place("x", "y")


def spares_the_older(stage: Preempting) -> None:
    """Of equals the one goes that started later."""
    stage.add_nodes("n1")
    stage.run("young", "n1", cpu="900m", age=10)
    stage.run("old", "n1", cpu="900m", age=900)
    stage.come_together("x", minimum=1, cpu="1")
    stage.wait_in_place("x")


def several_on_a_node(stage: Preempting) -> None:
    """Members share nodes."""
    stage.add_nodes("n1", "n2", cpu="4")
    for node in ("n1", "n2"):
        for number in range(4):
            stage.run(f"{node}-{number}", node, cpu="900m", age=100 + number)
    stage.come_together("v", "w", "x", "y", minimum=4, cpu="1100m")
    stage.wait_in_place("v", "w", "x", "y")


def evicts_a_whole_group(stage: Preempting) -> None:
    """A victim goes with the other pods of its group, one of them on a node that nobody needs."""
    stage.add_nodes("n1", "n2", "n3", "n4")
    stage.add_nodes("n5", cpu="1")
    stage.group("h", "all")
    stage.run("a", "n1", "h")
    stage.run("b", "n5", "h", cpu="900m")
    for node in ("n2", "n3", "n4"):
        stage.run(f"mid-{node}", node, priority="mid", cpu="1900m")
    stage.come_together("x", minimum=1, nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_in_place("x")


def spares_a_group(stage: Preempting) -> None:
    """On one node a group is given another chance before a pod by itself."""
    stage.add_nodes("n1", "n2")
    stage.group("h", "all")
    stage.run("a", "n1", "h", cpu="900m", age=10)
    stage.run("b", "n2", "h", cpu="900m", age=10)
    stage.run("alone", "n1", cpu="900m", age=900)
    stage.come_together("x", minimum=1, cpu="1", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.wait_in_place("x")


def keeps_a_budget(stage: Preempting) -> None:
    """The pod with a budget stays though it is younger."""
    stage.add_nodes("n1")
    stage.run("young", "n1", cpu="900m", age=10, labels={"app": "young"})
    stage.run("old", "n1", cpu="900m", age=900)
    stage.protect("young", 0)
    stage.come_together("x", minimum=1, cpu="1")
    stage.wait_in_place("x")


def counts_budgets_in_all(stage: Preempting) -> None:
    """A budget that lets one go: all lower pods count against it, those that stay, too."""
    stage.add_nodes("n1", "n2")
    for number in range(2):
        stage.run(f"app-{number}", f"n{number + 1}", cpu="900m", age=900 + number, labels={"app": "app"})
        stage.run(f"bare-{number}", f"n{number + 1}", cpu="900m", age=10 + number)
    stage.protect("app", 1)
    stage.come_together("x", "y", minimum=2, cpu="1")
    stage.wait_in_place("x", "y")


def places_more_than_needed(stage: Preempting) -> None:
    """Of four members two are needed; there is room for three without the lower pods."""
    stage.add_nodes("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        stage.run(f"low-{node}", node)
    stage.come_together("w", "x", "y", "z", minimum=2)
    eventually(lambda: len([name for name in stage.placed() if name in "wxyz"]) == 3, "three are placed")


def prefers_to_fit(stage: Preempting) -> None:
    """Two of three members are needed and fit; nobody goes for the third in the same attempt. What it is told differs:
    kube-scheduler goes on trying groups, ours tries it as any other pod."""
    stage.add_nodes("n1", "n2", "n3")
    stage.run("a", "n3", priority="high")
    stage.run("b", "n1", cpu="100m")
    stage.come_together("x", "y", "z", minimum=2)
    eventually(lambda: len([name for name in stage.placed() if name in "xyz"]) == 2, "two are placed")


def keeps_away_from_lower_pods(stage: Preempting) -> None:
    """Members keep away from lower pods in their zone, on whatever node."""
    stage.add_nodes("n1", "n2", zone="y")
    stage.add_nodes("n3", cpu="1", zone="y")
    stage.run("near", "n3", cpu="100m", labels={"app": "noisy"})
    stage.run("quiet", "n3", cpu="100m")
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    stage.come_together("x", "y", minimum=2, affinity=affinity)
    stage.wait_in_place("x", "y")


def spreads_over_zones(stage: Preempting) -> None:
    """Members spread over two zones; in each a lower pod is in the way, and another one that is not."""
    stage.add_nodes("n1", zone="y")
    stage.add_nodes("n2", zone="z")
    for number in (1, 2):
        stage.run(f"low-{number}", f"n{number}", cpu="900m")
        stage.run(f"mid-{number}", f"n{number}", cpu="900m", priority="mid")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "g"}},
    }
    stage.come_together("x", "y", minimum=2, cpu="1", topologySpreadConstraints=[constraint])
    stage.wait_in_place("x", "y")


def replaces_a_member(stage: Preempting) -> None:
    """A running group loses a member; its replacement preempts."""
    stage.add_nodes("n1", "n2")
    stage.come_together("x", "y", minimum=2)
    stage.wait_in_place("x", "y")
    gone = stage.call("GET", f"{stage.pods}/y")["spec"]["nodeName"]
    stage.let_go("y")
    eventually(lambda: "y" not in stage.placed(), "y is gone")
    stage.run("low", gone)
    stage.join("z")
    stage.wait_in_place("x", "z")


SCENARIOS = (
    takes_all_nodes,
    uses_what_is_free,
    waits_for_its_victims,
    takes_their_place,
    looks_no_further,
    is_too_large,
    is_much_too_large,
    finds_nobody_lower,
    may_not_preempt,
    spares_what_it_can,
    spares_the_older,
    several_on_a_node,
    evicts_a_whole_group,
    spares_a_group,
    keeps_a_budget,
    counts_budgets_in_all,
    places_more_than_needed,
    prefers_to_fit,
    keeps_away_from_lower_pods,
    spreads_over_zones,
    replaces_a_member,
)


def makes_room_in_a_rack(stage: Preempting) -> None:
    """One rack is large enough without its lower pods; the other one's stay."""
    stage.add_nodes("a-0", "a-1", rack="a")
    stage.add_nodes("b-0", rack="b")
    for node in ("a-0", "a-1", "b-0"):
        stage.run(f"low-{node}", node)
    stage.come_together("x", "y", minimum=2, key="rack")
    stage.wait_in_place("x", "y")


def finds_no_rack(stage: Preempting) -> None:
    """No rack is large enough, whoever goes."""
    stage.add_nodes("a-0", "a-1", rack="a")
    stage.add_nodes("b-0", "b-1", rack="b")
    stage.run("low", "a-0")
    stage.come_together("x", "y", "z", minimum=3, key="rack")
    stage.wait_told("x", "y", "z")


def finds_no_label(stage: Preempting) -> None:
    """No node has the label."""
    stage.add_nodes("n1", "n2")
    stage.run("low", "n1")
    stage.come_together("x", "y", minimum=2, key="rack")
    stage.wait_told("x", "y")


def prefers_the_fuller_rack(stage: Preempting) -> None:
    """Both racks would do; one is fuller of pods that stay."""
    stage.add_nodes("a-0", "a-1", rack="a", cpu="4")
    stage.add_nodes("b-0", "b-1", rack="b", cpu="4")
    for node in ("a-0", "a-1", "b-0", "b-1"):
        stage.run(f"low-{node}", node, cpu="3500m")
    stage.run("stays", "b-0", cpu="400m", priority="high")
    stage.come_together("x", "y", minimum=2, key="rack")
    stage.wait_in_place("x", "y")


TOPOLOGY = (makes_room_in_a_rack, finds_no_rack, finds_no_label, prefers_the_fuller_rack)
"""Where a gate is on without which messages are worded otherwise."""


def random_group(seed: int) -> Callable[[Preempting], None]:
    """Nodes of unlike sizes, of which each has one value of `kubernetes.io/hostname`; pods of three priorities, some of
    them in groups that go as a whole; and a group."""

    def scenario(stage: Preempting) -> None:
        chance = random.Random(seed)
        nodes = [f"n{number}" for number in range(chance.randint(1, 4))]
        for name in ("h", "i"):
            stage.group(name, chance.choice(("all", "single")))
        for name in nodes:
            cpu = chance.randint(1, 4)
            stage.add_nodes(name, cpu=str(cpu))
            left = cpu * 10
            for number in range(chance.randint(0, 4)):
                used = chance.randint(1, 12)
                if used <= left:
                    left -= used
                    group = chance.choice(("", "", "h", "i"))
                    priority = "low" if group else chance.choice(("low", "mid", "high"))
                    labels = {"app": chance.choice(("one", "two"))}
                    stage.run(
                        f"{name}-{number}",
                        name,
                        group,
                        cpu=f"{used * 100 - 1}m",
                        priority=priority,
                        age=chance.randint(1, 1000),
                        labels=labels,
                    )
        if chance.random() < 0.5:
            stage.protect("one", chance.randint(0, 2))
        names = [f"m{number}" for number in range(chance.randint(1, 4))]
        wanted = chance.choice(("300m", "900m", "1500m"))
        stage.come_together(*names, minimum=len(names), cpu=wanted)
        eventually(lambda: stage.has_settled(*names), f"{stage.scheduler}: tried")

    return scenario


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preempting]:
    with both_running("1.37", GATES["1.37"], tmp_path_factory.mktemp("preempting"), Preempting) as running:
        yield running


@pytest.fixture(scope="module")
def topology_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Preempting]:
    gates = GATES["1.37"] + TOPOLOGY_GATE
    with both_running("1.37", gates, tmp_path_factory.mktemp("preempting"), Preempting) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_group_preempts_as_with_kube_scheduler(stage: Preempting, scenario: Callable[[Preempting], None]) -> None:
    facts = FACTS if scenario is not prefers_to_fit else FACTS[:-2]
    compare(stage, scenario, facts)


@pytest.mark.parametrize("seed", range(int(os.environ.get("PREEMPTING_CASES", "20"))))
def test_a_random_group_preempts_as_with_kube_scheduler(stage: Preempting, seed: int) -> None:
    seed += int(os.environ.get("PREEMPTING_SEED", "0"))
    compare(stage, random_group(seed), ("left", "placed"))


@pytest.mark.parametrize("scenario", TOPOLOGY, ids=lambda scenario: scenario.__name__)
def test_a_group_preempts_in_a_domain_as_with_kube_scheduler(
    topology_stage: Preempting, scenario: Callable[[Preempting], None]
) -> None:
    compare(topology_stage, scenario)


def told(stage: Preempting, scenario: Callable[[Preempting], None]) -> list[Json]:
    """Return what both make of a scenario, without what differs between any two runs."""
    stories = []
    for scheduler in (REAL, OURS):
        stage.scheduler = scheduler
        stage.clear()
        scenario(stage)
        story = stage.story()
        members = {name: note.replace(_CLAIMS_NOTE, "") for name, note in stage.first_words().items()}
        condition = stage.outcome().condition
        condition["message"] = condition.get("message", "").replace(_CLAIMS_NOTE, "")
        stories.append(
            {
                "left": [name for name, _ in story["left"]],
                "placed": len(stage.placed()),
                "terminating": stage.terminating(),
                "events": sorted(note for _, note in story["events"]),
                "words": sorted(members.values()),
                "condition": condition,
            }
        )
        print(scheduler, stories[-1])
    stage.clear()
    return stories


def compare(
    stage: Preempting,
    scenario: Callable[[Preempting], None],
    facts: Sequence[str] = FACTS,
) -> None:
    for _ in range(_TIES):
        real, ours = ({fact: story[fact] for fact in facts} for story in told(stage, scenario))
        if ours == real:
            break
        # Nodes with equal scores are drawn.
    assert ours == real
