"""PodGroups of scheduling.k8s.io: their pods are placed together, as kube-scheduler 1.36 and 1.37 do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from scheduler.answers import DecisionList
from scheduler.catalog import Watch
from scheduler.config import load_configuration
from scheduler.engine import HistoryLimits
from scheduler.framework import PodInfo
from scheduler.kube.model import (
    EventType,
    GangSchedulingPolicy,
    ObjectMeta,
    PodGroupCondition,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupTopologyConstraint,
    SchedulingPodGroup,
    SchedulingPodGroupSpec,
    SchedulingPodGroupStatus,
)
from scheduler.observe import PodsQuestion
from tests.unit.scheduler.engine.fakes import Engine, FakeApi, behaving_as, eventually, started
from tests.unit.scheduler.engine.pods import pod_info
from tests.unit.scheduler.engine.test_preemption import Evicting

HELD_BACK = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
    "wait and no plugin rejected pod"
)
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
VERSIONS = {"1.36": "v1alpha2", "1.37": "v1beta1", "1.38": "v1beta1"}


class PodGroupEngine(Engine):
    """The engine with GangScheduling, as a minor version behaves."""

    def __init__(
        self,
        version: str = "1.36",
        plugins: str = "{multiPoint: {enabled: [{name: GangScheduling}]}}",
        history: HistoryLimits | None = None,
        api: FakeApi | None = None,
        **options: str,
    ) -> None:
        super().__init__(api, behaving_as(version, plugins=plugins, **options), history=history)
        self.version = version
        if version in VERSIONS:
            self.podgroups = self.object_inputs(Watch(f"scheduling.k8s.io/{VERSIONS[version]}", "podgroups"))

    def add_group(
        self,
        name: str,
        minimum: int | None,
        event: EventType = EventType.ADDED,
        key: str = "",
        priority: int = 0,
        spec: Mapping[str, Any] = MappingProxyType({}),
        **status: Any,
    ) -> SchedulingPodGroup:
        """With no minimum, it has the basic policy; with a key, all its pods belong in one domain of that label; `spec`
        has what else it asks for."""
        policy = PodGroupSchedulingPolicy(None if minimum is None else GangSchedulingPolicy(minimum))
        meta = ObjectMeta(name=name, namespace="ns", uid=f"{name}-uid", resource_version="1", generation=2)
        constraints = PodGroupSchedulingConstraints((PodGroupTopologyConstraint(key),)) if key else None
        group = SchedulingPodGroup(
            meta,
            SchedulingPodGroupSpec(policy, constraints, priority=priority, **spec),
            SchedulingPodGroupStatus(**status),
        )
        self.podgroups.apply([(event, group)])
        return group

    def add_members(self, group: str, *cpus: str, start: int = 0) -> list[PodInfo]:
        return [
            self.add_pod(f"{group}-{number}", cpu=cpu, schedulingGroup={"podGroupName": group})
            for number, cpu in enumerate(cpus, start)
        ]

    def add_gated(self, group: str, *numbers: int) -> list[PodInfo]:
        return [
            self.add_pod(
                f"{group}-{number}",
                cpu="100m",
                schedulingGroup={"podGroupName": group},
                schedulingGates=[{"name": "later"}],
            )
            for number in numbers
        ]

    def ungate(self, group: str, number: int) -> None:
        pod = pod_info(f"{group}-{number}", cpu="100m", schedulingGroup={"podGroupName": group}, rv="2")
        self.pods.apply([(EventType.MODIFIED, pod)])

    def placed(self) -> set[str]:
        return {name for name, _, _ in self.api.bindings}

    def message(self, pod: str) -> str:
        """The last condition written about a pod; "" before the first."""
        texts = [
            patch["status"]["conditions"][0]["message"]
            for path, patch in self.api.patches
            if path.endswith(f"/pods/{pod}/status") and "conditions" in patch["status"]
        ]
        return texts[-1] if texts else ""

    def attempts(self, result: str) -> float:
        """How many attempts at groups ended so."""
        return self.metrics.pod_group_attempts.labels(result, "secondary-scheduler").value

    def conditions(self, group: str) -> list[dict[str, Any]]:
        """What was written about a group, oldest first."""
        path = f"/apis/scheduling.k8s.io/{VERSIONS[self.version]}/namespaces/ns/podgroups/{group}/status"
        return [patch["status"]["conditions"][-1] for written, patch in self.api.patches if written == path]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_that_fits_is_placed_and_says_so(version: str) -> None:
    async with started(PodGroupEngine(version)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 3)
        for name in ("n1", "n2", "n3"):
            engine.add_node(name, cpu="1")
        engine.add_members("g", "700m", "700m", "700m")
        await eventually(lambda: len(engine.placed()) == 3, "all members")
        await eventually(lambda: len(engine.conditions("g")) == 1, "the condition")
    (condition,) = engine.conditions("g")
    expected = "PodGroupScheduled" if version == "1.36" else "PodGroupInitiallyScheduled"
    assert (condition["type"], condition["status"], condition["reason"]) == (expected, "True", "Scheduled")
    assert condition["observedGeneration"] == 2
    assert engine.attempts("scheduled") == 1
    assert not [event for event in engine.api.events if event["reason"] == "SchedulingGroupIgnored"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_without_room_for_its_min_count_holds_nothing_and_says_why(version: str) -> None:
    async with started(PodGroupEngine(version)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 3)
        engine.add_node("n1", cpu="1")
        engine.add_node("n2", cpu="1")
        engine.add_members("g", "700m", "700m", "700m")
        await eventually(lambda: all(engine.message(f"g-{n}") for n in range(3)), "a reason for each")
        await eventually(lambda: bool(engine.conditions("g")), "the condition")
        assert engine.state.assumed_count == 0
        engine.add_pod("other", cpu="700m")
        await eventually(lambda: engine.placed() == {"other"}, "room for others")
    messages = [engine.message(f"g-{n}") for n in range(3)]
    assert messages[2].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    if version == "1.36":
        assert messages[:2] == [HELD_BACK] * 2
        assert engine.conditions("g")[0]["message"] == "pod group is unschedulable"
    elif version == "1.38":
        threshold = "scheduling policy's minimum threshold (3) cannot be satisfied"
        assert messages[:2] == ['parent pod group "g" is unschedulable'] * 2
        counts = "2 scheduled, 1 unschedulable, 0 not-evaluated"
        assert engine.conditions("g")[0]["message"] == f"{threshold}: {counts}, {NO_VICTIMS}"
    else:
        ending = f"minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, {NO_VICTIMS}"
        assert messages[:2] == [f"pod group is unschedulable, {ending}"] * 2
        assert engine.conditions("g")[0]["message"] == ending
    assert (engine.conditions("g")[0]["status"], engine.conditions("g")[0]["reason"]) == ("False", "Unschedulable")


async def test_room_for_a_smaller_member_wakes_a_group_whose_larger_one_did_not_fit() -> None:
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("large", cpu="2")
        engine.add_members("g", "1", "1500m")
        await eventually(lambda: bool(engine.message("g-1")), "it does not fit")
        # The new node helps the smaller one only, which may make room for the larger one by going there.
        engine.add_node("small", cpu="1100m")
        await eventually(lambda: engine.message("g-1").startswith("0/2 nodes are available"), "tried again", 20)


async def test_members_beyond_the_min_count_are_placed_with_the_group_where_they_fit() -> None:
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        for name in ("n1", "n2", "n3"):
            engine.add_node(name, cpu="1")
        engine.add_members("g", "700m", "700m", "700m", "700m")
        await eventually(lambda: len(engine.placed()) == 3, "all that fit")
        await eventually(lambda: any("Insufficient cpu" in engine.message(f"g-{n}") for n in range(4)), "one does not")
    assert [condition["status"] for condition in engine.conditions("g")] == ["True"]


async def test_pods_wait_for_their_group_and_for_enough_members() -> None:
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="4")
        engine.add_members("g", "100m", "100m")
        engine.add_pod("alone", cpu="100m")
        await eventually(lambda: engine.placed() == {"alone"}, "no group yet")
        engine.add_group("g", 3)
        engine.add_pod("second", cpu="100m")
        await eventually(lambda: engine.placed() == {"alone", "second"}, "a member is missing")
        engine.add_members("g", "100m", start=2)
        await eventually(lambda: len(engine.placed()) == 5, "the group")


@pytest.mark.parametrize("minimum", [2, None])
async def test_since_1_37_a_group_waits_until_no_member_has_a_gate(minimum: int | None) -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", minimum)
        engine.add_node("n1", cpu="4")
        engine.add_gated("g", 0, 1)
        engine.add_members("g", "100m", "100m", start=2)
        engine.add_pod("alone", cpu="100m")
        await eventually(lambda: engine.placed() == {"alone"}, "the group waits")
        engine.ungate("g", 0)
        engine.add_pod("second", cpu="100m")
        await eventually(lambda: engine.placed() == {"alone", "second"}, "the group waits for the other gate")
        engine.ungate("g", 1)
        await eventually(lambda: len(engine.placed()) == 6, "the group")


async def test_since_1_37_a_gated_member_that_is_deleted_keeps_its_group_no_longer() -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="4")
        (gated,) = engine.add_gated("g", 0)
        engine.add_members("g", "100m", "100m", start=1)
        engine.add_pod("alone", cpu="100m")
        await eventually(lambda: engine.placed() == {"alone"}, "the group waits")
        engine.pods.apply([(EventType.DELETED, gated)])
        await eventually(lambda: engine.placed() == {"alone", "g-1", "g-2"}, "the group")


async def test_before_1_37_a_gate_keeps_its_own_pod_only() -> None:
    async with started(PodGroupEngine("1.36")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="4")
        engine.add_gated("g", 0)
        engine.add_members("g", "100m", "100m", start=1)
        await eventually(lambda: engine.placed() == {"g-1", "g-2"}, "the others")


async def test_without_nodes_every_member_says_so() -> None:
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_members("g", "100m", "100m")
        expected = {"no nodes available to schedule pods"}
        await eventually(lambda: {engine.message(f"g-{n}") for n in range(2)} == expected, "the reason, for each")
        engine.add_node("n1", cpu="1")
        await eventually(lambda: len(engine.placed()) == 2, "both", 20)


async def test_a_smaller_min_count_wakes_the_group() -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 3)
        engine.add_node("n1", cpu="1")
        engine.add_node("n2", cpu="1")
        engine.add_members("g", "700m", "700m", "700m")
        await eventually(lambda: bool(engine.message("g-0")), "too few fit")
        engine.add_group("g", 2, EventType.MODIFIED)
        await eventually(lambda: len(engine.placed()) == 2, "two are enough", 20)


@pytest.mark.parametrize("version", VERSIONS)
async def test_events_of_a_group_have_upstreams_names(version: str) -> None:
    engine = PodGroupEngine(version)
    engine.add_group("g", 3)
    engine.add_group("g", 2, EventType.MODIFIED)
    handled = {labels for labels, _ in engine.metrics.event_handling.series()}
    assert handled == {("scheduling.k8s.io/PodGroupAdd",), ("scheduling.k8s.io/PodGroupUpdate",)}


async def test_pods_of_a_group_with_the_basic_policy_need_nobody() -> None:
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", None)
        engine.add_node("n1", cpu="1")
        engine.add_members("g", "700m", "700m")
        await eventually(lambda: len(engine.placed()) == 1, "the one that fits")


async def test_a_group_that_was_scheduled_stays_so() -> None:
    former = PodGroupCondition("PodGroupScheduled", "True", 2, "2026-01-01T00:00:00Z", "Scheduled", "")
    async with started(PodGroupEngine()) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2, conditions=(former,))
        engine.add_node("n1", cpu="1")
        engine.add_members("g", "700m", "700m")
        await eventually(lambda: all(engine.message(f"g-{n}") for n in range(2)), "they do not fit")
        assert engine.conditions("g") == []


@pytest.mark.parametrize("version", ["1.34", "1.35"])
async def test_before_1_36_a_pod_is_placed_by_itself_and_says_so(version: str) -> None:
    async with started(PodGroupEngine(version)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="1")
        engine.add_members("g", "100m")
        await eventually(lambda: len(engine.placed()) == 1, "by itself")
        await eventually(lambda: len(engine.api.events) == 2, "its Events")
    (ignored,) = [event for event in engine.api.events if event["reason"] == "SchedulingGroupIgnored"]
    assert ignored["note"].startswith(
        "spec.schedulingGroup g is not followed: this pod is placed by itself. The plugin"
    )


@pytest.mark.parametrize(
    ("minor", "gates", "enabled"),
    [
        (36, {"GenericWorkload": True, "GangScheduling": True}, True),
        (36, {"GangScheduling": True}, False),
        (36, {"GenericWorkload": True}, False),
        (37, {"GenericWorkload": True}, True),
        (37, {"GenericWorkload": False}, False),
        (35, {"GenericWorkload": True, "GangScheduling": True}, False),
    ],
)
def test_the_feature_gates_enable_the_plugin_in_every_profile(
    minor: int, gates: dict[str, bool], enabled: bool
) -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text += "profiles: [{schedulerName: one}, {schedulerName: two}]\n"
    configuration = load_configuration(text, source="test", cluster_minor=minor, feature_gates=gates)
    assert ["GangScheduling" in profile.enabled for profile in configuration.profiles] == [enabled] * 2


# What is not followed ------------------------------------------------------------------------------------------------

CHILD = {"parent_composite_pod_group_name": "whole"}
WITH_CLAIMS = {"resource_claims": (PodGroupResourceClaim("gpus"), PodGroupResourceClaim("nics"))}
REFUSED = (
    "pod group ns/g: spec.{} is not followed, so none of its pods is placed: create the group without it, or leave its "
    "pods to a scheduler that follows it"
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
@pytest.mark.parametrize("minimum", [3, None])
@pytest.mark.parametrize(
    ("spec", "field"), [(CHILD, "parentCompositePodGroupName whole"), (WITH_CLAIMS, "resourceClaims gpus, nics")]
)
async def test_a_group_that_asks_for_what_is_not_followed_waits_as_a_whole_and_says_so(
    version: str, compatibility: str, minimum: int | None, spec: Mapping[str, Any], field: str
) -> None:
    async with started(PodGroupEngine(version, compatibility=compatibility)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="8")
        engine.add_group("g", minimum, spec=spec, key="rack")
        engine.add_members("g", "700m", "700m", "800m")
        expected = REFUSED.format(field)
        await eventually(lambda: all(expected in engine.message(f"g-{number}") for number in range(3)), "each is told")
        await eventually(lambda: bool(engine.conditions("g")), "the condition")
        await eventually(lambda: len(engine.api.events) == 3, "the Events")
        assert not engine.placed()
    (condition,) = engine.conditions("g")
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", expected)
    assert all(event["reason"] == "FailedScheduling" and expected in event["note"] for event in engine.api.events)


async def test_a_later_pod_of_a_group_that_runs_waits_too_and_the_group_stays_scheduled() -> None:
    """Another scheduler, or one of ours before it knew, has placed the others."""
    former = PodGroupCondition("PodGroupInitiallyScheduled", "True", 2, "2026-01-01T00:00:00Z", "Scheduled", "")
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="8")
        engine.add_group("g", 1, spec=CHILD, conditions=(former,))
        engine.add_pod("g-0", cpu="100m", node="n1", schedulingGroup={"podGroupName": "g"})
        engine.add_members("g", "100m", start=1)
        await eventually(lambda: "parentCompositePodGroupName whole" in engine.message("g-1"), "the reason")
        assert not engine.placed()
        assert not engine.conditions("g")


async def test_a_group_that_is_created_again_without_the_field_is_placed() -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="8")
        group = engine.add_group("g", 2, spec=CHILD)
        engine.add_members("g", "100m", "100m")
        await eventually(lambda: bool(engine.message("g-1")), "the reason")
        engine.podgroups.apply([(EventType.DELETED, group)])
        engine.add_group("g", 2)
        await eventually(lambda: len(engine.placed()) == 2, "both", 20)


async def test_without_pre_filter_a_group_that_is_not_followed_is_held_in_permit() -> None:
    plugins = "{preEnqueue: {enabled: [{name: GangScheduling}]}, permit: {enabled: [{name: GangScheduling}]}}"
    async with started(PodGroupEngine("1.37", plugins)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="8")
        engine.add_group("g", 2, spec=CHILD)
        engine.add_members("g", "100m", "100m")
        expected = REFUSED.format("parentCompositePodGroupName whole")
        await eventually(lambda: all(expected in engine.message(f"g-{number}") for number in range(2)), "each is told")
        assert not engine.placed()
        assert engine.state.assumed_count == 0


async def test_who_asks_about_a_pod_of_a_group_that_is_not_followed_is_told_why() -> None:
    history = HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0)
    async with started(PodGroupEngine("1.37", history=history)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_node("n1", cpu="8")
        engine.add_group("g", 2, spec=WITH_CLAIMS)
        engine.add_members("g", "100m", "100m")
        await eventually(lambda: bool(engine.message("g-1")), "the reason")
        assert engine.inspector is not None
        answer = engine.inspector.answer(PodsQuestion("ns", "g-0", 10))
    assert isinstance(answer, DecisionList)
    assert answer.waiting
    assert answer.waiting.now.feasible == 0
    assert [(each.plugin, each.reason) for each in answer.waiting.now.rejected] == [
        ("GangScheduling", REFUSED.format("resourceClaims gpus, nics"))
    ]


# Topology ------------------------------------------------------------------------------------------------------------


def add_racks(engine: PodGroupEngine, **sizes: int) -> None:
    for rack, size in sizes.items():
        for number in range(size):
            engine.add_node(f"{rack}-{number}", cpu="2", labels={"rack": rack})


def racks_of_bound(engine: PodGroupEngine) -> dict[str, str]:
    return {name: node.partition("-")[0] for name, _, node in engine.api.bindings}


@pytest.mark.parametrize("version", list(VERSIONS))
async def test_the_pods_of_a_group_with_a_topology_go_to_one_rack(version: str) -> None:
    async with started(PodGroupEngine(version)) as engine:
        assert isinstance(engine, PodGroupEngine)
        add_racks(engine, a=2, b=3, c=1)
        engine.add_group("g", 3, key="rack")
        engine.add_members("g", "1500m", "1500m", "1500m")
        await eventually(lambda: len(engine.api.bindings) == 3, "the group")
        assert set(racks_of_bound(engine).values()) == {"b"}


async def test_of_racks_that_take_the_group_the_fullest_one_wins() -> None:
    """87 + 100 against 37 + 100: (4 + 3) of 8 CPUs and (0 + 3) of 8, and all of the members in each."""
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        for rack in "ab":
            engine.add_node(f"{rack}-0", cpu="8", labels={"rack": rack})
        engine.pods.apply([(EventType.ADDED, pod_info("other", cpu="4", node="b-0", schedulerName="else"))])
        engine.add_members("g", "1", "1", "1")
        engine.add_group("g", 2, key="rack")
        await eventually(lambda: len(engine.api.bindings) == 3, "the group")
        assert set(racks_of_bound(engine).values()) == {"b"}


async def test_the_messages_of_a_group_that_fits_in_no_rack_are_upstreams() -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        add_racks(engine, a=2, b=2)
        engine.add_group("g", 3, key="rack")
        engine.add_members("g", "1500m", "1500m", "1500m")
        status = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
        text = f"0/2 placements are available, first placement status: {status}"
        await eventually(lambda: text in str(engine.conditions("g")[-1:]), "the condition")
        assert engine.conditions("g")[-1]["message"].startswith(f"pod group is unschedulable, {text}")


async def test_a_later_pod_follows_its_group_into_the_rack() -> None:
    async with started(PodGroupEngine("1.37")) as engine:
        assert isinstance(engine, PodGroupEngine)
        add_racks(engine, a=3, b=2)
        engine.add_group("g", 3, key="rack")
        engine.add_members("g", "1500m", "1500m", "1500m")
        await eventually(lambda: len(engine.api.bindings) == 3, "the group")
        engine.add_members("g", "1500m", start=3)
        await eventually(lambda: bool(engine.message("g-3")), "there is no room left")
        engine.add_node("a-3", cpu="2", labels={"rack": "a"})
        await eventually(lambda: racks_of_bound(engine).get("g-3") == "a", "it follows", 10)


# Preemption -----------------------------------------------------------------------------------------------------------


def preempting_group(engine: PodGroupEngine, *nodes: str, priority: int = 10) -> None:
    """Nodes full of lower pods, and a group that needs all of them."""
    for name in nodes:
        engine.add_node(name, cpu="1")
        lower = pod_info(f"low-{name}", cpu="800m", node=name, schedulerName="else", priority=1)
        engine.pods.apply([(EventType.ADDED, lower)])
    engine.add_group("g", len(nodes), priority=priority)
    for number in range(len(nodes)):
        engine.add_pod(f"g-{number}", cpu="700m", priority=10, schedulingGroup={"podGroupName": "g"})


async def test_a_group_has_lower_pods_evicted_and_takes_their_place_when_they_are_gone() -> None:
    api = Evicting()
    async with started(PodGroupEngine("1.37", api=api)) as engine:
        assert isinstance(engine, PodGroupEngine)
        preempting_group(engine, "n1", "n2")
        await eventually(lambda: sorted(api.deleted) == ["low-n1", "low-n2"], "both are evicted")
        text = "pod group preemption: found a placement for podgroup, preempting 2 victims"
        await eventually(lambda: text in str(engine.conditions("g")), "the condition")
        nominated = {engine.state.nominator.node_of(f"g-{number}-uid") for number in (0, 1)}
        assert nominated == {"n1", "n2"}
        assert engine.placed() == set()
        for name in ("n1", "n2"):
            gone = pod_info(f"low-{name}", cpu="800m", node=name, schedulerName="else", priority=1)
            engine.pods.apply([(EventType.DELETED, gone)])
        await eventually(lambda: engine.placed() == {"g-0", "g-1"}, "the group", 10)
    (condition,) = next(each for each in api.statuses("low-n1") if "conditions" in each)["conditions"]
    assert condition["message"] == "secondary-scheduler: preempting to accommodate a higher priority podgroup"
    event = next(event for event in api.events if event["reason"] == "Preempted")
    assert event["note"] == "Preempted by podgroup g-uid on node cluster"
    related = {"kind": "PodGroup", "name": "g", "uid": "g-uid", "apiVersion": "scheduling.k8s.io/v1beta1"}
    assert related.items() <= event["related"].items()


async def test_a_group_is_not_tried_while_its_victims_are_being_evicted() -> None:
    api = Evicting()
    api.gate.clear()
    async with started(PodGroupEngine("1.37", api=api)) as engine:
        assert isinstance(engine, PodGroupEngine)
        preempting_group(engine, "n1", "n2")
        await eventually(lambda: bool(engine.conditions("g")), "the group is tried")
        engine.add_members("g", "700m", start=2)
        engine.add_node("n3", cpu="1")
        waiting = "waiting for the preemption for this pod group to be finished"
        runner = next(iter(engine.runners.values()))
        assert runner.run_pre_enqueue(engine.pending["g-0-uid"]).message == waiting
        api.gate.set()
        await eventually(lambda: sorted(api.deleted) == ["low-n1", "low-n2"], "both are evicted, and nobody else")


async def test_a_group_preempts_by_the_lowest_priority_of_its_own_and_its_pods() -> None:
    """Who may make PodGroups has not always the right to use the priority class."""
    api = Evicting()
    async with started(PodGroupEngine("1.37", api=api)) as engine:
        assert isinstance(engine, PodGroupEngine)
        preempting_group(engine, "n1", priority=1)
        text = "No preemption victims found for incoming preemptor"
        await eventually(lambda: text in str(engine.conditions("g")), "the condition")
    assert api.deleted == []


async def test_no_group_preempted_before_1_37() -> None:
    api = Evicting()
    async with started(PodGroupEngine("1.36", api=api)) as engine:
        assert isinstance(engine, PodGroupEngine)
        preempting_group(engine, "n1")
        await eventually(lambda: bool(engine.conditions("g")), "the group is tried")
    assert api.deleted == []
