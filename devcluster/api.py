"""The few requests that setting up a cluster needs, as its administrator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devcluster.errors import ServiceError
from scheduler.kube.client import APPLY_PATCH, ApiError, ClientConfig, KubeError, SyncClient

_TIMEOUT_SECONDS = 15.0
_MAX_BYTES = 256 << 20
"""A list of 10,000 nodes has some 30 MB."""
JsonObject = dict[str, Any]


class AdminClient:
    """JSON objects in and out, from any thread. Every call raises ServiceError for any answer but 2xx, or none."""

    def __init__(self, kubeconfig: Path) -> None:
        self._client = SyncClient(ClientConfig.load(kubeconfig), timeout=_TIMEOUT_SECONDS, max_bytes=_MAX_BYTES)

    def get(self, path: str) -> JsonObject:
        """GET a path."""
        return self._call("GET", path)

    def apply(self, path: str, body: JsonObject) -> JsonObject:
        """Create the object or bring it to this form by server-side apply; safe to repeat."""
        params = {"fieldManager": "secondary-scheduler-cluster", "force": "true"}
        return self._call("PATCH", path, body=body, params=params, content_type=APPLY_PATCH)

    def create(self, path: str, body: JsonObject) -> JsonObject:
        """POST an object to its collection."""
        return self._call("POST", path, body=body)

    def close(self) -> None:
        """Close the connections of all threads."""
        self._client.close()

    def _call(self, method: str, path: str, **options: Any) -> JsonObject:
        try:
            content = self._client.request(method, path, **options)
        except ApiError as error:
            raise ServiceError(f"kube-apiserver refused {error}") from error
        except KubeError as error:
            raise ServiceError(f"kube-apiserver at {self._client.config.server} does not answer {error}") from error
        answer: JsonObject = json.loads(content)
        return answer
