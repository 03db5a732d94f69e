"""What is asked and what was answered: plain data, written to and read from JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SPARES_LEAVING_VICTIMS = 35
"""Minor since which the real scheduler requests nothing for victims that are terminating; ours never does."""

Json = dict[str, Any]

BOUND = "bound"
UNSCHEDULABLE = "unschedulable"
ERROR = "error"
GATED = "gated"


@dataclass(frozen=True)
class Case:
    """A cluster and the pods that come to it, one after the other.

    `objects` are created in order; a pod among them has spec.nodeName. `status` of an object is written where the API
    server drops it at creation; `metadata.deletionTimestamp` means that the object is created and then deleted with a
    long grace period.
    """

    seed: int
    features: tuple[str, ...]
    profile: str
    objects: tuple[Json, ...]
    pods: tuple[Json, ...]

    def to_json(self) -> Json:
        """As a plain object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        """From what `to_json` returned."""
        return cls(
            seed=data["seed"],
            features=tuple(data["features"]),
            profile=data["profile"],
            objects=tuple(data["objects"]),
            pods=tuple(data["pods"]),
        )


Scores = dict[str, dict[str, int]]
"""Node -> plugin -> weighted score."""


@dataclass(frozen=True)
class Answer:
    """What a scheduler said about one pod.

    Attributes:
        outcome: BOUND, UNSCHEDULABLE, ERROR or GATED.
        feasible: nodes that passed every filter.
        scores: weighted score of each plugin on each feasible node; empty where scoring did not take place.
        totals: final scores; empty likewise.
        best: nodes one of which has to be chosen.
        node: the chosen node, "" without one.
        message: the FailedScheduling text, or the gate's or error's.
        nominated: the node whose pods are preempted for this pod, "" without one.
        victims: the preempted pods (namespace/name), sorted.
        evictions: every pair of (nominated, victims) that would be as good; ours gives several where upstream leaves
            the choice to chance.
    """

    outcome: str
    feasible: frozenset[str] = frozenset()
    scores: Scores = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    best: frozenset[str] = frozenset()
    node: str = ""
    message: str = ""
    nominated: str = ""
    victims: tuple[str, ...] = ()
    evictions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def to_json(self) -> Json:
        """As a plain object, sets sorted."""
        data = dataclasses.asdict(self)
        return data | {"feasible": sorted(self.feasible), "best": sorted(self.best)}


@dataclass(frozen=True)
class Asked:
    """One pod of a case as the API server returned it, the cluster it met, and the real scheduler's answer."""

    pod: Json
    world: tuple[Json, ...]
    answer: Answer


def kind_of(objects: Iterable[Json], kind: str) -> list[Json]:
    """The objects of a kind."""
    return [item for item in objects if item["kind"] == kind]


def key_of(item: Json) -> str:
    """`namespace/name`, or the bare name."""
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
