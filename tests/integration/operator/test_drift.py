"""Whatever belongs to an instance is as the operator wants it five seconds after somebody deleted or edited it.

One instance with several replicas, on a cluster that has ServiceMonitors, so that there is an object of every kind.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import yaml

from scheduler.config import configuration_hash
from scheduler.kube.client import KubeError, NotFound
from secondary_scheduler.operator.reconcile.names import RESOURCES
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import MONITORS, TestKubelet, create_highly_available
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG

pytestmark = [pytest.mark.integration]

"""Seconds."""
NODES = ("drift-1", "drift-2")
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EDITS: dict[str, dict[str, Any]] = {
    "Deployment": {"spec": {"replicas": 5, "paused": True, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}}},
    # The content of the copy is immutable.
    "ConfigMap": {"metadata": {"labels": {"app": "x"}, "ownerReferences": None}},
    "ServiceAccount": {"metadata": {"labels": {"app": "x"}, "ownerReferences": None}},
    "Role": {"rules": []},
    "RoleBinding": {"subjects": []},
    "ClusterRoleBinding": {"subjects": []},
    "Service": {"spec": {"selector": {"app": "x"}}},
    "ServiceMonitor": {"spec": {"endpoints": []}},
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 0}},
    "NetworkPolicy": {"spec": {"ingress": [], "podSelector": {"matchLabels": {"app": "x"}}}},
    "FlowSchema": {"spec": {"matchingPrecedence": 9999}},
}


def collection(api, kind):
    resource = RESOURCES[kind]
    root = "/api/v1" if resource.api_version == "v1" else f"/apis/{resource.api_version}"
    return (
        f"{root}/namespaces/{api.namespace}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    )


def owned(api):
    """All objects that the operator made, by kind and name."""
    query = "labelSelector=app.kubernetes.io/managed-by%3Dsecondary-scheduler-operator"
    return {
        (kind, item["metadata"]["name"]): item
        for kind in EDITS
        for item in api.call("GET", f"{collection(api, kind)}?{query}")["items"]
    }


def content(obj):
    """What may not differ."""
    metadata = obj["metadata"]
    kept = {key: metadata.get(key) for key in ("labels", "ownerReferences")}
    return {**kept, **{key: obj.get(key) for key in ("spec", "data", "rules", "subjects", "roleRef")}}


@pytest.fixture(scope="module")
def rights(api):
    """Before the operator comes: the kind, and nodes for two replicas."""
    api.call("POST", _CRDS, yaml.safe_load(MONITORS))
    for name in NODES:
        api.call("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]}}
        api.call("PATCH", f"/api/v1/nodes/{name}/status", ready, "application/merge-patch+json")
        api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")

    def served():
        with contextlib.suppress(KubeError):
            return api.call("GET", collection(api, "ServiceMonitor")) is not None

    eventually(served, "ServiceMonitors served")
    yield Rights(api)
    for path in (f"{_CRDS}/servicemonitors.monitoring.coreos.com", *(f"/api/v1/nodes/{name}" for name in NODES)):
        with contextlib.suppress(NotFound):
            api.call("DELETE", path)


@pytest.fixture(scope="module")
def running(control_plane, api, operator):
    kubelet = TestKubelet(control_plane.kubeconfig, api.namespace)
    kubelet.start()
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    create_highly_available(api)
    api.wait_for_hash(configuration_hash(CONFIG))
    eventually(lambda: {kind for kind, _ in owned(api)} == set(EDITS), "an object of every kind")
    api.wait_for("Progressing", "False")
    yield api
    kubelet.stop()
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert not owned(api)


def put_right(wrong):
    """Waits until nothing is wrong, and says what is."""
    eventually(lambda: not wrong(), "everything put right", diagnosis=wrong)


def test_deleted_objects_of_every_kind_come_back(running):
    api, before = running, owned(running)
    for kind, name in before:
        api.call("DELETE", f"{collection(api, kind)}/{name}")

    def missing():
        uids = {key: obj["metadata"]["uid"] for key, obj in owned(api).items()}
        return [key for key, obj in before.items() if uids.get(key, obj["metadata"]["uid"]) == obj["metadata"]["uid"]]

    put_right(missing)


def test_edited_objects_of_every_kind_are_put_right(running):
    api = running
    api.wait_for("Progressing", "False")
    before = owned(api)
    for kind, name in before:
        path, edit = f"{collection(api, kind)}/{name}", EDITS[kind]
        answer = api.call("PATCH", path, edit, "application/merge-patch+json")
        assert content(answer) != content(before[kind, name]), f"{kind} was edited"

    def edited():
        now = owned(api)
        return [key for key, obj in before.items() if key not in now or content(now[key]) != content(obj)]

    put_right(edited)
