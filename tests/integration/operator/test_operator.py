"""The operator as a process, under its real rights, against a real control plane.

Covered: creation, configuration life cycle, management states, deletion, crash, refused rights, health. The scheduler
itself does not run here: TestKubelet makes its pods ready and reports in its stead.
"""

import signal
import ssl
import time
import urllib.request

import pytest

from scheduler.catalog import (
    BASE_CLUSTER_ROLE,
    cluster_role_binding_name,
    cluster_role_name,
    plugin_rules,
)
from scheduler.config import configuration_hash, load_configuration
from tests.support.queries import mistakes_about, scraped
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.unit.operator.builders import BAD_CONFIG, CONFIG, IMAGE, OTHER_CONFIG

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

SPEC = {"managementState": "Managed", "schedulerConfig": "config", "schedulerImage": IMAGE}
HASH, OTHER_HASH = configuration_hash(CONFIG), configuration_hash(OTHER_CONFIG)


def create_instance(api, **spec):
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    return api.create("secondaryschedulers", "cluster", **identity, spec={**SPEC, **spec})


def create_config(api, text=CONFIG):
    return api.create("configmaps", "config", data={"config.yaml": text})


def set_config(api, text):
    return api.patch("configmaps", "config", {"data": {"config.yaml": text}})


def deployment(api):
    return api.get("deployments", "secondary-scheduler")


@pytest.fixture
def running(api, operator, kubelet):
    create_config(api)
    create_instance(api)
    api.wait_for_hash(HASH)
    return api


def test_a_new_instance_becomes_a_running_scheduler_within_seconds(api, operator, kubelet):
    create_config(api)
    create_instance(api)
    eventually(lambda: deployment(api), "Deployment")
    api.wait_for("Available", "True")
    api.wait_for_hash(HASH)
    instance = api.get("secondaryschedulers", "cluster")
    assert instance["status"]["schedulerNames"] == ["secondary-scheduler"]
    assert instance["status"]["readyReplicas"] == 1
    assert instance["status"]["observedGeneration"] == instance["metadata"]["generation"]
    assert instance["metadata"]["finalizers"] == ["secondary-scheduler.io/cleanup"]
    enabled = load_configuration(CONFIG, source="test").profiles[0].enabled
    roles = [BASE_CLUSTER_ROLE, *(cluster_role_name(plugin) for plugin in enabled if plugin_rules(plugin))]
    assert api.cluster_role_bindings() == {cluster_role_binding_name(role, api.namespace) for role in roles}
    assert api.condition("Degraded")["status"] == "False"
    assert {event["involvedObject"]["kind"] for event in event_of(api, "ConfigurationActive")} == {"SecondaryScheduler"}


def event_of(api, reason):
    """An Event about the instance."""
    return eventually(lambda: [e for e in api.items("events") if e["reason"] == reason], f"event {reason}")


def test_a_config_map_without_the_key_is_reported_with_the_keys_that_it_has(api, operator, kubelet):
    api.create("configmaps", "config", data={"scheduler.yaml": CONFIG})
    create_instance(api)
    condition = api.wait_for("Degraded", "True", "ConfigMapKeyMissing")
    assert f"ConfigMap {api.namespace}/config has no key config.yaml (its keys: scheduler.yaml)" in condition["message"]
    assert event_of(api, "ConfigMapKeyMissing")
    api.patch("configmaps", "config", {"data": {"config.yaml": CONFIG}})
    api.wait_for_hash(HASH)


def test_an_image_that_ends_at_once_is_reported_with_its_last_words(api, operator, kubelet):
    ended = {"terminated": {"exitCode": 1, "message": "panic: no such plugin", "reason": "Error"}}
    kubelet.container_status = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
    create_config(api)
    create_instance(api)
    condition = api.wait_for("Degraded", "True", "SchedulerCrashing")
    assert "panic: no such plugin" in condition["message"]
    assert event_of(api, "SchedulerCrashing")
    kubelet.container_status = None
    api.wait_for_hash(HASH)
    api.wait_for("Degraded", "False")


def test_a_missing_config_map_is_reported_and_taken_up_when_it_appears(api, operator, kubelet):
    create_instance(api)
    condition = api.wait_for("Degraded", "True", "ConfigMapMissing")
    assert f"ConfigMap {api.namespace}/config" in condition["message"]
    assert deployment(api) is None
    create_config(api)
    eventually(lambda: deployment(api), "Deployment")
    api.wait_for("Degraded", "False")
    api.wait_for_hash(HASH)


def test_a_bad_configuration_leaves_the_scheduler_alone_and_its_fix_recovers(running):
    api = running
    before = deployment(api)
    set_config(api, BAD_CONFIG)
    condition = api.wait_for("Degraded", "True", "ConfigInvalid")
    assert "profiles[0].colour" in condition["message"]
    assert "config.yaml:5:" in condition["message"]
    assert f"keeps its last good configuration {HASH}" in condition["message"]
    time.sleep(0.5)
    assert deployment(api)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert api.condition("Available")["status"] == "True"
    set_config(api, CONFIG)
    api.wait_for("Degraded", "False")
    assert deployment(api)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert {e["type"] for e in event_of(api, "ConfigInvalid")} == {"Warning"}


def test_a_deleted_config_map_leaves_the_scheduler_alone(running):
    api = running
    before = deployment(api)
    api.delete("configmaps", "config")
    api.wait_for("Degraded", "True", "ConfigMapMissing")
    assert deployment(api)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    create_config(api)
    api.wait_for("Degraded", "False")


def test_only_a_change_of_content_rolls_the_scheduler(running):
    api = running
    before = deployment(api)["metadata"]["generation"]
    api.patch("configmaps", "config", {"metadata": {"labels": {"a": "b"}}})
    set_config(api, "# a comment\n" + CONFIG)
    time.sleep(1)
    assert deployment(api)["metadata"]["generation"] == before
    set_config(api, OTHER_CONFIG)
    api.wait_for_hash(OTHER_HASH)
    assert deployment(api)["metadata"]["generation"] == before + 1
    mine = {name for name in api.names("configmaps") if name.startswith("secondary-scheduler-active-")}
    eventually(
        lambda: (
            {n for n in api.names("configmaps") if n.startswith("secondary-scheduler-active-")}
            == {f"secondary-scheduler-active-{OTHER_HASH}"}
        ),
        f"the former copy is gone from {mine}",
    )


def test_the_running_scheduler_mounts_a_copy_that_nobody_can_change(running):
    api = running
    volumes = {v["name"]: v for v in deployment(api)["spec"]["template"]["spec"]["volumes"]}
    copy = api.get("configmaps", volumes["etckubernetes"]["configMap"]["name"])
    assert copy["immutable"] is True
    assert copy["data"]["config.yaml"] == CONFIG
    assert copy["metadata"]["ownerReferences"][0]["kind"] == "SecondaryScheduler"


def test_an_unmanaged_instance_is_only_reported(running):
    api = running
    api.patch("secondaryschedulers", "cluster", {"spec": {"managementState": "Unmanaged"}})
    api.wait_for("Progressing", "False", "Unmanaged")
    api.patch("deployments", "secondary-scheduler", {"spec": {"replicas": 2}})
    time.sleep(0.5)
    assert deployment(api)["spec"]["replicas"] == 2
    api.patch("secondaryschedulers", "cluster", {"spec": {"managementState": "Managed"}})
    eventually(lambda: deployment(api)["spec"]["replicas"] == 1, "managed again")


def test_a_removed_scheduler_is_taken_away_and_comes_back(running):
    api = running
    api.patch("secondaryschedulers", "cluster", {"spec": {"managementState": "Removed"}})
    api.wait_for("Available", "False", "Removed")
    api.wait_for("Progressing", "False", "AsExpected")
    assert deployment(api) is None
    assert not api.cluster_role_bindings()
    assert api.names("roles") == {f"operator-of-{api.namespace}"}
    assert api.get("leases", "secondary-scheduler") is None
    api.patch("secondaryschedulers", "cluster", {"spec": {"managementState": "Managed"}})
    api.wait_for_hash(HASH)


def test_a_deleted_instance_leaves_nothing(running):
    api = running
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert not api.cluster_role_bindings()
    assert api.get("leases", "secondary-scheduler") is None
    assert deployment(api) is None
    eventually(lambda: not api.items("pods") and not api.items("replicasets"), "pods gone")
    for resource in ("services", "roles", "rolebindings", "serviceaccounts", "configmaps"):
        assert not {name for name in api.names(resource) if name.startswith(("secondary-scheduler-active", "metrics"))}
    assert "secondary-scheduler" not in api.names("serviceaccounts")


def test_an_image_that_cannot_be_pulled_is_named(api, operator, kubelet):
    kubelet.container_status = {"state": {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}}
    create_config(api)
    create_instance(api)
    condition = api.wait_for("Degraded", "True", "ImageNotPulled")
    assert "manifest unknown" in condition["message"]
    assert event_of(api, "ImageNotPulled")


def test_stale_load_data_is_a_condition_and_an_event(running, kubelet):
    api = running
    kubelet.annotations = {
        "secondary-scheduler.io/load-data-fresh": "false",
        "secondary-scheduler.io/load-data-message": "connection refused",
    }
    assert api.wait_for("LoadDataFresh", "False")["message"] == "connection refused"
    assert api.condition("Available")["status"] == "True"
    eventually(lambda: any(e["reason"] == "LoadDataStale" for e in api.items("events")), "event")
    kubelet.annotations = {"secondary-scheduler.io/load-data-fresh": "true"}
    api.wait_for("LoadDataFresh", "True")


def test_a_serving_certificate_is_used_as_soon_as_it_exists(running):
    api = running
    api.create("secrets", "secondary-scheduler-serving-cert", stringData={"tls.crt": "", "tls.key": ""})

    def serves_it():
        args = deployment(api)["spec"]["template"]["spec"]["containers"][0]["args"]
        return "--tls-cert-file=/certs-dir/tls.crt" in args

    eventually(serves_it, "certificate used")
    api.delete("secrets", "secondary-scheduler-serving-cert")
    eventually(lambda: not serves_it(), "certificate no longer used")


def test_a_killed_operator_converges_after_its_restart(running, operator):
    api = running
    set_config(api, OTHER_CONFIG)
    operator.end(signal.SIGKILL)
    api.delete("services", "metrics")
    operator.start()
    api.wait_for_hash(OTHER_HASH)
    eventually(lambda: api.get("services", "metrics"), "drift repaired")
    generation = deployment(api)["metadata"]["generation"]
    operator.end(signal.SIGKILL)
    operator.start()
    set_config(api, "# seen\n" + OTHER_CONFIG)
    api.patch("secondaryschedulers", "cluster", {"spec": {"operatorLogLevel": "Debug"}})
    observed = api.get("secondaryschedulers", "cluster")["metadata"]["generation"]
    eventually(
        lambda: api.get("secondaryschedulers", "cluster")["status"]["observedGeneration"] == observed, "reconciled"
    )
    assert deployment(api)["metadata"]["generation"] == generation, "a restart rolls nothing"


def test_noise_of_a_megabyte_is_refused_while_health_goes_on(running, operator):
    api = running
    set_config(api, "[" * 10 + "x: {" * 250_000)
    condition = api.wait_for("Degraded", "True", "ConfigInvalid")
    assert len(condition["message"]) < 5000
    assert event_of(api, "ConfigInvalid")
    assert api.condition("Available")["status"] == "True"
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port()}/healthz", timeout=1) as response:
        assert response.status == 200
    set_config(api, CONFIG)
    api.wait_for("Degraded", "False")


@pytest.mark.slow
def test_many_edits_end_in_the_last_one(running):
    api = running
    for weight in range(1, 101):
        set_config(api, CONFIG.replace("weight: 3", f"weight: {weight}"))
        api.patch("secondaryschedulers", "cluster", {"metadata": {"labels": {"edit": str(weight)}}})
    last = configuration_hash(CONFIG.replace("weight: 3", "weight: 100"))
    api.wait_for_hash(last)
    copies = {f"secondary-scheduler-active-{last}"}
    eventually(
        lambda: {n for n in api.names("configmaps") if n.startswith("secondary-scheduler-active-")} == copies,
        "copies of former configurations are gone",
    )


def test_nothing_was_refused_and_nothing_failed(operator):
    """Under the rights of the install, after all that the tests above made it do."""
    bad = [line for line in operator.log_lines() if line["event"] in ("write refused", "kind cannot be read")]
    assert bad == []
    assert [line for line in operator.log_lines() if "exception" in line] == []


def test_health_and_metrics_are_served(running, operator):
    def fetch(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{operator.port()}{path}", timeout=5) as response:
            return response.read().decode()

    def metrics():
        request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {"expirationSeconds": 3600},
        }
        # The administrator's view: an account that may read everything stands for a scraper.
        api = running
        api.create("serviceaccounts", "scraper")
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": api.namespace}
        body = {"metadata": {"name": f"scraper-{api.namespace}"}, "roleRef": reference, "subjects": [subject]}
        api.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
        token = api.call("POST", api.path("serviceaccounts", "scraper") + "/token", request)["status"]["token"]
        url = f"https://127.0.0.1:{operator.port('metrics_port')}/metrics"
        get = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(get, timeout=5, context=context) as response:
            return response.read().decode()

    assert fetch("/healthz") == "ok"
    eventually(lambda: fetch("/readyz") == "ok", "ready")
    text = metrics()
    assert 'secondary_scheduler_operator_condition{condition="Available"' in text
    assert "secondary_scheduler_operator_leader 1.0" in text
    live = scraped(text)
    assert mistakes_about(live) == {}
    condition = live["secondary_scheduler_operator_condition"]
    assert condition.labels == {"exported_namespace", "name", "condition", "status"}


def test_an_operator_stopped_while_an_instance_goes_finishes_the_deletion(running, operator):
    api = running
    (pod,) = api.items("pods")
    api.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/hold"]}})
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: deployment(api) is None, "deletion begun")
    operator.process.terminate()
    time.sleep(0.5)
    assert operator.process.poll() is None, "waits for the pod"
    api.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    assert operator.process.wait(PATIENCE_SECONDS) == 0
    assert api.get("secondaryschedulers", "cluster") is None
    assert not api.cluster_role_bindings()
