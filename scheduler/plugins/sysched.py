"""SySched: put pods together that make the same system calls (scheduler-plugins v0.34.7, pkg/sysched)."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import SySchedArgs
from scheduler.helpers import StaleRows, default_normalize
from scheduler.kube.model import SeccompProfileObject
from scheduler.kube.primitives import INT64_MAX

# Which system calls a pod may make, as sets of bits.

_KIND = "SeccompProfile"
_MAX_CALLS = 4096
"""Names of system calls that get a bit; Linux has some five hundred."""
_ALLOWING_ACTIONS = frozenset({"SCMP_ACT_ALLOW", "SCMP_ACT_LOG"})

Name = tuple[str, str]
"""Namespace and name of a SeccompProfile."""


class Profiles:
    """Calls by what pods name, kept until a SeccompProfile changes.

    Attributes:
        version: changes when the calls of some pods have changed.
        width: bits in use.
        left_out: whether profiles name more than `_MAX_CALLS` calls: those that came last do not count.
    """

    def __init__(self, default: Name) -> None:
        self._default = default
        self._bits: dict[str, int] = {}
        self._calls: dict[fw.SeccompPaths, int] = {}
        self._objects: fw.Objects | None = None
        self._generation = -1
        self.version = 0
        self.left_out = False

    @property
    def width(self) -> int:
        """Number of system calls that have a bit."""
        return len(self._bits)

    def refresh(self, objects: fw.Objects) -> None:
        """Take note of changed profiles; `version` changes only where some pod may make other calls than before."""
        generation = objects.generation(_KIND)
        if objects is self._objects and generation == self._generation:
            return
        self._objects, self._generation = objects, generation
        now = {paths: self._syscalls_of(paths) for paths in self._calls}
        if now != self._calls:
            self._calls = now
            self.version += 1

    def syscalls_of_paths(self, paths: fw.SeccompPaths) -> int:
        """Return the calls of a pod: of all profiles that it names, or else of the default profile."""
        calls = self._calls.get(paths)
        if calls is None:
            calls = self._calls[paths] = self._syscalls_of(paths)
        return calls

    def _syscalls_of(self, paths: fw.SeccompPaths) -> int:
        calls = 0
        for path in paths.contexts:
            calls |= self._profile(profile_name(path)) or 0
        calls |= self._syscalls_of_annotations(paths.annotations)
        return calls or self._profile(self._default) or 0

    def _syscalls_of_annotations(self, paths: Iterable[str]) -> int:
        """Return the calls that any of the annotations' profiles allows."""
        calls = 0
        for path in paths:
            calls |= self._profile(profile_name(path)) or 0
        return calls

    def _profile(self, name: Name) -> int | None:
        """Return the calls of a profile; None where it is not there."""
        if self._objects is None or not all(name):
            return None
        profile: SeccompProfileObject | None = self._objects.get(_KIND, *name)
        if profile is None:
            return None
        calls = 0
        for rule in profile.spec.syscalls:
            if rule.action in _ALLOWING_ACTIONS:
                for call in rule.names:
                    bit = self._bits.get(call)
                    if bit is None:
                        if len(self._bits) >= _MAX_CALLS:
                            self.left_out = True
                            continue
                        bit = self._bits[call] = len(self._bits)
                    calls |= 1 << bit
        return calls


def profile_name(path: str) -> Name:
    """Return the SeccompProfile behind a path such as `operator/<namespace>/<name>.json`; empty where it has no two
    parts."""
    parts = path.rsplit("/", 2)
    if len(parts) < 2:
        return "", ""
    # What follows the last dot, wherever it stands, is taken for an extension.
    stem, dot, _ = parts[-1].rpartition(".")
    return parts[-2], stem if dot else parts[-1]


# The system calls of the pods on each node, kept as long as neither the pods nor their profiles change.

_WORD = 64
_Words = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]


class _Columns(NamedTuple):
    """By row: the calls that some pod may make, the number of pods, and the sum of their numbers of calls."""

    calls: _Words
    pods: fw.IntArray
    sums: fw.IntArray


class Neighbours:
    """Columns over the table, brought up to date on use: only changed rows are looked at."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._stale = StaleRows()
        self._columns = _empty(0, 0)

    def extraneous(self, view: fw.NodeView, own: int) -> fw.IntArray:
        """Return, by row, the calls allowed on the node once a pod is there, less those each pod may make, summed up.

        With H the calls of the node and P those of the pod that is |H - P| + sum over pods S there of |(H + P) - S|.
        As each S is in H, it equals (pods + 1) * |H + P| - |P| - sum of |S|.
        """
        columns = _widen(self._ensure_current(view), self._profiles.width)
        calls = columns.calls | _words(own, columns.calls.shape[1])
        allowed = np.bitwise_count(calls).sum(axis=1, dtype=np.int64)
        extra: fw.IntArray = (columns.pods + 1) * allowed - own.bit_count() - columns.sums
        return extra

    def _ensure_current(self, view: fw.NodeView) -> _Columns:
        begins, rows = self._stale.take(view, self._profiles.version)
        if begins:
            self._columns = _empty(view.size, self._profiles.width)
        self._columns = self._recount_rows(self._columns, view, rows)
        # What an overlay shows is for this once.
        moved = view.moved_rows
        return self._recount_rows(_copy(self._columns), view, moved) if moved else self._columns

    def _recount_rows(self, columns: _Columns, view: fw.NodeView, rows: Iterable[int]) -> _Columns:
        for row in rows:
            calls, number, total = self._sum(view.pods_on(row))
            columns = _widen(columns, self._profiles.width)
            columns.calls[row] = _words(calls, columns.calls.shape[1])
            columns.pods[row] = number
            columns.sums[row] = total
        return columns

    def _sum(self, pods: Iterable[fw.PodInfo]) -> tuple[int, int, int]:
        calls = number = total = 0
        for pod in self._counted_pods(pods):
            own = self._profiles.syscalls_of_paths(pod.spec.seccomp)
            calls |= own
            number += 1
            total += own.bit_count()
        return calls, number, total

    def _counted_pods(self, pods: Iterable[fw.PodInfo]) -> Iterable[fw.PodInfo]:
        """Return the pods of a node that count."""
        return pods


def _empty(size: int, width: int) -> _Columns:
    words = -(-width // _WORD)
    return _Columns(np.zeros((size, words), np.uint64), np.zeros(size, np.int64), np.zeros(size, np.int64))


def _copy(columns: _Columns) -> _Columns:
    return _Columns(columns.calls.copy(), columns.pods.copy(), columns.sums.copy())


def _widen(columns: _Columns, width: int) -> _Columns:
    missing = -(-width // _WORD) - columns.calls.shape[1]
    if missing <= 0:
        return columns
    return columns._replace(calls=np.pad(columns.calls, ((0, 0), (0, missing))))


def _words(calls: int, words: int) -> _Words:
    return np.frombuffer(calls.to_bytes(words * (_WORD // 8), "little"), dtype="<u8").astype(np.uint64)


# What `compatibility: upstream` changes in SySched: pkg/sysched of scheduler-plugins 0.34.7 as it is.
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

    def _counted_pods(self, pods: Iterable[fw.PodInfo]) -> Iterable[fw.PodInfo]:
        by_name: dict[str, fw.PodInfo] = {}
        for pod in pods:
            # Upstream looks for the pod's address, which the kubelet has written by the time the pod is started.
            if not math.isnan(pod.started_at):
                by_name.setdefault(pod.name, pod)
        return by_name.values()


_PROFILE_UNITS = 300


class SySched(fw.ScorePlugin, fw.ScoreNormalizer):
    """Scores how many system calls a node would allow that one of its pods does not need: the fewer, the better.

    In `upstream` mode pods count once the kubelet has reported on them, and of pods of one name on a node only one; in
    `safe` mode every pod counts, from the moment it is assumed.
    """

    name = "SySched"

    def __init__(self, args: SySchedArgs, context: fw.PluginContext) -> None:
        default = (args.default_profile_namespace, args.default_profile_name)
        if context.upstream:
            self._profiles: Profiles = UpstreamProfiles(default)
            self._neighbours: Neighbours = UpstreamNeighbours(self._profiles)
        else:
            self._profiles = Profiles(default)
            self._neighbours = Neighbours(self._profiles)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
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

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn the most extraneous calls into 0 and none into 100."""
        if len(scores) and scores[0] == INT64_MAX:
            # The product with 100 overflows, and comes out as next to nothing upstream too.
            return np.full_like(scores, 100)
        return default_normalize(scores, reverse=True)
