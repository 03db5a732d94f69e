"""SySched: put pods together that make the same system calls (scheduler-plugins v0.34.7, pkg/sysched)."""

import numpy as np

from scheduler.catalog import SySchedArgs
from scheduler.framework import (
    CycleState,
    IntArray,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    ScoreNormalizer,
    ScorePlugin,
)
from scheduler.helpers import default_normalize
from scheduler.kube.primitives import INT64_MAX
from scheduler.plugins.sysched.neighbours import Neighbours
from scheduler.plugins.sysched.profiles import Profiles
from scheduler.plugins.sysched.upstream import UpstreamNeighbours, UpstreamProfiles

_PROFILE_UNITS = 300


class SySched(ScorePlugin, ScoreNormalizer):
    """Scores how many system calls a node would allow that one of its pods does not need: the fewer, the better.

    In `upstream` mode pods count once the kubelet has reported on them, and of pods of one name on a node only one; in
    `safe` mode every pod counts, from the moment it is assumed.
    """

    name = "SySched"

    def __init__(self, args: SySchedArgs, context: PluginContext) -> None:
        default = (args.default_profile_namespace, args.default_profile_name)
        if context.upstream:
            self._profiles: Profiles = UpstreamProfiles(default)
            self._neighbours: Neighbours = UpstreamNeighbours(self._profiles)
        else:
            self._profiles = Profiles(default)
            self._neighbours = Neighbours(self._profiles)

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return, summed over the pod and those on the node, the calls that some pod there may make and they may not.

        A node without pods has 0. A pod without known calls scores all nodes alike.
        """
        paths = pod.spec.seccomp
        profiles = 1 + len(paths.contexts) + len(paths.annotations)
        state.work.charge(_PROFILE_UNITS * profiles + len(view.rows) // 10, "profiles of the pod + nodes")
        self._profiles.refresh(view.objects)
        if self._profiles.left_out:
            state.count(f"system_calls_left_out/{self.name}")
        own = self._profiles.syscalls_of_paths(pod.spec.seccomp)
        if not own:
            return np.full(len(rows), INT64_MAX, dtype=np.int64)
        return self._neighbours.extraneous(view, own)[rows]

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Turn the most extraneous calls into 0 and none into 100."""
        if len(scores) and scores[0] == INT64_MAX:
            # The product with 100 overflows, and comes out as next to nothing upstream too.
            return np.full_like(scores, 100)
        return default_normalize(scores, reverse=True)
