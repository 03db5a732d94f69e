"""PodGroups and ElasticQuotas on a real API server, with the operator's own rights: upstream's live cases, quotas, an
operator that is there before the CRDs, and rights that are taken away.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube.client import ApiError, Conflict, KubeError, NotFound
from tests.integration.operator.support import Api, Operator
from tests.support.waiting import eventually

pytestmark = pytest.mark.integration

# One of the tests takes the right away.
REFUSED = ("podgroups/status",)
_ROOT = Path(__file__).parents[3]
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "/apis/scheduling.x-k8s.io/v1alpha1"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_VECTORS = json.loads((_ROOT / "tests/conformance/vectors/coscheduling.json").read_text())
LIVE = [
    pytest.param(vector, id=vector["name"].rpartition("/")[2])
    for vector in _VECTORS
    if "controller_live" in vector["kind"]
]


class Objects:
    """PodGroups, ElasticQuotas and pods of the operator's namespace and one more."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.here, self.elsewhere = api.namespace, f"{api.namespace}-elsewhere"

    def create(self, plural: str, namespace: str, name: str, **fields: Any) -> None:
        kind = {"podgroups": "PodGroup", "elasticquotas": "ElasticQuota"}[plural]
        identity = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": {"name": name}}
        self._api.call("POST", f"{_GROUP}/namespaces/{namespace}/{plural}", {**identity, **fields})

    def status(self, plural: str, namespace: str, name: str) -> dict[str, Any]:
        content = self._api.call("GET", f"{_GROUP}/namespaces/{namespace}/{plural}/{name}")
        return dict(content.get("status") or {})

    def pod(self, namespace: str, manifest: dict[str, Any]) -> None:
        """Create a pod as soon as the namespace has its ServiceAccount."""
        body = {"metadata": {**manifest["metadata"], "namespace": namespace}, "spec": manifest["spec"]}
        # Admission computes the priority itself.
        body["spec"].pop("priority", None)

        def created() -> bool:
            with contextlib.suppress(ApiError):
                self._api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
                return True
            return False

        eventually(created, f"pod {manifest['metadata']['name']} created")
        self.phase(namespace, manifest["metadata"]["name"], (manifest.get("status") or {}).get("phase"))

    def phase(self, namespace: str, name: str, phase: str | None) -> None:
        if phase is not None:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
            self._api.call("PATCH", path, {"status": {"phase": phase}}, "application/merge-patch+json")

    def wait(self, plural: str, namespace: str, name: str, expected: dict[str, Any]) -> None:
        def reached() -> bool:
            content = self.status(plural, namespace, name)
            return {key: value for key, value in content.items() if value not in (0, "")} == expected

        description = f"{plural} {namespace}/{name} is {expected}"
        eventually(reached, description, diagnosis=lambda: f"it is {self.status(plural, namespace, name)}")

    def clear(self) -> None:
        for namespace in (self.here, self.elsewhere):
            for path in (
                f"{_GROUP}/namespaces/{namespace}/podgroups",
                f"{_GROUP}/namespaces/{namespace}/elasticquotas",
            ):
                self._api.call("DELETE", path)
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            self._api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods", options)


@pytest.fixture(scope="module")
def installed(api: Api, operator: Operator) -> None:
    """The CRDs come when the operator is there already."""
    for name in ("podgroups", "elasticquotas"):
        manifest = yaml.safe_load((_ROOT / f"components/crds/scheduling.x-k8s.io_{name}.yaml").read_text())
        with contextlib.suppress(Conflict):
            api.call("POST", _CRDS, manifest)

        def served(plural: str = name) -> bool:
            with contextlib.suppress(KubeError):
                api.call("GET", f"{_GROUP}/{plural}")
                return True
            return False

        eventually(served, f"{name} served")
    with contextlib.suppress(Conflict):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": f"{api.namespace}-elsewhere"}})


@pytest.fixture
def objects(api: Api, installed: None) -> Iterator[Objects]:
    objects = Objects(api)
    yield objects
    objects.clear()


def pod(name: str, group: str = "", phase: str = "Running", **requests: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    labels = {"scheduling.x-k8s.io/pod-group": group} if group else {}
    spec = {"nodeName": "nowhere", "containers": [container]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize("vector", LIVE)
def test_upstreams_live_cases(objects: Objects, vector: dict[str, Any]) -> None:
    (group,) = vector["pod_groups"]
    name, expected = group["metadata"]["name"], vector["expected"]
    for manifest in vector["existing_pods"]:
        objects.pod(objects.here, {**manifest, "metadata": {**manifest["metadata"]}, "spec": {**manifest["spec"]}})
    objects.create("podgroups", objects.here, name, spec=group["spec"])
    objects.wait("podgroups", objects.here, name, expected["intermediate_status"])
    for updated, phase in vector["input"]["status_updates"].items():
        objects.phase(objects.here, updated, phase)
    objects.wait("podgroups", objects.here, name, expected["final_status"])


def test_groups_of_one_name_in_two_namespaces_do_not_mix(objects: Objects) -> None:
    for namespace in (objects.here, objects.elsewhere):
        objects.create("podgroups", namespace, "same", spec={"minMember": 2})
    for name in ("one", "two"):
        objects.pod(objects.here, pod(name, "same"))
    objects.wait("podgroups", objects.here, "same", {"phase": "Running", "running": 2})
    objects.wait("podgroups", objects.elsewhere, "same", {"phase": "Pending"})


def test_a_quota_follows_the_running_pods_of_its_namespace(objects: Objects) -> None:
    objects.create("elasticquotas", objects.here, "quota", spec={"min": {"cpu": "2"}, "max": {"memory": "1Gi"}})
    objects.wait("elasticquotas", objects.here, "quota", {"used": {"cpu": "0", "memory": "0"}})
    objects.pod(objects.here, pod("one", cpu="1500m"))
    objects.pod(objects.here, pod("two", cpu="1", memory="512Mi"))
    objects.pod(objects.here, pod("waiting", phase="Pending", cpu="1"))
    objects.pod(objects.elsewhere, pod("other", cpu="1"))
    objects.wait("elasticquotas", objects.here, "quota", {"used": {"cpu": "2500m", "memory": "512Mi"}})
    objects.phase(objects.here, "one", "Succeeded")
    objects.wait("elasticquotas", objects.here, "quota", {"used": {"cpu": "1", "memory": "512Mi"}})


def test_a_right_that_is_taken_away_is_reported_and_the_rest_goes_on(
    api: Api, operator: Operator, objects: Objects
) -> None:
    role = f"{_ROLES}/operator-of-{api.namespace}"
    before = api.call("GET", role)["rules"]

    def without(rule: dict[str, Any]) -> dict[str, Any]:
        return {**rule, "resources": [resource for resource in rule["resources"] if resource != "podgroups/status"]}

    reduced = [rule for rule in map(without, before) if rule["resources"]]
    api.call("PATCH", role, {"rules": reduced}, "application/merge-patch+json")
    try:
        objects.create("elasticquotas", objects.here, "quota", spec={"min": {"cpu": "2"}})
        objects.wait("elasticquotas", objects.here, "quota", {"used": {"cpu": "0"}})
        objects.create("podgroups", objects.here, "group", spec={"minMember": 1})

        def logged() -> bool:
            lines = [line for line in operator.log_lines() if line["event"] == "status not written"]
            return any("podgroups" in line["error"] and "forbidden" in line["error"] for line in lines)

        eventually(logged, "the refusal is logged")
    finally:
        api.call("PATCH", role, {"rules": before}, "application/merge-patch+json")
    objects.wait("podgroups", objects.here, "group", {"phase": "Pending"})


def test_an_operator_that_is_killed_goes_on_where_it_was(api: Api, operator: Operator, objects: Objects) -> None:
    objects.create("podgroups", objects.here, "group", spec={"minMember": 1})
    objects.wait("podgroups", objects.here, "group", {"phase": "Pending"})
    operator.end()
    objects.pod(objects.here, pod("one", "group"))
    operator.start()
    operator.wait_until_leading()
    objects.wait("podgroups", objects.here, "group", {"phase": "Running", "running": 1})


def test_objects_that_are_deleted_meanwhile_do_no_harm(api: Api, objects: Objects) -> None:
    for number in range(10):
        objects.create("podgroups", objects.here, f"short-{number}", spec={"minMember": 1})
        api.call("DELETE", f"{_GROUP}/namespaces/{objects.here}/podgroups/short-{number}")
    with pytest.raises(NotFound):
        objects.status("podgroups", objects.here, "short-9")
    objects.create("podgroups", objects.here, "last", spec={"minMember": 1})
    objects.wait("podgroups", objects.here, "last", {"phase": "Pending"})
