"""Objects of the API server as they come: anybody may have written anything into them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

KubeObject = dict[str, Any]
"""An object of the API server, or a part of one: anybody may have written anything into it."""


def part(content: object, *keys: str) -> KubeObject:
    """Return a map within a map; empty where there is none, whatever else there may be."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content if isinstance(content, dict) else {}


def parts(content: object, *keys: str) -> list[KubeObject]:
    """Return the maps of a list within a map."""
    items = part(content, *keys[:-1]).get(keys[-1])
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def node_of(pod: KubeObject) -> str:
    """Return the node of a pod; "" while it has none."""
    return str(part(pod, "spec").get("nodeName") or "")


def name_of(pod: KubeObject) -> str:
    """Return the name of an object."""
    return str(part(pod, "metadata").get("name") or "")


class _BareSpec(Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"


class _BareStatus(Struct):
    phase: str = ""


class BarePod(Struct):
    """What is known of a pod whose other fields cannot be read, or do not matter."""

    spec: _BareSpec = msgspec.field(default_factory=_BareSpec)
    status: _BareStatus = msgspec.field(default_factory=_BareStatus)

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self.status.phase in ("Succeeded", "Failed")


decode_bare_pod = msgspec.json.Decoder(BarePod).decode
