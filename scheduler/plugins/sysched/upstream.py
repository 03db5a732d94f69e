"""What `compatibility: upstream` changes in SySched: pkg/sysched of scheduler-plugins 0.34.7 as it is."""

import math
from collections.abc import Iterable

from scheduler.framework import PodInfo
from scheduler.plugins.sysched.neighbours import Neighbours
from scheduler.plugins.sysched.profiles import Profiles, profile_name


class UpstreamProfiles(Profiles):
    """Of a pod's annotations one counts, whichever comes first in Go's map; here that is the first key."""

    def _syscalls_of_annotations(self, paths: Iterable[str]) -> int:
        for path in paths:
            name = profile_name(path)
            calls = self._profile(name)
            if calls is not None or not all(name):
                return calls or 0
        return 0


class UpstreamNeighbours(Neighbours):
    """Pods count once the kubelet has reported on them, and of pods of one name on a node only one does."""

    def _counted_pods(self, pods: Iterable[PodInfo]) -> Iterable[PodInfo]:
        by_name: dict[str, PodInfo] = {}
        for pod in pods:
            # Upstream looks for the pod's address, which the kubelet has written by the time the pod is started.
            if not math.isnan(pod.started_at):
                by_name.setdefault(pod.name, pod)
        return by_name.values()
