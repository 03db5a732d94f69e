"""The operator with the schedulers it makes, as real processes on a real node: ours, which reports its configuration,
and upstream's Go binary under the image's own name.
"""

import pytest

from devcluster import releases
from devcluster.cluster import LocalCluster
from devcluster.progress import SilentReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain import binaries
from scheduler.catalog import minor_of
from scheduler.config import configuration_hash
from tests.integration.operator.support import HASH_ANNOTATION
from tests.support.cluster import audit_flags
from tests.support.waiting import eventually
from tests.unit.operator.builders import FOREIGN_IMAGE, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
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
CHANGED = PLAIN.replace("weight: 3", "weight: 5")
BROKEN = "--no-such-flag"


@pytest.fixture(scope="module")
def control_plane(cluster_state_root, tmp_path_factory):
    """A cluster whose node can run the scheduler-plugins image, as the binary of that release."""
    binary = binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]
    command = "/bin/kube-scheduler"
    image = {
        "executables": {command: [str(binary)]},
        "appendArgs": {command: ["--bind-address=$(POD_IP)"]},
        "user": 65532,
    }
    spec = ClusterSpec(
        name="real-node",
        state_root=cluster_state_root,
        nodes=0,
        kwok=False,
        prometheus=False,
        tools=False,
        images={FOREIGN_IMAGE.rpartition(":")[0]: image},
        api_server_flags=audit_flags(tmp_path_factory.mktemp("audit")),
    )
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture
def create(api, operator):
    def make(**spec):
        api.create("configmaps", "config", data={"config.yaml": PLAIN})
        api.create("secondaryschedulers", "cluster", **IDENTITY, spec={"schedulerConfig": "config", **spec})

    return make


def deployment_hash(api):
    template = api.get("deployments", "secondary-scheduler")["spec"]["template"]
    return template["metadata"]["annotations"][HASH_ANNOTATION]


def left_of_canaries(api):
    kinds = ("deployments", "replicasets", "pods", "leases", "configmaps")
    return [name for kind in kinds for name in api.names(kind) if "canary" in name]


def nothing_is_left_of_a_canary(api):
    eventually(lambda: not left_of_canaries(api), "nothing is left of the canary")


def change_configuration(api):
    """A canary proves the new one by a pod that it binds; then the scheduler gets it."""
    api.patch("configmaps", "config", {"data": {"config.yaml": CHANGED}})
    eventually(lambda: deployment_hash(api) == configuration_hash(CHANGED), "proven and rolled out")

    def bound():
        probes = (event for event in api.items("events") if "canary-probe" in event["involvedObject"]["name"])
        return "Scheduled" in [event["reason"] for event in probes]

    eventually(bound, "a real scheduler bound the pod")
    api.wait_for_hash(configuration_hash(CHANGED))
    nothing_is_left_of_a_canary(api)


def test_an_instance_becomes_a_scheduler_that_reports_its_configuration(api, create):
    create(schedulerImage=IMAGE)
    api.wait_for("Available", "True")
    api.wait_for_hash(configuration_hash(PLAIN))
    assert api.condition("Degraded")["status"] == "False"

    change_configuration(api)

    api.patch("secondaryschedulers", "cluster", {"spec": {"extraArgs": [BROKEN]}})
    condition = api.wait_for("Degraded", "True", "CanaryFailed")
    assert BROKEN in condition["message"], "its last words are reported"
    nothing_is_left_of_a_canary(api)
    assert api.condition("Available")["status"] == "True", "the one before goes on"
    api.patch("secondaryschedulers", "cluster", {"spec": {"extraArgs": None}})
    api.wait_for("Degraded", "False")

    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert api.items("pods") == []
    assert api.get("leases", "secondary-scheduler") is None
    assert not api.cluster_role_bindings()


@pytest.mark.skipif(
    (minor_of(releases.chosen()) or 0) < 34, reason="scheduler-plugins 0.34.7 waits for resource.k8s.io/v1 for ever"
)
def test_the_go_scheduler_runs_under_the_same_contract_and_places_pods(api, create):
    create(schedulerImage=FOREIGN_IMAGE)
    api.wait_for_hash(configuration_hash(PLAIN))
    (pod,) = api.items("pods")
    holder = api.get("leases", "secondary-scheduler")["spec"]["holderIdentity"]
    assert holder.startswith(f"{pod['metadata']['name']}_")
    assert pod["spec"]["containers"][0]["image"] == FOREIGN_IMAGE

    change_configuration(api)

    container = {"name": "c", "image": FOREIGN_IMAGE, "command": ["/bin/kube-scheduler", "--version"]}
    spec = {"schedulerName": "secondary-scheduler", "restartPolicy": "Never", "containers": [container]}
    api.create("pods", "placed", spec=spec)
    eventually(lambda: api.get("pods", "placed")["spec"].get("nodeName"), "placed")
    api.delete("pods", "placed")
    assert api.condition("Degraded")["status"] == "False"
