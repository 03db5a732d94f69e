"""One round of the loop: what is written, what a refusal stops, what is tried again.

The API server is a recorder that answers every apply with what was sent; watches bring nothing here.
"""

import json

import pytest
from structlog.testing import capture_logs

from scheduler.kube.client import Conflict, ConnectionLost, Forbidden, NotFound, WriteWithheld
from scheduler.kube.model import UnstructuredCodec
from secondary_scheduler.operator.controller import Controller
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.reconcile import ObjectKey
from tests.unit.operator.builders import NS, config_map, scheduler

KEY = ObjectKey("SecondaryScheduler", NS, "cluster")


class RecordingApi:
    """Takes the place of KubeClient."""

    def __init__(self):
        self.refuse = {}
        self.calls = []
        self.held = {}
        self.before_sending = lambda path: None
        self._version = 100

    async def patch(self, path, body, params=None, *, content_type="", timeout=None, allowed=None):
        return self._answer("PATCH", path, body, allowed)

    async def post(self, path, body, params=None, *, timeout=None, allowed=None):
        return self._answer("POST", path, body, allowed)

    async def delete(self, path, body=None, params=None, *, timeout=None, allowed=None):
        return self._answer("DELETE", path, {}, allowed)

    def _answer(self, method, path, body, allowed):
        self.before_sending(path)
        if allowed is not None and not allowed():
            raise WriteWithheld(f"{method} {path}: not sent")
        self.calls.append((method, path))
        for part, error in self.refuse.items():
            if part in path:
                raise error
        self._version += 1
        key = path.removesuffix("/status")
        identity = {"name": path.split("/")[-1], "uid": path, **({"namespace": NS} if "/namespaces/" in path else {})}
        before = self.held.get(key, {"metadata": identity})
        metadata = {**before["metadata"], **body.get("metadata", {}), "resourceVersion": str(self._version)}
        self.held[key] = {**before, **body, "metadata": metadata}
        return json.dumps(self.held[key]).encode()

    def wrote(self, part):
        return [method for method, path in self.calls if part in path]


@pytest.fixture
def server():
    return RecordingApi()


@pytest.fixture
def controller(server):
    controller = Controller(server, namespaces=[NS], version="1", metrics=OperatorMetrics("1"))
    observe(controller, server)
    return controller


def observe(controller, server):
    """Let the controller know of an instance and its ConfigMap."""
    resource = scheduler()
    del resource["metadata"]["finalizers"]
    server.held[f"/apis/operator.openshift.io/v1/namespaces/{NS}/secondaryschedulers/cluster"] = resource
    for kind, obj in (("SecondaryScheduler", resource), ("ConfigMap", config_map())):
        obj["metadata"].setdefault("resourceVersion", "1")
        key = ObjectKey(kind, NS, obj["metadata"]["name"])
        controller.caches.record_answer(key, UnstructuredCodec().decode(json.dumps(obj).encode()))


def error(kind, status, message="no"):
    return kind(f"{status}: {message}", status=status, reason="x", message=message)


def condition(controller, condition_type):
    """From the status that was written last."""
    status = controller.caches.get(KEY)["status"]
    return next(c for c in status["conditions"] if c["type"] == condition_type)


async def test_the_finalizer_comes_before_what_it_cleans_up_and_the_status_last(controller, server):
    assert await controller.reconcile(KEY) == "ok"
    paths = [path for _, path in server.calls]
    assert paths[0].endswith("/secondaryschedulers/cluster")
    assert paths.index(next(p for p in paths if "clusterrolebindings" in p)) > 0
    writes = [p for p in paths if "/events" not in p]
    assert writes[-1].endswith("/status")


async def test_a_second_round_without_news_writes_nothing(controller, server):
    await controller.reconcile(KEY)
    await controller.reconcile(KEY)
    server.calls.clear()
    assert await controller.reconcile(KEY) == "ok"
    assert server.calls == []


async def test_a_refused_kind_stops_nothing_else_and_is_reported_in_the_same_round(controller, server):
    server.refuse = {"/services/": error(Forbidden, 403, "services is forbidden")}
    assert await controller.reconcile(KEY) == "refused"
    assert server.wrote("/deployments/")
    assert condition(controller, "Degraded")["reason"] == "Forbidden"
    assert "services is forbidden" in condition(controller, "Degraded")["message"]


async def test_what_needs_a_refused_object_waits_for_it(controller, server):
    server.refuse = {"/configmaps/": error(Forbidden, 403)}
    await controller.reconcile(KEY)
    assert not server.wrote("/deployments/"), "its pods could not start"
    server.refuse = {}
    server.calls.clear()
    assert await controller.reconcile(KEY) == "ok"
    assert server.wrote("/deployments/")


async def test_without_the_finalizer_no_binding_is_made(controller, server):
    server.refuse = {"/secondaryschedulers/cluster": error(Forbidden, 403)}
    await controller.reconcile(KEY)
    assert not server.wrote("/clusterrolebindings/")
    assert server.wrote("/deployments/")


async def test_a_success_clears_what_was_reported_before(controller, server):
    server.refuse = {"/services/": error(Forbidden, 403)}
    await controller.reconcile(KEY)
    server.refuse = {}
    await controller.reconcile(KEY)
    assert condition(controller, "Degraded")["status"] == "False"


async def test_a_lost_answer_is_tried_again(controller, server):
    server.refuse = {"/deployments/": ConnectionLost("PATCH: reset")}
    assert await controller.reconcile(KEY) == "refused"
    assert "reset" in condition(controller, "Degraded")["message"]
    server.refuse = {}
    server.calls.clear()
    await controller.reconcile(KEY)
    assert server.wrote("/deployments/") == ["PATCH"]


async def test_a_conflict_is_no_trouble_but_a_reason_to_look_again(controller, server):
    server.refuse = {"/roles/": error(Conflict, 409)}
    assert await controller.reconcile(KEY) == "conflict"
    assert condition(controller, "Degraded")["status"] == "False"
    server.refuse = {}
    server.calls.clear()
    await controller.reconcile(KEY)
    assert server.wrote("/roles/")


async def test_a_status_that_cannot_be_written_is_tried_again(controller, server):
    server.refuse = {"/status": error(Forbidden, 403)}
    assert await controller.reconcile(KEY) == "refused"
    server.refuse = {}
    assert await controller.reconcile(KEY) == "ok"
    assert condition(controller, "Available")["status"] == "False"


async def test_events_that_are_refused_stop_nothing(controller, server):
    server.refuse = {"/services/": error(Forbidden, 403), "/events": error(Forbidden, 403)}
    assert await controller.reconcile(KEY) == "refused"
    assert server.wrote("/events") == ["POST"]
    assert condition(controller, "Degraded")["reason"] == "Forbidden"


async def test_an_upgrade_of_the_cluster_is_noticed_and_reported(controller, server):
    await controller.reconcile(KEY)
    controller.set_kubernetes_minor(None)
    await controller.reconcile(KEY)
    assert "1.37" not in condition(controller, "Degraded")["message"]
    controller.set_kubernetes_minor(37)
    await controller.reconcile(KEY)
    assert "not 1.37" in condition(controller, "Degraded")["message"]


async def test_an_instance_that_is_gone_is_forgotten(controller, server):
    server.refuse = {"/secondaryschedulers/": error(NotFound, 404)}
    assert await controller.reconcile(ObjectKey("SecondaryScheduler", NS, "other")) == "gone"
    assert server.calls == []


async def test_a_namespace_whose_lease_another_holds_is_left_alone(server, controller):
    held = False
    controller._holds = lambda namespace: held
    assert await controller.reconcile(KEY) == "standby"
    assert server.calls == []
    assert not controller.has_finalizing_instances()
    held = True
    assert await controller.reconcile(KEY) == "ok"
    assert server.wrote("deployments")


async def test_a_lease_that_is_lost_half_way_ends_the_writing(server, controller):
    answers = iter([True] * 5)
    controller._holds = lambda namespace: next(answers, False)
    await controller.reconcile(KEY)
    assert server.wrote("serviceaccounts")
    assert not server.wrote("deployments")


@pytest.mark.parametrize("part", ["/clusterrolebindings/", "/deployments/", "/status"])
@pytest.mark.parametrize("lost", ["the operator's", "the namespace's"])
async def test_no_write_leaves_after_a_lease_is_lost_while_it_waits_to_be_sent(server, lost, part):
    """The rate limit and a new connection may take longer than the Lease lasts."""
    leads = {"the operator's": True, "the namespace's": True}
    controller = Controller(
        server,
        namespaces=[NS],
        version="1",
        metrics=OperatorMetrics("1"),
        leads=lambda: leads["the operator's"],
        holds=lambda namespace: leads["the namespace's"],
    )
    observe(controller, server)

    def lose(path):
        if part in path:
            leads[lost] = False

    server.before_sending = lose
    assert await controller.reconcile(KEY) in ("standby", "ok")
    assert not server.wrote(part)
    assert not leads[lost], "it was asked for"
    server.calls.clear()
    assert await controller.reconcile(KEY) == "standby"
    assert server.calls == []


async def test_at_debug_the_log_says_what_a_reconcile_writes(controller, server):
    with capture_logs() as lines:
        assert await controller.reconcile(KEY) == "ok"
    debug = [line for line in lines if line["log_level"] == "debug"]
    (plan, *_) = [line for line in debug if line["event"] == "reconcile"]
    assert plan["instance"] == str(KEY)
    assert f"SetFinalizers {KEY}" in plan["writes"]
    written = [line for line in debug if line["event"] == "written"]
    assert len(written) >= len(plan["writes"])
    assert not [line for line in lines if line["log_level"] == "info" and line["event"] in ("reconcile", "written")]
