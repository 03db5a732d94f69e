"""What a preview knows of a CRD that the update will change, for the objects of its kind.

A preview has the API server check each object in a dry run. An object with fields that its CRD gets in the same update
is refused there: the CRD on the cluster is still the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.resource_hooks import ResourceHook, ResourceHookArgs, ResourceHookBinding, ResourceHookOptions
from pulumi.runtime.settings import get_monitor


class SchemaChange:
    """Notices in a preview that the update of a CRD changes which objects it accepts.

    `hooks` are for the CRD's resource options; None outside of previews, so that no state names them. `seen` holds once
    the engine has answered the CRD's registration.
    """

    seen: bool
    hooks: ResourceHookBinding | None

    def __init__(self, name: str) -> None:
        self.seen = False
        self.hooks = None
        # The SDK's mocks, with which programs are tested, know no hooks.
        if pulumi.runtime.is_dry_run() and hasattr(get_monitor(), "RegisterResourceHook"):
            hook = ResourceHook(f"{name}-schema-change", self.notice, ResourceHookOptions(on_dry_run=True))
            self.hooks = ResourceHookBinding(before_update=[hook])

    def notice(self, args: ResourceHookArgs) -> None:
        """What the engine calls before it would update the CRD."""
        self.seen = accepted_by(args.old_inputs or {}) != accepted_by(args.new_inputs or {})


def accepted_by(definition: Mapping[str, Any]) -> Any:
    """What a CRD, given as its manifest, says about the `spec` of objects, without descriptions."""
    versions = definition.get("spec", {}).get("versions", [])
    return [_rules(version.get("schema", {}).get("openAPIV3Schema", {})) for version in versions]


def _rules(schema: Mapping[str, Any]) -> Any:
    return _undescribed(schema.get("properties", {}).get("spec"))


def _undescribed(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        # A field may be named description: its value is a schema, not a text.
        texts = {key for key, value in schema.items() if key == "description" and isinstance(value, str)}
        return {key: _undescribed(value) for key, value in schema.items() if key not in texts}
    if isinstance(schema, list | tuple):
        return [_undescribed(item) for item in schema]
    return schema
