"""Which pods the node agent rejects, or does not resize, for want of room, in kubelet's words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster.node_agent.admission import AdmissionRejection, amounts, pod_requests, rejection, resize_obstacle
from devcluster.node_agent.objects import Obj
from devcluster.node_agent.pod import PodWorker
from devcluster.node_agent.status import ContainerReport, PodReport, pod_status
from scheduler.kube.client import Conflict, KubeError
from tests.unit.devcluster.node_agent.test_pod import DELETED, POD, FakeApi, FakeRecorder, FakeStore, node

NODE = amounts({"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "1"})


def container(**requests: str) -> Obj:
    return {"name": "c", "resources": {"requests": requests}}


def spec(**requests: str) -> Obj:
    return {"containers": [container(**{name.replace("_", "-"): amount for name, amount in requests.items()})]}


def test_a_pod_that_fits_exactly_is_admitted() -> None:
    others = [pod_requests(spec(cpu="1500m", memory="1Gi"))]
    assert rejection(spec(cpu="500m", memory="3Gi"), others, NODE) is None


@pytest.mark.parametrize(
    ("requests", "reason", "numbers"),
    [
        ({"cpu": "501m"}, "OutOfcpu", "cpu, requested: 501, used: 1500, capacity: 2000"),
        ({"memory": "4097Mi"}, "OutOfmemory", "memory, requested: 4296015872, used: 0, capacity: 4294967296"),
        (
            {"ephemeral_storage": "11Gi"},
            "OutOfephemeral-storage",
            "ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240",
        ),
    ],
)
def test_the_reason_names_the_resource_and_the_message_its_numbers(
    requests: dict[str, str], reason: str, numbers: str
) -> None:
    others = [pod_requests(spec(cpu="1500m"))]
    expected = AdmissionRejection(reason, f"Node didn't have enough resource: {numbers}")
    assert rejection(spec(**requests), others, NODE) == expected


def test_too_many_pods_come_before_the_resources() -> None:
    refused = rejection(spec(cpu="64"), [{}, {}, {}], NODE)
    message = "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    assert refused == AdmissionRejection("OutOfpods", message)


def test_an_extended_resource_counts_where_the_node_has_it_and_is_left_to_others_where_not() -> None:
    wanted = {"containers": [container(**{"example.com/gpu": "1", "example.com/elsewhere": "7"})]}
    assert rejection(wanted, [], NODE) is None
    refused = rejection(wanted, [{"example.com/gpu": 1}], NODE)
    assert refused is not None
    assert refused.reason == "OutOfexample.com/gpu"


def test_a_pod_that_asks_for_nothing_of_what_is_exhausted_is_admitted() -> None:
    assert rejection(spec(memory="1Gi"), [{"cpu": 5000}], NODE) is None


def test_a_critical_pod_is_admitted_as_a_kubelet_would_make_room_for_it() -> None:
    assert rejection({**spec(cpu="64"), "priority": 2_000_001_000}, [], NODE) is None


def test_a_pod_occupies_what_its_containers_or_its_start_take_and_its_overhead() -> None:
    sidecar = {**container(cpu="100m"), "restartPolicy": "Always"}
    pod = {
        "containers": [container(cpu="300m"), container(cpu="200m", memory="1Mi")],
        "initContainers": [container(cpu="900m"), sidecar, container(cpu="800m"), container(memory="5Mi")],
        "overhead": {"cpu": "10m"},
    }
    assert pod_requests(pod) == {"cpu": 900 + 10, "memory": 5 << 20}
    assert pod_requests({**pod, "resources": {"requests": {"cpu": "2"}}}) == {"cpu": 2010, "memory": 5 << 20}


class PickyApi(FakeApi):
    """Notes what is patched; fails first with the errors that it is given."""

    def __init__(self, *errors: KubeError) -> None:
        super().__init__()
        self.errors = list(errors)
        self.patched: list[Obj] = []
        self.done = asyncio.Event()

    async def patch(self, path: str, body: Obj) -> Obj:
        if self.errors:
            error = self.errors.pop()
            if not self.errors:
                self.done.set()
            raise error
        self.patched.append(body)
        self.done.set()
        return body


REFUSED = AdmissionRejection("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1, used: 1, capacity: 1")
FAILED = {"phase": "Failed", "reason": "OutOfcpu", "message": f"Pod was rejected: {REFUSED.message}"}


async def test_a_rejected_pod_fails_starts_nothing_takes_no_room_and_can_be_deleted(tmp_path: Path) -> None:
    api = PickyApi()
    recorder = FakeRecorder(api)
    worker = PodWorker(node(tmp_path, api, FakeStore(), recorder), POD, REFUSED)
    life = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        await api.done.wait()
        worker.update(DELETED)
        await life
    assert [body["status"] for body in api.patched] == [FAILED]
    assert (recorder.reasons, worker.occupies) == (["OutOfcpu"], False)
    assert api.deleted == [{"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}]


async def test_a_rejected_pod_that_is_gone_meanwhile_is_not_reported_for_ever(tmp_path: Path) -> None:
    api = PickyApi(Conflict("PATCH", status=409, reason="Conflict", message="another uid"))
    worker = PodWorker(node(tmp_path, api, FakeStore(), FakeRecorder(api)), POD, REFUSED)
    life = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        await api.done.wait()
        worker.pod_deleted()
        await life
    assert (api.patched, api.deleted) == ([], [])


async def test_a_pod_takes_room_while_it_runs_and_none_once_it_has_ended(tmp_path: Path) -> None:
    api = FakeApi()
    running = PodWorker(node(tmp_path, api, FakeStore(), FakeRecorder(api)), POD)
    ended = PodWorker(node(tmp_path, api, FakeStore(), FakeRecorder(api)), {**POD, "status": {"phase": "Succeeded"}})
    assert (running.occupies, ended.occupies) == (True, False)


def test_a_resize_is_granted_deferred_or_infeasible_by_what_the_node_and_the_others_leave() -> None:
    others = [pod_requests(spec(cpu="1500m"))]
    assert resize_obstacle(spec(cpu="500m"), others, NODE) is None
    deferred = AdmissionRejection(
        "Deferred", "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"
    )
    assert resize_obstacle(spec(cpu="600m"), others, NODE) == deferred
    infeasible = AdmissionRejection(
        "Infeasible", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"
    )
    assert resize_obstacle(spec(cpu="3"), others, NODE) == infeasible


async def test_a_pod_occupies_what_it_was_granted_until_its_resize_is(tmp_path: Path) -> None:
    api = FakeApi()

    def sized(cpu: str) -> Obj:
        return {**POD, "spec": {**POD["spec"], "containers": [container(cpu=cpu)]}}

    worker = PodWorker(node(tmp_path, api, FakeStore(), FakeRecorder(api)), sized("100m"))
    assert not worker.is_resized
    worker.update(sized("900m"))
    worker.resize(AdmissionRejection("Deferred", "no room"))
    assert (worker.requests, worker.is_resized) == ({"cpu": 100}, True)
    worker.resize(None)
    assert (worker.requests, worker.is_resized) == ({"cpu": 900}, False)
    # A resize that is taken back while it waits is over, too.
    worker.update(sized("950m"))
    worker.resize(AdmissionRejection("Deferred", "no room"))
    worker.update(sized("900m"))
    assert worker.is_resized
    worker.resize(None)
    assert not worker.is_resized


def test_the_status_shows_what_was_granted_and_what_is_in_the_way_of_more_until_it_is_gone() -> None:
    report = ContainerReport({"name": "c", "image": "i"}, granted={"requests": {"cpu": "100m"}})
    facts = PodReport(POD, [], [report], "127.0.0.1", "127.0.0.9", 0.0, True, resize_pending=REFUSED)
    status = pod_status(facts, {}, 1.0)
    assert status["containerStatuses"][0]["resources"] == {"requests": {"cpu": "100m"}}
    assert status["containerStatuses"][0]["allocatedResources"] == {"cpu": "100m"}
    (pending,) = [each for each in status["conditions"] if each["type"] == "PodResizePending"]
    assert (pending["status"], pending["reason"], pending["message"]) == ("True", REFUSED.reason, REFUSED.message)
    granted = pod_status(replace(facts, resize_pending=None), status, 2.0)
    assert {"type": "PodResizePending", "$patch": "delete"} in granted["conditions"]
    again = pod_status(replace(facts, resize_pending=None), granted, 3.0)
    assert all(each["type"] != "PodResizePending" for each in again["conditions"])
