"""The annotations by which a PodGroup asks for a topology: what they mean, and that none is passed over in silence."""

from __future__ import annotations

import pytest

from scheduler.framework import GangSlice, GangTopology, PodInfo
from scheduler.kube.model import ObjectMeta, PodGroup, PodGroupSpec
from scheduler.plugins.coscheduling.groups import Groups
from scheduler.plugins.coscheduling.topologies import Topologies
from scheduler.plugins.coscheduling.topology import (
    PREFERRED,
    PREFIX,
    RANK_LABEL,
    REQUIRED,
    SLICE,
    SLICE_SIZE,
    WIDEN_AFTER,
    GroupTopology,
    read_topology,
)
from tests.unit.scheduler.core.builders import pod

RACK, BLOCK = "topology.example.com/rack", "topology.example.com/block"


def test_other_annotations_ask_for_nothing() -> None:
    assert read_topology({"a": "b", "secondary-scheduler.io/other": "x"}) is None


def test_a_required_label_is_the_widest_level() -> None:
    assert read_topology({REQUIRED: BLOCK, PREFERRED: RACK}) == GroupTopology((RACK, BLOCK), required=True)


def test_preferred_labels_are_levels_from_narrow_to_wide_and_then_the_cluster() -> None:
    topology = read_topology({PREFERRED: f"{RACK}, {BLOCK}"})
    assert topology == GroupTopology((RACK, BLOCK), required=False)
    assert topology.after(0.0, ()) == GangTopology((RACK, BLOCK), anywhere=True)


def test_a_gang_waits_at_each_level_before_it_goes_wider() -> None:
    topology = read_topology({PREFERRED: f"{RACK},{BLOCK}", WIDEN_AFTER: "1m30s"})
    assert topology is not None
    assert [topology.after(seconds, ()) for seconds in (0, 89, 90, 179, 180, 10_000)] == [
        GangTopology((RACK,)),
        GangTopology((RACK,)),
        GangTopology((RACK, BLOCK)),
        GangTopology((RACK, BLOCK)),
        GangTopology((RACK, BLOCK), anywhere=True),
        GangTopology((RACK, BLOCK), anywhere=True),
    ]
    assert topology.widest_after == 180


def test_a_required_level_is_never_left() -> None:
    topology = read_topology({PREFERRED: RACK, REQUIRED: BLOCK, WIDEN_AFTER: "10s"})
    assert topology is not None
    assert topology.after(1e9, ()) == GangTopology((RACK, BLOCK))
    assert topology.widest_after == 10


def test_members_follow_those_that_have_nodes_without_waiting() -> None:
    topology = read_topology({PREFERRED: RACK, WIDEN_AFTER: "1h"})
    assert topology is not None
    assert topology.after(0.0, ("n",)) == GangTopology((RACK,), anywhere=True, nodes=("n",))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({PREFIX + "requird": RACK}, "annotation secondary-scheduler.io/topology-requird is unknown: known are "),
        ({REQUIRED: "not a label"}, f"annotation {REQUIRED}: not a label is no label key: name a label of nodes"),
        ({REQUIRED: ""}, f'annotation {REQUIRED}: "" is no label key'),
        ({PREFERRED: f"{RACK},"}, f'annotation {PREFERRED}: "" is no label key'),
        ({WIDEN_AFTER: "10s"}, f"annotation {WIDEN_AFTER} needs {PREFERRED}"),
        ({PREFERRED: RACK, WIDEN_AFTER: "10"}, f"annotation {WIDEN_AFTER}: "),
        ({PREFERRED: RACK, WIDEN_AFTER: "-10s"}, f"annotation {WIDEN_AFTER}: -10s is negative"),
        ({PREFERRED: RACK, REQUIRED: RACK}, f"label {RACK} is named twice"),
        ({PREFERRED: ",".join(f"l{n}" for n in range(9))}, f"annotation {PREFERRED} lists too many labels: at most 8"),
        ({PREFERRED: ",".join(f"l{n}" for n in range(8)), REQUIRED: RACK}, f"annotation {PREFERRED} lists too many"),
        ({PREFERRED: "a," * 100_000}, f"annotation {PREFERRED} lists too many labels: at most 8"),
        ({SLICE: RACK}, f"annotation {SLICE} needs {SLICE_SIZE}, a whole number from 1: "),
        ({SLICE: RACK, SLICE_SIZE: "0"}, f"annotation {SLICE} needs {SLICE_SIZE}, a whole number from 1: 0"),
        ({SLICE: RACK, SLICE_SIZE: "9" * 5000}, f"annotation {SLICE} needs {SLICE_SIZE}, a whole number from 1: 999"),
        ({SLICE_SIZE: "2"}, f"annotation {SLICE_SIZE} needs {SLICE}"),
        ({RANK_LABEL: "a"}, f"annotation {RANK_LABEL} needs {SLICE}"),
        ({SLICE: RACK, SLICE_SIZE: "2", RANK_LABEL: "a b"}, f"annotation {RANK_LABEL}: a b is no label key"),
        ({REQUIRED: "\x1b[2J" + "x" * 500}, f"annotation {REQUIRED}: ?[2Jxxx"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_and_why(annotations: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_topology(annotations)
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 400


# Slices --------------------------------------------------------------------------------------------------------------

INDEX = "batch.kubernetes.io/job-completion-index"


def ranked(name: str, **labels: str) -> PodInfo:
    return pod(name, labels={key.replace("_", "/"): value for key, value in labels.items()})


def sliced(size: int = 2, rank_label: str = "rank") -> GroupTopology:
    topology = read_topology({SLICE: RACK, SLICE_SIZE: str(size), **({RANK_LABEL: rank_label} if rank_label else {})})
    assert topology is not None
    return topology


def test_slices_alone_leave_the_gang_anywhere() -> None:
    assert sliced().after(0.0, ()) == GangTopology((), anywhere=True, slice_label=RACK)


def test_members_are_a_slice_by_rank_whatever_their_order() -> None:
    pods = {rank: ranked(f"p{rank}", rank=str(rank)) for rank in (3, 0, 2, 1, 4)}
    waiting = [pods[3], pods[0], pods[2], pods[4]]
    assert sliced().slices_of(waiting, [(pods[1], "n1")]) == (
        GangSlice(frozenset({pods[0].uid}), ("n1",)),
        GangSlice(frozenset({pods[2].uid, pods[3].uid})),
        GangSlice(frozenset({pods[4].uid})),
    )


def test_the_index_that_a_workload_gives_its_pods_is_their_rank() -> None:
    pods = [pod("p0", labels={INDEX: "0"}), pod("p1", labels={"apps.kubernetes.io/pod-index": "1"})]
    assert sliced(rank_label="").slices_of(pods, ()) == (GangSlice(frozenset(each.uid for each in pods)),)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "pod b has no label rank, which says its rank in a slice"),
        ({"rank": "0"}, "pods a and b have rank 0: give each member its own"),
        ({"rank": "-1"}, "pod b: -1 is no rank: a whole number from 0"),
        ({"rank": "x" * 63}, "pod b: xxx"),
        ({"rank": "9" * 63}, "pod b: 999"),
    ],
)
def test_members_without_a_rank_of_their_own_are_named(labels: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match="rank") as caught:
        sliced().slices_of([pod("a", labels={"rank": "0"}), pod("b", labels=labels)], ())
    assert str(caught.value).startswith(expected)


def test_a_minimum_that_is_no_multiple_of_the_slices_is_refused() -> None:
    meta = ObjectMeta(name="g", namespace="ns", annotations={SLICE: RACK, SLICE_SIZE: "4"})
    _, problem = Topologies(Groups(None)).of(PodGroup(meta, PodGroupSpec(6)))
    assert problem == f"minMember 6 is no multiple of {SLICE_SIZE} 4"
