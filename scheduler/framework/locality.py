"""What a plugin's answers depend on, so that pods of one class need not ask the same question of every node again.

Upstream has nothing like it: it asks every plugin about every node (or a sample of them) for each pod. Here a plugin
declares what its answers depend on, and the core keeps them in columns per class of pods (`scheduler.core.classes`):
five times as many decisions per second of pods of one class at 5,000 nodes (docs/performance.md). A declaration was
preferred to caches inside the plugins, as one place then knows what changed, and one property test can compare all
plugins with and without.
"""

from abc import abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable
from enum import Enum, auto
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from scheduler.framework.interface import (
    FilterPlugin,
)
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import BoolArray, FloatArray, IntArray, SmallIntArray
from scheduler.framework.view import NodeView


class DependsOn(Enum):
    """What a filter's verdict or a raw score on a node depends on, in addition to the pod's `spec`.

    ANYTHING: it has to be asked again in every attempt. NODE: the node object alone (labels, taints, images,
    allocatable). PODS: the node object and the pods on the node. NOTHING: the plugin takes no part for such pods: every
    node passes, or PreScore says Skip.
    """

    ANYTHING = auto()
    NODE = auto()
    PODS = auto()
    NOTHING = auto()

    # Enum's own hashes the name, in Python; members are compared by identity anyway.
    __hash__ = object.__hash__


RowFunctions = tuple[Callable[[NodeView, int], bool] | None, Callable[[NodeView, int], int] | None]
"""`fits` and `rate` of a Locality."""

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DIGEST_SIZE = 16


def part_of(*read: Any) -> bytes:
    """Return a short key of what a plugin reads of a pod's spec; equal keys mean equal parts."""
    encoded = _ENCODER.encode(read)
    return encoded if len(encoded) < _DIGEST_SIZE else blake2b(encoded, digest_size=_DIGEST_SIZE).digest()


class Locality(Struct, frozen=True):
    """What a plugin declares for one class of pods.

    Attributes:
        filters: what the verdict on a node follows from. Anything but ANYTHING also promises that PreFilter answers
            Success or Skip without naming nodes, and that neither it nor Filter counts anything, or leaves in the
            CycleState what Reserve or a later extension point needs.
        scores: the same for the raw score, PreScore and Score.
        by_range: a normalised score follows from the raw one and the least and the largest of the feasible nodes.
        version: a value that changes with everything else an answer follows from, such as the number of nodes; asked
            for in every attempt.
        part: digest (`part_of`) of the part of the spec that answers which depend on the NODE follow from: all pods
            with an equal one get equal answers. b"" is no part of it; None says nothing, so that every class asks.
        pods_part: the same for scores that depend on the PODS.
        fits: `filter` for one row, faster than an array of one; True lets it through. It may keep columns of the view
            it was made with: it is made again when `NodeView.layout` changes.
        rate: `score` for one row, likewise.
        by_row: makes `fits` and `rate`, instead of these, for a plugin whom that costs more than the rest: it is asked
            for them only where pods of the class will need them.
        fits_block: `filter` as a function of `NodeView.basics` at some rows, all of which have cpu and memory; True
            lets a row through. Made again as `fits`.
        rate_block: `score`, likewise; within 0..100, and best in 16 bits: numpy is several times quicker with them.
    """

    filters: DependsOn = DependsOn.ANYTHING
    scores: DependsOn = DependsOn.ANYTHING
    by_range: bool = False
    version: Callable[[NodeView], Hashable] | None = None
    part: bytes | None = None
    pods_part: bytes | None = None
    fits: Callable[[NodeView, int], bool] | None = None
    rate: Callable[[NodeView, int], int] | None = None
    by_row: Callable[[NodeView], "RowFunctions"] | None = None
    fits_block: Callable[[FloatArray], BoolArray] | None = None
    rate_block: Callable[[FloatArray], SmallIntArray | IntArray] | None = None


@runtime_checkable
class LocalPlugin(Protocol):
    """Implemented by a plugin whose answers about a node mostly follow from that node.

    A plugin that is not one, or a wrapper that does not pass this method on, is called in every attempt.
    """

    @abstractmethod
    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Say what the answers follow from for pods with this pod's `spec`: its labels, name and priority may not
        matter."""


def local_version(
    filters: Iterable[FilterPlugin], skipped: Container[str], pod: PodInfo, view: NodeView
) -> Hashable | None:
    """Return a value that changes with everything the verdicts of filters depend on, except the pod's spec, the node
    and the pods on it; None where one of them depends on more than can be compared."""
    versions: list[Hashable] = []
    for plugin in filters:
        if plugin.name in skipped:
            versions.append(plugin.name)
            continue
        if not isinstance(plugin, LocalPlugin):
            return None
        locality = plugin.locality(pod, view)
        if locality.filters is DependsOn.ANYTHING:
            return None
        versions.append((locality.filters, None if locality.version is None else locality.version(view)))
    return tuple(versions)
