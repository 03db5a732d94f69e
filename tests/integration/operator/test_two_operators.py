"""Never two operators on one instance: who holds upstream's operator Lease of the instance's namespace serves it."""

import pytest

from scheduler.config import configuration_hash
from secondary_scheduler.operator.options import LEASE_NAME
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import Api, Operator, TestKubelet
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration]

IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
SPEC = {"schedulerConfig": "config", "schedulerImage": IMAGE}
HASH = configuration_hash(CONFIG)
REASON = "ServedByAnotherOperator"


@pytest.fixture(scope="module")
def elsewhere(control_plane, api):
    """Another namespace that the operator serves."""
    other = Api(control_plane.kubeconfig, f"{api.namespace}-elsewhere")
    other.call("POST", "/api/v1/namespaces", {"metadata": {"name": other.namespace}})
    yield other
    other.call("DELETE", f"/api/v1/namespaces/{other.namespace}")
    other.close()


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


def has_logged(operator, event):
    return any(line["event"] == event for line in operator.log_lines())


@pytest.fixture(scope="module")
def flags(elsewhere):
    return ("--watch-namespaces", elsewhere.namespace)


@pytest.fixture(scope="module")
def operator(api, elsewhere, operator_kubeconfig, flags):
    """It comes when another holds both Leases."""
    for namespace_api in (api, elsewhere):
        namespace_api.create("configmaps", "config", data={"config.yaml": CONFIG})
        namespace_api.create("secondaryschedulers", "cluster", **IDENTITY, spec=SPEC)
        hold(namespace_api, 3600)
    operator = Operator(operator_kubeconfig, api.namespace, operator_kubeconfig.parent / "operator.log", *flags)
    operator.start()
    yield operator
    if operator.process.poll() is None:
        operator.end()


@pytest.fixture
def kubelets(control_plane, api, elsewhere):
    kubelets = [TestKubelet(control_plane.kubeconfig, namespace_api.namespace) for namespace_api in (api, elsewhere)]
    for kubelet in kubelets:
        kubelet.start()
    yield
    for kubelet in kubelets:
        kubelet.stop()


@pytest.mark.slow
def test_an_operator_leaves_alone_what_another_holds_and_takes_it_when_that_is_gone(api, elsewhere, operator, kubelets):
    eventually(lambda: has_logged(operator, "another operator holds the Lease: waiting"), "who holds it")
    assert "finalizers" not in api.get("secondaryschedulers", "cluster")["metadata"]

    api.delete("leases", LEASE_NAME)
    eventually(lambda: holder(api) == "operator-0", "its own namespace's Lease is taken")
    eventually(lambda: api.condition("Available"), "its own instance is served")
    assert "status" not in elsewhere.get("secondaryschedulers", "cluster"), "the other is left alone"
    assert holder(elsewhere) == "upstream"
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")

    elsewhere.delete("leases", LEASE_NAME)
    eventually(lambda: elsewhere.condition("Available"), "the other is served, too")
    elsewhere.wait_for_hash(HASH)
    elsewhere.delete("secondaryschedulers", "cluster")
    eventually(lambda: elsewhere.get("secondaryschedulers", "cluster") is None, "instance gone")


@pytest.mark.slow
def test_a_replica_that_waits_takes_every_namespace_over(
    api, elsewhere, operator, operator_kubeconfig, flags, kubelets
):
    eventually(lambda: holder(elsewhere) == "operator-0", "the first one leads")
    log = operator_kubeconfig.parent / "second.log"
    second = Operator(operator_kubeconfig, api.namespace, log, *flags, identity="operator-1")
    second.start()
    eventually(lambda: has_logged(second, "another operator holds the Lease: waiting"), "the second one waits")
    assert holder(elsewhere) == "operator-0"
    elsewhere.create("secondaryschedulers", "cluster", **IDENTITY, spec=SPEC)
    elsewhere.wait_for_hash(HASH)
    words = f"operator-0 holds Lease {api.namespace}/{LEASE_NAME}"

    def reported():
        return [e for e in elsewhere.items("events") if e["reason"] == REASON and e["message"].startswith(words)]

    eventually(reported, "who serves it")
    assert elsewhere.condition("Available")["status"] == "True", "the other one's status is left alone"
    elsewhere.delete("secondaryschedulers", "cluster")
    eventually(lambda: elsewhere.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert operator.end() == 0
    eventually(lambda: holder(elsewhere) == "operator-1", "the second one takes both over")
    elsewhere.create("secondaryschedulers", "cluster", **IDENTITY, spec=SPEC)
    elsewhere.wait_for_hash(HASH)
    elsewhere.delete("secondaryschedulers", "cluster")
    eventually(lambda: elsewhere.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert second.end() == 0
