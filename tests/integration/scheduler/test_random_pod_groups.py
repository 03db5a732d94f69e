"""Random lives of PodGroups of scheduling.k8s.io: members of unlike sizes that come, go and have gates, a minCount that
changes, a group that is deleted and comes again, members that are unlike the others. The real kube-scheduler and ours
with `compatibility: upstream` play each life at the same time, on nodes of their own of one API server, and must place
the same pods after every step.

POD_GROUP_CASES and POD_GROUP_SEED choose how many lives, and which; POD_GROUP_LANES how many are played at a time.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.integration.scheduler.podgroups import API_VERSION, GATES, TOPOLOGY_GATE, Administrator
from tests.integration.scheduler.preemption import daemon_running
from tests.support.kubescheduler import kube_scheduler_running
from tests.support.minors import built_or_skip

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SERVED = "1.37"
LANES = int(os.environ.get("POD_GROUP_LANES", "4"))
_FIRST = int(os.environ.get("POD_GROUP_SEED", "0"))
SEEDS = range(_FIRST, _FIRST + int(os.environ.get("POD_GROUP_CASES", "10")))
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLASSES: Mapping[str, Mapping[str, Any]] = {"urgent": {"value": 7}, "never": {"value": 0, "preemptionPolicy": "Never"}}
"""Priority classes of members that are unlike the others."""
_REPLAYS = 6
"""How often a life is played again before it counts as a difference: equal scores of nodes are drawn."""
_LONGEST_SECONDS = 20.0
"""How long both may take to place the same pods; a backoff is 2 s at most."""
_POLL_SECONDS = 0.25
_LOOKS = 3
"""How often in a row both must be found equal, and unchanged."""
Step = Callable[["Side"], None]


@dataclass(frozen=True)
class State:
    """Who has a node, in which racks where the group has to be in one, who has none because of an error, and what was
    said to each that has none."""

    placed: list[str]
    racks: list[str]
    errors: list[str]
    waiting: dict[str, str]

    def equals(self, other: State) -> bool:
        """Whether the pods are the same, and the messages as far as one of them goes: ours preempts for nobody here."""
        if (self.placed, self.racks, self.errors) != (other.placed, other.racks, other.errors):
            return False
        return self.waiting.keys() == other.waiting.keys() and all(
            text.startswith(other.waiting[name]) or other.waiting[name].startswith(text)
            for name, text in self.waiting.items()
            # Of the group as a whole it says more where the gate for its topology is on, which a test needs.
            if not text.startswith(("pod group is unschedulable", "parent pod group"))
        )


class Side(Administrator):
    """One scheduler's nodes and pods of a life."""

    def __init__(self, plane: ControlPlane, scheduler: str, lane: int = 0) -> None:
        super().__init__(plane, SERVED)
        self.scheduler = scheduler
        self.key = ""
        self.lives = 0
        self.name = name = f"{scheduler}-{lane}"
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self.groups = f"/apis/{API_VERSION[SERVED]}/namespaces/{name}/podgroups"
        self.pods = f"/api/v1/namespaces/{name}/pods"

    def clear(self) -> None:
        """Take everything of this side off the stage, and wait for nothing but the pods."""
        self.key = ""
        self.lives += 1
        self.call("DELETE", self.pods, {"gracePeriodSeconds": 0})
        self.remove_groups()
        self.call("DELETE", f"/api/v1/nodes?labelSelector=side%3D{self.name}")

    @property
    def group(self) -> str:
        """The group's name, another one in each life: kube-scheduler counts pods that are gone where a group of their
        group's name comes at once."""
        return f"g{self.lives}"

    def remove_groups(self) -> None:
        self.call("DELETE", self.groups)
        for group in self.call("GET", self.groups)["items"]:
            self.call("PATCH", f"{self.groups}/{group['metadata']['name']}", {"metadata": {"finalizers": None}})

    def add_node(self, number: int, cpu: str, rack: str) -> None:
        racks = {"rack": f"{self.name}.{rack}"} if rack else {}
        self.add_nodes(f"{self.name}-{number}", cpu=cpu, side=self.name, **racks)

    def add_member(self, name: str, cpu: str, **spec: Any) -> None:
        self.add_pods(name, cpu=cpu, group=self.group, nodeSelector={"side": self.name}, **spec)

    def state(self) -> State:
        """How the pods are."""
        path = f"/api/v1/nodes?labelSelector=side%3D{self.name}"
        nodes = self.call("GET", path)["items"] if self.key else []
        rack_of = {node["metadata"]["name"]: node["metadata"]["labels"].get("rack", "") for node in nodes}
        placed, racks, errors, waiting = set(), set(), set(), {}
        for pod in self.call("GET", self.pods)["items"]:
            name = pod["metadata"]["name"]
            if node := pod["spec"].get("nodeName"):
                placed.add(name)
                if self.key:
                    racks.add(rack_of.get(node, "").rpartition(".")[2])
                continue
            waiting[name] = ""
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "PodScheduled":
                    waiting[name] = self._comparable(condition.get("message", ""))
                    if condition["reason"] == "SchedulerError":
                        errors.add(name)
        return State(sorted(placed), sorted(racks), sorted(errors), waiting)

    def _comparable(self, message: str) -> str:
        """Return a message without what follows from the nodes of others, and the names of this side's; nothing of a
        group that is tried in several racks: whose message is given is chance."""
        if self.key and not message.startswith("all pods"):
            return ""
        return re.sub(r"0/\d+ nodes|\d+ (?=node\(s\) didn't match)", "", message).replace(self.name, "side")


Sides = tuple[Side, Side]


@pytest.fixture(scope="module", params=os.environ.get("POD_GROUP_MINORS", SERVED).split(","))
def differences(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[int, Future[str]]]:
    """How the two differ, by seed; all lives are played from the beginning on, some at a time."""
    minor = request.param
    binary = built_or_skip(minor, "kube-apiserver", "kube-scheduler")["kube-scheduler"]
    directory = tmp_path_factory.mktemp("lives")
    gates = f"--feature-gates={GATES[SERVED]}{TOPOLOGY_GATE}"
    with ExitStack() as stack:
        served = (gates, f"--runtime-config={API_VERSION[SERVED]}=true")
        plane = stack.enter_context(control_plane_running(SERVED, served))
        free: SimpleQueue[Sides] = SimpleQueue()
        for lane in range(LANES):
            free.put((Side(plane, "real", lane), Side(plane, "ours", lane)))
        for name, fields in CLASSES.items():
            Side(plane, "real").call("POST", PRIORITY_CLASSES, {"metadata": {"name": name}, **fields})
        kubeconfig = plane.layout.kubeconfig
        real, ours = configuration("real", kubeconfig), configuration("ours", kubeconfig, minor)
        # Else a group that does not fit is tried all the time.
        gates += ",SchedulerPopFromBackoffQ=false"
        stack.enter_context(kube_scheduler_running(binary, kubeconfig, directory, real, (gates,)))
        stack.enter_context(daemon_running(directory, ours, ("--secure-port=0", gates)))
        pool = ThreadPoolExecutor(LANES)
        stack.callback(pool.shutdown, cancel_futures=True)
        yield {seed: pool.submit(difference, free, seed) for seed in SEEDS}


def configuration(scheduler: str, kubeconfig: Path, minor: str = "") -> str:
    """A configuration with short backoffs; of ours, as a version behaves, where one is named."""
    profile: dict[str, Any] = {"schedulerName": scheduler}
    if minor:
        options = {"compatibility": "upstream", "kubernetesVersion": minor}
        profile["pluginConfig"] = [{"name": "SecondarySchedulerOptions", "args": options}]
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 500},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [profile],
    }
    return json.dumps(content)


class Life:
    """The steps of a random life, drawn once and played by both."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._members: list[str] = []
        self._gated: list[str] = []
        self._count = 0
        self._nodes = 0
        self._has_group = False
        self._key = "rack" if self._chance.random() < 0.25 else ""
        self._minimum: int | None = None if self._chance.random() < 0.2 else self._chance.randint(1, 4)
        # Unlike members keep a group from being placed at all: most lives have none.
        self._has_unlike = self._chance.random() < 0.15
        self.steps: list[tuple[str, Step]] = [self._together(self._nodes_come, self._first_members_come)]
        moves = [
            *[self._members_come] * 4,
            *[self._a_node_comes] * 2,
            *[self._a_member_goes] * 2,
            *[self._the_minimum_changes] * 3,
            self._the_group_goes,
            self._a_gated_member_comes,
            self._the_gates_go,
        ]
        for _ in range(self._chance.randint(1, 4)):
            self.steps.append(self._chance.choice(moves)())
        if not self._has_group:
            self.steps.append(self._the_group_comes())
        if self._gated:
            self.steps.append(self._the_gates_go())

    @staticmethod
    def _together(*moves: Callable[[], tuple[str, Step]]) -> tuple[str, Step]:
        drawn = [move() for move in moves]

        def play(side: Side) -> None:
            for _, step in drawn:
                step(side)

        return "; ".join(text for text, _ in drawn), play

    def _nodes_come(self) -> tuple[str, Step]:
        nodes = [self._node() for _ in range(self._chance.randint(1, 5))]

        def play(side: Side) -> None:
            for node in nodes:
                side.add_node(*node)

        return f"nodes {nodes}", play

    def _node(self) -> tuple[int, str, str]:
        self._nodes += 1
        rack = "" if self._chance.random() < 0.1 else f"r{self._chance.randint(1, 3)}"
        # Unlike sizes: nodes with equal scores are drawn.
        return self._nodes, f"{self._chance.randint(8, 40) * 100 + self._nodes}m", rack

    def _a_node_comes(self) -> tuple[str, Step]:
        node = self._node()
        return f"node {node}", lambda side: side.add_node(*node)

    def _first_members_come(self) -> tuple[str, Step]:
        if self._chance.random() < 0.3:
            return self._together(self._the_group_comes, self._members_come)
        return self._together(self._members_come, self._the_group_comes)

    def _members_come(self) -> tuple[str, Step]:
        members = [self._member() for _ in range(self._chance.randint(1, 3))]

        def play(side: Side) -> None:
            for name, cpu, spec in members:
                side.add_member(name, cpu, **spec)

        return f"members {members}", play

    def _member(self, **spec: Any) -> tuple[str, str, Mapping[str, Any]]:
        self._count += 1
        name = f"m{self._count}"
        self._members.append(name)
        if self._has_unlike and self._chance.random() < 0.25:
            spec["priorityClassName"] = self._chance.choice(list(CLASSES))
        return name, f"{self._chance.choice((300, 500, 900, 1500))}m", spec

    def _a_gated_member_comes(self) -> tuple[str, Step]:
        name, cpu, spec = self._member(schedulingGates=[{"name": "later"}])
        self._gated.append(name)
        return f"gated {name}", lambda side: side.add_member(name, cpu, **spec)

    def _the_gates_go(self) -> tuple[str, Step]:
        gated, self._gated = self._gated, []

        def play(side: Side) -> None:
            for name in gated:
                side.call("PATCH", f"{side.pods}/{name}", {"spec": {"schedulingGates": None}})

        return f"ungated {gated}", play

    def _a_member_goes(self) -> tuple[str, Step]:
        # One with a gate keeps kube-scheduler from trying the others even when it is gone.
        leaving = [name for name in self._members if name not in self._gated]
        if not leaving:
            return self._members_come()
        name = self._chance.choice(leaving)
        self._members.remove(name)
        return f"{name} goes", lambda side: side.call("DELETE", f"{side.pods}/{name}", {"gracePeriodSeconds": 0})

    def _the_minimum_changes(self) -> tuple[str, Step]:
        if not self._has_group or self._minimum is None:
            return self._members_come()
        self._minimum = minimum = self._chance.randint(1, 5)
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}}}
        return f"minCount {minimum}", lambda side: side.call("PATCH", f"{side.groups}/{side.group}", patch)

    def _the_group_goes(self) -> tuple[str, Step]:
        if not self._has_group:
            return self._the_group_comes()
        self._has_group = False
        return "the group goes", lambda side: side.remove_groups()

    def _the_group_comes(self) -> tuple[str, Step]:
        self._has_group = True
        minimum, key = self._minimum, self._key

        def play(side: Side) -> None:
            side.key = key
            side.add_group(side.group, minimum, key)

        return f"group of {minimum} {key}", play


def played_alike(sides: Sides, seed: int) -> str:
    """Play a life; return after which step the two differ, and how, or ""."""
    for side in sides:
        side.clear()
    settled(sides)
    done: list[str] = []
    for text, step in Life(seed).steps:
        done.append(text)
        for side in sides:
            step(side)
        if difference := settled(sides):
            return f"seed {seed}: after {done}: real and ours: {difference}"
    return ""


def settled(sides: Sides) -> str:
    """Wait until both are found alike and unchanged some times in a row; return how they differ where they do not get
    there."""
    deadline = time.monotonic() + _LONGEST_SECONDS
    before, looks = None, 0
    while looks < _LOOKS:
        real, ours = (side.state() for side in sides)
        looks = looks + 1 if real.equals(ours) and real == before else 0
        before = real
        if looks < _LOOKS:
            if time.monotonic() > deadline:
                return f"{real} {ours}"
            time.sleep(_POLL_SECONDS)
    return ""


def difference(free: SimpleQueue[Sides], seed: int) -> str:
    """Play a life until both end alike, some times at most; return how they differed the last time, or ""."""
    sides = free.get()
    try:
        text = ""
        for _ in range(_REPLAYS):
            text = played_alike(sides, seed)
            if not text:
                break
        return text
    finally:
        free.put(sides)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_life_of_a_group_goes_as_with_kube_scheduler(
    differences: Mapping[int, Future[str]], seed: int
) -> None:
    if text := differences[seed].result():
        pytest.fail(text, pytrace=False)
