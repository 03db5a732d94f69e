"""From a SecondaryScheduler and what surrounds it to objects and a status.

Covered: creation, configuration (good, bad, missing, changed, commented), images, credentials, drift, refused writes,
management states, deletion, reporting. Left out: how writes are carried out (test_controller.py, integration).
"""

import pytest

from scheduler.catalog import cluster_role_name, plugin_rules
from scheduler.config import load_configuration
from secondary_scheduler.operator.reconcile import ApiFailure, Apply, Delete, ObjectKey, SetFinalizers
from secondary_scheduler.operator.reconcile.names import RESOURCES
from tests.unit.operator.builders import (
    BAD_CONFIG,
    CONFIG,
    FOREIGN_IMAGE,
    HASH,
    NS,
    OTHER_CONFIG,
    OTHER_HASH,
    Instance,
    config_map,
    container_status,
    lease,
    node,
    pod,
    scheduler,
    secret,
)

PLUGIN_BINDINGS = {
    ("ClusterRoleBinding", cluster_role_name(plugin))
    for plugin in load_configuration(CONFIG, source="test").profiles[0].enabled
    if plugin_rules(plugin)
}


AT_ONCE = {"canary": False}


def world(**spec):
    return Instance(scheduler(**spec), config_map())


def container(world):
    return world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"][0]


def test_a_new_instance_gets_everything_its_scheduler_needs():
    w = world()
    w.settle()
    assert {(key.kind, key.name) for key in w.objects} == {
        ("ServiceAccount", "secondary-scheduler"),
        ("Role", "secondary-scheduler-operand"),
        ("RoleBinding", "secondary-scheduler-operand"),
        ("ClusterRoleBinding", "secondary-scheduler:base"),
        *PLUGIN_BINDINGS,
        ("ConfigMap", "config"),
        ("ConfigMap", f"secondary-scheduler-active-{HASH}"),
        ("Service", "metrics"),
        ("Deployment", "secondary-scheduler"),
        ("NetworkPolicy", "secondary-scheduler"),
        ("FlowSchema", "secondary-scheduler-leases"),
        ("FlowSchema", "secondary-scheduler-requests"),
    }
    assert ("ClusterRoleBinding", "secondary-scheduler:plugin:targetloadpacking") in PLUGIN_BINDINGS
    assert ("ClusterRoleBinding", "secondary-scheduler:plugin:nodename") not in PLUGIN_BINDINGS
    assert w.condition("Available")[:2] == ("False", "NoReplicaAvailable")
    assert w.condition("Progressing")[:2] == ("True", "RollingOut")
    assert w.condition("Degraded")[0] == "False"


def test_namespaced_objects_belong_to_the_instance_and_cluster_scoped_ones_are_marked():
    w = world()
    w.settle()
    for key, obj in w.objects.items():
        if key.name == "config":
            continue
        if not RESOURCES[key.kind].namespaced:
            assert "ownerReferences" not in obj["metadata"]
            assert obj["metadata"]["labels"]["secondary-scheduler.io/namespace"] == NS
        else:
            (owner,) = obj["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"]) == ("SecondaryScheduler", "cluster", "cr-uid")


def test_the_deployment_keeps_upstreams_contract():
    w = world()
    w.settle()
    deployment = w.get("Deployment", "secondary-scheduler")
    assert deployment["spec"]["selector"] == {"matchLabels": {"app": "secondary-scheduler"}}
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert container(w)["command"] == ["/bin/kube-scheduler"]
    assert container(w)["args"] == [
        "--config=/etc/kubernetes/config.yaml",
        "--leader-elect=true",
        "--leader-elect-lease-duration=15s",
        "--leader-elect-renew-deadline=10s",
        "--leader-elect-resource-lock=leases",
        "--leader-elect-resource-name=secondary-scheduler",
        f"--leader-elect-resource-namespace={NS}",
        "--leader-elect-retry-period=2s",
        "-v=2",
    ]
    pod_spec = deployment["spec"]["template"]["spec"]
    assert pod_spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert {v["name"]: v for v in pod_spec["volumes"]}["etckubernetes"]["configMap"] == {
        "name": f"secondary-scheduler-active-{HASH}",
        "items": [{"key": "config.yaml", "path": "config.yaml"}],
    }
    probes = {name: container(w)[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert [probe["httpGet"]["path"] for probe in probes.values()] == ["/livez", "/livez", "/readyz"]
    assert not any("initialDelaySeconds" in probe for probe in probes.values())


@pytest.mark.parametrize(
    ("level", "flag"),
    [("Normal", "-v=2"), ("Debug", "-v=4"), ("Trace", "-v=6"), ("TraceAll", "-v=8"), ("", "-v=2"), (None, "-v=2")],
)
def test_log_level_becomes_verbosity(level, flag):
    w = world(logLevel=level)
    w.settle()
    assert flag in container(w)["args"]


def test_optional_fields_of_the_spec_reach_the_pod():
    w = world(
        resources={"limits": {"memory": "1Gi"}},
        priorityClassName="system-cluster-critical",
        imagePullSecrets=[{"name": "pull"}],
        command=["/opt/scheduler"],
        extraArgs=["--profiling=false"],
        env=[{"name": "A", "value": "b"}],
        nodeSelector={"node-role.kubernetes.io/infra": ""},
        tolerations=[{"key": "infra", "operator": "Exists"}],
        affinity={"nodeAffinity": {}},
        leaderElection={"leaseDuration": "60s"},
    )
    w.settle()
    pod_spec = w.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    assert pod_spec["priorityClassName"] == "system-cluster-critical"
    assert pod_spec["imagePullSecrets"] == [{"name": "pull"}]
    assert pod_spec["nodeSelector"] == {"node-role.kubernetes.io/infra": ""}
    assert pod_spec["tolerations"] == [{"key": "infra", "operator": "Exists"}]
    assert pod_spec["affinity"] == {"nodeAffinity": {}}
    assert container(w)["resources"] == {"limits": {"memory": "1Gi"}}
    assert container(w)["command"] == ["/opt/scheduler"]
    assert container(w)["args"][-1] == "--profiling=false"
    assert container(w)["env"] == [{"name": "A", "value": "b"}]
    assert "--leader-elect-lease-duration=60s" in container(w)["args"]


def test_high_availability_runs_several_replicas_where_told():
    topology = {"maxReplicas": 2, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    w = world(topology={"mode": "HighlyAvailable", "highlyAvailableTopology": topology})
    w.put(node("n1", labels={"a": "b"}), node("n2", labels={"a": "b"}), node("n3", labels={"a": "b"}))
    w.settle()
    spec = w.get("Deployment", "secondary-scheduler")["spec"]
    assert spec["replicas"] == 2
    assert spec["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert spec["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_a_running_scheduler_is_available_with_its_hash_and_names():
    w = world()
    w.settle()
    w.roll_out()
    w.settle()
    status = w.resource["status"]
    assert w.condition("Available")[0] == "True"
    assert w.condition("Progressing")[0] == "False"
    assert status["configurationHash"] == HASH
    assert status["schedulerNames"] == ["secondary-scheduler"]
    assert (status["observedGeneration"], status["readyReplicas"], status["version"]) == (1, 1, "0.1.0")
    assert "ConfigurationActive" in [reason for reason, _ in w.events]


def test_our_scheduler_must_report_the_hash_itself():
    w = world()
    w.settle()
    w.roll_out(report=False)
    w.put(lease(configuration_hash="another"))
    w.settle()
    assert "configurationHash" not in w.resource["status"]
    assert w.condition("Progressing")[:2] == ("True", "WaitingForReport")
    assert w.condition("Available")[0] == "True"


def test_an_image_that_cannot_report_is_taken_at_its_rollout():
    w = world(schedulerImage=FOREIGN_IMAGE)
    w.settle()
    w.roll_out(report=False)
    w.settle()
    assert w.resource["status"]["configurationHash"] == HASH


def test_an_incomplete_rollout_keeps_reporting_the_former_configuration():
    w = world(rollout=AT_ONCE).start()
    w.put(config_map(OTHER_CONFIG))
    w.settle()
    assert w.resource["status"]["configurationHash"] == HASH
    assert w.condition("Progressing")[:2] == ("True", "RollingOut")
    w.roll_out()
    w.settle()
    assert w.resource["status"]["configurationHash"] == OTHER_HASH


BAD_MAPS = [
    pytest.param(config_map(BAD_CONFIG), "ConfigInvalid", "profiles[0].colour", id="unknown field"),
    pytest.param(config_map("a: [1"), "ConfigInvalid", "config.yaml:", id="not YAML"),
    pytest.param(config_map(""), "ConfigInvalid", "config.yaml", id="empty"),
    pytest.param(config_map(None), "ConfigMapKeyMissing", "its keys: other", id="key missing"),
    pytest.param(None, "ConfigMapMissing", f"ConfigMap {NS}/config", id="map missing"),
]


@pytest.mark.parametrize(("bad", "reason", "words"), BAD_MAPS)
def test_without_a_valid_configuration_nothing_is_started(bad, reason, words):
    w = Instance(scheduler(), *([bad] if bad else []))
    w.settle()
    status, actual, message = w.condition("Degraded")
    assert (status, actual) == ("True", reason)
    assert words in message
    assert "no scheduler is started" in message
    assert {key.kind for key in w.objects} <= {"ConfigMap"}
    assert w.condition("Progressing")[:2] == ("False", "Blocked")
    assert (reason, message) in w.events


@pytest.mark.parametrize(("bad", "reason", "words"), BAD_MAPS)
def test_a_bad_configuration_leaves_the_running_scheduler_alone(bad, reason, words):
    w = world().start()
    if bad:
        w.put(bad)
    else:
        w.drop("ConfigMap", "config")
    w.settle()
    assert w.writes == []
    status, actual, message = w.condition("Degraded")
    assert (status, actual) == ("True", reason)
    assert words in message
    assert f"keeps its last good configuration {HASH}" in message
    assert w.condition("Available")[0] == "True"
    assert w.resource["status"]["configurationHash"] == HASH


@pytest.mark.parametrize(("bad", "reason", "words"), BAD_MAPS)
def test_the_fix_of_a_configuration_is_taken_up(bad, reason, words):
    w = Instance(scheduler(), *([bad] if bad else []))
    w.settle()
    w.put(config_map())
    w.settle()
    w.roll_out()
    w.settle()
    assert w.condition("Degraded")[:2] == ("False", "AsExpected")
    assert "Recovered" in [r for r, _ in w.events]


def test_a_deleted_deployment_comes_back_on_the_last_good_configuration():
    w = world().start()
    w.put(config_map(BAD_CONFIG))
    w.drop("Deployment", "secondary-scheduler")
    w.settle()
    deployment = w.get("Deployment", "secondary-scheduler")
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["secondary-scheduler.io/configuration-hash"] == HASH


def test_other_settings_change_while_the_configuration_is_bad():
    w = world().start()
    w.put(config_map(BAD_CONFIG))
    w.edit(logLevel="Debug")
    w.settle()
    assert "-v=4" in container(w)["args"]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(config_map("# why\n" + CONFIG), id="comment"),
        pytest.param({**config_map(), "metadata": {**config_map()["metadata"], "labels": {"a": "b"}}}, id="label"),
    ],
)
def test_an_edit_without_meaning_rolls_nothing(edit):
    w = world().start()
    w.put(edit)
    w.settle()
    assert w.writes == []


def test_a_new_configuration_rolls_and_the_former_copy_goes_afterwards():
    w = world(rollout=AT_ONCE).start()
    w.put(config_map(OTHER_CONFIG))
    w.settle()
    old, new = f"secondary-scheduler-active-{HASH}", f"secondary-scheduler-active-{OTHER_HASH}"
    assert {old, new} <= w.names("ConfigMap")
    w.put(pod({}, mounts=old))
    w.roll_out()
    w.settle()
    assert old in w.names("ConfigMap"), "a pod still mounts it"
    w.drop("Pod", "secondary-scheduler-abc")
    w.settle()
    assert w.names("ConfigMap") == {"config", new}


def test_a_forged_copy_is_replaced():
    w = world().start()
    name = f"secondary-scheduler-active-{HASH}"
    w.put({**w.get("ConfigMap", name), "data": {"config.yaml": OTHER_CONFIG}})
    w.settle()
    assert w.writes == [("delete", "ConfigMap"), ("apply", "ConfigMap")]
    assert w.get("ConfigMap", name)["data"]["config.yaml"] == CONFIG


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("ServiceAccount", "secondary-scheduler"),
        ("Role", "secondary-scheduler-operand"),
        ("RoleBinding", "secondary-scheduler-operand"),
        ("ClusterRoleBinding", "secondary-scheduler:base"),
        ("Service", "metrics"),
        ("Deployment", "secondary-scheduler"),
    ],
)
class TestDrift:
    def test_a_deleted_object_is_made_again(self, kind, name):
        w = world().start()
        w.drop(kind, name)
        w.settle()
        assert w.writes == [("apply", kind)]

    def test_a_changed_object_is_put_right(self, kind, name):
        w = world().start()
        live = w.get(kind, name)
        w.put({**live, "metadata": {**live["metadata"], "labels": {}}})
        w.settle()
        assert w.writes == [("apply", kind)]

    def test_an_unchanged_object_is_left_alone(self, kind, name):
        w = world().start()
        live = w.get(kind, name)
        w.put({**live, "metadata": {**live["metadata"], "resourceVersion": "99", "managedFields": []}})
        w.settle()
        assert w.writes == []


def test_a_binding_to_another_role_is_replaced():
    w = world().start()
    live = w.get("ClusterRoleBinding", "secondary-scheduler:base")
    w.put({**live, "roleRef": {**live["roleRef"], "name": "cluster-admin"}})
    w.settle()
    assert w.writes == [("delete", "ClusterRoleBinding"), ("apply", "ClusterRoleBinding")]


def test_a_restarted_operator_applies_everything_once():
    w = world().start()
    w.applied.clear()
    w.settle()
    bindings = ["ClusterRoleBinding"] * (1 + len(PLUGIN_BINDINGS))
    kinds = ["ServiceAccount", "Role", "RoleBinding", *bindings, "ConfigMap", "Service", "Deployment"]
    kinds += ["NetworkPolicy", "FlowSchema", "FlowSchema"]
    assert w.writes == [("apply", kind) for kind in kinds]


class TestServingCertificate:
    def test_is_used_when_the_secret_exists(self):
        w = world()
        w.put(secret("secondary-scheduler-serving-cert"))
        w.settle()
        assert container(w)["args"][1:3] == [
            "--tls-cert-file=/certs-dir/tls.crt",
            "--tls-private-key-file=/certs-dir/tls.key",
        ]
        assert {"name": "certs-dir", "mountPath": "/certs-dir", "readOnly": True} in container(w)["volumeMounts"]

    def test_stays_as_it_is_when_the_secret_is_not_watched(self):
        w = world()
        w.put(secret("secondary-scheduler-serving-cert"))
        w.observed_fields["openshift"] = True
        w.settle()
        w.drop("Secret", "secondary-scheduler-serving-cert")
        w.observed_fields["secrets"] = frozenset({"another"})
        w.settle()
        volumes = w.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["volumes"]
        assert "certs-dir" in {volume["name"] for volume in volumes}

    def test_stays_as_it_is_when_secrets_cannot_be_read(self):
        w = world()
        w.put(secret("secondary-scheduler-serving-cert"))
        w.start()
        w.drop("Secret", "secondary-scheduler-serving-cert")
        w.observed_fields["unreadable"] = {"Secret": ApiFailure(403, "secrets is forbidden")}
        w.settle()
        assert w.writes == []
        assert w.condition("Degraded")[:2] == ("True", "Forbidden")
        assert "secrets is forbidden" in w.condition("Degraded")[2]


class TestMetricCredentials:
    def test_are_mounted_whole(self):
        w = world(metricCredentials={"secretName": "prom", "key": "token"})
        w.put(secret("prom"))
        w.settle()
        volumes = w.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["volumes"]
        assert {"name": "metric-credentials", "secret": {"secretName": "prom"}} in volumes
        mount = {"name": "metric-credentials", "mountPath": "/var/run/secrets/secondary-scheduler/metrics"}
        assert {**mount, "readOnly": True} in container(w)["volumeMounts"]
        assert w.condition("Degraded")[0] == "False"

    def test_of_the_service_account_go_to_the_named_address_only(self):
        thanos = "https://thanos-querier.openshift-monitoring.svc:9091"
        w = world(metricCredentials={"serviceAccount": {}, "address": thanos})
        w.settle()
        assert f"--metric-credentials-address={thanos}" in container(w)["args"]
        token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
        assert f"--metric-service-account-token={token}" in container(w)["args"]

    def test_of_the_service_account_for_an_audience_are_mounted(self):
        w = world(metricCredentials={"serviceAccount": {"audience": "metrics"}})
        w.settle()
        volumes = w.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["volumes"]
        token = {"audience": "metrics", "path": "token", "expirationSeconds": 3600}
        projected = {"sources": [{"serviceAccountToken": token}]}
        assert {"name": "metric-credentials", "projected": projected} in volumes
        assert not [argument for argument in container(w)["args"] if argument.startswith("--metric")]

    def test_that_the_config_map_takes_by_itself_are_refused_and_the_last_good_configuration_stays(self):
        w = world()
        w.settle()
        load = "{load: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}"
        foreign = "{metricProvider: {type: Prometheus, address: 'https://foreign.example'}}"
        w.put(
            config_map(
                "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
                "- schedulerName: secondary-scheduler\n  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}\n"
                f"  pluginConfig:\n  - {{name: TargetLoadPacking, args: {foreign}}}\n"
                f"  - {{name: SecondarySchedulerOptions, args: {load}}}\n"
            )
        )
        w.settle()
        assert w.condition("Degraded")[:2] == ("True", "ConfigInvalid")
        assert "the ServiceAccount's own token is sent only where" in w.condition("Degraded")[2]
        assert "keeps its last good configuration" in w.condition("Degraded")[2]

    def test_that_are_missing_are_named(self):
        w = world(metricCredentials={"secretName": "prom"})
        w.settle()
        assert w.condition("Degraded")[1] == "MetricCredentialsMissing"
        assert f"Secret {NS}/prom" in w.condition("Degraded")[2]
        w.observed_fields["secrets"] = frozenset({"another"})
        w.settle()
        assert "MetricCredentialsMissing" not in str(w.condition("Degraded")), "nobody knows"


def test_an_empty_image_is_named_and_the_rest_is_prepared():
    w = world(schedulerImage=None)
    w.settle()
    assert w.condition("Degraded")[:2] == ("True", "ImageMissing")
    assert "Deployment" not in {key.kind for key in w.objects}
    assert w.condition("Available")[:2] == ("False", "NotDeployed")


CRASH = {"exitCode": 4, "reason": "Error", "message": "config.yaml:3:5: profiles[0]: bad\n"}


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        pytest.param(
            container_status(state={"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}),
            "ImageNotPulled",
            "manifest unknown",
            id="image cannot be pulled",
        ),
        pytest.param(
            container_status(
                state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                lastState={"terminated": CRASH},
            ),
            "SchedulerCrashing",
            "code 4: config.yaml:3:5: profiles[0]: bad",
            id="crash loop tells the last words",
        ),
        pytest.param(container_status(state={"terminated": CRASH}), "SchedulerCrashing", "code 4", id="just crashed"),
        pytest.param(
            container_status(state={"running": {}}, lastState={"terminated": CRASH}),
            "SchedulerCrashing",
            "code 4",
            id="restarted and not ready",
        ),
        pytest.param(
            container_status(state={"waiting": {"reason": "CreateContainerConfigError", "message": "no such key"}}),
            "ContainerNotStarting",
            "no such key",
            id="container cannot be made",
        ),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable", "message": "0/1 nodes"}]},
            "SchedulerNotPlaced",
            "0/1 nodes",
            id="no node",
        ),
    ],
)
def test_a_pod_that_does_not_run_is_explained(status, reason, words):
    w = world()
    w.settle()
    w.put(pod(status))
    w.settle()
    assert w.condition("Degraded")[:2] == ("True", reason)
    assert words in w.condition("Degraded")[2]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        pytest.param({"type": "ReplicaFailure", "status": "True", "message": "quota"}, "PodsRefused", id="no pods"),
        pytest.param(
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "quota"},
            "RolloutStuck",
            id="too slow",
        ),
    ],
)
def test_a_deployment_without_pods_is_explained(condition, reason):
    w = world()
    w.settle()
    live = w.get("Deployment", "secondary-scheduler")
    w.put({**live, "status": {"conditions": [condition]}})
    w.settle()
    assert w.condition("Degraded")[:2] == ("True", reason)
    assert "quota" in w.condition("Degraded")[2]


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"phase": "Failed", **container_status(state={"terminated": CRASH})}, id="evicted"),
        pytest.param(container_status(state={"waiting": {"reason": "ContainerCreating"}}), id="creating"),
        pytest.param(container_status(state={"running": {}}), id="starting"),
        pytest.param(container_status(ready=True, lastState={"terminated": CRASH}), id="ready after a crash"),
        pytest.param(container_status(state={"terminated": {"exitCode": 0}}), id="ended well"),
    ],
)
def test_a_pod_on_its_way_is_no_trouble(status):
    w = world()
    w.settle()
    w.put(pod(status))
    w.settle()
    assert w.condition("Degraded")[0] == "False"


class TestRefusedWrites:
    def test_refusals_are_distinguished_by_object_and_message(self):
        w = world()
        w.settle()
        key = ObjectKey("ClusterRoleBinding", "", "secondary-scheduler:base")
        w.observed_fields["failures"] = {key: ApiFailure(403, "user cannot bind")}
        w.settle()
        status, reason, message = w.condition("Degraded")
        assert (status, reason) == ("True", "Forbidden")
        assert "ClusterRoleBinding secondary-scheduler:base cannot be written: user cannot bind" in message

    def test_of_the_finalizer_hold_back_only_what_it_would_clean_up(self):
        w = world()
        w.resource["metadata"]["finalizers"] = []
        plan = w.plan()
        assert isinstance(plan.actions[0], SetFinalizers)
        waiting = {a.key.kind for a in plan.actions if isinstance(a, Apply) and plan.actions[0].key in a.requires}
        assert waiting == {"ClusterRoleBinding", "FlowSchema"}


class TestManagementStates:
    def test_unmanaged_touches_nothing_but_the_status(self):
        w = world().start()
        w.edit(managementState="Unmanaged", logLevel="Trace")
        w.drop("Service", "metrics")
        w.settle()
        assert w.writes == []
        assert w.condition("Progressing")[:2] == ("False", "Unmanaged")
        assert w.condition("Available")[0] == "True"
        assert w.resource["status"]["observedGeneration"] == 2

    def test_removed_takes_everything_away_and_keeps_the_instance(self):
        w = world().start()
        w.edit(managementState="Removed")
        w.settle()
        assert {(key.kind, key.name) for key in w.objects} == {("ConfigMap", "config")}
        assert w.condition("Available")[:2] == ("False", "Removed")
        assert w.condition("Progressing")[0] == "False"
        assert w.resource["metadata"]["finalizers"] == ["secondary-scheduler.io/cleanup"]
        assert "configurationHash" not in w.resource["status"]

    def test_managed_again_brings_everything_back(self):
        w = world().start()
        before = set(w.objects) - {ObjectKey("Lease", NS, "secondary-scheduler")}
        w.edit(managementState="Removed")
        w.settle()
        w.edit(managementState="Managed")
        w.settle()
        assert set(w.objects) == before

    def test_force_is_managed(self):
        w = world(managementState="Force")
        w.settle()
        assert w.get("Deployment", "secondary-scheduler")


class TestDeletion:
    def test_takes_the_deployment_first_and_its_rights_when_its_pods_are_gone(self):
        w = world().start()
        w.put(pod({}))
        w.delete()
        plan = w.plan()
        assert [(type(a), a.key.kind) for a in plan.actions] == [(Delete, "Deployment")]
        w.execute(plan)
        assert w.plan().actions == ()
        w.drop("Pod", "secondary-scheduler-abc")
        kinds = {a.key.kind for a in w.plan().actions}
        assert kinds == {
            "ClusterRoleBinding", "RoleBinding", "Role", "Service", "ConfigMap", "ServiceAccount", "Lease",
            "NetworkPolicy", "FlowSchema",
        }  # fmt: skip

    def test_leaves_nothing_and_lets_the_instance_go_last(self):
        w = world().start()
        w.delete()
        w.execute(w.plan())
        w.execute(w.plan())
        assert {(key.kind, key.name) for key in w.objects} == {("ConfigMap", "config")}
        (release,) = w.plan().actions
        assert release.finalizers == ()

    def test_does_not_wait_forever_for_a_pod_on_a_dead_node(self):
        w = world().start()
        w.put(pod({}))
        w.delete()
        w.execute(w.plan())
        waiting = w.plan()
        assert waiting.actions == ()
        assert waiting.requeue_after == 60
        w.wait(61)
        assert w.plan().actions != ()

    def test_keeps_the_finalizers_of_others(self):
        w = Instance(scheduler())
        w.resource["metadata"]["finalizers"] = ["example.com/mine", "secondary-scheduler.io/cleanup"]
        w.delete()
        (release,) = w.plan().actions
        assert release.finalizers == ("example.com/mine",)

    def test_without_our_finalizer_is_none_of_our_business(self):
        w = world()
        w.resource["metadata"]["finalizers"] = ["example.com/mine"]
        w.delete()
        assert w.plan().actions == ()

    def test_of_an_unmanaged_instance_cleans_up_too(self):
        w = world().start()
        w.edit(managementState="Unmanaged")
        w.delete()
        assert [a.key.kind for a in w.plan().actions] == ["Deployment"]

    def test_does_not_wait_for_a_lease_that_it_may_not_delete(self):
        w = world().start()
        w.delete()
        w.execute(w.plan())
        key = ObjectKey("Lease", NS, "secondary-scheduler")
        held = w.objects[key]
        w.execute(w.plan())
        w.objects[key] = held
        assert [a.key.kind for a in w.plan().actions] == ["Lease"]
        w.observed_fields["failures"] = {key: ApiFailure(403, "leases is forbidden")}
        (release,) = w.plan().actions
        assert isinstance(release, SetFinalizers)

    def test_waits_while_it_cannot_see_what_is_left(self):
        w = Instance(scheduler(), unreadable={"ClusterRoleBinding": ApiFailure(403, "forbidden")})
        w.delete()
        assert w.plan().actions == ()
        w.execute(w.plan())
        assert w.condition("Degraded")[1] == "Forbidden"


class TestLoadData:
    @pytest.mark.parametrize(
        ("annotations", "expected"),
        [
            ({"load_data_fresh": "true", "load_data_message": "3 s old"}, ("True", "Fresh", "3 s old")),
            ({"load_data_fresh": "false", "load_data_message": "refused"}, ("False", "Stale", "refused")),
            ({}, ("Unknown", "NotReported")),
        ],
    )
    def test_is_copied_from_what_the_scheduler_reports(self, annotations, expected):
        w = world().start()
        w.put(lease(configuration_hash=HASH, **annotations))
        w.settle()
        assert w.condition("LoadDataFresh")[: len(expected)] == expected

    def test_turning_stale_is_an_event_and_turning_fresh_again_too(self):
        w = world().start()
        w.put(lease(configuration_hash=HASH, load_data_fresh="false", load_data_message="connection refused"))
        w.settle()
        w.put(lease(configuration_hash=HASH, load_data_fresh="true"))
        w.settle()
        assert [reason for reason, _ in w.events] == ["LoadDataStale", "LoadDataFresh"]
        assert w.condition("Available")[0] == "True"


class TestOvercommittedNodes:
    @pytest.mark.parametrize(
        ("annotations", "expected"),
        [
            (
                {"nodes_overcommitted": "true", "nodes_overcommitted_message": "n1 (cpu)"},
                ("True", "Overcommitted", "n1 (cpu)"),
            ),
            ({"nodes_overcommitted": "false", "nodes_overcommitted_message": ""}, ("False", "AsExpected", "")),
            ({}, ("Unknown", "NotReported")),
        ],
    )
    def test_are_shown_as_the_scheduler_reports_them(self, annotations, expected):
        w = world().start()
        w.put(lease(configuration_hash=HASH, **annotations))
        w.settle()
        assert w.condition("NodesOvercommitted")[: len(expected)] == expected

    def test_their_coming_and_going_are_events(self):
        w = world().start()
        w.put(lease(configuration_hash=HASH, nodes_overcommitted="true", nodes_overcommitted_message="n1 (cpu)"))
        w.settle()
        w.put(lease(configuration_hash=HASH, nodes_overcommitted="false"))
        w.settle()
        assert [reason for reason, _ in w.events] == ["NodesOvercommitted", "NodesWithinCapacity"]
        assert w.condition("Degraded")[0] == "False"


class TestKubernetesVersion:
    @pytest.mark.parametrize(
        ("annotations", "expected", "version"),
        [
            (
                {"kubernetes_version": "1.36", "kubernetes_version_message": ""},
                ("True", "AsExpected", "The scheduler behaves as kube-scheduler 1.36"),
                "1.36",
            ),
            (
                {"kubernetes_version": "a=1.35,b=1.34", "kubernetes_version_message": "the cluster is 1.36 now"},
                ("False", "ClusterChanged", "the cluster is 1.36 now"),
                "a=1.35,b=1.34",
            ),
            ({}, ("Unknown", "NotReported"), None),
        ],
    )
    def test_is_shown_as_the_scheduler_reports_it(self, annotations, expected, version):
        w = world().start()
        w.put(lease(configuration_hash=HASH, **annotations))
        w.settle()
        assert w.condition("KubernetesVersionCurrent")[: len(expected)] == expected
        assert w.resource["status"].get("kubernetesVersion") == version

    def test_an_upgrade_of_the_cluster_and_the_restart_after_it_are_events(self):
        w = world().start()
        w.put(lease(configuration_hash=HASH, kubernetes_version="1.35", kubernetes_version_message="it is 1.36 now"))
        w.settle()
        w.put(lease(configuration_hash=HASH, kubernetes_version="1.36", kubernetes_version_message=""))
        w.settle()
        assert [reason for reason, _ in w.events] == ["KubernetesVersionChanged", "KubernetesVersionFollowed"]
        assert w.resource["status"]["kubernetesVersion"] == "1.36"


class TestRestoredEtcd:
    WENT_BACK = "at 2026-11-28T02:00:00Z the cluster went back to an older state: Lease a/b is at version 206 after 215"

    @pytest.mark.parametrize(
        ("current", "message", "expected"),
        [
            ("true", "", ("True", "AsExpected", "")),
            ("false", f"{WENT_BACK}; still to be listed anew: pods", ("False", "EtcdRestored")),
            ("true", f"{WENT_BACK}; everything was listed anew", ("True", "ListedAnew")),
            (None, "", ("Unknown", "NotReported")),
        ],
    )
    def test_is_shown_as_the_scheduler_reports_it(self, current, message, expected):
        w = world().start()
        annotations = {"cache_current": current, "cache_current_message": message} if current else {}
        w.put(lease(configuration_hash=HASH, **annotations))
        w.settle()
        condition = w.condition("CacheCurrent")
        assert condition[: len(expected)] == expected
        if current:
            assert condition[2] == message

    def test_it_is_an_event_each_time_though_all_may_be_well_again_before_it_is_seen(self):
        w = world().start()
        for number, message in enumerate(("", "first", "first", "second")):
            w.put(lease(configuration_hash=HASH, cache_current="true", cache_current_message=message, n=str(number)))
            w.settle()
        assert w.events == [("EtcdRestored", "first"), ("EtcdRestored", "second")]


def test_what_the_scheduler_goes_without_is_a_warning_in_the_condition():
    w = world().start()
    w.put(lease(configuration_hash=HASH, unread_resources="volumeattachments (refused)"))
    w.settle()
    status, reason, message = w.condition("Degraded")
    assert (status, reason) == ("False", "AsExpected")
    assert "without resources that it cannot read: volumeattachments (refused)" in message
    w.put(lease(configuration_hash=HASH))
    w.settle()
    assert w.condition("Degraded")[2] == ""


def test_condition_times_change_only_with_the_status():
    w = world().start()
    since = {c["type"]: c["lastTransitionTime"] for c in w.resource["status"]["conditions"]}
    w.wait(3600)
    w.put(config_map(BAD_CONFIG))
    w.settle()
    now = {c["type"]: c["lastTransitionTime"] for c in w.resource["status"]["conditions"]}
    assert {kind for kind in now if now[kind] != since[kind]} == {"Degraded"}


def test_bindings_of_plugins_no_longer_enabled_go_after_the_rollout():
    w = world(rollout=AT_ONCE).start()
    stale = {**w.get("ClusterRoleBinding", "secondary-scheduler:base")}
    stale["metadata"] = {**stale["metadata"], "name": "secondary-scheduler:plugin:gone", "uid": "stale"}
    w.put(stale)
    w.put(config_map(OTHER_CONFIG))
    w.settle()
    assert "secondary-scheduler:plugin:gone" in w.names("ClusterRoleBinding")
    w.roll_out()
    w.settle()
    assert "secondary-scheduler:plugin:gone" not in w.names("ClusterRoleBinding")
    assert "secondary-scheduler:base" in w.names("ClusterRoleBinding")


def test_a_spec_the_operator_cannot_read_is_refused_with_the_field():
    w = world(topology={"mode": "Sideways"})
    w.settle()
    assert w.condition("Degraded")[:2] == ("True", "SpecInvalid")
    assert "spec.topology.mode" in w.condition("Degraded")[2]


def test_on_openshift_the_user_is_left_to_the_security_context_constraint():
    w = Instance(scheduler(), config_map(), openshift=True)
    w.settle()
    template = w.get("Deployment", "secondary-scheduler")["spec"]["template"]
    assert "runAsUser" not in template["spec"]["securityContext"]
    assert template["metadata"]["annotations"]["openshift.io/required-scc"] == "restricted-v2"
