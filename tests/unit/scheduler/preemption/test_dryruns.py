"""What is kept of nodes tried before gives what trying them all afresh gives, whatever happens in between."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
import numpy as np
from hypothesis import example, given, settings, strategies as st

from scheduler.core import Placement, decide
from scheduler.framework import Code, PodInfo, RowArray, conclude
from scheduler.kube.model import PodDisruptionBudget
from scheduler.preemption.dryruns import DryRunCache
from scheduler.preemption.trials import dry_run
from scheduler.preemption.victims import Candidate, DryRunResult, VictimRules, choose
from scheduler.state import ClusterState, Snapshot
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

GPU = "example.com/gpu"
PROFILE = runner()


def budget(label: str, allowed: int, *, disrupted: tuple[str, ...] = ()) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": f"budget-{label}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": label}}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2023-11-14T00:00:00Z"),
            },
        },
        PodDisruptionBudget,
    )


def afresh(placement: Placement, view: Snapshot, rows: RowArray, wanted: int, seed: int) -> Candidate | DryRunResult:
    """The reference: every node is tried, and the search ends after so many candidates, one of which breaks no
    budget."""
    result = dry_run(placement.state, placement.pod, view, PROFILE, rows, len(rows), VictimRules())
    if not result.candidates:
        return result
    for end in range(1, len(result.candidates) + 1):
        first = result.candidates[:end]
        if len(first) >= wanted and any(not candidate.violations for candidate in first):
            break
    return choose(first, view.now, random.Random(seed))


def same(answer: Candidate | DryRunResult, wanted: Candidate | DryRunResult, nodes: int) -> None:
    assert type(answer) is type(wanted)
    if isinstance(answer, DryRunResult) and isinstance(wanted, DryRunResult):
        assert (answer.error, answer.message(nodes)) == (wanted.error, wanted.message(nodes))
    else:
        assert answer == wanted


class ChangingCluster:
    """A cluster in which something happens, and pods that want to preempt."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = NOW
        self.made = 0
        self.state = cluster(*(self.node(index) for index in range(rng.randint(1, 4))))
        self.nominated: list[PodInfo] = []
        for _ in range(rng.randint(6, 20)):
            self.come()

    def node(self, index: int) -> Any:
        allocatable = {"cpu": str(self.rng.randint(1, 4)), "pods": "5", GPU: "2"}
        return node(f"n{index}", allocatable=allocatable, unschedulable=self.rng.randint(0, 9) == 0)

    def some_node(self) -> str:
        return str(self.rng.choice(sorted(self.state.node_names)))

    def pod(self, prefix: str, priority: int, sizes: tuple[int, ...]) -> PodInfo:
        self.made += 1
        rng = self.rng
        ports = [{"containerPort": 1, "hostPort": rng.randint(1, 2)}] if rng.random() < 0.2 else []
        requests = {GPU: "1"} if rng.random() < 0.2 else {}
        main = container(f"{rng.choice(sizes)}00m", ports=ports, requests=requests)
        labels = {"app": rng.choice("ab")} if rng.random() < 0.5 else {}
        return pod(f"{prefix}{self.made}", main, priority=priority, labels=labels)

    def come(self) -> None:
        info = self.pod("p", self.rng.randint(0, 2) * 10, (5, 10, 15))
        # Some have not started, some started by a clock that is ahead.
        start = self.rng.choice([math.nan, NOW - 500.0, NOW - 400.0, NOW + 20.0])
        self.state.upsert_pod(msgspec.structs.replace(info, node_name=self.some_node(), started_at=start))

    def bound(self) -> list[PodInfo]:
        return [placed for name in sorted(self.state.node_names) for placed in self.state.pods_on(name)]

    def go(self) -> None:
        if bound := self.bound():
            self.state.remove_pod(self.rng.choice(bound).uid)

    def relabel(self) -> None:
        if bound := self.bound():
            changed = self.rng.choice(bound)
            self.state.upsert_pod(msgspec.structs.replace(changed, labels={"app": self.rng.choice("ab")}))

    def nominate(self) -> None:
        nominee = self.pod("nominated", self.rng.randint(0, 3) * 10, (10, 20))
        self.state.nominator.set(nominee, self.some_node())
        self.nominated.append(nominee)

    def renominate(self) -> None:
        if self.nominated:
            nominee = self.rng.choice(self.nominated)
            self.state.nominator.set(nominee, self.rng.choice(["", *sorted(self.state.node_names)]))

    def protect(self) -> None:
        label = self.rng.choice("ab")
        if self.rng.randint(0, 3) == 0:
            self.state.objects.remove("PodDisruptionBudget", "default", f"budget-{label}")
        else:
            disrupted = tuple(placed.name for placed in self.bound()[:1]) if self.rng.random() < 0.5 else ()
            self.state.objects.upsert("PodDisruptionBudget", budget(label, self.rng.randint(0, 2), disrupted=disrupted))

    def change_node(self) -> None:
        self.state.upsert_node(self.node(self.rng.randint(0, 5)))

    def drop_node(self) -> None:
        if self.state.node_count > 1:
            self.state.remove_node(self.some_node())

    def wait(self) -> None:
        self.now += self.rng.choice([1.0, 30.0, -5.0])

    def step(self) -> None:
        steps = (
            self.come,
            self.come,
            self.go,
            self.relabel,
            self.nominate,
            self.renominate,
            self.protect,
            self.protect,
        )
        self.rng.choice([*steps, self.change_node, self.drop_node, self.wait])()


def compare(world: ChangingCluster, kept: DryRunCache, incoming: PodInfo, wanted: int, turn: int, seed: int) -> bool:
    """Tell whether there was anything to preempt for, and that both ways agree on it."""
    view = world.state.snapshot(world.now)
    placement = conclude(decide(view, incoming, PROFILE, random.Random(0)))
    if placement.node is not None or placement.diagnosis is None:
        return False
    rows = placement.node_codes(view).rows(Code.UNSCHEDULABLE)
    rows = np.roll(rows, -turn)
    best = kept.search(placement.state, incoming, view, PROFILE, rows, wanted, VictimRules(), random.Random(seed))
    same(best, afresh(placement, view, rows, wanted, seed), len(view.rows))
    return True


@settings(max_examples=tries(150), deadline=None)
@given(st.integers(0, 1 << 32))
@example(1274767)
def test_kept_dry_runs_give_what_trying_all_nodes_gives(seed: int) -> None:
    rng = random.Random(seed)
    world, kept = ChangingCluster(rng), DryRunCache()
    incoming = [world.pod("high", rng.randint(2, 3) * 10, (15, 20, 30)) for _ in range(2)]
    for _ in range(12):
        for _ in range(rng.randint(0, 2)):
            world.step()
        preemptor = rng.choice([*incoming, *incoming, *world.nominated])
        compare(world, kept, preemptor, rng.randint(1, 4), rng.randint(0, 4), rng.randint(0, 9))


def full_node(state: ClusterState, name: str, *started: float) -> None:
    """Add a node full of pods with these starts."""
    state.upsert_node(node(name, allocatable={"cpu": str(len(started)), "pods": "5"}))
    for number, start in enumerate(started):
        info = pod(f"{name}-{number}", container("1"), priority=10)
        state.upsert_pod(msgspec.structs.replace(info, node_name=name, started_at=start))


def candidate_at(state: ClusterState, kept: DryRunCache, now: float, cpu: str, wanted: int) -> Candidate:
    view = state.snapshot(now)
    incoming = pod("high", container(cpu), priority=100)
    placement = conclude(decide(view, incoming, PROFILE, random.Random(0)))
    rows = placement.node_codes(view).rows(Code.UNSCHEDULABLE)
    best = kept.search(placement.state, incoming, view, PROFILE, rows, wanted, VictimRules(), random.Random(0))
    same(best, afresh(placement, view, rows, wanted, 0), len(view.rows))
    assert isinstance(best, Candidate)
    return best


def test_victim_that_has_not_started_counts_as_started_now_beside_victim_whose_start_lies_ahead() -> None:
    state = cluster()
    full_node(state, "starting", math.nan, NOW + 30.0)
    full_node(state, "ahead", NOW + 20.0, NOW + 20.0)
    assert candidate_at(state, DryRunCache(), NOW, "2", wanted=2).node == "ahead"


def test_victims_that_started_this_moment_are_compared_again_in_the_next() -> None:
    state, kept = cluster(), DryRunCache()
    full_node(state, "n0", math.nan, NOW)
    assert [victim.name for victim in candidate_at(state, kept, NOW, "1", wanted=1).victims] == ["n0-1"]
    assert [victim.name for victim in candidate_at(state, kept, NOW + 1.0, "1", wanted=1).victims] == ["n0-0"]
