"""Annotations of pods by which other schedulers are told how close to each other the members of a gang have to be."""

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


def peer_annotations(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return those of a pod's annotations, as key and value."""
    return tuple([(key, annotations[key][:_LONGEST]) for key in PEER_ANNOTATIONS if key in annotations])
