"""What annotations of other schedulers say of a gang's topology: Kueue's are read as ours, the others are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from scheduler.framework import PodInfo
from scheduler.helpers.annotations import (
    KAI_PREFERRED,
    KAI_REQUIRED,
    KOORDINATOR_SPEC,
    KUEUE,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICES,
    KUEUE_WORKLOAD,
    shown,
)
from scheduler.plugins.coscheduling.topology import PREFERRED, REQUIRED, SLICE, SLICE_SIZE

_OURS: Final[Mapping[str, str]] = MappingProxyType(
    {KUEUE_REQUIRED: REQUIRED, KUEUE_PREFERRED: PREFERRED, KUEUE_SLICE: SLICE, KUEUE_SLICE_SIZE: SLICE_SIZE}
)
"""How Kueue's annotations of pods are spelled on a PodGroup."""
_NOT_READ: Final[Mapping[str, str]] = MappingProxyType(
    {
        KAI_REQUIRED: REQUIRED,
        KAI_PREFERRED: PREFERRED,
        KOORDINATOR_SPEC: f"{REQUIRED} or {PREFERRED}",
        KUEUE_SLICES: f"{SLICE} and {SLICE_SIZE}",
    }
)
"""Annotations that are not read, and how to say about the same."""


def is_managed_by_kueue(pod: PodInfo) -> bool:
    """Tell whether Kueue starts a pod: it follows its annotations itself, by a node selector."""
    marks = (*pod.labels, *pod.spec.gates)
    return any(mark.startswith(KUEUE) for mark in marks) or any(key == KUEUE_WORKLOAD for key, _ in pod.peer_topology)


def kueue_annotations(members: Sequence[PodInfo]) -> dict[str, str]:
    """Return what Kueue's annotations of a gang's members ask for, under our names.

    Raises:
        ValueError: two members differ: which ones, in what, and what to do.
    """
    if any(map(is_managed_by_kueue, members)):
        return {}
    agreed: dict[str, str] = {}
    by_name = sorted(members, key=lambda pod: pod.name)
    for key, ours in _OURS.items():
        first = _value(by_name[0], key) if by_name else None
        other = next((pod for pod in by_name if _value(pod, key) != first), None)
        if other is not None:
            values = f"{_said(first)} and {_said(_value(other, key))}"
            names = f"pods {by_name[0].name} and {other.name}"
            raise ValueError(f"{names} differ in annotation {key}: {values}. Give all members the same")
        if first is not None:
            agreed[ours] = first
    return agreed


def joined(of_group: Mapping[str, str], of_members: Mapping[str, str]) -> Mapping[str, str]:
    """Return a group's annotations together with what those of its members ask for.

    Raises:
        ValueError: they ask for different things.
    """
    for key, ours in _OURS.items():
        theirs = of_members.get(ours)
        if theirs is not None and ours in of_group and of_group[ours].strip() != theirs.strip():
            pods, group = f"annotation {key} of its pods says {shown(theirs)}", f"{ours} {shown(of_group[ours])}"
            raise ValueError(f"{pods}, its own {group}: keep one of them")
    return {**of_group, **of_members}


def unread(of_group: Mapping[str, str], members: Iterable[PodInfo], *, reads_kueue: bool) -> str:
    """Say which annotation of others is not followed, and what to write instead; "" where there is none."""
    of_pods = {key for pod in members if not is_managed_by_kueue(pod) for key, _ in pod.peer_topology}
    spelled = _NOT_READ if reads_kueue else {**_NOT_READ, **_OURS}
    key = next((key for key in spelled if key in of_group or key in of_pods), "")
    if not key:
        return ""
    condition = "" if reads_kueue else " and use compatibility: safe"
    return f"annotation {key} is not followed: annotate the PodGroup with {spelled[key]}{condition}"


def _value(pod: PodInfo, key: str) -> str | None:
    return next((value for peer, value in pod.peer_topology if peer == key), None)


def _said(value: str | None) -> str:
    return "none" if value is None else shown(value)
