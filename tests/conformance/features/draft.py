"""A case while it is being made, and what a feature is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Touch = Callable[[random.Random, Json], None]


@dataclass
class Draft:
    """The objects of a case before any feature, and after each."""

    seed: int
    nodes: list[Json] = field(default_factory=list)
    existing: list[Json] = field(default_factory=list)
    incoming: list[Json] = field(default_factory=list)
    others: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Feature:
    """One kind of constraint.

    Attributes:
        needs: plugins it exercises; the feature is left out while one of them is not implemented.
        node, existing, incoming: change one node, one assigned pod, one incoming pod; each is called for every object.
        cluster: changes the draft as a whole, after the others.
        differs: how ours is known to differ; such a feature runs only when it is asked for by name.
        since: minor of Kubernetes whose API server keeps what the feature writes.
    """

    name: str
    needs: frozenset[str] = frozenset()
    node: Touch | None = None
    existing: Touch | None = None
    incoming: Touch | None = None
    cluster: Callable[[random.Random, Draft], None] | None = None
    differs: str = ""
    since: int = 0

    def apply(self, rng: random.Random, draft: Draft) -> None:
        """Change the draft."""
        for touch, objects in (
            (self.node, draft.nodes),
            (self.existing, draft.existing),
            (self.incoming, draft.incoming),
        ):
            if touch is not None:
                for item in objects:
                    touch(rng, item)
        if self.cluster is not None:
            self.cluster(rng, draft)


def needs(*plugins: str) -> frozenset[str]:
    """Plugin names as a set."""
    return frozenset(plugins)


def containers(pod: Json) -> list[Json]:
    """Init and main containers."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def labels_of(item: Json) -> dict[str, str]:
    """The labels, made if there are none."""
    labels: dict[str, str] = item["metadata"].setdefault("labels", {})
    return labels


def affinity_of(pod: Json, kind: str) -> Json:
    """One part of the pod's affinity (nodeAffinity, podAffinity, podAntiAffinity), made if there is none."""
    terms: Json = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return terms


def request(container: Json, resource: str, amount: str, *, limit: bool = False) -> None:
    """Request an amount; with the same limit where the API server asks for that."""
    wanted = container.setdefault("resources", {})
    wanted.setdefault("requests", {})[resource] = amount
    if limit or resource in wanted.get("limits", {}):
        wanted.setdefault("limits", {})[resource] = amount


def offer(node: Json, resource: str, capacity: str, allocatable: str | None = None) -> None:
    """Give a node an amount of a resource."""
    node["status"]["capacity"][resource] = capacity
    node["status"]["allocatable"][resource] = capacity if allocatable is None else allocatable
