"""What a PriorityClass says about being preempted (pkg/preemptiontoleration of scheduler-plugins 0.34.7)."""

import re
from typing import NamedTuple

from scheduler.kube.model import PriorityClass

PREFIX = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM = f"{PREFIX}minimum-preemptable-priority"
SECONDS = f"{PREFIX}toleration-seconds"
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)


class Policy(NamedTuple):
    """Pods of the class tolerate preemption by pods of less than a priority for so long after they were scheduled; a
    negative time means for ever."""

    minimum_preemptable_priority: int
    toleration_seconds: int


def policy_of(priority_class: PriorityClass) -> Policy:
    """Return a class's policy.

    Raises:
        ValueError: an annotation holds no integer of its size.
    """
    annotations = priority_class.metadata.annotations
    minimum, seconds = annotations.get(MINIMUM), annotations.get(SECONDS)
    return Policy(
        priority_class.value + 1 if minimum is None else _integer(minimum, 32),
        0 if seconds is None else _integer(seconds, 64),
    )


def _integer(text: str, bits: int) -> int:
    if _INTEGER.fullmatch(text):
        number = int(text)
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise ValueError(f"{text!r} is not an integer of {bits} bits")
