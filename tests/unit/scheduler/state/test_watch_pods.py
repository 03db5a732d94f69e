"""Whoever watches pods is told of what the API server shows, and of nothing that is only assumed."""

import msgspec

from scheduler.framework import PodInfo
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod


def test_listeners_hear_of_bound_pods_and_not_of_assumed_ones() -> None:
    state = cluster(node("n"))
    calls: list[tuple[PodInfo | None, PodInfo | None]] = []
    state.watch_pods(lambda old, new: calls.append((old, new)))
    assumed = state.assume(pod("p"), "n", NOW)
    assert not calls
    bound = msgspec.structs.replace(assumed, phase="Pending")
    state.upsert_pod(bound)
    running = msgspec.structs.replace(bound, phase="Running")
    state.upsert_pod(running)
    state.remove_pod(running.uid)
    assert calls == [(assumed, bound), (bound, running), (running, None)]
    state.assume(pod("q"), "n", NOW)
    state.forget("uid-q")
    assert len(calls) == 3
