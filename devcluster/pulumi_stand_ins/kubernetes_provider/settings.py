"""The provider's own configuration: read, checked, and compared for whether it still means the same cluster."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.pulumi_stand_ins.kubernetes_provider.inputs import CheckFailure
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object, contains_unknown, reveal
from scheduler.kube.client import ClientConfig, ConfigError

_PREFIX = "kubernetes:config:"
_CLUSTER_KEYS = ("kubeconfig", "context", "cluster")
_TEXTS = ("kubeconfig", "context", "cluster", "namespace", "clusterIdentifier", "renderYamlToDirectory")
_SWITCHES = (
    "deleteUnreachable",
    "enableConfigMapMutable",
    "enablePatchForce",
    "enableSecretMutable",
    "enableServerSideApply",
    "skipUpdateUnreachable",
    "strictMode",
    "suppressDeprecationWarnings",
    "upsertExistingObjects",
)


@dataclass(frozen=True)
class ProviderSettings:
    """The settings that the stand-in supports, by the names of the official provider."""

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    enable_config_map_mutable: bool = False
    enable_secret_mutable: bool = False
    enable_patch_force: bool = False
    upsert_existing_objects: bool = False
    suppress_deprecation_warnings: bool = False
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False

    @property
    def mutable_kinds(self) -> frozenset[str]:
        """Kinds whose content changes in place instead of by replacement."""
        switches = {"ConfigMap": self.enable_config_map_mutable, "Secret": self.enable_secret_mutable}
        return frozenset(kind for kind, on in switches.items() if on)

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> "ProviderSettings":
        """From the `kubernetes:config:<key>` variables of Configure: strings, everything else JSON-encoded."""
        values = {key.removeprefix(_PREFIX): value for key, value in variables.items() if key.startswith(_PREFIX)}

        def switch(name: str) -> bool:
            return values.get(name, "").lower() == "true"

        return cls(
            kubeconfig=values.get("kubeconfig") or None,
            context=values.get("context") or None,
            cluster=values.get("cluster") or None,
            namespace=values.get("namespace") or None,
            enable_config_map_mutable=switch("enableConfigMapMutable"),
            enable_secret_mutable=switch("enableSecretMutable"),
            enable_patch_force=switch("enablePatchForce"),
            upsert_existing_objects=switch("upsertExistingObjects"),
            suppress_deprecation_warnings=switch("suppressDeprecationWarnings"),
            delete_unreachable=switch("deleteUnreachable"),
            skip_update_unreachable=switch("skipUpdateUnreachable"),
        )


def provider_schema(version: str) -> dict[str, Any]:
    """A package schema with the provider's own arguments and no resource: what a YAML program that makes a provider
    needs to know of it."""
    properties = {name: {"type": "string"} for name in _TEXTS} | {name: {"type": "boolean"} for name in _SWITCHES}
    return {"name": "kubernetes", "version": version, "provider": {"inputProperties": properties}, "resources": {}}


def client_config(path_or_content: str | None, *, context: str | None, cluster: str | None) -> ClientConfig:
    """The connection of a kubeconfig given as a path, as content, or not at all (then as kubectl finds it).

    `context` and `cluster` replace the kubeconfig's own choice. Raises ConfigError.
    """
    if not path_or_content:
        return ClientConfig.load(context=context, cluster=cluster)
    if "\n" in path_or_content or path_or_content.lstrip().startswith("{"):
        return ClientConfig.parse(path_or_content, context=context, cluster=cluster)
    return ClientConfig.load(Path(path_or_content).expanduser(), context, cluster=cluster)


def _cluster_of(path_or_content: Any, *, context: str | None, cluster: str | None) -> tuple[object, ...] | None:
    """The identity of the current cluster, or None where it cannot be determined (then it counts as unchanged)."""
    if not isinstance(path_or_content, str) or not path_or_content:
        return None
    try:
        config = client_config(path_or_content, context=context, cluster=cluster)
    except ConfigError:
        return None
    return config.server, config.ca_file, config.ca_data, config.tls_server_name, config.insecure_skip_tls_verify


def check_settings(arguments: Object, *, provider_name: str) -> list[CheckFailure]:
    """What is wrong with a provider's arguments; strictMode's rules are the official provider's."""
    plain = {key: _decoded(value) for key, value in reveal(arguments).items()}
    failures = []
    if plain.get("strictMode") is True:
        if provider_name == "default" or provider_name.startswith("default_"):
            failures.append(CheckFailure("strictMode", "strict mode prohibits default provider; pass an explicit one"))
        failures += [
            CheckFailure(name, f'strict mode requires Provider "{name}" argument')
            for name in ("kubeconfig", "context")
            if not plain.get(name)
        ]
    if plain.get("renderYamlToDirectory"):
        failures.append(
            CheckFailure("renderYamlToDirectory", "the stand-in provider cannot render; use the official plugin")
        )
    if plain.get("enableServerSideApply") is False:
        failures.append(CheckFailure("enableServerSideApply", "the stand-in provider only knows server-side apply"))
    return failures


def _decoded(value: Any) -> Any:
    if value in ("true", "false"):
        return json.loads(value)
    return value


def changed_settings(old: Object, new: Object) -> tuple[list[str], list[str]]:
    """Which arguments changed, and which of them mean another cluster, so that everything on it must be replaced.

    With clusterIdentifier on both sides only its own change counts. Without, the cluster section of the kubeconfig in
    force is compared; one that cannot be known yet counts as another cluster, one that cannot be found as the same.
    """
    old, new = reveal(old), reveal(new)
    changed = sorted(key for key in old.keys() | new.keys() if key != "version" and old.get(key) != new.get(key))
    if not changed:
        return [], []
    before, after = old.get("clusterIdentifier"), new.get("clusterIdentifier")
    if before and after:
        return changed, changed if before != after else []
    cluster_keys = [key for key in changed if key in _CLUSTER_KEYS]
    if any(contains_unknown(new.get(key)) for key in cluster_keys):
        return changed, [key for key in cluster_keys if contains_unknown(new.get(key))]
    clusters = [
        _cluster_of(side.get("kubeconfig"), context=side.get("context"), cluster=side.get("cluster"))
        for side in (old, new)
    ]
    if cluster_keys and None not in clusters and clusters[0] != clusters[1]:
        return changed, cluster_keys
    return changed, []
