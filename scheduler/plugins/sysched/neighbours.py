"""The system calls of the pods on each node, kept as long as neither the pods nor their profiles change."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from scheduler.framework import IntArray, NodeView, PodInfo
from scheduler.helpers import StaleRows
from scheduler.plugins.sysched.profiles import Profiles

_WORD = 64
_Words = np.ndarray[tuple[Any, ...], np.dtype[np.uint64]]


class _Columns(NamedTuple):
    """By row: the calls that some pod may make, the number of pods, and the sum of their numbers of calls."""

    calls: _Words
    pods: IntArray
    sums: IntArray


class Neighbours:
    """Columns over the table, brought up to date on use: only changed rows are looked at."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._stale = StaleRows()
        self._columns = _empty(0, 0)

    def extraneous(self, view: NodeView, own: int) -> IntArray:
        """Return, by row, the calls allowed on the node once a pod is there, less those each pod may make, summed up.

        With H the calls of the node and P those of the pod that is |H - P| + sum over pods S there of |(H + P) - S|.
        As each S is in H, it equals (pods + 1) * |H + P| - |P| - sum of |S|.
        """
        columns = _widen(self._ensure_current(view), self._profiles.width)
        calls = columns.calls | _words(own, columns.calls.shape[1])
        allowed = np.bitwise_count(calls).sum(axis=1, dtype=np.int64)
        extra: IntArray = (columns.pods + 1) * allowed - own.bit_count() - columns.sums
        return extra

    def _ensure_current(self, view: NodeView) -> _Columns:
        begins, rows = self._stale.take(view, self._profiles.version)
        if begins:
            self._columns = _empty(view.size, self._profiles.width)
        self._columns = self._recount_rows(self._columns, view, rows)
        # What an overlay shows is for this once.
        moved = view.moved_rows
        return self._recount_rows(_copy(self._columns), view, moved) if moved else self._columns

    def _recount_rows(self, columns: _Columns, view: NodeView, rows: Iterable[int]) -> _Columns:
        for row in rows:
            calls, number, total = self._sum(view.pods_on(row))
            columns = _widen(columns, self._profiles.width)
            columns.calls[row] = _words(calls, columns.calls.shape[1])
            columns.pods[row] = number
            columns.sums[row] = total
        return columns

    def _sum(self, pods: Iterable[PodInfo]) -> tuple[int, int, int]:
        calls = number = total = 0
        for pod in self._counted_pods(pods):
            own = self._profiles.syscalls_of_paths(pod.spec.seccomp)
            calls |= own
            number += 1
            total += own.bit_count()
        return calls, number, total

    def _counted_pods(self, pods: Iterable[PodInfo]) -> Iterable[PodInfo]:
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
