"""What the cache takes: nothing of a pod that is gone, and little of one that runs."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest

from scheduler.helpers import PodReducer
from scheduler.kube.model import Pod
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, node

NODES, PODS = 10, 200
_DECODER = msgspec.json.Decoder(Pod)
_KUBELETS_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start(1)
    yield
    tracemalloc.stop()


def allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class Churn:
    """Pods of a kubelet that come one for another, as the watch shows them."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.state.assignments.keep(False)
        self._reducer = PodReducer()
        for number in range(NODES):
            self.state.upsert_node(node(f"node-{number}"))

    def come(self, turn: int, number: int) -> None:
        """Assumed, bound, and running."""
        waiting = self._reducer.reduce(_DECODER.decode(self._pod(turn, number, "", running=False)))
        host = f"node-{(number + turn) % NODES}"
        self.state.assume(waiting, host, NOW)
        self.state.confirm(waiting.uid)
        for running in (False, True):
            pod = self._reducer.reduce(_DECODER.decode(self._pod(turn, number, host, running=running)))
            self.state.upsert_pod(pod)

    def replace_all(self, turn: int) -> None:
        for number in range(PODS):
            self.state.remove_pod(f"uid-{turn - 1}-{number:030}")
            self.come(turn, number)
        self.state.snapshot(NOW)

    @staticmethod
    def _pod(turn: int, number: int, host: str, *, running: bool) -> bytes:
        time = f"2026-01-01T00:00:{turn % 60:02}Z"
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": time} for kind in _KUBELETS_CONDITIONS]
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"app-{number % 20}",
            "uid": f"uid-{number % 20}",
        }
        metadata = {
            "name": f"pod-{turn}-{number}",
            "namespace": "team",
            "uid": f"uid-{turn}-{number:030}",
            "resourceVersion": str(1000 + turn),
            "creationTimestamp": time,
            "labels": {"app": f"app-{number % 20}"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        spec = {"schedulerName": "mine", "nodeName": host, "containers": [{"name": "c", "image": "i"}]}
        status = {"phase": "Running", "startTime": time, "conditions": conditions} if running else {"phase": "Pending"}
        return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})


def test_pods_that_replace_others_leave_nothing_behind(traced: None) -> None:
    churn = Churn()
    for number in range(PODS):
        churn.come(0, number)
    turns = 8
    for turn in range(1, 5):
        churn.replace_all(turn)
    before = allocated()
    for turn in range(5, 5 + turns):
        churn.replace_all(turn)
    # A log of rows, which has a most, takes some 24 bytes for each.
    grown = (allocated() - before) / (turns * PODS)
    assert grown < 48


def test_a_pod_that_runs_takes_less_than_two_kilobytes(traced: None) -> None:
    churn = Churn()
    before = allocated()
    for number in range(PODS):
        churn.come(0, number)
    assert (allocated() - before) / PODS < 2048
