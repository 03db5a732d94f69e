"""What the agent reports to the API server: pod status, Events, the Node and its Lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from devcluster.node_agent.events import PodEventRecorder
from devcluster.node_agent.objects import Obj
from devcluster.node_agent.registration import NodeDescription, Registration
from devcluster.node_agent.status import (
    ContainerReport,
    PodReport,
    phase,
    pod_status,
    running,
    terminated,
    waiting,
)
from scheduler.kube.client import AlreadyExists, NotFound, ServerError


def ended(code: int) -> dict[str, Any]:
    return terminated(code, "Completed", "", 0, 1, "process://x")


def report(
    state: dict[str, Any] | None = None, *, name: str = "c", sidecar: bool = False, **fields: Any
) -> ContainerReport:
    spec = {"name": name, "image": "i", **({"restartPolicy": "Always"} if sidecar else {})}
    container_report = ContainerReport(spec, **fields)
    if state is not None:
        container_report.state = state
    return container_report


def facts(main: list[ContainerReport], init: list[ContainerReport] | None = None, **spec: Any) -> PodReport:
    return PodReport(
        pod={"metadata": {"name": "p"}, "spec": spec}, init=init or [], main=main, host_ip="127.0.0.1",
        pod_ip="127.10.0.1", started=0, sandbox_ready=True,
    )  # fmt: skip


CREATING = waiting("ContainerCreating")


@pytest.mark.parametrize(
    ("main", "init", "policy", "wanted"),
    [
        pytest.param([report(CREATING)], [], "Always", "Pending", id="not yet started"),
        pytest.param([report(running(0)), report(CREATING)], [], "Always", "Running", id="one of two runs"),
        pytest.param(
            [report(waiting("CrashLoopBackOff"), last_state=ended(1))], [], "Always", "Running", id="waits to run again"
        ),
        pytest.param([report(ended(0)), report(ended(0))], [], "Never", "Succeeded", id="all done"),
        pytest.param([report(ended(0)), report(ended(1))], [], "Never", "Failed", id="one failed for good"),
        pytest.param([report(ended(0)), report(running(0))], [], "Never", "Running", id="one still runs"),
        pytest.param([report(ended(1))], [], "OnFailure", "Running", id="will be restarted"),
        pytest.param([report(ended(0))], [], "Always", "Running", id="always restarted"),
        pytest.param([report(CREATING)], [report(running(0))], "Always", "Pending", id="init runs"),
        pytest.param([report(CREATING)], [report(ended(1))], "Never", "Failed", id="init failed for good"),
        pytest.param([report(CREATING)], [report(ended(1))], "Always", "Pending", id="init will be restarted"),
        pytest.param(
            [report(ended(0))],
            [report(ended(143), sidecar=True)],
            "Never",
            "Succeeded",
            id="sidecar ended with the pod",
        ),
    ],
)
def test_phase(main: list[ContainerReport], init: list[ContainerReport], policy: str, wanted: str) -> None:
    assert phase(facts(main, init, restartPolicy=policy)) == wanted


def conditions(status: Obj) -> dict[str, tuple[str, str | None]]:
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]}


def test_unready_container_is_named_and_times_change_only_with_the_status() -> None:
    first_report, second_report = report(running(0), name="one", ready=True), report(running(0), name="two")
    first = pod_status(facts([first_report, second_report]), {}, now=100)
    assert conditions(first)["Ready"] == ("False", "ContainersNotReady")
    message = next(condition["message"] for condition in first["conditions"] if condition["type"] == "ContainersReady")
    assert message == "containers with unready status: [two]"
    assert pod_status(facts([first_report, second_report]), first, now=200) == first
    second_report.ready = True
    second = pod_status(facts([first_report, second_report]), first, now=200)
    assert conditions(second)["Ready"] == ("True", None)
    times = {condition["type"]: condition["lastTransitionTime"][-4:] for condition in second["conditions"]}
    assert (times["Ready"], times["Initialized"]) == (":20Z", ":40Z")


def test_readiness_gate_holds_the_pod_back() -> None:
    gated = facts([report(running(0), ready=True)], readinessGates=[{"conditionType": "example.com/ok"}])
    held = pod_status(gated, {}, now=0)
    assert conditions(held)["Ready"] == ("False", "ReadinessGatesNotReady")
    assert conditions(held)["ContainersReady"] == ("True", None)
    reported = {"conditions": [{"type": "example.com/ok", "status": "True"}]}
    assert conditions(pod_status(gated, reported, now=0))["Ready"] == ("True", None)


def test_finished_pod_is_not_ready_and_says_why() -> None:
    status = pod_status(facts([report(ended(0))], restartPolicy="Never"), {}, now=0)
    assert conditions(status)["Ready"] == ("False", "PodCompleted")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


class RecordingApi:
    """Notes calls; ``failing`` holds the errors to raise, by method, first come first served."""

    def __init__(self, **failing: list[Exception]) -> None:
        self.calls: list[tuple[str, str, Obj]] = []
        self.arrived: asyncio.Queue[str] = asyncio.Queue()
        self._failing = failing

    def _call(self, method: str, path: str, body: Obj) -> Obj:
        if self._failing.get(method):
            raise self._failing[method].pop(0)
        self.calls.append((method, path, body))
        self.arrived.put_nowait(method)
        return {**body, "metadata": {**body.get("metadata", {}), "uid": "node-uid"}}

    async def get(self, path: str) -> Obj:
        return self._call("get", path, {})

    async def create(self, path: str, body: Obj) -> Obj:
        return self._call("create", path, body)

    async def patch(self, path: str, body: Obj) -> Obj:
        return self._call("patch", path, body)

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        self._call("delete", path, options)


POD: Obj = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}


async def recorded(api: RecordingApi, *events: tuple[str, str]) -> None:
    recorder = PodEventRecorder(api, "real-0", clock=lambda: 0.0)
    for reason, message in events:
        recorder.warning(POD, reason, message, "containers{c}")
    job = asyncio.create_task(recorder.run())
    await asyncio.wait_for(recorder.flush(), 2)
    job.cancel()


async def test_repeated_event_raises_the_count_of_the_first() -> None:
    api = RecordingApi()
    await recorded(api, ("Unhealthy", "a"), ("Unhealthy", "a"), ("Unhealthy", "b"))
    assert [method for method, _, _ in api.calls] == ["create", "patch", "create"]
    event = api.calls[0][2]
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Unhealthy", 1)
    assert event["involvedObject"]["fieldPath"] == "spec.containers{c}"
    assert event["source"]["host"] == "real-0"
    assert api.calls[1][1].endswith("/" + event["metadata"]["name"])
    assert api.calls[1][2]["count"] == 2


def error(kind: type[Any], status: int) -> Any:
    return kind("refused", status=status, reason="", message="")


async def test_an_expired_event_is_written_again() -> None:
    api = RecordingApi(patch=[error(NotFound, 404)])
    await recorded(api, ("Unhealthy", "a"), ("Unhealthy", "a"), ("Unhealthy", "a"))
    assert [method for method, _, _ in api.calls] == ["create", "create"]


async def registered(api: RecordingApi, calls: int) -> None:
    description = NodeDescription("real-0", "127.0.0.1", "mounts", "127.10.0.0/24", {"cpu": "2"}, "0.1.0")
    job = asyncio.create_task(Registration(api, description, lambda: 0.0).run())
    for _ in range(calls):
        await asyncio.wait_for(api.arrived.get(), 5)
    job.cancel()


async def test_node_is_registered_ready_with_its_lease() -> None:
    api = RecordingApi(patch=[])
    await registered(api, 3)
    (_, _, node), (_, path, status), (_, lease_path, lease) = api.calls
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "real-0"
    assert node["metadata"]["annotations"] == {"secondary-scheduler.io/sandbox-tier": "mounts"}
    assert path == "/api/v1/nodes/real-0/status"
    ready = next(condition for condition in status["status"]["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "NodeAgentReady")
    assert lease_path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/real-0"
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("real-0", 40)


async def test_a_known_node_is_adopted_and_a_missing_lease_created() -> None:
    class Existing(RecordingApi):
        async def patch(self, path: str, body: Obj) -> Obj:
            if path.endswith("/leases/real-0"):
                raise error(NotFound, 404)
            return await super().patch(path, body)

    api = Existing(create=[error(AlreadyExists, 409)])
    await registered(api, 3)
    assert [(method, path.rpartition("/")[2]) for method, path, _ in api.calls] == [
        ("patch", "real-0"), ("patch", "status"), ("create", "leases"),
    ]  # fmt: skip
    assert api.calls[2][2]["metadata"]["ownerReferences"][0]["uid"] == "node-uid"


async def test_registration_is_tried_until_the_api_server_answers() -> None:
    api = RecordingApi(create=[error(ServerError, 500)])
    await registered(api, 3)
    assert api.calls[0][0] == "create"
