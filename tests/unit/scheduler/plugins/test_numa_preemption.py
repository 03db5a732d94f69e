"""`preemptionMode: Enabled`: pods are preempted where their zone has the room that is missing."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.core import decide
from scheduler.framework import OverBudgetError, PodInfo, conclude
from scheduler.plugins.noderesourcetopologymatch.fingerprint import fingerprint
from scheduler.plugins.noderesourcetopologymatch.placement import METADATA, VECTOR, container_hash, zones_of
from scheduler.preemption.trials import dry_run
from scheduler.preemption.victims import VictimRules
from tests.support.numaplacement import LETTERS, published_zones
from tests.unit.scheduler.core.builders import NOW
from tests.unit.scheduler.plugins.numa import topology, zone
from tests.unit.scheduler.plugins.numa_world import FULL, OVER_RESERVE, NumaCluster, named, signed

VECTORS = json.loads((Path(__file__).parents[3] / "conformance/vectors/numaplacement.json").read_text())["encoded"]
FOUR, THREE, ONE = ({"cpu": cpu, "memory": "1Gi"} for cpu in ("4", "3", "1"))
ENABLED = {"preemptionMode": "Enabled"}


def said(pods: dict[PodInfo, int], *free: str, most: str = "4", **content: Any) -> Any:
    """A node's object: what its zones have left of so many cpus, and in which zone the containers of pods are."""
    listed = [zone(number, cpu=cpu, memory="4Gi") for number, cpu in enumerate(free)]
    for each in listed:
        for resource in each["resources"]:
            resource["allocatable"] = most if resource["name"] == "cpu" else "8Gi"
    containers = {
        (pod.namespace, pod.name, container.name): number
        for pod, number in pods.items()
        for container in pod.spec.containers
    }
    metadata, vectors = published_zones(containers, len(listed))
    for number, vector in vectors.items():
        listed[number]["attributes"] = [{"name": VECTOR, "value": vector}]
    return signed("n", *listed, pods=pods, attributes={METADATA: metadata}, **content)


def preempted(world: NumaCluster, new: PodInfo) -> list[str]:
    """The pods that are preempted for one."""
    view = world.state.snapshot(NOW)
    placement = conclude(decide(view, new, world.runner, random.Random(1)))
    assert placement.node is None
    result = dry_run(placement.state, new, view, world.runner, view.rows, 1, VictimRules())
    return sorted(victim.name for candidate in result.candidates for victim in candidate.victims)


def test_pods_that_list_hundreds_of_containers_are_charged_for_before_they_are_looked_through() -> None:
    low = named("low", *({"cpu": "10m", "memory": "1Mi"} for _ in range(300)))
    new = important(FOUR)
    world = NumaCluster(said({low: 1}, "3", "0"), **ENABLED)
    running(world, low)
    view = world.state.snapshot(NOW)
    placement = conclude(decide(view, new, world.runner, random.Random(1)))
    work = placement.state.work
    work.limit = work.done + 2_900
    with pytest.raises(OverBudgetError, match="containers of pods on nodes"):
        dry_run(placement.state, new, view, world.runner, view.rows, 1, VictimRules())


def test_pods_that_do_not_match_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def counted(pods: Iterable[tuple[str, str]]) -> str:
        compared.append("once more")
        return fingerprint(pods)

    monkeypatch.setattr("scheduler.plugins.noderesourcetopologymatch.placement.fingerprint", counted)
    low, other = named("low", FOUR), named("other", ONE)
    world = NumaCluster(said({low: 1}, "3", "0"), **ENABLED)
    running(world, low, other)
    assert preempted(world, important(FOUR)) == preempted(world, important(FOUR)) == []
    assert len(compared) == 1


def running(world: NumaCluster, *pods: PodInfo) -> None:
    for pod in pods:
        world.show(pod, "n")


def important(amounts: dict[str, str]) -> PodInfo:
    return named("new", amounts, priority=1000)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["metadata"].partition("cc=")[2])
def test_zones_are_those_that_the_go_module_encoded(vector: dict[str, Any]) -> None:
    zones = [
        {"name": f"node-{number}", "type": "Node", "attributes": [{"name": VECTOR, "value": text}]}
        for number, text in vector["vectors"].items()
    ]
    item = topology("n", *zones, attributes={METADATA: vector["metadata"]})
    expected = {container_hash(*names): number for *names, number in vector["containers"]}
    assert zones_of(item, expected) == expected


@pytest.mark.parametrize(
    ("metadata", "vector"),
    [
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=0", "!"),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=2", "!"),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=1", "!"),
        ("npv0v001::ve=leb89::cc=2::nn=1::bn=0", "!"),
        ("npv0v001::ve=plain::cc=2::nn=2::bn=0", "!"),
        ("npv0v002::ve=leb89::cc=2::nn=2::bn=0", "!"),
        ("npv0v001::ve=leb89::cc=2::nn=2", "!"),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "$"),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "!!"),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", '"'),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", LETTERS[64]),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", LETTERS[88] * 100_000),
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "!" * 100_000),
    ],
)
def test_an_object_that_makes_no_sense_says_nothing(metadata: str, vector: str) -> None:
    zones = [{"name": f"node-{number}", "type": "Node"} for number in range(2)]
    zones[1]["attributes"] = [{"name": VECTOR, "value": vector}]  # type: ignore[assignment]
    assert zones_of(topology("n", *zones, attributes={METADATA: metadata}), [1, 2]) == {}


@pytest.mark.parametrize("cache", [{}, OVER_RESERVE])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_pods_of_one_zone_are_preempted_and_no_others(scope: str, cache: dict[str, Any]) -> None:
    first, second, small = named("first", THREE), named("second", THREE), named("small", ONE)
    world = NumaCluster(said({first: 0, small: 0, second: 1}, "0", "1", scope=scope), **ENABLED, **cache)
    running(world, first, second, small)
    assert preempted(world, important(FOUR)) == ["second"]


def test_without_the_mode_nobody_is_preempted_for_a_zone() -> None:
    low = named("low", FOUR)
    for mode in ("Disabled", "Enabled"):
        world = NumaCluster(said({low: 1}, "3", "0"), preemptionMode=mode)
        running(world, low)
        assert preempted(world, important(FOUR)) == ([] if mode == "Disabled" else ["low"])


def test_only_as_many_pods_are_preempted_as_it_takes() -> None:
    low = [named(f"low{number}", ONE, priority=number) for number in range(4)]
    world = NumaCluster(said(dict.fromkeys(low, 0), "0", "0"), **ENABLED)
    running(world, *low)
    assert preempted(world, important({"cpu": "2", "memory": "1Gi"})) == ["low0", "low1"]


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_a_pod_younger_than_the_agents_numbers_gives_back_what_is_held_back_for_it(compatibility: str) -> None:
    # scheduler-plugins issue 1015: the object that counts does not know the pod, and never will.
    old, young = named("old", THREE), named("young", FOUR)
    world = NumaCluster(said({old: 0}, "1", "4"), compatibility=compatibility, **ENABLED, **OVER_RESERVE)
    running(world, old)
    assert world.verdicts(young) == {"n": ""}
    world.place(young, "n")
    running(world, young)
    assert world.verdicts(important(FOUR)) == {"n": FULL}
    assert preempted(world, important(FOUR)) == ["young"]


def test_a_pod_of_an_unknown_zone_is_not_preempted_until_the_agent_says_where_it_is() -> None:
    low = named("low", FOUR)
    world = NumaCluster(said({}, "3", "0"), **ENABLED, **OVER_RESERVE)
    running(world, low)
    new = important(FOUR)
    assert preempted(world, new) == []
    world.publish(said({low: 1}, "3", "0"))
    assert world.resync() == 1
    assert world.handle.activated == ["new"]
    assert preempted(world, new) == ["low"]


def test_what_was_compared_counts_though_another_pod_has_come_since() -> None:
    low, next_one = named("low", FOUR), named("next", ONE)
    world = NumaCluster(said({}, "3", "3"), **ENABLED, **OVER_RESERVE)
    running(world, low)
    assert world.verdicts(important(FOUR)) == {"n": FULL}
    world.publish(said({low: 1}, "3", "0"))
    assert world.resync() == 1
    running(world, world.place(next_one, "n"))
    assert preempted(world, important(FOUR)) == ["low"]


def test_numbers_that_do_not_fit_together_are_not_counted_on() -> None:
    low = named("low", THREE)
    world = NumaCluster(said({low: 0}, "2", "0", most="4"), **ENABLED)
    running(world, low)
    assert preempted(world, important(FOUR)) == []


def test_the_pod_is_not_preempted_by_an_object_without_a_fingerprint() -> None:
    low = named("low", FOUR)
    item = said({low: 1}, "3", "0")
    kept = tuple(attribute for attribute in item.attributes if "Fingerprint" not in attribute.name)
    world = NumaCluster(msgspec.structs.replace(item, attributes=kept), **ENABLED)
    running(world, low)
    assert preempted(world, important(FOUR)) == []
