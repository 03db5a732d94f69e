"""What decisions rest on between a placement and the agent's next word: the three caches, and resync."""

from typing import Any

import msgspec
import pytest

from scheduler.framework import CycleState, PodInfo
from scheduler.plugins.noderesourcetopologymatch.fingerprint import ANNOTATION, fingerprint
from tests.unit.scheduler.core.builders import NOW, container, pod
from tests.unit.scheduler.plugins.numa import KIND, NAME, scores, topology, zone
from tests.unit.scheduler.plugins.numa_world import (
    FULL,
    OVER_RESERVE,
    STALE,
    TWO,
    NumaCluster,
    foreign,
    named,
    signed,
    two_zones,
)

# Passthrough and DiscardReserved -----------------------------------------------------------------------------------


def test_without_a_cache_placed_pods_do_not_count_until_the_agent_says_so() -> None:
    world = NumaCluster(topology("n", *two_zones("2")))
    world.place(named("a", TWO), "n")
    assert world.verdicts(named("b", TWO)) == {"n": ""}
    world.publish(topology("n", *two_zones("1")))
    assert world.verdicts(named("b", TWO)) == {"n": FULL}
    world.state.objects.remove(KIND, "", "n")
    assert world.verdicts(named("b", TWO)) == {"n": ""}


async def test_a_reserved_node_takes_no_other_pod_until_the_first_is_bound() -> None:
    world = NumaCluster(
        topology("n", *two_zones()), topology("m", *two_zones()), discardReservedNodes=True, **OVER_RESERVE
    )
    first, second = named("a", TWO), named("b", TWO)
    world.place(first, "n")
    assert world.verdicts(second) == {"n": STALE, "m": ""}
    assert scores(world.state, second, world.runner)["n"] == 0
    await world.plugin.post_bind(CycleState(), first, "n")
    assert world.verdicts(second) == {"n": "", "m": ""}
    world.place(second, "n")
    world.plugin.unreserve(CycleState(), second, "n")
    world.plugin.unreserve(CycleState(), second, "n")
    assert world.verdicts(second) == {"n": "", "m": ""}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", STALE), ("upstream", "")])
def test_a_pod_placed_in_the_same_decision_closes_a_node_too(compatibility: str, expected: str) -> None:
    world = NumaCluster(topology("n", *two_zones()), compatibility=compatibility, discardReservedNodes=True)
    overlay = world.state.snapshot(NOW).overlay()
    overlay.add_pod(named("a", TWO), overlay.row("n"))
    answer = world.plugin.filter(CycleState(), named("b", TWO), overlay, overlay.rows)
    assert (answer.status(0, NAME).message if answer else "") == expected


# OverReserve --------------------------------------------------------------------------------------------------------


def test_what_a_reserved_pod_asks_for_is_missing_from_every_zone() -> None:
    world = NumaCluster(topology("n", *two_zones("4")), **OVER_RESERVE)
    assert world.verdicts(named("b", {"cpu": "3", "memory": "1Gi"})) == {"n": ""}
    first = named("a", TWO)
    world.place(first, "n")
    assert world.verdicts(named("b", {"cpu": "3", "memory": "1Gi"})) == {"n": FULL}
    assert world.verdicts(named("b", TWO)) == {"n": ""}
    assert scores(world.state, named("b", TWO), world.runner) == {"n": (0 + (7 - 1) * 100 // 7) // 2}
    world.place(named("b", TWO), "n")
    world.place(named("c", TWO), "n")
    assert world.verdicts(named("d", {"cpu": "1", "memory": "1Gi"})) == {"n": FULL}
    for placed in (first, named("b", TWO), named("c", TWO)):
        world.plugin.unreserve(CycleState(), placed, "n")
    assert world.verdicts(named("b", {"cpu": "4", "memory": "8Gi"})) == {"n": ""}


def test_new_numbers_count_once_they_include_exactly_the_pods_on_the_node() -> None:
    world = NumaCluster(signed("n", *two_zones("4")), **OVER_RESERVE)
    large = named("b", {"cpu": "3", "memory": "1Gi"})
    assert world.verdicts(large) == {"n": ""}
    first = named("a", TWO)
    world.show(world.place(first, "n"), "n")
    assert world.verdicts(large) == {"n": FULL}
    # The old numbers, published again: they do not include the pod.
    world.publish(signed("n", *two_zones("4")))
    assert world.resync() == 0
    assert world.verdicts(large) == {"n": FULL}
    world.publish(signed("n", zone(0, cpu="2", memory="7Gi"), zone(1, cpu="4", memory="8Gi"), pods=[first]))
    assert world.verdicts(large) == {"n": FULL}, "until the next resync"
    assert world.resync() == 1
    assert world.verdicts(large) == {"n": ""}
    assert world.resync() == 0


def test_published_numbers_are_ignored_while_no_pod_was_rejected() -> None:
    world = NumaCluster(signed("n", *two_zones("4")), **OVER_RESERVE)
    first = named("a", TWO)
    assert world.verdicts(first) == {"n": ""}
    world.show(world.place(first, "n"), "n")
    world.publish(signed("n", *two_zones("8"), pods=[first]))
    assert world.resync() == 0
    assert world.verdicts(named("b", {"cpu": "6", "memory": "1Gi"})) == {"n": FULL}
    assert world.resync() == 1
    assert world.verdicts(named("b", {"cpu": "6", "memory": "1Gi"})) == {"n": ""}


@pytest.mark.parametrize(
    ("informer", "phase", "counts"),
    [
        ("Dedicated", "Pending", False),
        ("Dedicated", "Running", True),
        ("Dedicated", "Unknown", True),
        ("Shared", "Pending", False),
        ("Shared", "Running", True),
        ("Shared", "Unknown", False),
    ],
)
def test_which_pods_an_agent_is_expected_to_include(informer: str, phase: str, counts: bool) -> None:
    first = named("a", TWO)
    item = signed("n", *two_zones(), pods=[first, named("z", TWO)])
    world = NumaCluster(item, cache={"informerMode": informer}, **OVER_RESERVE)
    world.show(named("z", TWO), "n")
    world.show(first, "n", phase)
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == int(counts)


@pytest.mark.parametrize(("informer", "synced"), [("Dedicated", 1), ("Shared", 0)])
def test_pods_that_have_ended_may_be_part_of_a_fingerprint(informer: str, synced: int) -> None:
    first, done = named("a", TWO), named("done", TWO)
    world = NumaCluster(signed("n", *two_zones(), pods=[first, done]), cache={"informerMode": informer}, **OVER_RESERVE)
    world.show(first, "n")
    world.handle.ended = [msgspec.structs.replace(done, node_name="n", phase="Succeeded", terminal=True)]
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == synced
    assert world.handle.asked == ["n"] * synced


def test_ended_pods_are_listed_only_on_a_mismatch_and_on_few_nodes_per_round() -> None:
    items = [signed(f"n-{number}", *two_zones(), pods=[named("gone", TWO)]) for number in range(25)]
    world = NumaCluster(signed("good", *two_zones()), *items, **OVER_RESERVE)
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 1
    assert len(world.handle.asked) == 10
    world.resync()
    world.resync()
    assert set(world.handle.asked) == {f"n-{number}" for number in range(25)}


@pytest.mark.parametrize(
    ("content", "synced"),
    [
        ({"attributes": {}}, 0),
        ({"attributes": {"nodeTopologyPodsFingerprint": "pfp0v0010000000000000000"}}, 0),
        ({"attributes": {"nodeTopologyPodsFingerprint": "pfp0v002" + "0" * 16}}, 0),
        ({"attributes": {"nodeTopologyPodsFingerprint": "rubbish"}}, 0),
        ({"annotations": {ANNOTATION: fingerprint([("default", "a")])}}, 1),
        ({"attributes": {"nodeTopologyPodsFingerprint": fingerprint([("default", "a")])}}, 1),
        (
            {
                "attributes": {"nodeTopologyPodsFingerprint": "rubbish"},
                "annotations": {ANNOTATION: fingerprint([("default", "a")])},
            },
            0,
        ),
    ],
)
def test_only_the_right_fingerprint_counts(content: dict[str, Any], synced: int) -> None:
    world = NumaCluster(topology("n", *two_zones(), **content), **OVER_RESERVE)
    world.show(named("a", TWO), "n")
    assert world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"})) == {"n": FULL}
    assert world.resync() == synced


@pytest.mark.parametrize(
    ("method", "published", "synced"),
    [
        ("Autodetect", "", 0),
        ("Autodetect", "all", 0),
        ("Autodetect", "with-exclusive-resources", 1),
        ("All", "with-exclusive-resources", 0),
        ("OnlyExclusiveResources", "", 1),
    ],
)
def test_a_fingerprint_may_be_of_the_pods_with_exclusive_resources(method: str, published: str, synced: int) -> None:
    first = named("a", TWO)
    item = signed("n", *two_zones(), pods=[first], method=published)
    world = NumaCluster(item, cache={"resyncMethod": method}, **OVER_RESERVE)
    world.show(first, "n")
    world.show(pod("small", container(cpu="100m")), "n")
    world.show(named("fraction", {"cpu": "1500m", "memory": "0"}), "n")
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == synced


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", ""), ("upstream", FULL)])
def test_what_a_pod_held_back_is_free_when_it_is_gone(compatibility: str, expected: str) -> None:
    """Upstream holds it back until a resync, which on a node without other pods never comes."""
    world = NumaCluster(signed("n", *two_zones("4")), compatibility=compatibility, **OVER_RESERVE)
    first, large = named("a", TWO), named("b", {"cpu": "3", "memory": "1Gi"})
    assert world.verdicts(first) == {"n": ""}
    shown = world.show(world.place(first, "n"), "n")
    assert world.verdicts(large) == {"n": FULL}
    world.state.remove_pod(shown.uid)
    assert world.verdicts(large) == {"n": expected}


@pytest.mark.parametrize(("compatibility", "synced"), [("safe", 1), ("upstream", 0)])
def test_the_fingerprint_of_no_pods_frees_a_node_that_upstream_never_looks_at(compatibility: str, synced: int) -> None:
    """Upstream passes over nodes without pods."""
    world = NumaCluster(signed("n", *two_zones("4")), compatibility=compatibility, **OVER_RESERVE)
    new = named("a", TWO)
    assert world.verdicts(new) == {"n": ""}
    world.state.remove_pod(world.show(foreign("f"), "n").uid)
    assert world.verdicts(new) == {"n": STALE}
    assert world.resync() == synced
    assert world.verdicts(new) == {"n": "" if synced else STALE}


@pytest.mark.parametrize(("compatibility", "woken"), [("safe", ["b"]), ("upstream", [])])
def test_a_rejected_pod_is_retried_as_soon_as_numbers_are_fresh(compatibility: str, woken: list[str]) -> None:
    """Upstream leaves it to the next event or to five minutes."""
    world = NumaCluster(signed("n", *two_zones("4")), compatibility=compatibility, **OVER_RESERVE)
    first = named("a", TWO)
    world.verdicts(first)
    world.show(world.place(first, "n"), "n")
    world.verdicts(named("b", {"cpu": "3", "memory": "1Gi"}))
    assert world.resync() == 0
    assert world.handle.activated == []
    world.publish(signed("n", *two_zones("4"), pods=[first]))
    assert world.resync() == 1
    assert world.handle.activated == woken


def test_a_pod_that_found_its_node_is_not_woken() -> None:
    world = NumaCluster(signed("n", *two_zones("4")), topology("m", *two_zones("8")), **OVER_RESERVE)
    large = named("b", {"cpu": "6", "memory": "1Gi"})
    assert world.verdicts(large) == {"n": FULL, "m": ""}
    world.place(large, "m")
    assert world.resync() == 1
    assert world.handle.activated == []


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", FULL), ("upstream", "")])
def test_a_pod_that_is_not_started_yet_keeps_its_reservation(compatibility: str, expected: str) -> None:
    """Upstream: the old numbers have the fingerprint of the pods that have been started, and thus count; what the new
    pod will take once its image is there is promised to others."""
    world = NumaCluster(signed("n", *two_zones("4")), compatibility=compatibility, **OVER_RESERVE)
    before = world.show(named("before", TWO), "n")
    world.publish(signed("n", *two_zones("4"), pods=[before]))
    large = named("b", {"cpu": "3", "memory": "1Gi"})
    assert world.verdicts(large)["n"] == ""
    first = world.show(world.place(named("a", TWO), "n"), "n", "Pending")
    assert world.verdicts(large)["n"] == FULL
    assert world.resync() == 1
    assert world.verdicts(large)["n"] == expected
    world.show(first, "n", "Running", "2")
    world.publish(signed("n", zone(0, cpu="2", memory="7Gi"), zone(1, cpu="4", memory="8Gi"), pods=[before, first]))
    world.verdicts(named("c", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 1
    assert world.verdicts(large)["n"] == ""


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", FULL), ("upstream", "")])
def test_another_topology_manager_does_not_free_what_is_held_back(compatibility: str, expected: str) -> None:
    world = NumaCluster(signed("n", *two_zones("4")), compatibility=compatibility, **OVER_RESERVE)
    large = named("b", {"cpu": "3", "memory": "1Gi"})
    assert world.verdicts(large) == {"n": ""}
    first = world.show(world.place(named("a", TWO), "n"), "n")
    world.publish(signed("n", *two_zones("4"), scope="pod"))
    assert world.resync() == 1
    assert world.verdicts(large) == {"n": expected.replace("container", "pod")}
    world.publish(signed("n", *two_zones("4"), scope="pod", pods=[first]))
    assert world.resync() == int(compatibility == "safe")
    assert world.verdicts(large) == {"n": ""}


@pytest.mark.parametrize(("scope", "expected"), [("All", ""), ("OnlyResources", FULL)])
def test_a_changed_topology_manager_is_accepted_without_a_fingerprint(scope: str, expected: str) -> None:
    world = NumaCluster(topology("n", *two_zones("1")), cache={"resyncScope": scope}, **OVER_RESERVE)
    new = named("a", TWO)
    assert world.verdicts(named("tiny", {"cpu": "1", "memory": "1Gi"})) == {"n": ""}
    world.publish(topology("n", *two_zones("1"), policy="none"))
    world.resync()
    assert world.verdicts(new) == {"n": expected}


# Report 38: which pods an agent's fingerprint of exclusive resources includes --------------------------------------

EXCLUSIVE = "with-exclusive-resources"
NIC = {"example.com/nic": "1"}
LICENCE = {"example.com/licence": "1"}


def asking_for(name: str, resources: dict[str, str], *, kind: str = "app") -> PodInfo:
    """A Burstable pod of which one container asks for something."""
    special = container(name="special", requests=resources, limits=resources)
    plain = container(cpu="100m", name="plain")
    if kind == "app":
        burstable = pod(name, plain, special)
    else:
        policy = {"restartPolicy": "Always"} if kind == "sidecar" else {}
        burstable = pod(name, plain, initContainers=[{**special, **policy}])
    return msgspec.structs.replace(burstable, uid=f"uid-{name}", key=f"default/{name}")


def with_nics() -> list[dict[str, Any]]:
    return [zone(number, cpu="4", memory="8Gi", nic="2") for number in (0, 1)]


@pytest.mark.parametrize("zones", [two_zones(), with_nics()], ids=["of no zone", "of a zone"])
@pytest.mark.parametrize(("kind", "is_counted"), [("init", False), ("sidecar", True), ("app", True)])
def test_38_a_device_of_an_init_container_that_is_over_is_not_held(
    kind: str, is_counted: bool, zones: list[dict[str, Any]]
) -> None:
    first, other = named("a", TWO), asking_for("burst", NIC, kind=kind)
    counted = [first, other] if is_counted else [first]
    world = NumaCluster(signed("n", *zones, pods=counted, method=EXCLUSIVE), **OVER_RESERVE)
    for each in (first, other):
        world.show(each, "n")
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 1


@pytest.mark.parametrize("resources", [LICENCE, NIC], ids=["a licence", "a device without a place"])
@pytest.mark.parametrize("is_reported", [False, True])
def test_38_what_no_zone_lists_may_be_reported_or_not(resources: dict[str, str], is_reported: bool) -> None:
    first, other = named("a", TWO), asking_for("other", resources)
    counted = [first, other] if is_reported else [first]
    world = NumaCluster(signed("n", *two_zones(), pods=counted, method=EXCLUSIVE), **OVER_RESERVE)
    for each in (first, other):
        world.show(each, "n")
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 1


def test_38_each_resource_that_no_zone_lists_is_judged_by_itself() -> None:
    first, device, licence = named("a", TWO), asking_for("device", NIC), asking_for("licence", LICENCE)
    world = NumaCluster(signed("n", *two_zones(), pods=[first, device], method=EXCLUSIVE), **OVER_RESERVE)
    for each in (first, device, licence):
        world.show(each, "n")
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 1


def test_38_a_device_of_a_zone_is_always_reported() -> None:
    first, other = named("a", TWO), asking_for("burst", NIC)
    world = NumaCluster(signed("n", *with_nics(), pods=[first], method=EXCLUSIVE), **OVER_RESERVE)
    for each in (first, other):
        world.show(each, "n")
    world.verdicts(named("b", {"cpu": "9", "memory": "1Gi"}))
    assert world.resync() == 0, "the agent's numbers are from before the other pod"


@pytest.mark.parametrize(
    ("compatibility", "zones", "resources", "verdict"),
    [
        ("safe", two_zones(), LICENCE, ""),
        ("upstream", two_zones(), LICENCE, STALE),
        ("safe", with_nics(), NIC, STALE),
        ("upstream", with_nics(), NIC, STALE),
    ],
)
def test_38_another_schedulers_pod_matters_where_a_zone_lists_its_device(
    compatibility: str, zones: list[dict[str, Any]], resources: dict[str, str], verdict: str
) -> None:
    cache = {"foreignPodsDetect": "OnlyExclusiveResources"}
    world = NumaCluster(topology("n", *zones), compatibility=compatibility, cache=cache, **OVER_RESERVE)
    assert world.verdicts(named("a", TWO)) == {"n": ""}
    world.show(msgspec.structs.replace(asking_for("other", resources), scheduler_name="somebody-else"), "n")
    assert world.verdicts(named("a", TWO)) == {"n": verdict}


@pytest.mark.parametrize(("compatibility", "fresh"), [("safe", 1), ("upstream", 0)])
def test_38_a_node_that_is_to_be_looked_at_stays_so_when_it_gets_a_pod(compatibility: str, fresh: int) -> None:
    """Else nothing looks at it until it rejects another pod, and what was held back for too long stays held back."""
    old, small = named("old", {"cpu": "4", "memory": "1Gi"}), named("small", TWO)
    world = NumaCluster(signed("n", *two_zones("6"), pods=[]), compatibility=compatibility, **OVER_RESERVE)
    world.place(old, "n")
    assert world.verdicts(named("big", {"cpu": "3", "memory": "1Gi"})) == {"n": FULL}
    world.place(small, "n")
    for each in (old, small):
        world.show(each, "n")
    world.publish(signed("n", *two_zones("4"), pods=[old, small]))
    assert world.resync() == fresh
    assert world.verdicts(named("big", {"cpu": "3", "memory": "1Gi"})) == {"n": "" if fresh else FULL}
