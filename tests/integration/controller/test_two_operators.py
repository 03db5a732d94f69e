"""Never two operators on one instance: who holds upstream's operator Lease of the instance's namespace serves it."""

import signal

import pytest

from scheduler.config import configuration_hash
from secondary_scheduler.controller.options import LEASE_NAME
from tests.integration.controller.rights import Rights
from tests.integration.controller.support import Api, Operator, TestKubelet, until
from tests.unit.controller.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
SPEC = {"schedulerConfig": "config", "schedulerImage": IMAGE}
HASH = configuration_hash(CONFIG)


@pytest.fixture(scope="module")
def elsewhere(control_plane, api):
    """Another namespace that the operator serves."""
    other = Api(control_plane.kubeconfig, f"{api.namespace}-elsewhere")
    other.call("POST", "/api/v1/namespaces", {"metadata": {"name": other.namespace}})
    yield other
    other.call("DELETE", f"/api/v1/namespaces/{other.namespace}")


@pytest.fixture(scope="module")
def rights(api, elsewhere):
    return Rights(api, [(elsewhere.namespace, "cluster")])


def hold(api, seconds):
    """As upstream's operator does."""
    now = "2026-01-01T00:00:00.000000Z"
    spec = {"holderIdentity": "upstream", "leaseDurationSeconds": seconds, "acquireTime": now, "renewTime": now}
    api.create("leases", LEASE_NAME, spec=spec)


def holder(api):
    return ((api.get("leases", LEASE_NAME) or {}).get("spec") or {}).get("holderIdentity")


def said(operator, event):
    return any(line["event"] == event for line in operator.log_lines())


def test_an_operator_leaves_alone_what_another_holds_and_takes_it_when_that_is_gone(
    api, elsewhere, operator_kubeconfig, control_plane
):
    for one in (api, elsewhere):
        one.create("configmaps", "config", data={"config.yaml": CONFIG})
        one.create("secondaryschedulers", "cluster", **IDENTITY, spec=SPEC)
        hold(one, 3600)
    log = operator_kubeconfig.parent / "operator.log"
    flags = ("--watch-namespaces", elsewhere.namespace)
    operator = Operator(operator_kubeconfig, api.namespace, log, *flags)
    kubelets = [TestKubelet(control_plane.kubeconfig, one.namespace) for one in (api, elsewhere)]
    for kubelet in kubelets:
        kubelet.start()
    operator.start()
    until(lambda: said(operator, "another operator holds the Lease: nothing is done"), 20, "told who holds it")
    assert "finalizers" not in api.get("secondaryschedulers", "cluster")["metadata"]

    api.delete("leases", LEASE_NAME)
    until(lambda: holder(api) == "operator-0", 20, "its own namespace's Lease is taken")
    until(lambda: api.condition("Available") or api.condition("Degraded"), 20, "its own instance is served")
    assert "status" not in elsewhere.get("secondaryschedulers", "cluster"), "the other is left alone"
    assert holder(elsewhere) == "upstream"

    elsewhere.delete("leases", LEASE_NAME)
    until(lambda: elsewhere.condition("Degraded"), 20, "the other is served, too")
    api.delete("secondaryschedulers", "cluster")
    elsewhere.wait_for_hash(HASH, seconds=30)

    second = Operator(operator_kubeconfig, api.namespace, log.with_name("second.log"), *flags, identity="operator-1")
    second.start()
    until(lambda: said(second, "another operator holds the Lease: nothing is done"), 20, "the second one waits")
    assert holder(elsewhere) == "operator-0"
    operator.end()
    until(lambda: holder(elsewhere) == "operator-1", 20, "the second one takes both over")
    elsewhere.delete("secondaryschedulers", "cluster")
    until(lambda: elsewhere.get("secondaryschedulers", "cluster") is None, 30, "instance gone")
    for kubelet in kubelets:
        kubelet.stop()
    assert second.end(signal.SIGTERM) == 0
