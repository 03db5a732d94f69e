"""The pods that cannot be fully decoded, and what is done about each: nobody shall be put where one of them may run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

import structlog

from scheduler.helpers import UnreadablePod
from scheduler.observe import Metrics

COUNTED = "counted"
"""It has a node, where it is counted: by its requests, or by those that were last known."""
NODE_CLOSED = "node closed"
"""It has a node, and what it occupies there is not known: the node gets no more pods."""
LEFT_OUT = "left out"
"""It waits for a node, and gets none."""
_CONSEQUENCES = {
    COUNTED: "a pod cannot be fully decoded and is counted by the requests that are known of it",
    NODE_CLOSED: "a pod cannot be read, so its node gets no more pods until it can be read or is gone",
    LEFT_OUT: "a pod cannot be decoded and is left out",
}
log = structlog.get_logger(component="inputs")


LeftOut = Callable[[str], None]
"""Called with the kind of an object that cannot be read, or lists more than is read, and is left out."""


def ignore(kind: str) -> None:
    """Take no note of an object that is left out."""


class _Entry(NamedTuple):
    state: str
    node: str


class UnreadablePods:
    """Keeps nodes closed while they have such a pod; names each pod once in the log, and counts them.

    Args:
        close, reopen: called with a node's name, when its first such pod comes and when the last is gone.
        metrics: where they are counted.
    """

    def __init__(self, close: Callable[[str], None], reopen: Callable[[str], None], metrics: Metrics) -> None:
        self._close = close
        self._reopen = reopen
        self._gauge = metrics.unreadable_pods
        self._entries: dict[str, _Entry] = {}
        self._closing: Counter[str] = Counter()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def note(self, pod: UnreadablePod, state: str) -> None:
        """Take in what is done about a pod: one of the states above."""
        entry = _Entry(state, pod.node_name)
        if self._entries.get(pod.uid) == entry:
            return
        self.forget(pod.uid)
        self._entries[pod.uid] = entry
        self._gauge.labels(state).inc()
        log.warning(_CONSEQUENCES[state], pod=pod.key, node=pod.node_name, error=pod.error[:300])
        if state == NODE_CLOSED:
            self._closing[pod.node_name] += 1
            if self._closing[pod.node_name] == 1:
                self._close(pod.node_name)

    def forget(self, uid: str) -> None:
        """Forget a pod that can be read again, has ended, or is gone."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        self._gauge.labels(entry.state).dec()
        if entry.state == NODE_CLOSED:
            self._closing[entry.node] -= 1
            if not self._closing[entry.node]:
                del self._closing[entry.node]
                self._reopen(entry.node)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the pods that a fresh list does not hold."""
        for uid in [uid for uid in self._entries if uid not in uids]:
            self.forget(uid)
