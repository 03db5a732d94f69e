"""Annotations about gangs: of PodGroups whether their pods are preempted together; of pods how close to each other
another scheduler is asked to place them."""

from collections.abc import Mapping
from typing import Final

KUEUE: Final = "kueue.x-k8s.io/"
KUEUE_REQUIRED: Final = KUEUE + "podset-required-topology"
KUEUE_PREFERRED: Final = KUEUE + "podset-preferred-topology"
KUEUE_SLICE: Final = KUEUE + "podset-slice-required-topology"
KUEUE_SLICE_SIZE: Final = KUEUE + "podset-slice-size"
KUEUE_SLICES: Final = KUEUE + "podset-slice-required-topology-constraints"
KUEUE_WORKLOAD: Final = KUEUE + "workload"
"""Written by Kueue when it starts a job."""
KAI_REQUIRED: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
KOORDINATOR_SPEC: Final = "gang.scheduling.koordinator.sh/network-topology-spec"
PEER_ANNOTATIONS: Final = (
    KUEUE_REQUIRED,
    KUEUE_PREFERRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICES,
    KUEUE_WORKLOAD,
    KAI_REQUIRED,
    KAI_PREFERRED,
    KOORDINATOR_SPEC,
)
_LONGEST: Final = 400
"""Longer than any key of a label; what goes on is no label either way."""
DISRUPTION: Final = "secondary-scheduler.io/disruption"
_ALL, _SINGLE = "All", "Single"
_MAX_SHOWN: Final = 80


def peer_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return those of a pod's annotations, as key and value."""
    return tuple([(key, annotations[key][:_LONGEST]) for key in PEER_ANNOTATIONS if key in annotations])


def is_disrupted_as_one(annotations: Mapping[str, str]) -> bool:
    """Tell whether a group's pods are preempted together."""
    return annotations.get(DISRUPTION) == _ALL


def disruption_problem(annotations: Mapping[str, str]) -> str:
    """Return why that cannot be followed which a group says of it; "" where it can, or says nothing."""
    value = annotations.get(DISRUPTION, _SINGLE)
    if value in (_ALL, _SINGLE):
        return ""
    quoted = f'"{shown(value)}"' if value else shown(value)
    return f"annotation {DISRUPTION}: {quoted} is neither {_ALL} nor {_SINGLE}"


def shown(text: str) -> str:
    """Return somebody's text as a message can hold it."""
    short = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return "".join(char if char.isprintable() else "?" for char in short) or '""'
