"""Upstream's end-to-end list, and what it never tested, with real schedulers on three real nodes.

The tests run in order on one instance; each leaves it as it found it. OpenShift's monitoring is not here.
"""

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler.config import configuration_hash
from scheduler.kube.client import KubeError
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import MONITORS
from tests.support.cluster import audit_flags
from tests.support.waiting import eventually
from tests.unit.operator.builders import BAD_CONFIG, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.slow]

IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
PLAIN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: secondary-scheduler}]
leaderElection: {leaderElect: false}
"""
HASH = configuration_hash(PLAIN)


@pytest.fixture(scope="module")
def control_plane(cluster_state_root, tmp_path_factory):
    spec = ClusterSpec(
        name="upstreams-list",
        state_root=cluster_state_root,
        nodes=0,
        real_nodes=3,
        kwok=False,
        prometheus=False,
        tools=False,
        api_server_flags=audit_flags(tmp_path_factory.mktemp("audit")),
    )
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def rights(api):
    api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(MONITORS))
    eventually(lambda: monitors(api) is not None, "ServiceMonitors served")
    return Rights(api, [(api.namespace, "gpu")])


@pytest.fixture(scope="module")
def running(api, operator):
    api.create("configmaps", "config", data={"config.yaml": PLAIN})
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **IDENTITY, spec=spec)
    api.wait_for_hash(HASH)
    yield api
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert not api.cluster_role_bindings()


def monitors(api):
    try:
        return api.call("GET", f"/apis/monitoring.coreos.com/v1/namespaces/{api.namespace}/servicemonitors")["items"]
    except KubeError:
        return None


def edit(api, **spec):
    api.patch("secondaryschedulers", "cluster", {"spec": spec})


def ready_pods(api, app="secondary-scheduler"):
    conditions = [
        (
            pod,
            {condition["type"]: condition["status"] for condition in (pod.get("status") or {}).get("conditions") or []},
        )
        for pod in api.items("pods")
        if (pod["metadata"].get("labels") or {}).get("app") == app
    ]
    return [pod for pod, status in conditions if status.get("Ready") == "True"]


def uid_of(obj):
    return obj["metadata"]["uid"]


def place(api, name, scheduler):
    container = {"name": "c", "image": "pause"}
    api.create("pods", name, spec={"schedulerName": scheduler, "containers": [container]})
    eventually(lambda: api.get("pods", name)["spec"].get("nodeName"), f"{name} placed by {scheduler}")
    api.call("DELETE", api.path("pods", name), {"gracePeriodSeconds": 0})


def test_a_pod_that_asks_for_it_is_placed(running):
    place(running, "asks", "secondary-scheduler")


def test_the_metrics_service_is_there_and_its_monitor_selects_it(running):
    service = running.get("services", "metrics")
    assert [port["port"] for port in service["spec"]["ports"]] == [10259]
    (monitor,) = monitors(running)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_high_availability_is_switched_on_and_off(running):
    api = running
    assert len(ready_pods(api)) == 1
    edit(api, topology={"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 3}})
    eventually(lambda: len(ready_pods(api)) == 3, "three ready replicas")
    (current,) = [replica_set for replica_set in api.items("replicasets") if replica_set["spec"]["replicas"]]
    for pod in ready_pods(api):
        assert pod["metadata"]["ownerReferences"][0]["uid"] == current["metadata"]["uid"]
        assert pod["spec"]["affinity"]["podAntiAffinity"]
    assert len({pod["spec"]["nodeName"] for pod in ready_pods(api)}) == 3
    place(api, "beside-three", "secondary-scheduler")
    edit(api, topology=None)
    eventually(lambda: len(api.items("pods")) == 1, "one replica")
    api.wait_for("Progressing", "False")


def test_a_new_configuration_is_proven_and_rolled_out(running):
    api = running
    changed = PLAIN + "percentageOfNodesToScore: 50\n"
    api.patch("configmaps", "config", {"data": {"config.yaml": changed}})
    api.wait_for_hash(configuration_hash(changed))
    api.patch("configmaps", "config", {"data": {"config.yaml": PLAIN}})
    api.wait_for_hash(HASH)
    assert "leaderElection.leaderElect" in api.condition("Degraded")["message"], "without effect, and told"


@pytest.mark.parametrize("broken", ["bad", "missing"])
def test_a_configuration_that_is_bad_or_missing_leaves_the_scheduler_alone(running, broken):
    api = running
    (before,) = ready_pods(api)
    if broken == "bad":
        api.patch("configmaps", "config", {"data": {"config.yaml": BAD_CONFIG}})
        api.wait_for("Degraded", "True", "ConfigInvalid")
        api.patch("configmaps", "config", {"data": {"config.yaml": PLAIN}})
    else:
        api.delete("configmaps", "config")
        api.wait_for("Degraded", "True", "ConfigMapMissing")
        place(api, "meanwhile", "secondary-scheduler")
        api.create("configmaps", "config", data={"config.yaml": PLAIN})
    api.wait_for("Degraded", "False")
    (after,) = ready_pods(api)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert not after["status"]["containerStatuses"][0]["restartCount"]


def test_a_revision_that_does_not_run_goes_back(running):
    api = running
    edit(api, rollout={"canary": False}, extraArgs=["--no-such-flag"])
    condition = api.wait_for("Degraded", "True", "RolledBack")
    assert "--no-such-flag" in condition["message"]
    api.wait_for("Available", "True")
    edit(api, rollout=None, extraArgs=None)
    api.wait_for("Degraded", "False")
    api.wait_for("Progressing", "False")


def test_a_deleted_deployment_comes_back(running):
    api = running
    uid = uid_of(api.get("deployments", "secondary-scheduler"))
    (pod,) = ready_pods(api)
    api.delete("deployments", "secondary-scheduler")
    eventually(
        lambda: uid_of(api.get("deployments", "secondary-scheduler") or pod) not in (uid, uid_of(pod)), "repaired"
    )
    eventually(lambda: {uid_of(ready) for ready in ready_pods(api)} - {uid_of(pod)}, "another pod is ready")
    eventually(lambda: len(api.items("pods")) == 1, "the former one is gone")


def test_management_states(running):
    api = running
    edit(api, managementState="Unmanaged")
    api.wait_for("Progressing", "False", "Unmanaged")
    place(api, "unmanaged", "secondary-scheduler")
    edit(api, managementState="Removed")
    api.wait_for("Available", "False", "Removed")
    api.wait_for("Progressing", "False", "AsExpected")
    assert not api.items("pods")
    edit(api, managementState="Managed")
    api.wait_for_hash(HASH)


def test_two_instances_place_each_their_own_pods(running):
    api = running
    named = PLAIN.replace("schedulerName: secondary-scheduler", "schedulerName: gpu")
    api.create("configmaps", "gpu-config", data={"config.yaml": named})
    spec = {"schedulerConfig": "gpu-config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "gpu", **IDENTITY, spec=spec)
    eventually(lambda: ready_pods(api, "secondary-scheduler-gpu"), "the second one is ready")
    place(api, "first", "secondary-scheduler")
    place(api, "second", "gpu")
    api.delete("secondaryschedulers", "gpu")
    eventually(lambda: api.get("secondaryschedulers", "gpu") is None, "the second one is gone")
    assert not [name for name in api.cluster_role_bindings() if "gpu" in name]
    place(api, "third", "secondary-scheduler")
