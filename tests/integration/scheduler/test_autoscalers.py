"""What autoscalers make of our pods: their choice of pods, as a double, on every state that the API server ever showed.

A pod whose history has one state too many makes an autoscaler buy a node. So the tests judge all states, not the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeClient, Reflector, unchanged
from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured, UnstructuredCodec
from tests.conformance.apiclient import Api
from tests.conformance.capacity import QUOTA_CRD
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.schedulerplugins import install_crds
from tests.integration.scheduler.preemption import daemon_running
from tests.integration.scheduler.test_load_limit import watcher_running
from tests.support.autoscalers import asks, asks_cluster_autoscaler, asks_karpenter, fitting_nodes, scheduled
from tests.support.waiting import eventually_on_loop

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Json = dict[str, Any]
PLAIN, LIMITED, QUOTAS, HIDDEN, GANGS = "plain", "limited", "quotas", "hidden", "gangs"
GROUP = "scheduling.x-k8s.io/pod-group"
GROUP_VERSION = "scheduling.x-k8s.io/v1alpha1"
GROUP_CRD = QUOTA_CRD.with_name("scheduling.x-k8s.io_podgroups.yaml")
_NUMBERS = itertools.count()


def _profiles(watcher: str) -> list[Json]:
    sorting = {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}
    limit = {"load": {"refreshSeconds": 1, "limit": {"whenAllExceed": "reject"}}}
    high_load = {"watcherAddress": watcher, "usageThresholds": {"cpu": 60}, "failOpen": False}
    quotas = {
        "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
        "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
    }
    plugins: dict[str, Json] = {
        PLAIN: {},
        LIMITED: {point: {"enabled": [{"name": "HighLoadFilter"}]} for point in ("preFilter", "filter")},
        QUOTAS: quotas,
        HIDDEN: quotas,
        GANGS: {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
    }
    options = "SecondarySchedulerOptions"
    config = {
        LIMITED: [{"name": "HighLoadFilter", "args": high_load}, {"name": options, "args": limit}],
        HIDDEN: [{"name": options, "args": {"hideQuotaFromAutoscalers": True}}],
    }
    return [
        {
            "schedulerName": name,
            "plugins": {"queueSort": sorting, **points},
            **({"pluginConfig": config[name]} if name in config else {}),
        }
        for name, points in plugins.items()
    ]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server, and our scheduler with a profile per case. Every node whose name begins with `hot` is hot."""
    hot = {f"hot-{number}": 95.0 for number in range(20)}
    with control_plane_running() as running, watcher_running(hot) as watcher:
        asyncio.run(install_crds(running, [QUOTA_CRD, GROUP_CRD]))
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(running.layout.kubeconfig)},
            "profiles": _profiles(watcher.address),
        }
        with daemon_running(tmp_path_factory.mktemp("daemon"), json.dumps(configuration)):
            yield running


class History:
    """Every state of every pod, in order; a Sink."""

    def __init__(self) -> None:
        self.states: dict[str, list[Json]] = {}

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        for item in items:
            self._add(item)

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        for kind, item in events:
            if kind is not EventType.DELETED:
                self._add(item)

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        raise AssertionError(f"{metadata.key}: {error}")

    def _add(self, item: Unstructured) -> None:
        self.states.setdefault(item.metadata.name, []).append(item.content)

    def latest(self, name: str) -> Json:
        return self.states[name][-1]

    def ever_asked(self, name: str) -> bool:
        """Whether any state of the pod was a reason for a new node."""
        return any(asks(state) for state in self.states.get(name, ()))

    def conditions(self, name: str) -> list[tuple[str, str]]:
        """Reason and nomination of each PodScheduled=False, without repetitions."""
        refusals = [
            (str(condition.get("reason")), str(state["status"].get("nominatedNodeName", "")))
            for state in self.states[name]
            if (condition := scheduled(state)) and condition["status"] == "False"
        ]
        return [key for key, _ in itertools.groupby(refusals)]


class NodePool:
    """A namespace with nodes of its own, which its pods select."""

    def __init__(self, api: Api, history: History) -> None:
        self.api, self.history = api, history
        self.number = next(_NUMBERS)
        self.namespace = f"team-{self.number}"

    async def node(self, cpu: str, name: str = "node", **labels: str) -> str:
        resources = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        name = f"{name}-{self.number}"
        metadata = {"name": name, "labels": {"team": self.namespace, **labels}}
        await self.api.create(
            {"kind": "Node", "metadata": metadata, "status": {"capacity": resources, "allocatable": resources}}
        )
        return name

    async def pod(self, name: str, scheduler: str, cpu: str, labels: Json | None = None, **spec: Any) -> str:
        name = f"{name}-{self.number}"
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        await self.api.create(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
                "spec": {
                    "schedulerName": scheduler,
                    "nodeSelector": {"team": self.namespace},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                    **spec,
                },
            }
        )
        return name

    async def group(self, minimum: int, annotations: Json | None = None) -> None:
        """A PodGroup of the name `gang`."""
        metadata = {"name": "gang", "namespace": self.namespace, "annotations": annotations or {}}
        spec = {"minMember": minimum}
        await self.api.create({"apiVersion": GROUP_VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec})

    async def placed(self, name: str) -> None:
        await eventually_on_loop(lambda: bool(self._spec(name).get("nodeName")), f"{name} gets a node")

    async def refused(self, name: str, reason: str = "Unschedulable") -> Json:
        """Wait until the scheduler has said that a pod fits nowhere; its state then."""
        await eventually_on_loop(lambda: (reason, "") in self._said(name), f"{name} is unschedulable")
        return self.history.latest(name)

    async def will_not_scale_up(self) -> list[str]:
        """Pods that ask for a node, and that an autoscaler leaves waiting, as a node would take them."""
        pods, nodes = await self.api.list_all("Pod"), await self.api.list_all("Node")
        mine = [pod for pod in pods if pod["metadata"]["namespace"] == self.namespace]
        return [pod["metadata"]["name"] for pod in mine if asks(pod) and fitting_nodes(pod, nodes, pods)]

    def _spec(self, name: str) -> Json:
        states = self.history.states.get(name)
        return states[-1]["spec"] if states else {}

    def _said(self, name: str) -> list[tuple[str, str]]:
        return self.history.conditions(name) if name in self.history.states else []


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[NodePool]:
    api, history = Api(plane), History()
    config = ClientConfig.load(kubeconfig=plane.layout.kubeconfig, context=None, master=None)
    async with KubeClient(config, qps=0) as client:
        reflector = Reflector(client, "/api/v1/pods", UnstructuredCodec(), history, unchanged)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        stage = NodePool(api, history)
        await api.create({"kind": "Namespace", "metadata": {"name": stage.namespace}})
        yield stage
        # First: its connection takes a moment to close.
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await api.delete_all("Pod", stage.namespace)
        await api.delete_all("Node")
        await api.close()


async def test_a_pod_without_a_node_asks_both_autoscalers_and_one_with_a_node_never_did(world: NodePool) -> None:
    await world.node("1")
    small, large = await world.pod("small", PLAIN, "500m"), await world.pod("large", PLAIN, "2")
    await world.placed(small)
    state = await world.refused(large)
    assert (asks_cluster_autoscaler(state), asks_karpenter(state)) == (True, True)
    assert not world.history.ever_asked(small)
    assert await world.will_not_scale_up() == []
    assert asks_cluster_autoscaler(state, allowed={PLAIN})
    assert not asks_cluster_autoscaler(state, allowed={"default-scheduler"})


async def test_a_gated_pod_never_asks_and_asks_once_its_gate_is_lifted_and_no_node_has_room(world: NodePool) -> None:
    await world.node("1")
    held = await world.pod("held", PLAIN, "2", schedulingGates=[{"name": "example.com/hold"}])
    after = await world.pod("after", PLAIN, "100m")
    await world.placed(after)
    assert world.history.conditions(held) == [("SchedulingGated", "")]
    assert not world.history.ever_asked(held)
    item = {"kind": "Pod", "metadata": {"name": held, "namespace": world.namespace}}
    await world.api.call(
        "PATCH", f"/api/v1/namespaces/{world.namespace}/pods/{held}", {"spec": {"schedulingGates": None}}
    )
    assert asks(await world.refused(held))
    # Written once: an autoscaler counts from the condition's time.
    await world.node("1", "second")
    await world.pod("further", PLAIN, "100m")
    assert world.history.conditions(held) == [("SchedulingGated", ""), ("Unschedulable", "")]
    assert (await world.api.get(item))["status"].get("nominatedNodeName") is None


async def test_a_pod_that_preempts_gets_condition_and_nomination_in_one_write_and_never_asks(world: NodePool) -> None:
    node = await world.node("1")
    for name, value in (("low", 1), ("high", 1000)):
        name = f"{name}-{world.number}"
        await world.api.create({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
    victim = await world.pod("victim", PLAIN, "800m", priorityClassName=f"low-{world.number}")
    await world.placed(victim)
    preemptor = await world.pod("preemptor", PLAIN, "800m", priorityClassName=f"high-{world.number}")
    await world.placed(preemptor)
    assert world.history.conditions(preemptor) == [("Unschedulable", node)]
    assert not world.history.ever_asked(preemptor)


async def test_every_member_of_a_gang_that_does_not_fit_asks_and_the_others_being_held_takes_nothing_back(
    world: NodePool,
) -> None:
    await world.node("2")
    await world.group(3)
    members = [await world.pod(f"m{number}", GANGS, "1", {GROUP: "gang"}) for number in range(3)]
    for member in members:
        await world.refused(member)
    asking = [member for member in members if asks(world.history.latest(member))]
    assert asking == members
    assert [world.history.conditions(member) for member in members] == [[("Unschedulable", "")]] * 3
    # The node that the third one needs: all of them are bound, and none asks any more.
    await world.node("1", "second")
    for member in members:
        await world.placed(member)
    assert not any(asks(world.history.latest(member)) for member in members)


async def test_a_gang_that_no_rack_takes_asks_for_nodes_that_no_autoscaler_adds_while_each_member_fits_somewhere(
    world: NodePool,
) -> None:
    await world.group(2, {"secondary-scheduler.io/topology-required": "rack"})
    await world.node("1", "first", rack="a")
    await world.node("1", "second", rack="b")
    members = [await world.pod(f"m{number}", GANGS, "1", {GROUP: "gang"}) for number in range(2)]
    for member in members:
        state = await world.refused(member)
        assert (asks_cluster_autoscaler(state), asks_karpenter(state)) == (True, True)
        assert "1 of 2 members fit in rack=" in str((scheduled(state) or {})["message"])
    assert await world.will_not_scale_up() == members
    # The node that helps is one of a rack that has room already.
    await world.node("1", "third", rack="b")
    for member in members:
        await world.placed(member)
    nodes = {world.history.latest(member)["spec"]["nodeName"] for member in members}
    assert nodes == {f"{name}-{world.number}" for name in ("second", "third")}


async def test_a_gang_that_no_rack_takes_has_nodes_added_for_members_that_fit_nowhere(world: NodePool) -> None:
    await world.group(2, {"secondary-scheduler.io/topology-required": "rack"})
    await world.node("1", "first", rack="a")
    members = [await world.pod(f"m{number}", GANGS, "2", {GROUP: "gang"}) for number in range(2)]
    for member in members:
        assert asks(await world.refused(member))
    assert await world.will_not_scale_up() == []


async def test_members_that_wait_for_others_to_be_created_ask_too_and_get_no_node_where_one_has_room(
    world: NodePool,
) -> None:
    await world.group(2)
    await world.node("2")
    fits = await world.pod("fits", GANGS, "1", {GROUP: "gang"})
    state = await world.refused(fits)
    assert asks(state)
    assert "1 of at least 2 members exist" in str((scheduled(state) or {})["message"])
    assert await world.will_not_scale_up() == [fits]
    await world.placed(await world.pod("second", GANGS, "1", {GROUP: "gang"}))
    await world.placed(fits)


async def test_a_pod_that_only_the_load_keeps_waiting_is_one_that_no_autoscaler_helps(world: NodePool) -> None:
    await world.node("4", "hot")
    waiting = await world.pod("waiting", LIMITED, "100m")
    assert asks(await world.refused(waiting))
    assert await world.will_not_scale_up() == [waiting]


async def create_quota(world: NodePool) -> None:
    """Half a CPU for the namespace, no more."""
    metadata = {"name": "quota", "namespace": world.namespace}
    spec = {"min": {"cpu": "500m"}, "max": {"cpu": "500m"}}
    quota = {"apiVersion": GROUP_VERSION, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}
    await world.api.create(quota)


async def test_a_pod_that_a_quota_holds_asks_and_where_the_nodes_are_full_a_node_is_bought_in_vain(
    world: NodePool,
) -> None:
    await world.node("1")
    await create_quota(world)
    inside = await world.pod("inside", QUOTAS, "500m")
    await world.placed(inside)
    held = await world.pod("held", QUOTAS, "500m")
    assert asks(await world.refused(held))
    assert await world.will_not_scale_up() == [held]
    await world.placed(await world.pod("filler", PLAIN, "500m"))
    assert await world.will_not_scale_up() == []


async def test_with_the_option_a_pod_that_a_quota_holds_never_asks_and_one_that_it_lets_go_does_once_it_fits_nowhere(
    world: NodePool,
) -> None:
    await world.node("1")
    await create_quota(world)
    await world.placed(await world.pod("inside", HIDDEN, "500m"))
    held = await world.pod("held", HIDDEN, "500m")
    assert not asks(await world.refused(held, "QuotaExceeded"))
    # Also where the nodes are full: the purchase would be in vain.
    await world.placed(await world.pod("filler", PLAIN, "500m"))
    assert not world.history.ever_asked(held)
    # More quota: now a node would help, and the pod says so.
    more = {"min": {"cpu": "2"}, "max": {"cpu": "2"}}
    path = f"/apis/{GROUP_VERSION}/namespaces/{world.namespace}/elasticquotas/quota"
    await world.api.call("PATCH", path, {"spec": more})
    await eventually_on_loop(lambda: asks(world.history.latest(held)), "it asks")
    assert [reason for reason, _ in world.history.conditions(held)] == ["QuotaExceeded", "Unschedulable"]
