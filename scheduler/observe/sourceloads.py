"""What `/debug/nodes` shows of a load source: made by the scheduling loop, gone through on the serving thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct


class LoadEstimate(Struct, frozen=True, gc=False):
    """Percent of a node's capacity."""

    cpu: float | None
    memory: float | None


class NodeLoadRow(Struct, frozen=True, gc=False, rename={"age_seconds": "ageSeconds"}):
    """The load of a node in percent of its capacity; None where the source says nothing.

    Attributes:
        cpu, memory: as measured, averaged over the source's window.
        estimated: the same with the requests of pods that came too late to show in the average.
        age_seconds: age of the sample; None where the source does not tell.
        fresh: whether plugins use it.
    """

    name: str
    cpu: float | None
    memory: float | None
    estimated: LoadEstimate
    age_seconds: float | None
    fresh: bool


class SourceLoads(NamedTuple):
    """A load source, its state, and the nodes that it has a load of; `age_seconds` is that of its newest sample,
    infinite where there never was one."""

    source: str
    fresh: bool
    age_seconds: float
    nodes: Iterable[NodeLoadRow]
