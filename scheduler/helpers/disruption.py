"""The annotation by which a PodGroup of scheduling.x-k8s.io says that its pods are preempted together or not at all."""

from collections.abc import Mapping
from typing import Final

DISRUPTION: Final = "secondary-scheduler.io/disruption"
_ALL, _SINGLE = "All", "Single"


def is_disrupted_as_one(annotations: Mapping[str, str]) -> bool:
    """Tell whether a group's pods are preempted together."""
    return annotations.get(DISRUPTION) == _ALL


def disruption_problem(annotations: Mapping[str, str]) -> str:
    """Return why the annotation cannot be followed; "" where it can, or is not there."""
    value = annotations.get(DISRUPTION, _SINGLE)
    if value in (_ALL, _SINGLE):
        return ""
    shown = value if len(value) <= 40 else f"{value[:40]}…"
    return f'annotation {DISRUPTION}: "{shown}" is neither {_ALL} nor {_SINGLE}'
