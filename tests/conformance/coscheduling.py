"""Gangs in small worlds of their own, played on one API server by the real scheduler-plugins and by our daemon.

A world is a few nodes that only its pods may use, PodGroups, pods, and something that happens after a while. Many
worlds are played at a time. Who is bound after each phase must be the same: with `compatibility: upstream` in every
world, with `safe` in those in which nobody competes with a gang. Both schedulers are started when everything is there
already, so that the order of the queue is no matter of who came first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.conformance import schedulerplugins
from tests.conformance.apiclient import COLLECTIONS, Api
from tests.conformance.case import Json
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.coscheduling_worlds import Group, GroupScenario, Member, generate
from tests.support.waiting import PATIENCE_SECONDS

Process = subprocess.Popen[bytes]
LABEL = "scheduling.x-k8s.io/pod-group"
PERMIT_SECONDS = 2
SETTLED_SECONDS = PERMIT_SECONDS + 2.0
"""A phase is over when nobody was bound for so long: longer than a gang may wait, and than the first back-off."""
_PHASE_SECONDS = 14.0
_START_SECONDS = 120.0
_REPLAYS = 5
PRIORITIES = {"low": 1, "high": 100}
"""Priority classes; nobody is preempted."""
_CRD = Path(__file__).parents[2] / "components/crds/scheduling.x-k8s.io_podgroups.yaml"


# Objects ------------------------------------------------------------------------------------------------------------


def _node(world: GroupScenario, name: str, cpus: int) -> Json:
    resources = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{world.namespace}-{name}", "labels": {"world": world.namespace}},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _group(world: GroupScenario, group: Group, minimum: int | None = None) -> Json:
    spec: Json = {"minMember": minimum or group.minimum}
    if group.resources:
        spec["minResources"] = {"cpu": group.resources}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": group.name, "namespace": world.namespace},
        "spec": spec,
    }


def _pod(world: GroupScenario, pod: Member, scheduler: str) -> Json:
    spec: Json = {
        "schedulerName": scheduler,
        "nodeSelector": {"world": world.namespace},
        "priorityClassName": f"coscheduling-{pod.priority}",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": str(pod.cpu)}}}],
    }
    if pod.gated:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    labels = {LABEL: pod.group} if pod.group else {}
    metadata = {"name": pod.name, "namespace": world.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


# Schedulers ---------------------------------------------------------------------------------------------------------


def configuration(name: str, kubeconfig: str, args: Json, compatibility: str = "") -> str:
    """One profile with Coscheduling; our own options where they are given."""
    plugins = [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": PERMIT_SECONDS, **args}}]
    if compatibility:
        plugins.append(schedulerplugins.options(compatibility))
    points = {
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    }
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": name, "plugins": points, "pluginConfig": plugins}],
        }
    )


@dataclass(frozen=True)
class Scheduler:
    """One of the two, as a process."""

    name: str
    command: tuple[str, ...]

    @contextlib.contextmanager
    def running(self, log: Path) -> Iterator[Process]:
        """Run it; it must be alive in the end."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        with (
            log.open("wb") as output,
            subprocess.Popen(self.command, stdout=output, stderr=output, env=environment) as process,
        ):
            try:
                yield process
                assert process.poll() is None, log.read_text()[-3000:]
            finally:
                process.terminate()


def real(plane: ControlPlane, directory: Path, args: Json) -> Scheduler:
    """The real scheduler-plugins."""
    binary = schedulerplugins.binary_of_peer()
    file = directory / "real.json"
    file.write_text(configuration("gangs-real", str(plane.layout.kubeconfig), args))
    return Scheduler("gangs-real", (str(binary), f"--config={file}", "--secure-port=0", "-v=2"))


def ours(plane: ControlPlane, directory: Path, args: Json, compatibility: str) -> Scheduler:
    """Our daemon."""
    name = f"gangs-{compatibility}"
    file = directory / f"{name}.json"
    file.write_text(configuration(name, str(plane.layout.kubeconfig), args, compatibility))
    return Scheduler(name, (sys.executable, "-m", "scheduler", f"--config={file}", "--secure-port=0"))


# Playing ------------------------------------------------------------------------------------------------------------


@dataclass
class Story:
    """What happened in a world.

    Attributes:
        bound: after each phase, who had a node.
        order: groups in the order in which they were complete, per phase; those of the same moment together.
        messages: everything that pods were told.
    """

    bound: list[list[str]] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)


class GroupPlayer:
    """Where worlds are played."""

    def __init__(self, api: Api, directory: Path) -> None:
        self._api = api
        self._directory = directory
        self._plays = 0

    async def prepare(self) -> None:
        """Make what every world needs."""
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        manifest = yaml.safe_load(_CRD.read_text())
        if manifest["metadata"]["name"] in {
            definition["metadata"]["name"] for definition in (await self._api.call("GET", crds))["items"]
        }:
            return
        await self._api.call("POST", crds, manifest)
        for name, value in PRIORITIES.items():
            metadata = {"name": f"coscheduling-{name}"}
            item = {"kind": "PriorityClass", "metadata": metadata, "value": value, "preemptionPolicy": "Never"}
            await self._api.create(item)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Exception):
                await self._api.list_all("PodGroup", "default")
                return
            assert time.monotonic() < deadline, "the PodGroup kind is not served"
            await asyncio.sleep(0.1)

    async def play(self, worlds: list[GroupScenario], scheduler: Scheduler) -> dict[int, Story]:
        """Play all worlds with a scheduler, and clear the stage."""
        self._plays += 1
        stories = {world.seed: Story() for world in worlds}
        await self._set(worlds, scheduler.name)
        try:
            with scheduler.running(self._directory / f"{self._plays}-{scheduler.name}.log") as process:
                await self._phase(worlds, stories, process, starting=True)
                await asyncio.gather(*(self._do(world, scheduler.name) for world in worlds))
                await self._phase(worlds, stories, process)
        finally:
            await self._clear(worlds)
        return stories

    async def _set(self, worlds: list[GroupScenario], scheduler: str) -> None:
        created: list[Json] = []
        namespaces = {item["metadata"]["name"] for item in await self._api.list_all("Namespace")}
        spaces = [world.namespace for world in worlds if world.namespace not in namespaces]
        await self._api.create_all([{"kind": "Namespace", "metadata": {"name": name}} for name in spaces], created)
        await self._api.create_all(
            [_node(world, name, cpus) for world in worlds for name, cpus in world.nodes.items()], created
        )
        # Creation times have whole seconds, and order the groups.
        for number in range(2):
            if number:
                await asyncio.sleep(1.1)
            round_ = [_group(world, world.groups[number]) for world in worlds if _is_there(world.groups, number)]
            await self._api.create_all(round_, created)
        await self._api.create_all(
            [_pod(world, pod, scheduler) for world in worlds for pod in world.pods if not pod.later], created
        )

    async def _do(self, world: GroupScenario, scheduler: str) -> None:
        kind, name = world.step
        group = {member.name: member for member in world.groups}.get(name)
        pods = [member for member in world.pods if not member.later]
        path = f"/api/v1/namespaces/{world.namespace}/pods"
        if kind == "create group" and group is not None:
            await self._api.create(_group(world, group))
        elif kind == "shrink group" and group is not None:
            changed = {"spec": {"minMember": max(1, group.minimum - 1)}}
            await self._api.call(
                "PATCH", f"{COLLECTIONS['PodGroup'][0]}/namespaces/{world.namespace}/podgroups/{name}", changed
            )
        elif kind == "create pods":
            for pod in world.pods:
                if pod.later:
                    await self._api.create(_pod(world, pod, scheduler))
        elif kind == "ungate":
            await self._api.call("PATCH", f"{path}/{name}", {"spec": {"schedulingGates": None}})
        elif kind == "add node":
            await self._api.create(_node(world, name, 2))
        elif kind == "delete group":
            await asyncio.gather(*(self._api.delete(_pod(world, pod, scheduler)) for pod in pods if pod.group == name))
        elif kind == "delete pod":
            await self._api.delete(_pod(world, next(member for member in pods if member.name == name), scheduler))
        elif kind == "complete pod":
            await self._api.call("PATCH", f"{path}/{name}/status", {"status": {"phase": "Succeeded"}})

    async def _phase(
        self, worlds: list[GroupScenario], stories: dict[int, Story], process: Process, *, starting: bool = False
    ) -> None:
        """Watch until nobody has been bound for a while."""
        began = changed = time.monotonic()
        patience = began + _START_SECONDS
        before: dict[int, list[str]] = {}
        heard = not starting
        while True:
            await asyncio.sleep(0.2)
            now = time.monotonic()
            bound = await self._read(worlds, stories)
            heard = heard or any(stories[world.seed].messages or bound[world.seed] for world in worlds)
            if bound != before or not heard:
                before, changed = bound, now
            if not heard:
                assert process.poll() is None, "the scheduler has ended"
                assert now < patience, "the scheduler says nothing"
                began = now
            elif now - changed > SETTLED_SECONDS or now - began > _PHASE_SECONDS:
                break
        for seed, names in before.items():
            stories[seed].bound.append(names)

    async def _read(self, worlds: list[GroupScenario], stories: dict[int, Story]) -> dict[int, list[str]]:
        by_namespace = {world.namespace: world.seed for world in worlds}
        bound: dict[int, list[str]] = {world.seed: [] for world in worlds}
        for item in (await self._api.call("GET", "/api/v1/pods"))["items"]:
            seed = by_namespace.get(item["metadata"]["namespace"])
            if seed is None:
                continue
            if item["spec"].get("nodeName"):
                bound[seed].append(item["metadata"]["name"])
            for condition in item["status"].get("conditions", ()):
                # Gated pods are said to be so by the API server.
                if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                    stories[seed].messages.add(condition["message"])
        return {seed: sorted(names) for seed, names in bound.items()}

    async def _clear(self, worlds: list[GroupScenario]) -> None:
        await asyncio.gather(
            *(self._api.delete_all(kind, world.namespace) for kind in ("Pod", "PodGroup") for world in worlds)
        )
        await self._api.delete_all("Node")
        while (await self._api.call("GET", "/api/v1/pods"))["items"]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def _is_there(groups: tuple[Group, ...], number: int) -> bool:
    return number < len(groups) and not groups[number].later


# Comparing ----------------------------------------------------------------------------------------------------------


def counts(world: GroupScenario, story: Story) -> list[dict[str, int]]:
    """How many of each group (or of the pods on their own) were bound after each phase: equals may swap places."""
    group_of = {pod.name: (pod.group or "alone") + pod.priority for pod in world.pods}
    differing = []
    for names in story.bound:
        tally: dict[str, int] = {}
        for name in names:
            tally[group_of[name]] = tally.get(group_of[name], 0) + 1
        differing.append(tally)
    return differing


def differences(worlds: list[GroupScenario], real: dict[int, Story], own: dict[int, Story]) -> list[str]:
    """What was not the same."""
    return [
        f"{world}\n  real: {real[world.seed].bound}\n  ours: {own[world.seed].bound}\n"
        f"  real said: {sorted(vocabulary({0: real[world.seed]}))}\n"
        f"  ours said: {sorted(vocabulary({0: own[world.seed]}))}"
        for world in worlds
        if counts(world, real[world.seed]) != counts(world, own[world.seed])
    ]


def vocabulary(stories: dict[int, Story]) -> set[str]:
    """The sentences that were said, without names and numbers."""
    words: set[str] = set()
    for story in stories.values():
        for message in story.messages:
            for part in re.split(r"(?<=\.) |, (?=\d)|: (?=\d)", message):
                words.add(re.sub(r"world-#|\b[abcx](-#)?\b", "@", re.sub(r"\d+", "#", part)).rstrip("."))
    return words


@dataclass
class Outcome:
    """What a number of plays gave."""

    cases: int = 0
    bound: int = 0
    mismatches: list[str] = field(default_factory=list)
    theirs: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)

    @property
    def new_words(self) -> set[str]:
        """Sentences that only ours said."""
        return self.ours - self.theirs - SEEN

    def add(self, other: Outcome) -> None:
        """Count another one in."""
        self.cases += other.cases
        self.bound += other.bound
        self.mismatches += other.mismatches
        self.theirs |= other.theirs
        self.ours |= other.ours

    def text(self) -> str:
        """In one line."""
        counts = f"{self.cases} worlds, {self.bound} pods bound, {len(self.mismatches)} differences"
        return f"{counts}, words of our own: {sorted(self.new_words)}" if self.new_words else counts


ARGS: tuple[Json, ...] = (
    {},
    {"podGroupRejectPercentage": 0},
    {"podGroupBackoffSeconds": 1, "podGroupRejectPercentage": 50},
)
_AFTER = "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never"
SEEN = frozenset(
    {
        "#",
        "# Insufficient cpu",
        "# PodGroup not found",
        "# node(s) didn't match Pod's node affinity/selector",
        "# optimistic rejection in PostFilter",
        "# rejected due to timeout after waiting #s at plugin Coscheduling",
        "# rejection in Unreserve",
        "# removed",
        "#, minMember of group",
        "#/# nodes are available",
        "#/# nodes are available: podGroup @/@ failed recently",
        "#/# nodes are available: pre-filter pod @-# cannot find enough sibling pods, current pods number",
        "#/# nodes are available: pre-filter pod @-# cannot proceed due to gated pods in the same PodGroup",
        "#/# nodes are available: resource gap: map[cpu:{{# -#} {<nil>}  DecimalSI}]",
        _AFTER,
        f"{_AFTER}., can not find pod group",
        f"{_AFTER}., PodGroup @/@ gets rejected due to Pod @-# is unschedulable even after PostFilter",
    }
)
"""Sentences that the real one says, if not in every run."""


async def compare(
    plane: ControlPlane, directory: Path, worlds: list[GroupScenario], args: Json, compatibility: str
) -> Outcome:
    """Play worlds with both and compare. Those that differ are played again, each alone: a group that fails puts
    upstream's heap out of order for the other worlds, too."""
    api = Api(plane)
    try:
        stage = GroupPlayer(api, directory)
        await stage.prepare()
        real_config, us = real(plane, directory, args), ours(plane, directory, args, compatibility)
        real_stories, own = await stage.play(worlds, real_config), await stage.play(worlds, us)
        outcome = Outcome(len(worlds), sum(len(story.bound[-1]) for story in own.values()))
        if compatibility == "upstream":
            outcome.theirs, outcome.ours = vocabulary(real_stories), vocabulary(own)
        for world in worlds:
            if differences([world], real_stories, own):
                alone = await _played_alone(stage, world, real_config, us)
                outcome.mismatches += [f"args: {args}\n{text}" for text in alone]
    finally:
        await api.close()
    return outcome


async def _played_alone(stage: GroupPlayer, world: GroupScenario, real_config: Scheduler, us: Scheduler) -> list[str]:
    """Play a world alone until both schedulers have shown the same history; the last difference if they never do.

    On a busy machine the order of two timers differs from play to play, for each of the schedulers.
    """
    real_histories: list[list[dict[str, int]]] = []
    our_histories: list[list[dict[str, int]]] = []
    difference: list[str] = []
    for _ in range(_REPLAYS):
        theirs, own = await stage.play([world], real_config), await stage.play([world], us)
        real_histories.append(counts(world, theirs[world.seed]))
        our_histories.append(counts(world, own[world.seed]))
        if any(history in real_histories for history in our_histories):
            return []
        difference = differences([world], theirs, own)
    return difference


def batches(seed: int, count: int, compatibility: str, size: int) -> Iterator[tuple[list[GroupScenario], Json]]:
    """Worlds to play together, and the plugin's args; without competition where gangs are placed as a whole."""
    competing = None if compatibility == "upstream" else False
    for start in range(seed, seed + count, size):
        numbers = range(start, min(start + size, seed + count))
        yield [generate(number, competing=competing) for number in numbers], ARGS[(start // size) % len(ARGS)]


async def compare_all(
    plane: ControlPlane, directory: Path, seed: int, count: int, compatibility: str, size: int = 12
) -> Outcome:
    """Compare many worlds, told of each batch."""
    total = Outcome()
    for worlds, args in batches(seed, count, compatibility, size):
        outcome = await compare(plane, directory, worlds, args, compatibility)
        print("\n".join([*outcome.mismatches, f"{compatibility}, {args}: {outcome.text()}"]), flush=True)
        total.add(outcome)
    return total


def main(arguments: list[str]) -> int:
    """Exit code 0 when everything agrees, 1 on a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.coscheduling", description=__doc__)
    parser.add_argument("--worlds", type=int, default=120, metavar="N", help="number of worlds (120)")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (random; printed)")
    parser.add_argument("--compatibility", choices=("upstream", "safe"), default="upstream", help="mode of ours")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    with control_plane_running() as plane, tempfile.TemporaryDirectory(prefix="gangs-") as directory:
        total = asyncio.run(compare_all(plane, Path(directory), seed, options.worlds, options.compatibility))
    print(f"seed {seed}\n{total.text()}")
    return 1 if total.mismatches or total.new_words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
