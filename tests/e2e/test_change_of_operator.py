"""One SecondaryScheduler that changes its operator under load: from ours to upstream's, for which a fake of exactly its
event rules stands in, and back. Its scheduler is ours all the time.

What is waited for is that every pod has a node in the end. What a change costs is measured and printed:
benchmarks/NOTES.md has the figures.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.handovers import Arrivals, Nomination, leading_pod, lease_holder
from tests.support.live_stack import NAME, NAMESPACE, OUR_IMAGE, Live
from tests.support.upstream_operator import GROUP, LOCK, PLURAL, VERSION, FakeUpstreamOperator
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

NODES = 10
OPERATOR = "secondary-scheduler-operator"


@pytest.fixture(scope="module")
def live(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    spec = ClusterSpec(name="operators", nodes=NODES, state_root=cluster_state_root)
    with LocalCluster(spec) as cluster:
        stack = Live(cluster, tmp_path_factory.mktemp("operators"), "operators", only_own=True)
        stack.up(schedulerImage=OUR_IMAGE, operatorImage=OUR_IMAGE.replace("kube-scheduler", "operator"))
        yield stack
        stack.close()


@pytest.fixture(scope="module")
def running() -> Iterator[contextlib.ExitStack]:
    """What runs until it is closed."""
    with contextlib.ExitStack() as running:
        yield running


def scale_our_operator(live: Live, replicas: int) -> None:
    live.apps.patch_namespaced_deployment_scale(OPERATOR, NAMESPACE, {"spec": {"replicas": replicas}})


def pod_spec(live: Live) -> dict[str, Any]:
    """Of the scheduler's Deployment."""
    spec: dict[str, Any] = live.core.api_client.sanitize_for_serialization(live.deployments()[NAME].spec.template.spec)
    return spec


def new_pod(live: Live, former: set[str]) -> str:
    """The scheduler's pod once it leads, and none of the former ones is there but on its way out; "" before."""
    pods = live.pods()
    leading = leading_pod(live)
    return leading if pods == {leading} and not pods & former else ""


def cost_of(live: Live, direction: str, change: Callable[[], None]) -> str:
    """Change the operator while pods arrive; every one is placed."""
    nomination, former = Nomination(live, direction), live.pods()
    with Arrivals(live, direction) as arrivals:
        eventually(lambda: bool(arrivals.bound), "pods are placed before the change")
        change()
        eventually(lambda: new_pod(live, former), "the scheduler of the other operator leads")
        since = len(arrivals.created)
        eventually(lambda: f"{direction}-{since}" in arrivals.bound, "pods are placed after the change")
    eventually(arrivals.look, "every pod has a node")
    nomination.is_kept_to()
    return arrivals.cost()


@pytest.fixture(scope="module")
def ours(live: Live) -> dict[str, Any]:
    """The spec of the scheduler's pods as our operator makes it."""
    return pod_spec(live)


def test_every_pod_is_placed_across_the_change_to_upstreams_operator(live: Live, running: contextlib.ExitStack) -> None:
    upstream = FakeUpstreamOperator(Path(live.environment["KUBECONFIG"]))

    def change() -> None:
        scale_our_operator(live, 0)
        eventually(lambda: not lease_holder(live, LOCK), "our operator gives its Lease back")
        running.enter_context(upstream)
        eventually(lambda: pod_spec(live) != ours, "upstream's operator writes the Deployment")

    print(cost_of(live, "to-upstream", change))
    assert upstream.errors == []


def test_and_across_the_change_back_after_which_the_pods_are_as_they_were(
    live: Live, ours: dict[str, Any], running: contextlib.ExitStack
) -> None:
    def change() -> None:
        running.close()
        scale_our_operator(live, 1)
        eventually(lambda: pod_spec(live) == ours, "our operator writes the Deployment")

    print(cost_of(live, "back", change))
    resource = live.custom.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "cluster")
    conditions = {each["type"]: each["status"] for each in resource["status"]["conditions"]}
    assert (conditions["Available"], conditions["Degraded"]) == ("True", "False")
    live.nothing_to_change()
