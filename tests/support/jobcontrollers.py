"""Stand-ins of JobSet, LeaderWorkerSet, KubeRay and the Spark operator: for an object of theirs they write what the
real version writes, as it is recorded in `tests/data/workloads`.

`CONTROLLER-VERSION/NAME.yaml` is written for the object of that name, `NAME.once-POD-exists.yaml` and
`NAME.once-POD-is-placed.yaml` when that pod is there, or has a node. `${UID}` is the object's UID, `${UID:POD}` that of
a pod. Jobs and StatefulSets among it get their pods from the cluster's own controllers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from kubernetes import client as kubernetes, dynamic
from kubernetes.client.exceptions import ApiException

from tests.support.surroundings import FakeController, definition

RECORDED = Path(__file__).parents[1] / "data" / "workloads"
_CONDITION = re.compile(r"(?P<name>[^.]+)\.once-(?P<pod>.+)-(?P<state>exists|is-placed)")


class Kind(NamedTuple):
    """What a controller looks after, and where is recorded what it writes."""

    group: str
    version: str
    kind: str
    plural: str
    recorded: str


KINDS = (
    Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", "jobset-0.12.0"),
    Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", "lws-0.10.0"),
    Kind("ray.io", "v1", "RayCluster", "rayclusters", "kuberay-1.7.0"),
    Kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications", "spark-operator-2.5.2"),
)


class JobControllers(FakeController):
    """They work from now on, until they are closed."""

    def __init__(self, api: kubernetes.ApiClient) -> None:
        self._dynamic = dynamic.DynamicClient(api)
        self._written: set[tuple[str, Path]] = set()
        super().__init__(api, *map(_definition, KINDS))

    def _reconcile(self) -> None:
        for kind in KINDS:
            self._reconcile_kind(kind)

    def _reconcile_kind(self, kind: Kind) -> None:
        for item in self._custom.list_cluster_custom_object(kind.group, kind.version, kind.plural)["items"]:
            if "deletionTimestamp" in item["metadata"]:
                continue
            namespace, name, uid = (item["metadata"][key] for key in ("namespace", "name", "uid"))
            for file in sorted((RECORDED / kind.recorded).glob(f"{name}.*yaml")):
                if (uid, file) not in self._written and self._is_due(file, namespace):
                    for written in self._read(file, namespace, uid):
                        self._create(written)
                    self._written.add((uid, file))

    def _is_due(self, file: Path, namespace: str) -> bool:
        condition = _CONDITION.fullmatch(file.stem)
        if condition is None:
            return True
        named = f"metadata.name={condition['pod']}"
        pods = self._core.list_namespaced_pod(namespace, field_selector=named).items
        return any(condition["state"] == "exists" or pod.spec.node_name for pod in pods)

    def _read(self, file: Path, namespace: str, uid: str) -> Iterator[dict[str, Any]]:
        def uid_of(match: re.Match[str]) -> str:
            pod: str = self._core.read_namespaced_pod(match[1], namespace).metadata.uid
            return pod

        text = file.read_text(encoding="utf-8").replace("${UID}", uid)
        yield from yaml.safe_load_all(re.sub(r"\$\{UID:(.+?)\}", uid_of, text))

    def _create(self, written: dict[str, Any]) -> None:
        resource = self._dynamic.resources.get(api_version=written["apiVersion"], kind=written["kind"])
        try:
            resource.create(body=written, namespace=written["metadata"]["namespace"])
        except ApiException as error:
            if error.status != 409:
                raise


def _definition(kind: Kind) -> dict[str, Any]:
    """A CRD; the API server asks for an approval of groups that end in `k8s.io`."""
    crd = definition(kind.group, kind.version, kind.kind, kind.plural)
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a stand-in of the tests"}
    return crd
