"""The operator with the scheduler it makes: a real process on a real node, from the instance to the reported hash."""

import contextlib

import pytest

from scheduler.catalog import static_cluster_roles
from scheduler.config import configuration_hash
from secondary_scheduler.kube.client import AlreadyExists
from tests.integration.controller.support import HASH_ANNOTATION, Api, Operator, as_rules, install_crd, until
from tests.unit.controller.builders import IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

NS = "openshift-secondary-scheduler-operator"
# Without a metric source nothing has to be reached; TargetLoadPacking would only add a complaint about its absence.
PLAIN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
    plugins:
      score:
        enabled:
          - name: NodeResourcesFit
            weight: 3
"""
BROKEN = "--no-such-flag"


@pytest.fixture
def api(make_cluster, tmp_path):
    cluster = make_cluster(nodes=0, kwok=False, prometheus=False, real_nodes=1)
    api = Api(cluster.kubeconfig, NS)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    install_crd(api)
    for name, rules in as_rules(static_cluster_roles()):
        with contextlib.suppress(AlreadyExists):
            api.call(
                "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": name}, "rules": rules}
            )
    operator = Operator(cluster.kubeconfig, NS, tmp_path / "operator.log")
    operator.start()
    operator.wait_until_leading()
    yield api
    assert operator.end() == 0


def deployment_hash(api):
    template = api.get("deployments", "secondary-scheduler")["spec"]["template"]
    return template["metadata"]["annotations"][HASH_ANNOTATION]


def left_of_candidates(api):
    kinds = ("deployments", "replicasets", "pods", "leases", "configmaps")
    return [name for kind in kinds for name in api.names(kind) if "canary" in name]


def test_an_instance_becomes_a_scheduler_that_reports_its_configuration(api):
    api.create("configmaps", "config", data={"config.yaml": PLAIN})
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
    api.wait_for_hash(configuration_hash(PLAIN), seconds=60)
    assert api.condition("Available")["status"] == "True"
    assert api.condition("Degraded")["status"] == "False"

    changed = PLAIN.replace("weight: 3", "weight: 5")
    api.patch("configmaps", "config", {"data": {"config.yaml": changed}})
    until(lambda: deployment_hash(api) == configuration_hash(changed), 120, "proven and rolled out")
    bound = [event for event in api.items("events") if "canary-probe" in event["involvedObject"]["name"]]
    assert "Scheduled" in [event["reason"] for event in bound], "a real scheduler bound the pod"
    api.wait_for_hash(configuration_hash(changed), seconds=60)
    until(lambda: not left_of_candidates(api), 60, "nothing is left of the candidate")

    api.patch("secondaryschedulers", "cluster", {"spec": {"extraArgs": [BROKEN]}})
    found = api.wait_for("Degraded", "True", "CanaryFailed", seconds=120)
    assert BROKEN in found["message"], "its last words are told"
    until(lambda: not left_of_candidates(api), 60, "nothing is left of the candidate")
    assert api.condition("Available")["status"] == "True", "the one before goes on"
    api.patch("secondaryschedulers", "cluster", {"spec": {"extraArgs": None}})
    api.wait_for("Degraded", "False", seconds=60)

    api.delete("secondaryschedulers", "cluster")
    until(lambda: api.get("secondaryschedulers", "cluster") is None, 60, "instance gone")
    assert api.items("pods") == []
    assert api.get("leases", "secondary-scheduler") is None
    assert not api.cluster_role_bindings()
