"""Applies manifests as `kubectl apply --server-side` does."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler.kube.client import ClientConfig, KubeError
from scheduler.kube.client.sync import SyncConnection

_MANAGER = {"fieldManager": "kubectl"}
_KIND_KNOWN_WITHIN = 10.0


def apply(kubeconfig: Path, manifests: Sequence[dict[str, Any]]) -> None:
    """Apply in the given order; a kind that was defined a moment ago may take that moment to be served."""
    with contextlib.closing(SyncConnection(ClientConfig.load(kubeconfig), timeout=10)) as connection:
        for manifest in manifests:
            path = _path(connection, manifest)
            connection.request(
                "PATCH", path, body=manifest, params=_MANAGER, content_type="application/apply-patch+yaml"
            )


def _path(connection: SyncConnection, manifest: dict[str, Any]) -> str:
    api_version, metadata = manifest["apiVersion"], manifest["metadata"]
    group = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    deadline = time.monotonic() + _KIND_KNOWN_WITHIN
    while True:
        with contextlib.suppress(KubeError):
            resources = json.loads(connection.request("GET", group))["resources"]
            for resource in resources:
                if resource["kind"] == manifest["kind"] and "/" not in resource["name"]:
                    namespace = f"namespaces/{metadata['namespace']}/" if resource["namespaced"] else ""
                    return f"{group}/{namespace}{resource['name']}/{metadata['name']}"
        assert time.monotonic() < deadline, f"{api_version} {manifest['kind']} is not served"
        time.sleep(0.1)
