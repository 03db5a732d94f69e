"""When objects count as ready, and what is reported until then."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider.readiness import (
    Failed,
    Pending,
    Ready,
    State,
    problems,
    readiness,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object


class Around:
    """The objects around the one that is looked at."""

    def __init__(self, *objects: Object, served: bool = True) -> None:
        self.objects = objects
        self.served = served

    def list(self, api_version: str, kind: str, namespace: str, selector: Object) -> list[Object]:
        return [obj for obj in self.objects if (obj["apiVersion"], obj["kind"]) == (api_version, kind)]

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        return next((o for o in self.list(api_version, kind, namespace, {}) if o["metadata"]["name"] == name), None)

    def is_served(self, api_version: str, kind: str) -> bool:
        return self.served


def deployment(spec: Any = None, **status: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "uid": "d-uid", "generation": 2},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, **(spec or {})},
        "status": {"observedGeneration": 2, **status},
    }


def state(obj: Object, *around: Object, served: bool = True) -> State:
    return readiness(obj, Around(*around, served=served))


def of_kind(version: str, kind: str, spec: Any = None, status: Any = None) -> Object:
    metadata = {"name": "x", "namespace": "n", "uid": "u", "generation": 1}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}}


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, False),
        ({"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"replicas": 3, "updatedReplicas": 2, "availableReplicas": 3}, False),
        ({"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}, False),
        ({}, False),
    ],
)
def test_a_deployment_is_ready_when_this_generation_is_rolled_out(status: Object, ready: bool) -> None:
    assert isinstance(state(deployment(**status)), Ready) is ready


def test_a_deployment_without_replicas_is_ready_once_it_is_seen() -> None:
    assert isinstance(state(deployment({"replicas": 0})), Ready)


def owned(kind: str, name: str, owner: str, revision: str = "1", **more: Any) -> Object:
    metadata = {
        "name": name,
        "uid": f"{name}-uid",
        "ownerReferences": [{"uid": owner}],
        "annotations": {"deployment.kubernetes.io/revision": revision},
    }
    return {"apiVersion": "v1" if kind == "Pod" else "apps/v1", "kind": kind, "metadata": metadata, **more}


def waiting(reason: str, message: str) -> Object:
    return {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}]}


def test_a_pending_rollout_reports_the_problems_of_the_newest_pods() -> None:
    around = [
        owned("ReplicaSet", "old", "d-uid", "1"),
        owned("ReplicaSet", "new", "d-uid", "2"),
        owned("ReplicaSet", "foreign", "other-uid", "9"),
        owned("Pod", "old-pod", "old-uid", status=waiting("CrashLoopBackOff", "of the old one")),
        owned("Pod", "new-pod", "new-uid", status=waiting("ImagePullBackOff", "no such image")),
    ]
    rollout = state(deployment(replicas=2, updatedReplicas=1, availableReplicas=1), *around)
    assert isinstance(rollout, Pending)
    assert rollout.status == (
        "Waiting for the rollout: 1 of 2 replicas are updated and available; "
        'Pod new-pod: container "c": ImagePullBackOff: no such image'
    )
    assert "of the old one" not in str(rollout.reasons)


def test_a_deployment_with_its_own_wait_condition_reports_pod_problems_too() -> None:
    around = [
        owned("ReplicaSet", "new", "d-uid"),
        owned("Pod", "p", "new-uid", status=waiting("ImagePullBackOff", "no such image")),
    ]
    obj = deployment(replicas=2)
    obj["metadata"]["annotations"] = {"pulumi.com/waitFor": "condition=Available"}
    rollout = state(obj, *around)
    assert isinstance(rollout, Pending)
    assert rollout.reasons == (
        'Waiting for condition "Available" to be "True"; it is not set yet',
        'Pod p: container "c": ImagePullBackOff: no such image',
    )


def test_a_rollout_past_its_deadline_fails_with_the_pods_reasons() -> None:
    exceeded = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}
    around = [
        owned("ReplicaSet", "new", "d-uid"),
        owned("Pod", "p", "new-uid", status=waiting("CreateContainerConfigError", 'secret "s" not found')),
    ]
    rollout = state(deployment(conditions=[exceeded]), *around)
    assert isinstance(rollout, Failed)
    assert rollout.reasons == ("too late", 'Pod p: container "c": CreateContainerConfigError: secret "s" not found')


def test_a_replica_failure_is_shown() -> None:
    forbidden = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    rollout = state(deployment(conditions=[forbidden]))
    assert isinstance(rollout, Pending)
    assert "FailedCreate: quota" in rollout.reasons


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (waiting("ContainerCreating", ""), None),
        (waiting("ErrImagePull", "no such host"), 'Pod p: container "c": ErrImagePull: no such host'),
        (
            {
                "containerStatuses": [
                    {
                        "name": "c",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "message": "bad flag\n"}},
                    }
                ]
            },
            'Pod p: container "c": CrashLoopBackOff: back-off 10s; last exit code 2 (Error: bad flag)',
        ),
        ({"initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}]}, None),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}]},
            "Pod p: Unschedulable: 0/1",
        ),
    ],
)
def test_pod_problems(status: Object, line: str | None) -> None:
    pod = {"metadata": {"name": "p"}, "status": status}
    assert problems([pod, pod]) == ((line,) if line else ())


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (of_kind("v1", "Namespace"), Ready),
        (of_kind("v1", "ServiceAccount"), Ready),
        (of_kind("example.com/v1", "Deployment"), Ready),
        (of_kind("apps/v1", "StatefulSet", {"replicas": 1}, {"observedGeneration": 1, "readyReplicas": 1}), Ready),
        (of_kind("apps/v1", "StatefulSet", {"replicas": 1}, {"observedGeneration": 1}), Pending),
        (
            of_kind(
                "apps/v1",
                "StatefulSet",
                {"replicas": 2},
                {
                    "observedGeneration": 1,
                    "readyReplicas": 2,
                    "updatedReplicas": 1,
                    "currentRevision": "a",
                    "updateRevision": "b",
                },
            ),
            Pending,
        ),
        (of_kind("apps/v1", "DaemonSet", {}, {"observedGeneration": 1, "desiredNumberScheduled": 1}), Pending),
        (of_kind("apps/v1", "DaemonSet", {}, {"observedGeneration": 1}), Ready),
        (of_kind("batch/v1", "Job"), Pending),
        (of_kind("batch/v1", "Job", {"suspend": True}), Ready),
        (of_kind("batch/v1", "Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}), Ready),
        (of_kind("batch/v1", "Job", {}, {"conditions": [{"type": "Failed", "status": "True"}]}), Failed),
        (of_kind("v1", "Pod", {}, {"phase": "Succeeded"}), Ready),
        (of_kind("v1", "Pod", {}, {"phase": "Failed", "message": "evicted"}), Failed),
        (of_kind("v1", "Pod", {}, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), Ready),
        (of_kind("v1", "Pod", {}, {"phase": "Running"}), Pending),
        (of_kind("v1", "PersistentVolumeClaim", {}, {"phase": "Bound"}), Ready),
        (of_kind("v1", "PersistentVolumeClaim", {}, {"phase": "Pending"}), Pending),
        (of_kind("v1", "PersistentVolumeClaim", {}, {"phase": "Lost"}), Failed),
        (of_kind("v1", "Service", {"clusterIP": "None", "selector": {"a": "b"}}), Ready),
        (of_kind("v1", "Service", {"type": "ExternalName"}), Ready),
        (of_kind("v1", "Service", {"clusterIP": "10.0.0.1"}), Ready),
        (of_kind("v1", "Service", {"clusterIP": "10.0.0.1", "selector": {"a": "b"}}), Pending),
        (of_kind("v1", "Service", {"type": "LoadBalancer"}), Pending),
        (of_kind("v1", "Secret"), Ready),
        (of_kind("v1", "Secret") | {"type": "kubernetes.io/service-account-token"}, Pending),
    ],
)
def test_other_kinds(obj: Object, expected: type) -> None:
    assert isinstance(state(obj), expected)


def test_a_service_is_ready_with_a_ready_endpoint() -> None:
    service = of_kind("v1", "Service", {"clusterIP": "10.0.0.1", "selector": {"a": "b"}})
    endpoints = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"}}
    unready = endpoints | {"endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": False}}]}
    ready = endpoints | {"endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": True}}]}
    assert isinstance(state(service, unready), Pending)
    assert isinstance(state(service, ready), Ready)


def test_a_claim_that_binds_for_its_first_pod_is_not_waited_for() -> None:
    claim = of_kind("v1", "PersistentVolumeClaim", {"storageClassName": "late"}, {"phase": "Pending"})
    late = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}}
    assert isinstance(state(claim, late | {"volumeBindingMode": "WaitForFirstConsumer"}), Ready)
    assert isinstance(state(claim, late | {"volumeBindingMode": "Immediate"}), Pending)


def crd(**status: Any) -> Object:
    spec = {"group": "example.com", "names": {"kind": "Thing"}, "versions": [{"name": "v1", "served": True}]}
    return of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec, status)


def test_a_crd_is_ready_when_established_and_served() -> None:
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    assert isinstance(state(crd(conditions=None)), Pending)
    assert isinstance(state(crd(**established), served=False), Pending)
    assert isinstance(state(crd(**established)), Ready)


def test_a_crd_whose_names_are_taken_fails() -> None:
    refused = {"type": "NamesAccepted", "status": "False", "reason": "PluralConflict", "message": "taken"}
    assert isinstance(state(crd(conditions=[refused])), Failed)


def test_wait_for_replaces_the_kinds_rule_and_skip_await_overrides_both() -> None:
    waiting_for = deployment(replicas=2, updatedReplicas=2, availableReplicas=2)
    waiting_for["metadata"]["annotations"] = {"pulumi.com/waitFor": "condition=Special"}
    assert isinstance(state(waiting_for), Pending)
    waiting_for["metadata"]["annotations"]["pulumi.com/skipAwait"] = "true"
    assert isinstance(state(waiting_for), Ready)
