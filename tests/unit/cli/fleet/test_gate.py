"""The health gate, against a fake API server that has just the objects a test gives it."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig
from scheduler.kube.client.sync import SyncConnection
from secondary_scheduler.cli.fleet.engine import connection_problem
from secondary_scheduler.cli.fleet.gate import ExpectedScheduler, GateResult, HealthGate, expected_scheduler

NS = "/namespaces/openshift-secondary-scheduler-operator"
DEPLOYMENT = f"/apis/apps/v1{NS}/deployments/secondary-scheduler"
RESOURCE = f"/apis/operator.openshift.io/v1{NS}/secondaryschedulers/cluster"
LEASE = f"/apis/coordination.k8s.io/v1{NS}/leases/secondary-scheduler"
PODS = f"/api/v1{NS}/pods"
HASH = "0123456789abcdef"
IMAGE = "quay.io/x/secondary-scheduler/kube-scheduler:1"


def conditions(**statuses: str) -> list[dict[str, str]]:
    return [
        {"type": kind, "status": status, "reason": "R", "message": f"{kind} m"} for kind, status in statuses.items()
    ]


HEALTHY: dict[str, Any] = {
    DEPLOYMENT: {
        "metadata": {"generation": 3},
        "spec": {
            "replicas": 2,
            "template": {
                "spec": {
                    "containers": [{"image": IMAGE, "command": ["/bin/kube-scheduler", "--config=x"]}],
                    "imagePullSecrets": [{"name": "pull"}],
                }
            },
        },
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
    },
    RESOURCE: {
        "status": {
            "configurationHash": HASH,
            "conditions": conditions(Available="True", Degraded="False", LoadDataFresh="True"),
        }
    },
}


class FakeApiServer(ThreadingHTTPServer):
    """Objects by path; pods that are created are bound at once, unless `bound` is False."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects = deepcopy(objects)
        self.bound = True
        self.created: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.options: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    server: FakeApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        stored = self.server.objects.get(self.path)
        self._answer(404 if stored is None else 200, stored or {"reason": "NotFound", "message": "not there"})

    def do_POST(self) -> None:
        pod = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.created.append(deepcopy(pod))
        if self.server.bound:
            pod["spec"]["nodeName"] = "n1"
        else:
            message = "0/3 nodes are available: 3 Too many pods."
            pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}
        self.server.objects[f"{self.path}/{pod['metadata']['name']}"] = pod
        self._answer(201, pod)

    def do_DELETE(self) -> None:
        self.server.options.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.deleted.append(self.path)
        self._answer(200, {})

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer(HEALTHY) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def gated(
    server: FakeApiServer, wanted: ExpectedScheduler, seconds: float = 0.2, stopping: threading.Event | None = None
) -> GateResult:
    config = ClientConfig(server=f"http://127.0.0.1:{server.server_port}")
    with contextlib.closing(SyncConnection(config, timeout=5)) as connection:
        return HealthGate(connection, wanted, stopping or threading.Event(), poll=0.02).wait(seconds)


WANTED = ExpectedScheduler(hashes=frozenset({HASH}), reads_load=True)


def test_a_healthy_scheduler_passes_and_its_pod_is_gone(server: FakeApiServer) -> None:
    result = gated(server, WANTED)
    assert result.passed, result.reason
    assert [check.name for check in result.checks] == [
        "Deployment secondary-scheduler",
        "Available",
        "Degraded",
        "configuration",
        "LoadDataFresh",
        "pod of secondary-scheduler",
    ]
    assert server.deleted == [f"{PODS}/{server.created[0]['metadata']['name']}"]


def test_the_pod_asks_for_nothing_and_may_run_where_only_restricted_pods_may(server: FakeApiServer) -> None:
    gated(server, WANTED)
    spec = server.created[0]["spec"]
    container = spec["containers"][0]
    assert spec["schedulerName"] == "secondary-scheduler"
    assert "resources" not in container
    assert container["image"] == IMAGE
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["activeDeadlineSeconds"] == 60


def test_every_profile_has_to_place_a_pod(server: FakeApiServer) -> None:
    result = gated(server, ExpectedScheduler(scheduler_names=("one", "two")))
    assert result.passed
    assert [pod["spec"]["schedulerName"] for pod in server.created] == ["one", "two"]


def unready(objects: dict[str, Any]) -> None:
    objects[DEPLOYMENT]["status"]["availableReplicas"] = 1


def stale_deployment(objects: dict[str, Any]) -> None:
    objects[DEPLOYMENT]["status"]["observedGeneration"] = 2


def scaled_to_nothing(objects: dict[str, Any]) -> None:
    objects[DEPLOYMENT]["spec"]["replicas"] = 0
    objects[DEPLOYMENT]["status"] = {"observedGeneration": 3}


def no_deployment(objects: dict[str, Any]) -> None:
    del objects[DEPLOYMENT]


def other_configuration(objects: dict[str, Any]) -> None:
    objects[RESOURCE]["status"]["configurationHash"] = "ffff"


def no_configuration(objects: dict[str, Any]) -> None:
    del objects[RESOURCE]["status"]["configurationHash"]


def degraded(objects: dict[str, Any]) -> None:
    objects[RESOURCE]["status"]["conditions"] = conditions(Available="True", Degraded="True", LoadDataFresh="True")


def stale_load(objects: dict[str, Any]) -> None:
    objects[RESOURCE]["status"]["conditions"] = conditions(Available="True", Degraded="False", LoadDataFresh="False")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (unready, "Deployment secondary-scheduler: 2 of 2 updated, 1 available"),
        (stale_deployment, "Deployment secondary-scheduler: 2 of 2 updated, 2 available"),
        (scaled_to_nothing, "Deployment secondary-scheduler: 0 of 0 updated, 0 available"),
        (no_deployment, "Deployment secondary-scheduler: not in namespace openshift-secondary-scheduler-operator"),
        (other_configuration, f"configuration: ffff is reported, {HASH} is wanted"),
        (no_configuration, f"configuration: none is reported; {HASH} is wanted"),
        (degraded, "Degraded: R: Degraded m"),
        (stale_load, "LoadDataFresh: R: LoadDataFresh m"),
    ],
)
def test_what_is_not_as_it_should_be_is_the_reason_and_no_pod_is_made(
    server: FakeApiServer, change: Any, reason: str
) -> None:
    change(server.objects)
    result = gated(server, WANTED)
    assert not result.passed
    assert result.reason == reason
    assert not server.created


def test_a_pod_that_is_not_placed_fails_with_the_schedulers_own_words_and_is_removed(server: FakeApiServer) -> None:
    server.bound = False
    result = gated(server, WANTED)
    assert result.reason == "pod of secondary-scheduler: not placed: 0/3 nodes are available: 3 Too many pods."
    assert len(server.deleted) == 1


def test_it_waits_for_what_takes_its_time(server: FakeApiServer) -> None:
    healthy = server.objects.pop(DEPLOYMENT)
    threading.Timer(0.1, lambda: server.objects.update({DEPLOYMENT: healthy})).start()
    assert gated(server, WANTED, seconds=20).passed


def test_without_a_secondary_scheduler_the_lease_reports(server: FakeApiServer) -> None:
    del server.objects[RESOURCE]
    assert gated(server, WANTED).reason == (
        f"configuration: none is reported; {HASH} is wanted; LoadDataFresh: nothing is reported about it"
    )
    annotations = {
        "secondary-scheduler.io/configuration-hash": HASH,
        "secondary-scheduler.io/load-data-fresh": "true",
    }
    server.objects[LEASE] = {"metadata": {"annotations": annotations}}
    assert gated(server, WANTED).passed


def test_of_an_image_that_cannot_report_it_is_not_asked(server: FakeApiServer) -> None:
    # Upstream's operator writes no conditions either.
    server.objects[RESOURCE] = {"status": {"generations": []}}
    result = gated(server, ExpectedScheduler(hashes=frozenset({HASH}), reports=False, reads_load=True))
    assert result.passed, result.reason


def test_it_ends_when_the_fleet_is_stopped(server: FakeApiServer) -> None:
    unready(server.objects)
    stopping = threading.Event()
    stopping.set()
    result = gated(server, WANTED, seconds=60, stopping=stopping)
    assert result.cancelled
    assert not result.passed


def test_what_a_stack_promises_is_read_from_its_outputs() -> None:
    load = {"TargetLoadPacking": {"metricProvider": {"type": "Prometheus"}}}
    profile = {"schedulerName": "a", "configurationHash": "1", "pluginArgs": {}}
    outputs = {
        "scheduler": {"name": "s", "namespace": "n", "image": IMAGE},
        "profiles": [profile, {**profile, "schedulerName": "b", "pluginArgs": load}],
    }
    assert expected_scheduler(outputs) == ExpectedScheduler(
        "n", "s", frozenset({"1"}), ("a", "b"), reports=True, reads_load=True
    )
    assert not expected_scheduler({**outputs, "profiles": [profile]}).reads_load
    scoring = {**profile, "scorePlugins": {"TargetLoadPacking": 10}}
    assert expected_scheduler({"scheduler": outputs["scheduler"], "profile": scoring}).reads_load
    alone = expected_scheduler({"scheduler": outputs["scheduler"], "profile": {**profile, "pluginArgs": load}})
    assert alone == ExpectedScheduler("n", "s", frozenset({"1"}), ("a",), reports=True, reads_load=True)
    assert expected_scheduler({"scheduler": "[secret]"}) == ExpectedScheduler()


@pytest.mark.parametrize(
    ("image", "flavour", "reports"),
    [
        (IMAGE, "", True),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7", "", False),
        ("quay.io/x/mine@sha256:" + "0" * 64, "ours", True),
        (IMAGE, "custom", False),
    ],
)
def test_only_our_image_has_to_report(image: str, flavour: str, reports: bool) -> None:
    assert expected_scheduler({"scheduler": {"image": image}}, flavour).reports is reports


def test_a_cluster_that_does_not_answer_is_reported_with_its_address(server: FakeApiServer) -> None:
    server.objects["/version"] = {}
    assert connection_problem(ClientConfig(server=f"http://127.0.0.1:{server.server_port}"), 5) == ""
    assert connection_problem(ClientConfig(server="https://127.0.0.1:1"), 5) == (
        "https://127.0.0.1:1 does not answer: Connection refused"
    )


def test_an_api_server_that_refuses_the_pod_is_quoted_and_the_pod_is_deleted_all_the_same(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handler: Handler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        handler._answer(403, {"kind": "Status", "reason": "Forbidden", "message": "quota"})

    monkeypatch.setattr(Handler, "do_POST", refuse)
    result = gated(server, WANTED)
    assert "quota" in result.reason
    # Its answer may have been lost: the name is known.
    (deleted,) = server.deleted
    assert re.fullmatch(rf"{PODS}/fleet-gate-[0-9a-f]{{10}}", deleted)
    assert (result.checks[-1].name, result.checks[-1].passed) == ("pod of secondary-scheduler", False)
    assert server.options == [{"gracePeriodSeconds": 0}]
