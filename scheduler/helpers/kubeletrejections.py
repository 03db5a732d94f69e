"""Where kubelets rejected pods for want of room a moment ago: the engine notes it, a plugin avoids these nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from scheduler.catalog import MAX_AVOID_SECONDS
from scheduler.framework import MonotonicSeconds, Objects

_MAX_NODES: Final = 10_000
_PREFIX: Final = "OutOf"


class KubeletRejections:
    """By node, when its kubelet last lacked a resource. One per store: `objects.derived(KubeletRejections)`."""

    def __init__(self, objects: Objects) -> None:
        self._at: OrderedDict[tuple[str, str], MonotonicSeconds] = OrderedDict()

    def note(self, node: str, reason: str, now: MonotonicSeconds) -> None:
        """Remember the reason with which a pod failed, such as `OutOfcpu`."""
        key = (node, reason.removeprefix(_PREFIX))
        self._at[key] = now
        self._at.move_to_end(key)
        while self._at and (len(self._at) > _MAX_NODES or now - next(iter(self._at.values())) > MAX_AVOID_SECONDS):
            self._at.popitem(last=False)

    def since(self, moment: MonotonicSeconds) -> Mapping[str, frozenset[str]]:
        """Return the resources that were lacking after a moment, by node."""
        lacking: dict[str, frozenset[str]] = {}
        for (node, resource), at in reversed(self._at.items()):
            if at <= moment:
                break
            lacking[node] = lacking.get(node, frozenset()) | {resource}
        return lacking
