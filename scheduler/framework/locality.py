"""What a plugin's answers depend on, so that pods of one class need not ask the same question of every node again.

Upstream has nothing like it: it asks every plugin about every node (or a sample of them) for each pod. Here a plugin
declares what its answers depend on, and the core keeps them in columns per class of pods (`scheduler.core.classes`):
five times as many decisions per second of pods of one class at 5,000 nodes (docs/performance.md). A declaration was
preferred to caches inside the plugins, as one place then knows what changed, and one property test can compare all
plugins with and without.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable
from enum import Enum, auto
from functools import cache
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from scheduler.framework.interface import (
    FilterPlugin,
)
from scheduler.framework.objects import PodInfo
from scheduler.framework.rules import FilterRule, ScoreRule
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
        filter_rule: what `filter` says, as a rule (`scheduler.framework.rules`): asked instead of it where verdicts are
            kept, about single rows in plain numbers.
        score_rule: what `score` says, likewise; within 0..100.
    """

    filters: DependsOn = DependsOn.ANYTHING
    scores: DependsOn = DependsOn.ANYTHING
    by_range: bool = False
    version: Callable[[NodeView], Hashable] | None = None
    part: bytes | None = None
    pods_part: bytes | None = None
    filter_rule: FilterRule | None = None
    score_rule: ScoreRule | None = None


_NOTHING_DECLARED = Locality()


@runtime_checkable
class LocalPlugin(Protocol):
    """Implemented by a plugin whose answers about a node mostly follow from that node.

    A plugin that is not one, or a wrapper that does not pass this method on, is called in every attempt.
    """

    @abstractmethod
    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Say what the answers follow from for pods with this pod's `spec`: its labels, name and priority may not
        matter."""


def declared(plugin: LocalPlugin, pod: PodInfo, view: NodeView) -> Locality:
    """Return what a plugin declares; nothing, with one warning, where it does so by fields that Locality has no more
    (`fits`, `rate`, `by_row`, `fits_block`, `rate_block` of 0.1): it is slower then, and decides the same."""
    try:
        return plugin.locality(pod, view)
    except TypeError as error:
        _warn_once(type(plugin).__qualname__, str(error))
        return _NOTHING_DECLARED


@cache
def _warn_once(plugin: str, error: str) -> None:
    message = f"plugin {plugin}: locality failed, so that it is asked about every node: {error}"
    warnings.warn(message, RuntimeWarning, stacklevel=3)


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
        locality = declared(plugin, pod, view)
        if locality.filters is DependsOn.ANYTHING:
            return None
        versions.append((locality.filters, None if locality.version is None else locality.version(view)))
    return tuple(versions)
