"""What is read out of a NodeResourceTopology, and what becomes of one that makes no sense."""

from typing import Any

import msgspec
import pytest

from scheduler.framework import CycleState
from scheduler.kube.model import NODERESOURCETOPOLOGIES, DecodeError
from scheduler.plugins.noderesourcetopologymatch.topology import TopologyManager, read
from tests.unit.scheduler.core.builders import NOW
from tests.unit.scheduler.plugins.numa import (
    NAME,
    guaranteed,
    numa_runner,
    scores,
    state_of,
    topology,
    verdicts,
    zone,
)

SMALL = {"cpu": "2", "memory": "1Gi"}


def manager(attributes: dict[str, str] | None = None, policies: tuple[str, ...] = ()) -> TopologyManager:
    item = topology("n", policy="", scope="", attributes=attributes, topologyPolicies=list(policies))
    return read(item).manager


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("SingleNUMANodePodLevel", ("single-numa-node", "pod")),
        ("SingleNUMANodeContainerLevel", ("single-numa-node", "container")),
        ("BestEffortPodLevel", ("best-effort", "pod")),
        ("BestEffortContainerLevel", ("best-effort", "container")),
        ("RestrictedPodLevel", ("restricted", "pod")),
        ("RestrictedContainerLevel", ("restricted", "container")),
        ("None", ("none", "container")),
        ("Restricted", ("none", "container")),
        ("nonsense", ("none", "container")),
    ],
)
def test_a_deprecated_policy_sets_policy_and_scope(policy: str, expected: tuple[str, str]) -> None:
    settings = manager(policies=(policy, "SingleNUMANodePodLevel"))
    assert (settings.policy, settings.scope, settings.max_zones) == (*expected, 8)


def test_attributes_win_over_the_deprecated_policy() -> None:
    settings = manager({"topologyManagerPolicy": "restricted"}, ("SingleNUMANodePodLevel",))
    assert settings == TopologyManager("restricted", "pod", 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("4", 4), ("+4", 4), ("1024", 1024), ("4096", 1024), ("1", 8), ("0", 8), ("-3", 8), ("1_0", 8), ("x", 8)),
        *(("", 8), ("99999999999999999999999", 8), ("٣", 8)),
    ],
)
def test_the_number_of_zones_is_read_as_go_reads_it_and_bounded(text: str, expected: int) -> None:
    attributes = [{"name": "topologyManagerMaxNUMANodes", "value": text}]
    item = NODERESOURCETOPOLOGIES.decode(b'{"metadata":{"name":"n"},"attributes":%s}' % _json(attributes))
    assert read(item).manager.max_zones == expected


def test_an_unknown_value_keeps_the_earlier_one_and_is_named() -> None:
    item = NODERESOURCETOPOLOGIES.decode(
        _json(
            {
                "metadata": {"name": "n"},
                "attributes": [
                    {"name": "topologyManagerPolicy", "value": "single-numa-node"},
                    {"name": "topologyManagerPolicy", "value": "Single"},
                    {"name": "topologyManagerScope", "value": "POD"},
                ],
            }
        )
    )
    topology = read(item)
    assert topology.manager == TopologyManager("single-numa-node", "container", 8)
    assert topology.flaws == (
        "attribute topologyManagerPolicy is ignored: 'Single' is no value of it",
        "attribute topologyManagerScope is ignored: 'POD' is no value of it",
    )


def test_zones_that_make_no_sense_are_left_out_and_named() -> None:
    bad = zone(0, cpu="4", memory="NaN")
    parsed = read(
        topology(
            "n",
            bad,
            zone(1, cpu="-2", memory="1Gi"),
            zone(1, cpu="8"),
            zone(64, cpu="8"),
            zone("node--1", cpu="8"),
            zone("numa-2", cpu="8"),
            zone("node-2", cpu="8") | {"type": "Socket"},
        )
    )
    assert [(zone.number, dict(zone.available)) for zone in parsed.zones] == [
        (0, {"cpu": 4000}),
        (1, {"cpu": -2000, "memory": 1 << 30}),
    ]
    assert len(parsed.flaws) == 6
    assert parsed.flaws[0].startswith("zone 'node-0': memory is left out: 'NaN' is not a Kubernetes quantity")
    assert parsed.flaws[1:] == (
        "zone 'node-1': cpu has a negative amount",
        "zone 'node-1' is listed twice: the first one counts",
        "zone 'node-64' is left out: expected node-0 to node-63",
        "zone 'node--1' is left out: expected node-0 to node-63",
        "zone 'numa-2' is left out: expected node-0 to node-63",
    )


GARBAGE: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "negative amounts": [zone(0, cpu="-4", memory="-1Gi")],
    "no resources": [zone(0)],
    "amounts beyond 64 bits": [zone(0, cpu="9E", memory="99999999E"), zone(1, cpu="9E", memory="99999999E")],
    "numbers far apart": [zone(63, cpu="4", memory="8Gi"), zone(2, cpu="1", memory="1Gi")],
    "twice": [zone(0, cpu="4", memory="8Gi"), zone(0, cpu="1", memory="1Gi")],
    "no quantities": [zone(0, cpu="inf", memory="lots")],
}


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"])
@pytest.mark.parametrize("scope", ["pod", "container"])
def test_garbage_is_judged_and_never_ends_in_an_error(strategy: str, scope: str) -> None:
    state = state_of(*(topology(name.replace(" ", "-"), *zones, scope=scope) for name, zones in GARBAGE.items()))
    runner = numa_runner(scoringStrategy={"type": strategy, "resources": []})
    new = guaranteed(SMALL, SMALL)
    answers = verdicts(state, new, runner)
    no = "cannot align pod" if scope == "pod" else "cannot align container"
    assert answers == {
        "nothing": no,
        "negative-amounts": no,
        "no-resources": no,
        "amounts-beyond-64-bits": "",
        "numbers-far-apart": "",
        "twice": "",
        "no-quantities": no,
    }
    by_node = scores(state, new, runner)
    assert all(0 <= by_node[name] <= 100 for name, verdict in answers.items() if not verdict), by_node


def test_upstream_ends_in_a_panic_where_zone_numbers_leave_gaps_and_ours_scores() -> None:
    """scoreForEachNUMANode indexes a list of as many entries as there are zones by the zone's number."""
    state = state_of(topology("n", zone(1, cpu="4", memory="4Gi"), zone(5, cpu="8", memory="4Gi")))
    assert scores(state, guaranteed(SMALL), numa_runner()) == {"n": (50 + 75) // 2}


def test_what_is_wrong_is_counted_per_attempt() -> None:
    state = state_of(
        topology("good", zone(0, cpu="4", memory="8Gi")), topology("flawed", zone(0, cpu="4", memory="8Gi"), zone(99))
    )
    other = state_of(topology("bare"))
    info = other.node("bare")
    assert info is not None
    state.upsert_node(info)
    attempt = CycleState()
    view = state.snapshot(NOW)
    numa_runner().plugins[NAME].filter(attempt, guaranteed(SMALL), view, view.rows)
    assert attempt.counters == {f"missing_topology/{NAME}": 1, f"flawed_topology/{NAME}": 1}


def test_an_object_of_another_shape_cannot_be_decoded() -> None:
    with pytest.raises(DecodeError, match="zones"):
        NODERESOURCETOPOLOGIES.decode(b'{"metadata":{"name":"n"},"zones":{"name":"node-0"}}')


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
