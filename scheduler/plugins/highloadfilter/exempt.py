"""Pods that the limit does not hold for: no other node can run them, so waiting would not help the busy one."""

from collections.abc import Collection

from scheduler.framework import PodInfo, SpecInfo

_HOSTNAME = "kubernetes.io/hostname"


class Exemptions:
    """Which pods `SecondarySchedulerOptions.load.limit.exempt` names.

    A pod of a DaemonSet is pinned by the DaemonSet controller. One that merely claims to be of a DaemonSet is not
    exempt: its owner would lift the limit by a line in the pod's metadata.
    """

    def __init__(self, exempt: Collection[str]) -> None:
        self._pinned = "pinned" in exempt
        self._daemon_sets = "DaemonSet" in exempt

    def cover(self, pod: PodInfo) -> bool:
        """Return whether the limit does not hold for a pod."""
        if not (self._pinned or self._daemon_sets) or not is_pinned(pod.spec):
            return False
        return self._pinned or _is_of_daemon_set(pod)

    def ask_beyond_spec(self, pod: PodInfo) -> bool:
        """Return whether the answer depends on who owns the pod, which pods of one class need not share."""
        return self._daemon_sets and not self._pinned and is_pinned(pod.spec)


def is_pinned(spec: SpecInfo) -> bool:
    """Return whether a pod can run on one node only, as its spec names it: by name, or by host name."""
    if _HOSTNAME in spec.node_selector.required:
        return True
    if spec.required is None or not spec.required.terms:
        return False
    names: set[str] = set()
    for term in spec.required.terms:
        named = term.names
        if named is None:
            return False
        names |= named
    return len(names) == 1


def _is_of_daemon_set(pod: PodInfo) -> bool:
    owner = pod.controller
    return owner is not None and owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")
