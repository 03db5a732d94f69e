"""An installation in the document of `status`: what the API server says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler.catalog import (
    ANNOTATION_CONFIGURATION_HASH,
    ANNOTATION_LOAD_FRESH,
    ANNOTATION_LOAD_MESSAGE,
    ANNOTATION_UNREAD,
    ANNOTATION_VERSION,
    ExtensionPoint,
)
from scheduler.config import (
    ClusterVersions,
    Configuration,
    EffectiveProfile,
    default_configuration,
    incompatibilities,
    kubernetes_minor,
    operator_of,
    profile_differences,
)
from secondary_scheduler.clusterstatus.health import is_without_replica
from secondary_scheduler.clusterstatus.installations import DeployedComponent, Installations, Json, place_of
from secondary_scheduler.clusterstatus.instances import Instance, configuration_of
from secondary_scheduler.clusterstatus.listing import part, parts


def instance_part(instance: Instance, read: Installations, *, alive: bool | None) -> dict[str, Any]:
    """Return an instance for the document: all but what only the running scheduler knows.

    Args:
        instance: what the API server has of it.
        read: what else it has.
        alive: whether a replica leads and works; None where that is not known. What a scheduler wrote on its Lease, or
            the operator about it, holds no longer than the scheduler lives.
    """
    resource, configuration = instance.resource, configuration_of(instance, read)
    reported = instance.reported if alive else {}
    spec, status = part(resource, "spec"), part(resource, "status")
    observed = {} if alive is False or _is_without_replica(instance) else status
    deployment = instance.scheduler.deployment if instance.scheduler else None
    namespace, name = instance.place
    return {
        "namespace": namespace,
        "name": name,
        "kind": instance.kind,
        "managementState": str(spec.get("managementState") or "Managed") if resource is not None else None,
        "conditions": _conditions(resource, deployment),
        "deployment": _deployment(deployment),
        "leaderElection": instance.elects,
        "leader": _leader(instance),
        "alive": alive,
        "rollout": _rollout(status),
        "configuration": _hashes(instance, configuration, reported, observed),
        "profiles": _profiles(configuration, kubernetes_minor(ClusterVersions(read.kubernetes))),
        "loadData": _load_data(reported),
        "unreadResources": reported.get(ANNOTATION_UNREAD) or None,
        "versions": _versions(instance, read, reported, observed),
    }


def _is_without_replica(instance: Instance) -> bool:
    return instance.scheduler is not None and is_without_replica(instance.scheduler.component.ready)


def _conditions(resource: Json | None, deployment: Json | None) -> list[dict[str, Any]]:
    """Those of the SecondaryScheduler, or where it has none those of the Deployment."""
    listed = parts(resource, "status", "conditions") or parts(deployment, "status", "conditions")
    fields = ("type", "status", "reason", "message")
    return [
        {**{name: str(each.get(name) or "") for name in fields}, "since": each.get("lastTransitionTime")}
        for each in listed
    ]


def _deployment(deployment: Json | None) -> dict[str, Any] | None:
    if deployment is None:
        return None
    status = part(deployment, "status")
    wanted = part(deployment, "spec").get("replicas")
    counts = {name: _count(status.get(f"{name}Replicas")) for name in ("ready", "available", "updated")}
    return {"name": place_of(deployment)[1], "replicas": 1 if wanted is None else _count(wanted), **counts}


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _leader(instance: Instance) -> dict[str, Any] | None:
    if not instance.leader:
        return None
    spec = part(instance.lease, "spec")
    return {
        "pod": instance.leader,
        "since": spec.get("acquireTime"),
        "renewedAt": spec.get("renewTime"),
        "leaseDurationSeconds": _count(spec.get("leaseDurationSeconds")),
    }


def _rollout(status: Mapping[str, Any]) -> dict[str, str | None] | None:
    """The last rollout, as the operator reports it; None where there is none."""
    last = part(status, "lastRollout")
    fields = ("configurationHash", "outcome", "message", "time")
    return {name: str(last[name]) if last.get(name) else None for name in fields} if last.get("outcome") else None


def _hashes(
    instance: Instance, configuration: Configuration | str, reported: Mapping[str, str], observed: Mapping[str, Any]
) -> dict[str, str | None]:
    """Which configuration is wanted, and which the leader says it runs; None where that is not known."""
    status = part(instance.resource, "status")
    template = instance.scheduler.deployment if instance.scheduler else None
    mounted = configuration.hash if isinstance(configuration, Configuration) else ""
    annotated = part(template, "spec", "template", "metadata", "annotations").get(ANNOTATION_CONFIGURATION_HASH)
    wanted = part(status, "lastRollout").get("configurationHash") or annotated or mounted
    running = reported.get(ANNOTATION_CONFIGURATION_HASH) or observed.get("configurationHash")
    return {"wanted": str(wanted) if wanted else None, "running": str(running) if running else None}


def _profiles(configuration: Configuration | str, minor: int | None) -> list[dict[str, Any]] | dict[str, str] | None:
    if not isinstance(configuration, Configuration):
        return {"problem": configuration} if configuration else None
    usual = default_configuration(allow_default_scheduler_name=True, cluster_minor=minor).profiles[0]
    profiles = []
    for profile in configuration.served:
        shown = _profile(profile, usual)
        if (shadow := profile.options.shadow) is not None and shadow.profile != profile.scheduler_name:
            changes = profile_differences(configuration, profile.scheduler_name, shadow.profile)
            ratio = shadow.sample_ratio
            shown["shadow"] = {"schedulerName": shadow.profile, "sampleRatio": ratio, "differences": changes}
        profiles.append(shown)
    return profiles


def _profile(profile: EffectiveProfile, usual: EffectiveProfile) -> dict[str, Any]:
    score = sorted(profile.plugins(ExtensionPoint.SCORE), key=lambda plugin: -plugin.weight)
    return {
        "schedulerName": profile.scheduler_name,
        "score": [{"name": plugin.name, "weight": plugin.weight} for plugin in score],
        "plugins": list(profile.enabled),
        "added": [name for name in profile.enabled if name not in usual.enabled],
        "removed": [name for name in usual.enabled if name not in profile.enabled],
    }


def _load_data(reported: Mapping[str, str]) -> dict[str, Any] | None:
    """What the leader says of its load sources together; None where it says nothing."""
    fresh = reported.get(ANNOTATION_LOAD_FRESH)
    if fresh is None:
        return None
    return {"fresh": fresh == "true", "message": reported.get(ANNOTATION_LOAD_MESSAGE, "")}


def _versions(
    instance: Instance, read: Installations, reported: Mapping[str, str], status: Mapping[str, Any]
) -> dict[str, Any]:
    operator = _operator(instance, read)
    cluster = ClusterVersions(read.kubernetes or None, read.openshift or None)
    release = operator_of(operator.component.image) if operator else None
    return {
        "image": instance.image or None,
        "flavour": instance.flavour.name if instance.image else None,
        "behavesAs": reported.get(ANNOTATION_VERSION) or status.get("kubernetesVersion"),
        "operatorImage": operator.component.image if operator else None,
        "operatorReady": operator.component.ready if operator else None,
        "incompatibilities": list(_incompatible(cluster, release, instance)) if instance.image else [],
    }


def _incompatible(cluster: ClusterVersions, release: Any, instance: Instance) -> Iterator[str]:
    return (each.message for each in incompatibilities(cluster, release, instance.image, instance.flavour))


def _operator(instance: Instance, read: Installations) -> DeployedComponent | None:
    """The operator of an instance's namespace, or the only one that there is; None without a SecondaryScheduler."""
    if instance.resource is None:
        return None
    operators: Sequence[DeployedComponent] = [each for each in read.components if each.component.role == "operator"]
    beside = [each for each in operators if each.component.namespace == instance.place[0]]
    return beside[0] if beside else operators[0] if len(operators) == 1 else None
