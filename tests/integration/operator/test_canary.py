"""Canaries and going back, on a real API server; TestKubelet plays node and scheduler."""

import pytest

from scheduler.config import configuration_hash
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE, OTHER_CONFIG

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

HASH, OTHER_HASH = configuration_hash(CONFIG), configuration_hash(OTHER_CONFIG)
CANARY = "secondary-scheduler-canary"
CRASH = {"state": {"terminated": {"exitCode": 4, "message": "profiles[0]: bad"}}, "restartCount": 2}
NOT_PULLED = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}}


@pytest.fixture
def running(api, operator, kubelet):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    spec = {"schedulerConfig": "config", "schedulerImage": IMAGE}
    api.create("secondaryschedulers", "cluster", **identity, spec=spec)
    api.wait_for_hash(HASH)
    return api


def left_of_canaries(api):
    kinds = ("deployments", "pods", "leases", "configmaps")
    left = [name for kind in kinds for name in api.names(kind) if "canary" in name]
    role = api.get("roles", "secondary-scheduler-operand") or {"rules": []}
    return left + [name for rule in role["rules"] for name in rule.get("resourceNames", []) if "canary" in name]


def gone(api):
    eventually(lambda: not left_of_canaries(api), "nothing is left of the canary")


def change(api, text=OTHER_CONFIG):
    api.patch("configmaps", "config", {"data": {"config.yaml": text}})


def template(api):
    return api.get("deployments", "secondary-scheduler")["spec"]["template"]


def test_a_new_configuration_waits_for_the_pod_that_its_canary_binds(running, kubelet):
    api = running
    kubelet.binds = False
    before = template(api)
    change(api)
    api.wait_for("Progressing", "True", "Proving")
    eventually(lambda: any("probe" in name for name in api.names("pods")), "a pod to bind")
    assert template(api) == before
    assert api.condition("Available")["status"] == "True"
    kubelet.binds = True
    api.wait_for_hash(OTHER_HASH)
    gone(api)


@pytest.mark.parametrize(("trouble", "words"), [(CRASH, "profiles[0]: bad"), (NOT_PULLED, "manifest unknown")])
def test_a_canary_that_fails_changes_nothing_and_says_why(running, kubelet, trouble, words):
    api = running
    before = template(api)
    kubelet.troubled, kubelet.container_status = CANARY, trouble
    change(api)
    condition = api.wait_for("Degraded", "True", "CanaryFailed")
    assert words in condition["message"]
    assert OTHER_HASH in condition["message"]
    assert template(api) == before
    assert api.condition("Available")["status"] == "True"
    eventually(lambda: any(e["reason"] == "CanaryFailed" for e in api.items("events")), "event")
    gone(api)
    kubelet.container_status = None
    change(api, CONFIG)
    api.wait_for("Degraded", "False")
    change(api)
    api.wait_for_hash(OTHER_HASH)


def test_a_scheduler_that_fails_after_its_canary_did_well_goes_back(running, kubelet):
    api = running
    image = IMAGE.replace("0.1.0", "0.2.0")
    kubelet.binds = False
    api.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": image}})
    api.wait_for("Progressing", "True", "Proving")
    kubelet.fails_with_image, kubelet.troubled = image, "secondary-scheduler"
    kubelet.container_status, kubelet.binds = CRASH, True
    condition = api.wait_for("Degraded", "True", "RolledBack")
    assert "profiles[0]: bad" in condition["message"]
    eventually(lambda: template(api)["spec"]["containers"][0]["image"] == IMAGE, "the image of before")
    api.wait_for("Progressing", "False")
    api.wait_for("Available", "True")
    gone(api)


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_an_instance_that_goes_takes_its_canary_with_it(running, kubelet, how):
    api = running
    kubelet.binds = False
    change(api)
    eventually(lambda: any("probe" in name for name in api.names("pods")), "a pod to bind")
    if how == "removed":
        api.patch("secondaryschedulers", "cluster", {"spec": {"managementState": "Removed"}})
    else:
        api.delete("secondaryschedulers", "cluster")
    gone(api)
    assert not api.cluster_role_bindings()


def test_nothing_was_refused(operator):
    lines = operator.log_lines()
    assert [line for line in lines if line["event"] == "write refused" or "exception" in line] == []
