"""Paths of the REST API."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

JSON: Final = "application/json"
JSON_WITHOUT_MANAGED_FIELDS: Final = "application/json;drop=metadata.managedFields"
"""An API server without the feature gate ManagedFieldsOptOut ignores the parameter."""
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def api_path(
    api_version: str,
    resource: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Return the path of a resource: `api_path("v1", "pods", namespace="a", name="b", subresource="binding")`.

    `api_version` is "v1" or "group/version", `resource` the plural. Names are quoted, so that none leaves its segment.
    """
    parts = ["/apis" if "/" in api_version else "/api", api_version]
    if namespace is not None:
        parts += ["namespaces", _segment(namespace)]
    parts.append(resource)
    if name is not None:
        parts.append(_segment(name))
    if subresource is not None:
        parts.append(subresource)
    return "/".join(parts)


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot be the name of an object")
    return quote(name, safe=":@-._~")
