"""What a cache makes of news: pods of others, objects that come and go, pods of the same decision, and what people are
told."""

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.framework import CycleState
from tests.unit.scheduler.core.builders import NOW, container
from tests.unit.scheduler.plugins.numa import KIND, NAME, numa_runner, scores, state_of, topology, verdicts, zone
from tests.unit.scheduler.plugins.numa_world import (
    FULL,
    OVER_RESERVE,
    STALE,
    TWO,
    NumaCluster,
    foreign,
    keep_going,
    named,
    signed,
    two_zones,
)

# Foreign pods -------------------------------------------------------------------------------------------------------


def test_a_foreign_pod_closes_its_node_until_the_numbers_include_it() -> None:
    world = NumaCluster(signed("n", *two_zones()), signed("m", *two_zones()), **OVER_RESERVE)
    new = named("a", TWO)
    assert world.verdicts(new) == {"n": "", "m": ""}
    other = world.show(foreign("f"), "n", "Pending")
    assert world.verdicts(new) == {"n": STALE, "m": ""}
    assert scores(world.state, new, world.runner)["n"] == 0
    # It has not been started: the old numbers are right.
    assert world.resync() == 1
    assert world.verdicts(new) == {"n": "", "m": ""}
    other = world.show(other, "n", "Running", "2")
    assert world.verdicts(new) == {"n": STALE, "m": ""}
    assert world.resync() == 0
    world.publish(signed("n", *two_zones("1"), pods=[other]))
    assert world.resync() == 1
    assert world.verdicts(new) == {"n": FULL, "m": ""}
    world.state.remove_pod(other.uid)
    assert world.verdicts(new) == {"n": STALE, "m": ""}


def test_a_foreign_pod_relisted_unchanged_is_ignored() -> None:
    world = NumaCluster(signed("n", *two_zones(), pods=[foreign("f")]), **OVER_RESERVE)
    other = world.show(foreign("f"), "n")
    world.verdicts(named("a", TWO))
    assert world.resync() == 1
    world.state.upsert_pod(other)
    assert world.verdicts(named("a", TWO)) == {"n": ""}


@pytest.mark.parametrize(
    ("mode", "small", "large"), [("All", STALE, STALE), ("None", "", ""), ("OnlyExclusiveResources", "", STALE)]
)
def test_which_foreign_pods_matter_is_configured(mode: str, small: str, large: str) -> None:
    world = NumaCluster(signed("n", *two_zones()), cache={"foreignPodsDetect": mode}, **OVER_RESERVE)
    new = named("a", TWO)
    world.verdicts(new)
    world.show(foreign("f", container(cpu="100m")), "n")
    assert world.verdicts(new) == {"n": small}
    world.show(foreign("g"), "n")
    assert world.verdicts(new) == {"n": large}


def test_a_pod_of_another_profile_is_foreign() -> None:
    """Upstream knows the names of all profiles and overlooks their pods, though each has a cache of its own."""
    world = NumaCluster(signed("n", *two_zones()), **OVER_RESERVE)
    new = named("a", TWO)
    assert world.verdicts(new) == {"n": ""}
    world.show(msgspec.structs.replace(foreign("f"), scheduler_name="test-2"), "n")
    assert world.verdicts(new) == {"n": STALE}


def test_pods_of_our_own_do_not_close_a_node_and_pods_there_before_us_do() -> None:
    world = NumaCluster(signed("n", *two_zones()), signed("m", *two_zones()), **OVER_RESERVE)
    world.show(named("own", TWO), "n")
    world.show(foreign("f"), "m")
    assert world.verdicts(named("a", TWO)) == {"n": "", "m": STALE}


def test_a_foreign_pod_on_a_node_without_an_object_does_not_matter() -> None:
    world = NumaCluster(signed("n", *two_zones()), signed("m", *two_zones()), **OVER_RESERVE)
    world.state.objects.remove(KIND, "", "m")
    world.verdicts(named("a", TWO))
    world.show(foreign("f"), "m")
    assert world.verdicts(named("a", TWO)) == {"n": "", "m": ""}


# Objects that come and go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", FULL), ("upstream", "")])
def test_a_node_that_gets_its_object_later_is_judged_by_it(compatibility: str, expected: str) -> None:
    """Upstream takes the list of its start and never learns of further nodes."""
    world = NumaCluster(
        topology("n", *two_zones()), topology("m", *two_zones()), compatibility=compatibility, **OVER_RESERVE
    )
    world.state.objects.remove(KIND, "", "m")
    new = named("a", TWO)
    assert world.verdicts(new) == {"n": "", "m": ""}
    world.publish(topology("m", *two_zones("1")))
    assert world.verdicts(new) == {"n": "", "m": expected}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", ""), ("upstream", FULL)])
def test_a_deleted_object_no_longer_counts(compatibility: str, expected: str) -> None:
    """Upstream goes on with its copy."""
    world = NumaCluster(topology("n", *two_zones("1")), compatibility=compatibility, **OVER_RESERVE)
    new = named("a", TWO)
    assert world.verdicts(new) == {"n": FULL}
    world.state.objects.remove(KIND, "", "n")
    assert world.verdicts(new) == {"n": expected}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", FULL), ("upstream", "")])
def test_pods_placed_in_the_same_decision_are_missing_from_the_zones(compatibility: str, expected: str) -> None:
    world = NumaCluster(topology("n", *two_zones("3")), compatibility=compatibility, **OVER_RESERVE)
    overlay = world.state.snapshot(NOW).overlay()
    overlay.add_pod(named("a", TWO), overlay.row("n"))
    answer = world.plugin.filter(CycleState(), named("b", TWO), overlay, overlay.rows)
    assert (answer.status(0, NAME).message.partition(" (")[0] if answer else "") == expected
    assert world.verdicts(named("b", TWO)) == {"n": ""}, "what was tried leaves no trace"


async def test_what_is_published_counts_until_the_first_decision_and_is_compared_from_then_on() -> None:
    world = NumaCluster(topology("n", *two_zones("1")), **OVER_RESERVE)
    world.runner.use_objects(world.state.objects)
    ((seconds, look),) = world.handle.repeated.values()
    assert seconds == OVER_RESERVE["cacheResyncPeriodSeconds"]
    await look(keep_going)
    world.publish(topology("n", *two_zones("4")))
    assert world.verdicts(named("a", TWO)) == {"n": ""}
    world.publish(topology("n", *two_zones("1")))
    assert world.verdicts(named("a", TWO)) == {"n": ""}


def test_without_a_period_nothing_is_repeated() -> None:
    world = NumaCluster(topology("n", *two_zones()))
    world.runner.use_objects(world.state.objects)
    assert world.handle.repeated == {}


# What people are told -----------------------------------------------------------------------------------------------


def test_an_object_that_makes_no_sense_is_named_once_per_version() -> None:
    world = NumaCluster(topology("n", *two_zones()))
    new = named("a", TWO)
    world.verdicts(new)
    world.publish(topology("n", *two_zones(), zone(99, cpu="1"), policy="sometimes"))
    for _ in range(3):
        world.verdicts(new)
    ((severity, fields),) = world.handle.lines
    assert (fields["node"], severity, fields["resourceVersion"]) == ("n", "warning", "10")
    assert fields["flaws"] == [
        "zone 'node-99' is left out: expected node-0 to node-63",
        "attribute topologyManagerPolicy is ignored: 'sometimes' is no value of it",
    ]


def test_why_nodes_stay_closed_is_logged_once_per_change() -> None:
    world = NumaCluster(signed("n", *two_zones()), topology("m", *two_zones()), **OVER_RESERVE)
    world.verdicts(named("a", TWO))
    other = world.show(foreign("f"), "n")
    world.show(foreign("g"), "m")
    for _ in range(3):
        world.resync()
    world.publish(signed("n", *two_zones(), pods=[other]))
    for _ in range(3):
        world.resync()
    assert [fields["waiting"] for _, fields in world.handle.lines] == [
        {"no fingerprint": 1, "other pods than on the node": 1},
        {"no fingerprint": 1},
    ]


def test_without_an_engine_nothing_is_logged() -> None:
    state = state_of(topology("n", zone(99, cpu="1")))
    with capture_logs() as logs:
        verdicts(state, named("a", TWO), numa_runner())
    assert logs == []
