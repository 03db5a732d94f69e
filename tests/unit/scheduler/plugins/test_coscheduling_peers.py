"""Other schedulers' annotations about a gang's topology: Kueue's mean what ours mean, and whoever writes them cannot
make them costly."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework import PodInfo
from scheduler.helpers.annotations import (
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KUEUE_WORKLOAD,
)
from scheduler.kube.model import POD_GROUP_LABEL, ObjectMeta, PodGroup, PodGroupSpec
from scheduler.plugins.coscheduling.groups import Groups
from scheduler.plugins.coscheduling.topologies import Topologies
from scheduler.plugins.coscheduling.topology import PREFERRED, REQUIRED, WIDEN_AFTER, GroupTopology
from tests.unit.scheduler.engine.pods import pod_info

RACK, BLOCK = "topology.example.com/rack", "topology.example.com/block"


class Stage:
    """A group and its members, as the plugin sees them."""

    def __init__(self, *members: PodInfo, minimum: int = 4, annotations: dict[str, str] | None = None) -> None:
        self.pods: list[PodInfo] = []
        groups = Groups(None)
        groups.members = lambda namespace, name: self.pods  # type: ignore[method-assign]
        self.topologies = Topologies(groups)
        meta = ObjectMeta(name="g", namespace="ns", annotations=annotations or {})
        self.group = PodGroup(meta, PodGroupSpec(minimum))
        for pod in members:
            self.change(None, pod)

    def change(self, old: PodInfo | None, new: PodInfo | None) -> None:
        self.pods = [*[pod for pod in self.pods if pod is not old], *([new] if new is not None else [])]
        self.topologies.pod_changed(old, new)

    @property
    def topology(self) -> GroupTopology | None:
        topology, problem = self.topologies.of(self.group)
        assert not problem
        return topology

    @property
    def problem(self) -> str:
        topology, problem = self.topologies.of(self.group)
        assert topology is None
        return problem


def member(name: str, annotations: dict[str, str] | None = None, **metadata: Any) -> PodInfo:
    labels = {POD_GROUP_LABEL: "g", **metadata.pop("labels", {})}
    return pod_info(name, metadata={"labels": labels, "annotations": annotations or {}, **metadata})


def members(annotations: dict[str, str], count: int = 4) -> list[PodInfo]:
    return [member(f"p{number}", annotations) for number in range(count)]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({KUEUE_REQUIRED: BLOCK}, GroupTopology((BLOCK,), required=True)),
        ({KUEUE_PREFERRED: RACK}, GroupTopology((RACK,), required=False)),
        ({KUEUE_SLICE: RACK, KUEUE_SLICE_SIZE: "2"}, GroupTopology((), False, slice_label=RACK, slice_size=2)),
        (
            {KUEUE_REQUIRED: BLOCK, KUEUE_SLICE: RACK, KUEUE_SLICE_SIZE: "2"},
            GroupTopology((BLOCK,), True, slice_label=RACK, slice_size=2),
        ),
    ],
)
def test_kueues_annotations_on_all_members_mean_what_ours_mean_on_the_group(
    annotations: dict[str, str], expected: GroupTopology
) -> None:
    assert Stage(*members(annotations)).topology == expected


def test_what_the_group_says_is_joined_with_what_its_members_say() -> None:
    stage = Stage(*members({KUEUE_REQUIRED: BLOCK}), annotations={PREFERRED: RACK, WIDEN_AFTER: "1m", REQUIRED: BLOCK})
    assert stage.topology == GroupTopology((RACK, BLOCK), required=True, widen_after=60.0)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({KUEUE_REQUIRED: "a b"}, f"annotation {REQUIRED}: a b is no label key: name a label of nodes"),
        ({KUEUE_SLICE: RACK, KUEUE_SLICE_SIZE: "3"}, "minMember 4 is no multiple of "),
        ({KUEUE_SLICE: RACK}, "annotation secondary-scheduler.io/topology-slice needs "),
        ({KUEUE_REQUIRED: RACK, KUEUE_PREFERRED: RACK}, f"label {RACK} is named twice"),
    ],
)
def test_what_cannot_be_used_is_refused_with_where_it_stands(annotations: dict[str, str], expected: str) -> None:
    problem = Stage(*members(annotations)).problem
    assert problem.startswith(expected)
    assert problem.endswith(" (annotations kueue.x-k8s.io/podset-… of its pods count as these)")


def test_members_that_differ_are_named_by_name_whatever_their_order() -> None:
    annotated, other = members({KUEUE_REQUIRED: RACK}, 2), member("p9", {KUEUE_REQUIRED: BLOCK})
    expected = f"pods p0 and p9 differ in annotation {KUEUE_REQUIRED}: {RACK} and {BLOCK}. Give all members the same"
    assert Stage(other, *annotated).problem == Stage(*annotated, other).problem == expected


def test_a_member_that_is_being_deleted_does_not_count() -> None:
    stage = Stage(*members({KUEUE_REQUIRED: RACK}), member("bare"))
    assert "bare" in stage.problem
    stage.change(stage.pods[-1], member("bare", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert stage.topology == GroupTopology((RACK,), required=True)


def test_once_no_member_has_annotations_any_more_the_group_goes_anywhere() -> None:
    stage = Stage(*members({KUEUE_REQUIRED: RACK}, 2))
    assert stage.topology is not None
    for pod in list(stage.pods):
        stage.change(pod, None)
    stage.change(None, member("new"))
    assert stage.topology is None


def test_annotations_are_left_to_kueue_once_it_manages_one_member() -> None:
    annotations = {KUEUE_REQUIRED: RACK}
    managed = member("m", annotations, labels={"kueue.x-k8s.io/podset": "w"})
    assert Stage(*members(annotations), managed).topology is None
    assert Stage(*members({**annotations, KUEUE_WORKLOAD: "job"})).topology is None


def test_the_members_are_looked_at_once_until_one_of_them_changes() -> None:
    stage = Stage(*members({KUEUE_REQUIRED: RACK}, 100))
    looks = 0
    pods = stage.pods

    def look(namespace: str, name: str) -> list[PodInfo]:
        nonlocal looks
        looks += 1
        return pods

    stage.topologies._groups.members = look  # type: ignore[method-assign]
    for _ in range(50):
        assert stage.topology is not None
    # A member that gets its node says the same as before.
    stage.topologies.pod_changed(pods[0], member("p0", {KUEUE_REQUIRED: RACK}))
    assert stage.topology is not None
    assert looks == 1
    stage.topologies.pod_changed(pods[0], None)
    assert stage.topology is not None
    assert looks == 2


def test_a_long_annotation_costs_little_and_its_message_is_short() -> None:
    hostile = "\x1b[2J" + "x" * 200_000
    pods = members({KUEUE_REQUIRED: hostile, KUEUE_SLICE: hostile})
    assert sum(len(value) for pod in pods for _, value in pod.peer_topology) < 4_000
    problem = Stage(*pods).problem
    assert "\x1b" not in problem
    assert len(problem) < 500
    differing = Stage(*pods, member("p9", {KUEUE_REQUIRED: "y" * 200_000}), annotations={REQUIRED: "z" * 200_000})
    assert len(differing.problem) < 500


def test_a_pod_of_no_gang_keeps_no_annotations() -> None:
    pod = pod_info("p", metadata={"annotations": {KUEUE_REQUIRED: RACK}})
    assert pod.peer_topology == ()
