"""Rights that are taken from the operator at run time are reported in the status; everything else goes on."""

import pytest

from scheduler.config import configuration_hash
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE, OTHER_CONFIG

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

REFUSED = ("clusterrolebindings", "networkpolicies", "secrets", "services")
_ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def reduce(api, operator):
    """Takes resources out of the operator's Role; given back after the test."""
    path = api.path("roles", f"operator-of-{api.namespace}")
    before = api.call("GET", path)["rules"]

    def without(*resources):
        kept = [{**rule, "resources": [r for r in rule["resources"] if r not in resources]} for rule in before]
        rules = [rule for rule in kept if rule["resources"]]
        api.call("PATCH", path, {"rules": rules}, "application/merge-patch+json")

    yield without
    api.call("PATCH", path, {"rules": before}, "application/merge-patch+json")


def instance(api):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)


@pytest.mark.slow
def test_a_kind_that_may_not_be_written_does_not_stop_the_others(api, kubelet, reduce):
    reduce("services", "networkpolicies")
    instance(api)
    api.wait_for_hash(configuration_hash(CONFIG))
    condition = api.wait_for("Degraded", "True", "Forbidden")
    assert "Service" in condition["message"]
    assert "services" in condition["message"], "the API server's own words"
    assert api.get("services", "metrics") is None
    assert "NetworkPolicy" not in condition["message"], "a scheduler can do without"
    eventually(lambda: any(e["reason"] == "Forbidden" for e in api.items("events")), "event")
    reduce("networkpolicies")
    condition = api.wait_for("Degraded", "False")
    assert condition["message"].startswith("Warnings: ")
    assert "NetworkPolicy" in condition["message"]
    assert '"services"' not in condition["message"], "that one is mended"
    assert api.condition("Available")["status"] == "True"
    assert api.get("services", "metrics")
    assert not api.names("networkpolicies")


def test_a_lost_right_to_bind_is_reported_by_name(api, kubelet):
    role = f"{_ROLES}/clusterroles/operator-of-{api.namespace}"
    before = api.call("GET", role)["rules"]
    reduced = [rule for rule in before if rule["verbs"] != ["bind"]]
    api.call("PATCH", role, {"rules": reduced}, "application/merge-patch+json")
    try:
        instance(api)
        condition = api.wait_for("Degraded", "True", "Forbidden")
        assert f"ClusterRoleBinding {api.base_binding} cannot be written" in condition["message"]
        eventually(lambda: api.get("deployments", "secondary-scheduler"), "Deployment all the same")
    finally:
        api.call("PATCH", role, {"rules": before}, "application/merge-patch+json")
    api.wait_for("Degraded", "False")
    assert api.base_binding in api.cluster_role_bindings()


def test_an_operator_that_may_not_read_secrets_still_follows_the_configuration(api, operator, kubelet, reduce):
    reduce("secrets")
    operator.end()
    operator.start()
    instance(api)
    api.wait_for_hash(configuration_hash(CONFIG))
    condition = api.wait_for("Degraded", "True", "Forbidden")
    assert "Secret objects cannot be read" in condition["message"]
    api.patch("configmaps", "config", {"data": {"config.yaml": OTHER_CONFIG}})
    api.wait_for_hash(configuration_hash(OTHER_CONFIG))
    reduce()
    api.wait_for("Degraded", "False")
