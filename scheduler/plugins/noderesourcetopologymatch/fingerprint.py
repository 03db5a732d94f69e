"""Comparing what agents publish with the pods on their nodes, every so often and beside the scheduling loop."""

import itertools
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from scheduler.framework import PodInfo
from scheduler.kube.model import NodeResourceTopology
from scheduler.plugins.noderesourcetopologymatch.align import NeedsOf

# The fingerprint of the set of pods on a node, by which an agent says which pods its numbers include
# (github.com/k8stopologyawareschedwg/podfingerprint v0.2.2).

PREFIX, VERSION = "pfp0", "v001"
ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
METHOD_EXCLUSIVE = "with-exclusive-resources"
ANNOTATION = "topology.node.k8s.io/fingerprint"
_MIN_LENGTH = 16

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate_left((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def xxhash64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash of some bytes (the XXH64 algorithm)."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while at <= size - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        value = sum(_rotate_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = (seed + _P5) & _MASK
    value = (value + size) & _MASK
    while at <= size - 8:
        word = int.from_bytes(data[at : at + 8], "little")
        value = (_rotate_left(value ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if at <= size - 4:
        word = int.from_bytes(data[at : at + 4], "little")
        value = (_rotate_left(value ^ word * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        value = _rotate_left(value ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


@lru_cache(maxsize=4096)
def _seed_of(namespace: str) -> int:
    return xxhash64(namespace.encode())


@lru_cache(maxsize=131072)
def _hash_of(namespace: str, name: str) -> int:
    return xxhash64(name.encode(), _seed_of(namespace))


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of a set of pods, given as (namespace, name) in any order."""
    hashes = sorted(_hash_of(namespace, name) for namespace, name in pods)
    joined = b"".join(value.to_bytes(8, "little") for value in hashes)
    return f"{PREFIX}{VERSION}{xxhash64(joined):016x}"


def incompatibility(text: str) -> str:
    """Return why a fingerprint cannot be compared with ours; "" when it can."""
    if len(text.encode()) < _MIN_LENGTH or not text.startswith(PREFIX):
        return "malformed fingerprint"
    return "" if text[4:8] == VERSION else "incompatible version"


# Which pods an agent's numbers include.

_MAX_UNLISTED = 4
"""Extended resources that no zone lists, of which each is tried; beyond, all or none of them is reported."""


def is_started(pod: PodInfo) -> bool:
    """Tell whether an agent counts a pod: one that has been started."""
    return pod.phase not in ("", "Pending")


def published_fingerprint(item: NodeResourceTopology, method: str) -> tuple[str, bool]:
    """Return the fingerprint an object was published with ("" without one), and whether it is of the pods with
    exclusive resources alone."""
    attributes = {attribute.name: attribute.value for attribute in reversed(item.attributes)}
    if ATTRIBUTE not in attributes:
        return item.metadata.annotations.get(ANNOTATION, ""), False
    exclusive = method == "OnlyExclusiveResources" or (
        method == "Autodetect" and attributes.get(METHOD_ATTRIBUTE) == METHOD_EXCLUSIVE
    )
    return attributes[ATTRIBUTE], exclusive


def listed_resources(item: NodeResourceTopology) -> frozenset[str]:
    """Return the resources that some zone of a node lists."""
    return frozenset(resource.name for zone in item.zones for resource in zone.resources)


def sets_with_exclusive(
    pods: Collection[PodInfo], item: NodeResourceTopology, needs_of: NeedsOf
) -> Iterator[Collection[PodInfo]]:
    """Yield the sets of pods with exclusive resources that an agent may mean.

    An extended resource that no zone lists may be a device without a place, which the kubelet reports, or a licence
    and the like, of which it knows nothing (scheduler-plugins issue 985). Neither changes the numbers of a zone, so
    it does not matter which: the agent's fingerprint may be with or without the pods that hold it.
    """
    listed = listed_resources(item)
    needs = [(pod, needs_of(pod.spec)) for pod in pods]
    unlisted = sorted({device for _, each in needs if not each.is_exclusive(listed) for device in each.devices})
    sizes = range(len(unlisted) + 1) if len(unlisted) <= _MAX_UNLISTED else (0, len(unlisted))
    for reported in itertools.chain.from_iterable(itertools.combinations(unlisted, size) for size in sizes):
        yield [pod for pod, each in needs if each.is_exclusive(listed.union(reported))]
