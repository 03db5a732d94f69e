"""Which zone each container has its own cpus, memory and devices from, as agents publish it
(github.com/k8stopologyawareschedwg/numaplacement at 05c4e97).

An agent sorts the hashes of such containers. Each zone but the one with the most of them lists its containers by their
positions there, as differences; all others are in that one. So whoever reads it must know the very same containers.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from scheduler.framework import PodInfo
from scheduler.kube.model import NodeResourceTopology, add_amounts
from scheduler.plugins.noderesourcetopologymatch.align import NeedsOf, held_by
from scheduler.plugins.noderesourcetopologymatch.fingerprint import (
    fingerprint,
    incompatibility,
    listed_resources,
    published_fingerprint,
    sets_with_exclusive,
    xxhash64,
)
from scheduler.plugins.noderesourcetopologymatch.topology import zone_number

METADATA = "topology.node.k8s.io/numaplacement-metadata"
VECTOR = "topology.node.k8s.io/numaplacement-vector"
_METADATA = re.compile(r"npv0v001((?:::(?:ve=leb89|(?:cc|nn|bn)=[0-9]{1,6})){1,4})", re.ASCII)
_LETTERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_ALPHABET = {letter: index for index, letter in enumerate(_LETTERS)}
_LAST_DIGITS, _OTHER_DIGITS = 64, 25
"""A number ends with one of the first 64 letters; before it stand any number of the other 25."""
_MAX_DIGITS = 6
_NO_POSITION = 1 << 40

Held = Mapping[int, Mapping[str, int]]
"""Amounts by the number of a zone."""


class _Announced(NamedTuple):
    containers: int
    zones: int
    fullest: int


class _Known(NamedTuple):
    """What is known of a node's object: the pods it was compared with (None: not compared), what they hold, once that
    was asked for, and the UIDs of the last pods of which its fingerprint is not."""

    item: NodeResourceTopology
    pods: Collection[PodInfo] | None = None
    held: Mapping[str, Held] | None = None
    unmatched: frozenset[str] | None = None


class Placements:
    """What pods on nodes hold in which zone."""

    def __init__(self, needs_of: NeedsOf, method: str) -> None:
        """`method` is resyncMethod, which says what a fingerprint covers."""
        self._needs_of = needs_of
        self._method = method
        self._known: dict[str, _Known] = {}

    def note(self, item: NodeResourceTopology, pods: Collection[PodInfo]) -> None:
        """The fingerprint of an object that counts from now on is that of these pods."""
        self._known[item.metadata.name] = _Known(item, pods)

    def forget(self, node: str) -> None:
        """The node has no object any more."""
        self._known.pop(node, None)

    def of(self, item: NodeResourceTopology, pods: Collection[PodInfo]) -> Mapping[str, Held]:
        """Return what pods hold, by UID; a pod of which that is not known is left out.

        Args:
            item: the object whose numbers count.
            pods: those that its agent can know now. Only if its fingerprint is theirs, or was that of other ones when
                the object was taken in, can the object be read.
        """
        known = self._known.get(item.metadata.name)
        if known is None or known.item is not item:
            known = _Known(item)
        if known.held is not None:
            return known.held
        counted = known.pods
        if counted is None:
            uids = frozenset(pod.uid for pod in pods)
            if uids == known.unmatched:
                return {}
            counted = self._matching(item, pods)
            if counted is None:
                self._known[item.metadata.name] = known._replace(unmatched=uids)
                return {}
        held = self._held(item, counted)
        self._known[item.metadata.name] = _Known(item, counted, held)
        return held

    def _matching(self, item: NodeResourceTopology, pods: Collection[PodInfo]) -> Collection[PodInfo] | None:
        expected, exclusive_only = published_fingerprint(item, self._method)
        if not expected or incompatibility(expected):
            return None
        sets = sets_with_exclusive(pods, item, self._needs_of) if exclusive_only else (pods,)
        return next((each for each in sets if fingerprint((pod.namespace, pod.name) for pod in each) == expected), None)

    def _held(self, item: NodeResourceTopology, pods: Collection[PodInfo]) -> Mapping[str, Held]:
        listed = listed_resources(item)
        containers = {
            container_hash(pod.namespace, pod.name, container.name): (pod.uid, amounts)
            for pod in pods
            for container, amounts in held_by(pod.spec, self._needs_of(pod.spec), listed)
        }
        result: dict[str, dict[int, dict[str, int]]] = {}
        for key, zone in zones_of(item, containers).items():
            uid, amounts = containers[key]
            add_amounts(result.setdefault(uid, {}).setdefault(zone, {}), amounts)
        return result


def zones_of(item: NodeResourceTopology, hashes: Collection[int]) -> dict[int, int]:
    """Return the number of each container's zone, by hash; empty where the object does not say, or not of these."""
    announced = _announced(item)
    if announced is None or announced.containers != len(hashes):
        return {}
    order = sorted(hashes)
    zones = dict.fromkeys(order, announced.fullest)
    placed = 0
    for zone in item.zones:
        vector = next((attribute.value for attribute in zone.attributes if attribute.name == VECTOR), None)
        number = zone_number(zone.name)
        if vector is None:
            continue
        if number is None or number >= announced.zones or number == announced.fullest:
            return {}
        position = 0
        for difference in _numbers(vector):
            position += difference
            placed += 1
            if position >= len(order) or placed > len(order) or zones[order[position]] != announced.fullest:
                return {}
            zones[order[position]] = number
    return zones


def container_hash(namespace: str, pod: str, container: str) -> int:
    """Return the hash by which agents sort a container."""
    return xxhash64("\0".join((namespace, pod, container)).encode())


def _announced(item: NodeResourceTopology) -> _Announced | None:
    text = next((attribute.value for attribute in item.attributes if attribute.name == METADATA), "")
    match = _METADATA.fullmatch(text)
    if match is None:
        return None
    pairs = dict(each.split("=") for each in match[1].split("::")[1:])
    if pairs.keys() != {"ve", "cc", "nn", "bn"}:
        return None
    announced = _Announced(int(pairs["cc"]), int(pairs["nn"]), int(pairs["bn"]))
    return announced if announced.fullest < announced.zones else None


def _numbers(vector: str) -> Iterator[int]:
    """Yield the numbers of a vector; one that ends amiss is beyond all containers."""
    digits: list[int] = []
    for letter in vector:
        digit = _ALPHABET.get(letter, -1)
        if digit >= _LAST_DIGITS and len(digits) < _MAX_DIGITS:
            digits.append(digit - _LAST_DIGITS)
            continue
        if digit < 0 or digit >= _LAST_DIGITS:
            yield _NO_POSITION
            return
        value = 0
        for other in digits:
            value = value * _OTHER_DIGITS + other
        yield _LAST_DIGITS * (value + 1) + digit if digits else digit
        digits = []
    if digits:
        yield _NO_POSITION
