"""The policies on a real API server that evaluates them: which pods get the name, and who is warned or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.opt_in.support import GROUP, LABEL, SCHEDULER, Server, deployment, plan, pod
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration
TWICE = {"env": [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]}
DEFAULT = "default-scheduler"


def owner(kind: str, api_version: str = "apps/v1") -> dict[str, Any]:
    uid = "00000000-0000-4000-8000-000000000000"
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid, "controller": True}


def wait_until_moved(server: Server, namespace: str, scheduler_name: str = SCHEDULER, **options: Any) -> None:
    eventually(lambda: server.scheduler_of(namespace, pod(**options)) == scheduler_name, "the policy takes effect")


def test_an_apply_configuration_leaves_out_pods_with_duplicate_names_and_our_patch_does_not(server: Server) -> None:
    """What docs/guides/move-workloads.md had: on 1.34 such a pod stays with the default scheduler, in silence."""
    namespace = server.namespace(**{LABEL: "true", "form": "apply"})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = f"Object{{spec: Object.spec{{schedulerName: '{SCHEDULER}'}}}}"
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchLabels": {"form": "apply"}}},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    metadata = {"metadata": {"name": "apply"}}
    server.call("POST", f"{GROUP}/v1beta1/mutatingadmissionpolicies", {**metadata, "spec": spec})
    binding = {**metadata, "spec": {"policyName": "apply"}}
    server.call("POST", f"{GROUP}/v1beta1/mutatingadmissionpolicybindings", binding)
    wait_until_moved(server, namespace)
    assert server.scheduler_of(namespace, pod(container=TWICE)) == DEFAULT
    server.remove_policies()
    eventually(lambda: server.scheduler_of(namespace) == DEFAULT, "the policy is gone")
    server.install(plan(34))
    wait_until_moved(server, namespace)
    answer, _ = server.dry_run(namespace, pod(container=TWICE))
    assert answer["spec"]["schedulerName"] == SCHEDULER
    assert answer["spec"]["containers"][0]["env"] == TWICE["env"]


def test_what_must_never_be_moved_stays_whatever_is_labelled(server: Server) -> None:
    server.install(plan(34, excludeNamespaces=["opt-in-kept"]))
    label = {LABEL: "true"}
    namespace = server.namespace(**label)
    wait_until_moved(server, namespace)
    kept = {
        "opted out": pod(labels={LABEL: "false"}),
        "of a DaemonSet": pod(owner=owner("DaemonSet")),
        "of another DaemonSet": pod(owner=owner("DaemonSet", "apps.kruise.io/v1alpha1")),
        "with a node": pod(nodeName="x"),
        "critical": pod(priorityClassName="system-node-critical"),
        "critical in the cluster": pod(priorityClassName="system-cluster-critical"),
    }
    assert {case: server.scheduler_of(namespace, body) for case, body in kept.items()} == dict.fromkeys(kept, DEFAULT)
    assert server.scheduler_of(namespace, pod(schedulerName="volcano")) == "volcano"
    assert server.scheduler_of(namespace, pod(owner=owner("ReplicaSet"))) == SCHEDULER
    for system in ("kube-mine", "openshift-mine"):
        assert server.scheduler_of(server.namespace(system, **label)) == DEFAULT
    for name in ("kube-system", "scheduling", "opt-in-kept"):
        if not server.exists(f"/api/v1/namespaces/{name}"):
            server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        server.label(name, "true")
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        eventually(lambda path=path: server.exists(path), "the ServiceAccount that pods need")
        assert server.scheduler_of(name) == DEFAULT, name
        server.label(name, None)


def test_a_label_that_is_removed_ends_it(server: Server) -> None:
    server.install(plan(34))
    namespace = server.namespace()
    assert server.scheduler_of(namespace) == DEFAULT
    server.label(namespace, "true")
    wait_until_moved(server, namespace)
    server.label(namespace, None)
    eventually(lambda: server.scheduler_of(namespace) == DEFAULT, "the label's end is seen")


@pytest.mark.slow
def test_a_pod_selector_leaves_other_pods_with_the_default_scheduler(server: Server) -> None:
    server.install(plan(34, podSelector={"matchExpressions": [{"key": "tier", "operator": "In", "values": ["batch"]}]}))
    namespace = server.namespace(**{LABEL: "true"})
    wait_until_moved(server, namespace, labels={"tier": "batch"})
    assert server.scheduler_of(namespace, pod(labels={"tier": "web"})) == DEFAULT
    code, output = server.cli("check", "-n", namespace)
    assert code == 0, output


@pytest.mark.slow
def test_each_profile_gets_the_namespaces_with_its_label_value(server: Server) -> None:
    profiles = [{"schedulerName": name, "labelValue": name} for name in ("online", "batch")]
    server.install(plan(34, "online", "batch", profiles=profiles))
    namespaces = {name: server.namespace(**{LABEL: name}) for name in ("online", "batch")}
    for name, namespace in namespaces.items():
        wait_until_moved(server, namespace, name)
    assert server.scheduler_of(server.namespace(**{LABEL: "true"})) == DEFAULT


@pytest.mark.parametrize(
    "guard", ["Deny", pytest.param("Warn", marks=pytest.mark.slow), pytest.param("Off", marks=pytest.mark.slow)]
)
def test_a_namespace_that_has_not_opted_in_may_not_name_the_scheduler(server: Server, guard: str) -> None:
    server.install(plan(34, guard=guard))
    ours, other = server.namespace(**{LABEL: "true"}), server.namespace()
    wait_until_moved(server, ours)
    bodies = {
        ("/api/v1", "pods"): pod(schedulerName=SCHEDULER),
        ("/apis/apps/v1", "deployments"): deployment(SCHEDULER),
    }

    def judged() -> bool:
        return guard == "Off" or "is for namespaces with" in str(server.dry_run(other, bodies["/api/v1", "pods"]))

    eventually(judged, "the guard takes effect")
    for place, body in bodies.items():
        answer, warnings = server.dry_run(other, body, *place)
        refused, warned = isinstance(answer, str), any("is for namespaces with" in each for each in warnings)
        assert (refused, warned) == (guard == "Deny", guard == "Warn"), (place, answer, warnings)
        answer, warnings = server.dry_run(ours, body, *place)
        assert isinstance(answer, dict), answer
        assert not warnings
    server.call("POST", f"/apis/apps/v1/namespaces/{other}/deployments", deployment(DEFAULT))
    scaled = {"spec": {"replicas": 0}}
    path = f"/apis/apps/v1/namespaces/{other}/deployments/web"
    server.call("PATCH", path, scaled, content_type="application/merge-patch+json")


@pytest.mark.slow
def test_a_workload_of_before_can_be_scaled_and_deleted_under_a_guard(server: Server) -> None:
    namespace = server.namespace()
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    server.call("POST", path, deployment(SCHEDULER))
    server.install(plan(34, guard="Deny"))
    named = pod(schedulerName=SCHEDULER)
    eventually(lambda: isinstance(server.dry_run(namespace, named)[0], str), "the guard takes effect")
    merge = {"content_type": "application/merge-patch+json"}
    assert server.call("PATCH", f"{path}/web", {"spec": {"replicas": 3}}, **merge)["spec"]["replicas"] == 3
    server.call("DELETE", f"{path}/web")


def test_a_name_that_nobody_serves_is_warned_of_where_the_namespace_has_opted_in(server: Server) -> None:
    server.install(plan(34, guard="Deny", otherSchedulers=["volcano"]))
    namespace = server.namespace(**{LABEL: "true"})

    def warnings(name: str) -> list[str]:
        answer, texts = server.dry_run(namespace, deployment(name), "/apis/apps/v1", "deployments")
        assert isinstance(answer, dict), answer
        return [text for text in texts if "no scheduler is known to serve" in text]

    eventually(lambda: warnings("secondary-schedular"), "the policy takes effect")
    assert not warnings("volcano")
    assert not warnings(SCHEDULER)
    assert not warnings(DEFAULT)
    job = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod()["spec"]}}}}
    job["jobTemplate"]["spec"]["template"]["spec"] |= {"restartPolicy": "Never", "schedulerName": "nobody"}
    _, texts = server.dry_run(namespace, {"metadata": {"name": "c"}, "spec": job}, "/apis/batch/v1", "cronjobs")
    assert [text for text in texts if "no scheduler is known to serve" in text]


@pytest.mark.slow
def test_a_replica_set_gets_all_of_its_pods_while_label_and_policy_change(server: Server) -> None:
    server.install(plan(34, guard="Off"))
    namespace = server.namespace(**{LABEL: "true"})
    wait_until_moved(server, namespace)
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    server.call("POST", deployments, deployment(DEFAULT))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    policy = f"{GROUP}/v1beta1/mutatingadmissionpolicies/secondary-scheduler-opt-in.{SCHEDULER}"
    merge = {"content_type": "application/merge-patch+json"}

    def count() -> int:
        listed = server.call("GET", pods, params={"limit": 1})
        return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))

    for step in range(1, 16):
        server.label(namespace, None if step % 2 else "true")
        condition = {"name": f"change-{step}", "expression": "true"}
        server.call("PATCH", policy, {"spec": {"matchConditions": [condition]}}, **merge)
        server.call("PATCH", f"{deployments}/web", {"spec": {"replicas": 20 * step}}, **merge)
        eventually(lambda step=step: count() == 20 * step, "all pods of the ReplicaSet")
    names = {each["spec"]["schedulerName"] for each in server.call("GET", pods)["items"]}
    assert names == {DEFAULT, SCHEDULER}
