"""Random worlds for gangs: a few nodes that only their pods may use, PodGroups, pods, and something that happens."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """A PodGroup; `later` ones are made by the step that says so."""

    name: str
    minimum: int
    resources: str = ""
    later: bool = False


@dataclass(frozen=True)
class Member:
    """A pod that wants some CPUs; of a group or on its own."""

    name: str
    group: str = ""
    cpu: int = 1
    priority: str = "low"
    gated: bool = False
    later: bool = False


@dataclass(frozen=True)
class GroupScenario:
    """What is there, and what happens after everything has settled.

    Attributes:
        nodes: name to CPUs; one called `later` comes with the step.
        competing: somebody else could use the room that a gang holds while it waits.
        step: (what, whom).
    """

    seed: int
    nodes: dict[str, int]
    groups: tuple[Group, ...]
    pods: tuple[Member, ...]
    step: tuple[str, str]
    competing: bool

    @property
    def namespace(self) -> str:
        """Its own."""
        return f"world-{self.seed}"


def generate(seed: int, *, competing: bool | None = None) -> GroupScenario:
    """A world; with or without competition, where that is asked for."""
    rng = random.Random(seed)
    while True:
        world = _draw(seed, rng, competing)
        if not _depends_on_the_heap(world):
            return world


def _depends_on_the_heap(world: GroupScenario) -> bool:
    """Tell whether others who want more than the room there is queue up behind a group that fails.

    A group that fails moves to the end of the queue. Upstream changes the keys under its heap without putting the heap
    in order again, so that who comes next is a matter of where in the heap they lie.
    """
    if not world.competing:
        return False
    room = sum(world.nodes.values())
    trying = [member for member in world.pods if not (member.gated or member.later)]
    for group in world.groups:
        members = sum(1 for member in trying if member.group == group.name)
        if group.minimum > min(members, room) or group.resources == "5000":
            trying = [member for member in trying if member.group != group.name]
    failing = len({member.group for member in trying} - {""}) < len(world.groups)
    return failing and sum(member.cpu for member in trying) > room


def _draw(seed: int, rng: random.Random, competing: bool | None) -> GroupScenario:
    rivals = rng.random() < 0.5 if competing is None else competing
    nodes = {f"n{number}": rng.choice((1, 2, 3)) for number in range(rng.randint(1, 3))}
    room = sum(nodes.values())
    groups, pods = [], []
    for number in range(2 if rivals else 1):
        size = rng.randint(1, room + 1)
        minimum = max(1, rng.choice((size, size, size - 1, size + 1, (size + 1) // 2)))
        name = "ab"[number]
        step_makes_it = not rivals and rng.random() < 0.15
        resources = rng.choice(("", "", "", "1", "5000"))
        groups.append(Group(name, minimum, resources, step_makes_it))
        priority = rng.choice(("low", "low", "high"))
        pods += [Member(f"{name}-{number}", name, priority=priority) for number in range(size)]
    if rng.random() < 0.2:
        pods[-1] = Member(pods[-1].name, pods[-1].group, priority=pods[-1].priority, gated=True)
    if rivals:
        pods += [
            Member(f"c-{number}", priority=rng.choice(("low", "high"))) for number in range(rng.choice((0, 0, 1, 2)))
        ]
    elif rng.random() < 0.2:
        pods.append(Member("x-lost", "nowhere"))
    if rng.random() < 0.3:
        last = pods[-1]
        pods[-1] = Member(last.name, last.group, last.cpu, last.priority, last.gated, later=True)
    step = _step(rng, groups, pods, rivals)
    return GroupScenario(seed, nodes, tuple(groups), tuple(pods), step, rivals)


def _step(rng: random.Random, groups: list[Group], pods: list[Member], rivals: bool) -> tuple[str, str]:
    if any(group.later for group in groups):
        return "create group", groups[0].name
    if any(member.later for member in pods):
        return "create pods", ""
    if any(member.gated for member in pods):
        return "ungate", next(member.name for member in pods if member.gated)
    kinds = ["add node", "shrink group", "complete pod", "delete pod"]
    if rivals:
        kinds = ["add node", "delete group", "complete pod"]
    kind = rng.choice(kinds)
    name = {"add node": "later", "shrink group": "a", "delete group": "a"}.get(kind, rng.choice(pods).name)
    return kind, name
