"""A namespace is deleted with everything in it, the Role of the operator too: the instance is let go all the same."""

import pytest

from scheduler.config import configuration_hash
from secondary_scheduler.kube.client import NotFound
from tests.integration.controller.support import Operator, until
from tests.unit.controller.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def operator(api, operator_kubeconfig):
    """One whose namespace goes under its feet: it may end as it likes."""
    operator = Operator(operator_kubeconfig, api.namespace, operator_kubeconfig.parent / "operator.log")
    operator.start()
    operator.wait_until_leading()
    yield operator
    operator.end()


def gone(api):
    try:
        api.call("GET", f"/api/v1/namespaces/{api.namespace}")
    except NotFound:
        return True
    return False


def test_a_namespace_goes_with_its_instance_and_what_that_has_in_the_cluster(api, operator, kubelet):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
    api.wait_for_hash(configuration_hash(CONFIG), seconds=30)
    api.call("DELETE", f"/api/v1/namespaces/{api.namespace}")
    until(lambda: api.get("secondaryschedulers", "cluster") is None, 60, "instance gone")
    assert not api.cluster_role_bindings()
    until(lambda: gone(api), 60, "namespace gone")
