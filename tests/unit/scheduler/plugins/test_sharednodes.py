"""SharedNodes: headroom on nodes that have pods of other schedulers, and nodes whose kubelet rejected a pod."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import decide, explain
from scheduler.engine import plugin_environment
from scheduler.framework import Clocks, MonotonicSeconds, PodInfo, ProfileRunner, WallSeconds, conclude
from scheduler.helpers import KubeletRejections
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from tests.support.clock import Clock
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

NAME = "SharedNodes"
ENABLED = {"filter": {"enabled": [{"name": NAME}]}}
TEN = {"cpu": "10", "memory": "10Gi"}
OTHER = {"schedulerName": "default-scheduler"}
CPU = "node(s) shared with other schedulers, which keep 5% of cpu"
REJECTED = "node(s) whose kubelet rejected a pod a moment ago"


class First:
    """Takes the first of equals."""

    def random(self) -> float:
        return 0.0


def profile(clock: Clock | None = None, names: tuple[str, ...] = (), **args: Any) -> ProfileRunner:
    """A profile with the default plugins and this one; the process serves these scheduler names."""
    effective = runner(ENABLED, {NAME: args}).effective
    clocks = Clocks(lambda: WallSeconds(NOW), clock or Clock())
    return build_profile(effective, environment=plugin_environment(clocks, names))


def rejection(state: ClusterState, info: PodInfo, runs: ProfileRunner, name: str = "n0") -> str:
    """The plugin's reason for which a node is rejected before it steps back, empty where it passes."""
    explanation = explain(state.snapshot(NOW), info, runs)
    for each in (*explanation.diagnosis.rejections, *explanation.diagnosis.taken_back):
        if each.plugin == NAME and state.snapshot(NOW).row(name) in each.rows.tolist():
            return explanation.node(name).rejection.message if explanation.node(name).rejection else each.reasons[0]
    return ""


def two_nodes(*on_first: PodInfo) -> ClusterState:
    return cluster(node("n0", allocatable=TEN), node("n1", allocatable=TEN), pods={"n0": list(on_first)})


def chosen(state: ClusterState, info: PodInfo, runs: ProfileRunner) -> str | None:
    return conclude(decide(state.snapshot(NOW), info, runs, First())).node


def test_a_node_with_pods_of_another_scheduler_keeps_its_headroom() -> None:
    state, runs = two_nodes(pod("theirs", container("1"), **OTHER)), profile()
    assert chosen(state, pod("small", container("8500m")), runs) is not None
    assert rejection(state, pod("small", container("8500m")), runs) == ""
    assert rejection(state, pod("large", container("8600m")), runs) == CPU
    assert chosen(state, pod("large", container("8600m")), runs) == "n1"


def test_memory_has_a_headroom_of_its_own() -> None:
    state = two_nodes(pod("theirs", container("1", "1Gi"), **OTHER))
    runs = profile(headroom={"cpu": 0, "memory": 20})
    large = pod("large", container("9", "8Gi"))
    assert rejection(state, large, runs) == "node(s) shared with other schedulers, which keep 20% of memory"
    assert rejection(state, pod("large", container("9", "7Gi")), runs) == ""


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_every_node_has_do_not_make_it_shared(kind: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}
    state = two_nodes(pod("agent", container("1"), metadata={"ownerReferences": [owner]}, **OTHER))
    assert rejection(state, pod("large", container("9")), profile()) == ""


def test_pods_of_the_other_profiles_of_this_process_do_not_make_it_shared() -> None:
    state = two_nodes(pod("ours", container("1"), schedulerName="batch"))
    large = pod("large", container("9"))
    assert rejection(state, large, profile(names=("test", "batch"))) == ""
    assert rejection(state, large, profile(names=("test",))) == CPU


def test_the_headroom_is_given_up_where_nothing_else_is_left() -> None:
    theirs = pod("theirs", container("1"), **OTHER)
    state = cluster(node("n0", allocatable=TEN), pods={"n0": [theirs]})
    assert chosen(state, pod("large", container("9")), profile()) == "n0"
    placement = conclude(decide(state.snapshot(NOW), pod("large", container("9")), profile(), First()))
    assert placement.state.counters["stepped_back/SharedNodes"] == 1


def test_a_node_is_shared_as_long_as_the_other_pod_is_there() -> None:
    state, runs, large = two_nodes(), profile(), pod("large", container("9"))
    assert rejection(state, large, runs) == ""
    theirs = pod("theirs", container("1"), nodeName="n0", **OTHER)
    state.upsert_pod(theirs)
    assert rejection(state, large, runs) == CPU
    state.remove_pod(theirs.uid)
    assert rejection(state, large, runs) == ""


def test_a_node_is_avoided_for_some_seconds_after_a_rejection() -> None:
    clock = Clock()
    state, runs, small = two_nodes(), profile(clock), pod("small", container("1"))
    state.objects.derived(KubeletRejections).note("n0", "OutOfcpu", clock())
    assert rejection(state, small, runs) == REJECTED
    assert chosen(state, small, runs) == "n1"
    clock.now += 10.1
    assert rejection(state, small, runs) == ""


def test_only_pods_that_request_what_was_lacking_avoid_a_node() -> None:
    clock = Clock()
    state, runs = two_nodes(), profile(clock)
    state.objects.derived(KubeletRejections).note("n0", "OutOfmemory", clock())
    assert rejection(state, pod("cpu", container("1")), runs) == ""
    assert rejection(state, pod("both", container("1", "1Gi")), runs) == REJECTED
    state.objects.derived(KubeletRejections).note("n0", "OutOfpods", clock())
    assert rejection(state, pod("cpu", container("1")), runs) == REJECTED


def test_a_node_that_rejected_a_pod_is_used_where_nothing_else_is_left() -> None:
    clock = Clock()
    state = cluster(node("n0", allocatable=TEN))
    state.objects.derived(KubeletRejections).note("n0", "OutOfcpu", clock())
    assert chosen(state, pod("p", container("1")), profile(clock)) == "n0"


def test_rejections_are_forgotten_in_time() -> None:
    rejections = KubeletRejections(ClusterState().objects)
    for number in range(20_000):
        rejections.note(f"n{number}", "OutOfcpu", MonotonicSeconds(1.0))
    assert len(rejections.since(MonotonicSeconds(0.0))) == 10_000
    rejections.note("new", "OutOfcpu", MonotonicSeconds(302.0))
    assert list(rejections.since(MonotonicSeconds(0.0))) == ["new"]


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ("{headroom: {cpu: 100}}", "headroom.cpu"),
        ("{headroom: {memory: -1}}", "headroom.memory"),
        ("{avoidSeconds: 301}", "avoidSeconds"),
    ],
)
def test_args_out_of_range_are_refused(args: str, field: str) -> None:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins: {{filter: {{enabled: [{{name: SharedNodes}}]}}}}
  pluginConfig: [{{name: SharedNodes, args: {args}}}]
"""
    with pytest.raises(ConfigurationError, match=field):
        load_configuration(text, source="test", external_load=True)
