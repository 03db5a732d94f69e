"""The few calls a case needs, over one connection pool."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.conformance.case import Json
from tests.conformance.controlplane import ControlPlane

_CONNECTIONS = 12
_TIMEOUT_SECONDS = 20.0
_PAGE = 500

_CORE = "/api/v1"
_STORAGE = "/apis/storage.k8s.io/v1"

COLLECTIONS: dict[str, tuple[str, str, bool]] = {
    "Namespace": (_CORE, "namespaces", False),
    "Node": (_CORE, "nodes", False),
    "Pod": (_CORE, "pods", True),
    "Service": (_CORE, "services", True),
    "ReplicationController": (_CORE, "replicationcontrollers", True),
    "ReplicaSet": ("/apis/apps/v1", "replicasets", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "PodGroup": ("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups", True),
    "ElasticQuota": ("/apis/scheduling.x-k8s.io/v1alpha1", "elasticquotas", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "RuntimeClass": ("/apis/node.k8s.io/v1", "runtimeclasses", False),
    "PersistentVolume": (_CORE, "persistentvolumes", False),
    "PersistentVolumeClaim": (_CORE, "persistentvolumeclaims", True),
    "StorageClass": (_STORAGE, "storageclasses", False),
    "CSINode": (_STORAGE, "csinodes", False),
    "CSIDriver": (_STORAGE, "csidrivers", False),
    "CSIStorageCapacity": (_STORAGE, "csistoragecapacities", True),
    "VolumeAttachment": (_STORAGE, "volumeattachments", False),
    "AppGroup": ("/apis/appgroup.diktyo.x-k8s.io/v1alpha1", "appgroups", True),
    "NetworkTopology": ("/apis/networktopology.diktyo.x-k8s.io/v1alpha1", "networktopologies", True),
    "SeccompProfile": ("/apis/security-profiles-operator.x-k8s.io/v1beta1", "seccompprofiles", True),
    "NodeResourceTopology": ("/apis/topology.node.k8s.io/v1alpha2", "noderesourcetopologies", False),
}
"""Kind -> path of its group, plural, whether it is namespaced."""

_KEEP_STATUS = frozenset({"Node", "AppGroup"})
"""Kinds whose status the API server takes at creation."""


class ApiError(Exception):
    """The API server refused something: the case is no valid one."""


class Api:
    """Plain JSON; raises ApiError for any answer but 2xx (404 of a delete is fine)."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._base = control_plane.api_server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=control_plane.ssl_context(), limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
        )

    async def close(self) -> None:
        """Close the pool."""
        await self._session.close()

    async def create(self, item: Json) -> Json:
        """Create an object with its status and, if it says so, deleted with a long grace; returns what is there."""
        collection = self._collection(item["kind"], item["metadata"].get("namespace", ""))
        path = f"{collection}/{item['metadata']['name']}"
        body = item
        deleting = "deletionTimestamp" in item["metadata"]
        if deleting:
            body = item | {"metadata": {k: v for k, v in item["metadata"].items() if k != "deletionTimestamp"}}
        answer = await self.call("POST", collection, body)
        if item.get("status") and item["kind"] not in _KEEP_STATUS:
            answer = await self.call("PATCH", f"{path}/status", {"status": item["status"]})
        if deleting:
            answer = await self.call("DELETE", path, {"gracePeriodSeconds": 3600})
        return answer

    async def create_all(self, items: list[Json], created: list[Json]) -> None:
        """Create objects at the same time; what could be created is added to `created`, also before an ApiError."""
        answers = await asyncio.gather(*(self.create(item) for item in items), return_exceptions=True)
        for item, answer in zip(items, answers, strict=True):
            if not isinstance(answer, BaseException):
                created.append(answer | {"kind": item["kind"]})
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def get(self, item: Json) -> Json:
        """Read an object again."""
        meta = item["metadata"]
        return await self.call("GET", f"{self._collection(item['kind'], meta.get('namespace', ''))}/{meta['name']}")

    async def delete(self, item: Json) -> None:
        """Delete an object at once."""
        meta = item["metadata"]
        path = f"{self._collection(item['kind'], meta.get('namespace', ''))}/{meta['name']}"
        await self.call("DELETE", path, {"gracePeriodSeconds": 0})

    async def set_status(self, item: Json, status: Json) -> None:
        """Change fields of an object's status."""
        meta = item["metadata"]
        path = f"{self._collection(item['kind'], meta.get('namespace', ''))}/{meta['name']}"
        await self.call("PATCH", f"{path}/status", {"status": status})

    async def release(self, item: Json) -> None:
        """Remove an object's finalizers."""
        meta = item["metadata"]
        path = f"{self._collection(item['kind'], meta.get('namespace', ''))}/{meta['name']}"
        await self.call("PATCH", path, {"metadata": {"finalizers": None}})

    async def delete_all(self, kind: str, namespace: str = "") -> None:
        """Delete all objects of a kind (in a namespace) at once; there is no collector that would lift finalizers."""
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        await self.call("DELETE", self._collection(kind, namespace), options)

    async def list_all(self, kind: str, namespace: str = "") -> list[Json]:
        """All objects of a kind (in a namespace), by pages: of large ones, one answer would take too long."""
        items: list[Json] = []
        token = ""
        while True:
            query = urlencode({"limit": _PAGE, "continue": token})
            answer = await self.call("GET", f"{self._collection(kind, namespace)}?{query}")
            items += [item | {"kind": kind} for item in answer["items"]]
            token = answer["metadata"].get("continue", "")
            if not token:
                return items

    @staticmethod
    def _collection(kind: str, namespace: str) -> str:
        group, plural, namespaced = COLLECTIONS[kind]
        return f"{group}/namespaces/{namespace}/{plural}" if namespaced else f"{group}/{plural}"

    async def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self._session.request(
            method, self._base + path, json=body, headers={"Content-Type": content_type} if body else None
        ) as response:
            answer: Any = await response.json()
            if response.status >= 400 and not (method == "DELETE" and response.status == 404):
                raise ApiError(f"{method} {path}: {answer.get('message', response.status)}")
        return dict(answer)
