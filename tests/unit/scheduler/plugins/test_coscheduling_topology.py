"""The annotations by which a PodGroup asks for a topology: what they mean, and that none is passed over in silence."""

from __future__ import annotations

import pytest

from scheduler.framework import GangTopology
from scheduler.plugins.coscheduling.topology import (
    PREFERRED,
    PREFIX,
    REQUIRED,
    WIDEN_AFTER,
    GroupTopology,
    read_topology,
)

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
        ({REQUIRED: "\x1b[2J" + "x" * 500}, f"annotation {REQUIRED}: ?[2Jxxx"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_and_why(annotations: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_topology(annotations)
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) < 400
