"""A namespace is deleted with everything in it, the Role of the operator too: the instance is let go all the same."""

import contextlib

import pytest

from scheduler.config import configuration_hash
from scheduler.kube.client import NotFound
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import Api, Operator, TestKubelet
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration]


# The operator's rights go with its namespace.
REFUSED = None
IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
SPEC = {"schedulerConfig": "config", "schedulerImage": IMAGE}


@pytest.fixture(scope="module")
def elsewhere(control_plane, api):
    """Another namespace that the operator serves."""
    other = Api(control_plane.kubeconfig, f"{api.namespace}-elsewhere")
    other.call("POST", "/api/v1/namespaces", {"metadata": {"name": other.namespace}})
    yield other
    with contextlib.suppress(NotFound):
        other.call("DELETE", f"/api/v1/namespaces/{other.namespace}")
    other.close()


@pytest.fixture(scope="module")
def rights(api, elsewhere):
    return Rights(api, [(elsewhere.namespace, "cluster")])


@pytest.fixture(scope="module")
def operator(api, elsewhere, operator_kubeconfig):
    """One whose namespace goes under its feet: it may end as it likes."""
    log = operator_kubeconfig.parent / "operator.log"
    operator = Operator(operator_kubeconfig, api.namespace, log, "--watch-namespaces", elsewhere.namespace)
    operator.start()
    operator.wait_until_leading()
    yield operator
    if operator.process.poll() is None:
        operator.end()


def gone(api):
    try:
        api.call("GET", f"/api/v1/namespaces/{api.namespace}")
    except NotFound:
        return True
    return False


def instance(api, text=CONFIG):
    api.create("configmaps", "config", data={"config.yaml": text})
    api.create("secondaryschedulers", "cluster", **IDENTITY, spec=SPEC)
    api.wait_for_hash(configuration_hash(text))


def bindings(api):
    return {name for name in api.cluster_role_bindings() if api.namespace in name.split(":")}


def goes(api):
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert not bindings(api)
    eventually(lambda: gone(api), "namespace gone")


@pytest.mark.slow
def test_an_operator_that_was_away_lets_the_instance_of_a_namespace_go_that_took_its_role_along(
    control_plane, elsewhere, operator
):
    kubelet = TestKubelet(control_plane.kubeconfig, elsewhere.namespace)
    kubelet.start()
    instance(elsewhere)
    operator.end()
    kubelet.stop()
    elsewhere.call("DELETE", f"/api/v1/namespaces/{elsewhere.namespace}")
    eventually(lambda: not elsewhere.names("roles"), "the operator's Role is gone")
    assert bindings(elsewhere)
    operator.start()
    goes(elsewhere)


def test_a_namespace_goes_with_its_instance_and_what_that_has_in_the_cluster(api, operator, kubelet):
    instance(api)
    api.call("DELETE", f"/api/v1/namespaces/{api.namespace}")
    api.wait_for("Degraded", "True", "NamespaceTerminating")
    goes(api)
