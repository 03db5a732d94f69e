"""A pod that lists thousands of things costs what it lists: not the others' time, and no memory once it is gone."""

import gc
import random
import time
import tracemalloc

import msgspec
import pytest

from scheduler.core import decide
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, container, pod, runner
from tests.unit.scheduler.core.hostile import (
    HOST,
    HOSTILE,
    MANY,
    REQUIRED,
    Spec,
    Work,
    attempt,
    carried,
    crowded,
    hostile,
    ordinary,
    work_of,
)
from tests.unit.scheduler.plugins.storage import claim, made, mount, put, storage_class, volume

DEFAULT = runner()
CALLS_PER_PART = 100
"""Calls of functions per term, port or toleration, in the attempt and in assuming the pod: measured are up to 90."""
RATIO = 20


@pytest.mark.parametrize("case", HOSTILE)
def test_an_attempt_is_as_much_work_as_the_pod_lists(case: str) -> None:
    state = crowded(200, 10 * MANY)
    for app in range(3):
        attempt(state, ordinary(f"warm-{app}", app), DEFAULT)
    usual = work_of(state, ordinary("before", 7), DEFAULT)
    info = hostile("hostile", case)
    assert work_of(state, info, DEFAULT) < usual + CALLS_PER_PART * max(MANY, info.spec.parts)
    # The next pod is of a class and a set of labels that were not seen before, as the first one was.
    assert work_of(state, ordinary("next", 8), DEFAULT) < 3 * usual
    assert work_of(state, hostile("again", case), DEFAULT) < usual + CALLS_PER_PART * max(MANY, info.spec.parts)


@pytest.mark.parametrize("case", ["keys of their own", "keys that must be absent", "required", "constraints"])
def test_the_work_does_not_grow_with_the_pods_on_nodes(case: str) -> None:
    small, large = (work_of(crowded(100, pods), hostile("hostile", case), runner()) for pods in (MANY, 10 * MANY))
    assert large < 1.5 * small


@pytest.mark.parametrize("case", ["required", "required not"])
def test_a_pod_with_a_thousand_terms_goes_for_next_to_nothing(case: str) -> None:
    state = crowded(100, MANY)
    info = hostile("hostile", case)
    attempt(state, info, DEFAULT)
    with Work() as work:
        state.remove_pod(info.uid)
    # Its terms are counted together, and go together: measured are 2 calls per term.
    assert work.calls < 5 * MANY


def test_a_thousand_keys_at_ten_thousand_pods_take_at_most_twenty_times_an_ordinary_attempt() -> None:
    state = crowded(1000, 10 * MANY)
    attempt(state, ordinary("warm", 0), DEFAULT)
    # In turn, and the quickest of each: what else the machine does disturbs both alike. Measured is a ratio of 8. Each
    # pod is the first of its class, so that nothing is remembered from one to the next.
    pods = [
        (ordinary(f"o{number}", number), hostile(f"h{number}", "keys of their own", of_class=f"{number}"))
        for number in range(1, 16)
    ]
    usual, most = (
        min(times) for times in zip(*([seconds(state, each) for each in pair] for pair in pods), strict=True)
    )
    assert most < RATIO * usual


def seconds(state: ClusterState, info: PodInfo) -> float:
    """Processor time of one decision."""
    chance = random.Random(1)
    started = time.process_time()
    conclude(decide(state.snapshot(NOW), info, DEFAULT, chance))
    return time.process_time() - started


@pytest.mark.parametrize("case", HOSTILE)
def test_the_memory_comes_back_once_the_pod_is_gone(case: str) -> None:
    state, profile = crowded(200, MANY), runner()
    # As in a profile whose plugins do not read the log of assignments, which remembers half an hour.
    state.assignments.keep(False)
    for app in range(5):
        attempt(state, ordinary(f"warm-{app}", app), profile)
    come_and_go(state, profile, case, "first")
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        come_and_go(state, profile, case, "second")
        gc.collect()
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # What is remembered of any pod: its class, its entry in the log of assignments.
    assert left < 100_000, f"{left} bytes"


def come_and_go(state: ClusterState, profile: ProfileRunner, case: str, name: str) -> None:
    info = hostile(name, case, of_class=name)
    attempt(state, info, profile)
    state.remove_pod(info.uid)
    for number in range(3):
        attempt(state, ordinary(f"{name}-{number}", number), profile)
        state.remove_pod(f"uid-{name}-{number}")


def absent(count: int, tag: str) -> list[Spec]:
    return [{"key": f"{tag}-{index}", "operator": "DoesNotExist"} for index in range(count)]


def more_work_for(state: ClusterState, other: ClusterState, info: PodInfo, profile: ProfileRunner) -> int:
    """How much more the first attempt at such a pod is in one cluster than in another one."""
    for each in (state, other):
        attempt(each, ordinary("warm", 0), profile)
    return work_of(state, info, profile) - work_of(other, info, profile)


def test_the_selector_of_an_owner_costs_what_the_pods_carry() -> None:
    long, short = crowded(100, 2 * MANY), crowded(100, 2 * MANY)
    for state, requirements in ((long, MANY // 2), (short, 10)):
        # Half of them are of keys that some pod carries, so none of these can be left out for all pods.
        expressions = [*carried(requirements // 2)["matchExpressions"], *absent(requirements // 2, "none")]
        put(state, made("ReplicaSet", "rs", "default", spec={"selector": {"matchExpressions": expressions}}))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    owned = pod("owned", container("10m"), labels={"app": "web"}, metadata={"ownerReferences": [owner]})
    # The pod lists nothing. There are a thousand sets of labels to compare with either selector.
    assert more_work_for(long, short, owned, DEFAULT) < CALLS_PER_PART * MANY


def test_the_terms_of_pods_that_run_cost_what_another_pod_carries() -> None:
    long, short = crowded(100, MANY), crowded(100, MANY)
    for state, requirements in ((long, 2 * MANY), (short, 1)):
        for number in range(20):
            web = {"key": "app", "operator": "In", "values": ["web"]}
            everywhere = {
                "topologyKey": HOST,
                "labelSelector": {"matchExpressions": [web, *absent(requirements, f"bound{number}")]},
                "namespaceSelector": {"matchExpressions": absent(requirements, f"team{number}")},
            }
            affinity = {"podAntiAffinity": {REQUIRED: [everywhere]}}
            hostile_pod = pod(f"bound-{number}", container("10m"), affinity=affinity)
            state.upsert_pod(msgspec.structs.replace(hostile_pod, node_name=f"n{number}"))
    victim = pod("victim", container("10m"), labels={"app": "web"}, namespace="other")
    # 20 terms and the victim's single label, however long the terms are.
    assert more_work_for(long, short, victim, runner()) < CALLS_PER_PART * 20


def test_the_selector_of_a_claim_costs_what_the_volumes_carry() -> None:
    volumes, claims, most = 100, 4, 2 * MANY
    names = [f"c{number}" for number in range(claims)]
    long, short = crowded(10, MANY), crowded(10, MANY)
    for state, requirements in ((long, most), (short, 1)):
        put(state, storage_class(provisioner="kubernetes.io/no-provisioner"))
        put(state, *(volume(f"v{number}", labels={"app": "disk"}) for number in range(volumes)))
        for number, name in enumerate(names):
            expressions = absent(requirements, f"claim{number}")
            size = "1Ti" if number % 2 else "1Gi"
            put(state, claim(name, size, spec={"selector": {"matchExpressions": expressions}}))
    claiming = pod("claiming", container("10m"), **mount(*names))
    # Each selector is compiled once, and then costs what the volumes carry.
    assert more_work_for(long, short, claiming, DEFAULT) < CALLS_PER_PART * claims * (volumes + most)
