"""Objects of any kind, by discovery, through the scheduler's own client."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import metadata_of
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from scheduler.kube.client import (
    JSON,
    ApiError,
    ClientConfig,
    KubeError,
    MalformedResponse,
    NotFound,
    SyncClient,
    api_path,
)

_MAX_BYTES = 64 << 20


class NoMatch(NotFound):
    """The server does not serve the kind (its CustomResourceDefinition is not there, or not yet)."""

    def __init__(self, api_version: str, kind: str) -> None:
        message = f"no matches for kind {kind!r} in version {api_version!r}"
        super().__init__(message, status=404, reason="NotFound", message=message)


@dataclass(frozen=True)
class ResourceType:
    """How a kind is addressed."""

    plural: str
    namespaced: bool


class DynamicClient:
    """Requests to one API server. Thread-safe, as the engine works on many resources at once.

    `timeout_seconds` bounds each read; connecting takes ten seconds at most. Every call raises KubeError: ApiError
    when the server refused, another one when there is no answer. No request is repeated: a write whose answer was lost
    may have been carried out.
    """

    def __init__(self, config: ClientConfig, *, timeout_seconds: float = 30.0) -> None:
        self._client = SyncClient(
            config,
            timeout=timeout_seconds,
            user_agent="secondary-scheduler-pulumi-stand-in",
            max_bytes=_MAX_BYTES,
        )
        self._types: dict[tuple[str, str], ResourceType] = {}
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Object:
        """Send one request and return the object of the answer; an empty answer is an empty object.

        `body` is anything that JSON can express; `content_type` says which kind of patch it is; `warn` gets the
        server's warnings (deprecated versions, unknown fields).
        """
        data = None if body is None else json.dumps(body).encode()
        content = self._client.request(
            method, path, body=data, params=query, content_type=content_type, on_warning=warn
        )
        try:
            answer = json.loads(content) if content else {}
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise MalformedResponse(f"{method} {path}: the answer is not a JSON object")
        return answer

    def resource_type(self, api_version: str, kind: str) -> ResourceType:
        """How the kind is addressed; raises NoMatch if it is not served."""
        with self._lock:
            cached = self._types.get((api_version, kind))
        if cached is not None:
            return cached
        try:
            discovered = self.request("GET", _group_path(api_version))
        except NotFound:
            raise NoMatch(api_version, kind) from None
        with self._lock:
            for entry in discovered.get("resources") or ():
                if "/" not in entry["name"]:
                    resource_type = ResourceType(str(entry["name"]), bool(entry["namespaced"]))
                    self._types[api_version, str(entry["kind"])] = resource_type
            cached = self._types.get((api_version, kind))
        if cached is None:
            raise NoMatch(api_version, kind)
        return cached

    def forget_types(self) -> None:
        """Discover again: a CustomResourceDefinition was created, changed or deleted."""
        with self._lock:
            self._types.clear()

    def path(self, obj: Object, name: str | None = None) -> str:
        """Where objects of this kind and namespace are, or the one called `name`."""
        api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
        resource_type = self.resource_type(api_version, kind)
        namespace = str(metadata_of(obj).get("namespace") or self._client.config.namespace)
        return api_path(
            api_version,
            resource_type.plural,
            namespace=namespace if resource_type.namespaced else None,
            name=name,
        )

    def get(self, obj: Object, name: str) -> Object:
        """The live object."""
        return self.request("GET", self.path(obj, name))

    def list(self, api_version: str, kind: str, namespace: str, selector: str) -> list[Object]:
        """Objects of a namespace by label selector."""
        path = self.path({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}})
        items: list[Object] = self.request("GET", path, query={"labelSelector": selector}).get("items") or []
        return items


def explain(error: KubeError) -> str:
    """The server's own words where it refused (the user knows the object, not our requests), else what went wrong."""
    return (error.message if isinstance(error, ApiError) else "") or str(error)


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
