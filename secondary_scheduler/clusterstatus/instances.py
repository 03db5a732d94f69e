"""Instances: a SecondaryScheduler with its Deployment and Lease, a scheduler's Deployment that none describes, or a
Lease where neither may be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import (
    ANNOTATION_CONFIGURATION_HASH,
    ANNOTATION_LOAD_FRESH,
    ANNOTATION_LOAD_MESSAGE,
    ANNOTATION_UNREAD,
    ANNOTATION_VERSION,
    CANARY_SUFFIX,
    ExtensionPoint,
    operand_name,
)
from scheduler.config import (
    ClusterVersions,
    Configuration,
    ConfigurationError,
    EffectiveProfile,
    Flavour,
    InvalidSpecError,
    custom_flavour,
    default_configuration,
    image_flavour,
    incompatibilities,
    kubernetes_minor,
    load_configuration,
    operator_of,
    parse_spec,
    profile_differences,
)
from scheduler.operand import SECURE_PORT
from secondary_scheduler.clusterstatus.health import is_without_replica
from secondary_scheduler.clusterstatus.installations import (
    KIND,
    MAX_INSTANCES,
    DeployedComponent,
    Installations,
    Json,
    Place,
    place_of,
)
from secondary_scheduler.clusterstatus.installed import holder_of, is_schedulers
from secondary_scheduler.clusterstatus.listing import part, parts
from secondary_scheduler.rebalancing import command_flag, elects_leader, lease_of


@dataclass(frozen=True)
class Instance:
    """One scheduler as the API server describes it.

    Attributes:
        place: of the SecondaryScheduler, of the Deployment where there is none, or of the Lease where that is all.
        resource: the SecondaryScheduler; None without one.
        scheduler: its Deployment; None where there is none, or it may not be read.
        lease: its Lease; None likewise.
        deployment_readable, lease_readable: whether these would have been seen.
        configuration: the text that it mounts.
    """

    place: Place
    resource: Json | None
    scheduler: DeployedComponent | None
    lease: Json | None
    deployment_readable: bool
    lease_readable: bool
    configuration: str

    @property
    def kind(self) -> str:
        """Of what `place` names."""
        if self.resource is not None:
            return KIND
        return "Lease" if self.scheduler is None else "Deployment"

    @property
    def image(self) -> str:
        """Of the scheduler; empty where it is not known."""
        if self.scheduler is not None:
            return self.scheduler.component.image
        return str(part(self.resource, "spec").get("schedulerImage") or "")

    @property
    def flavour(self) -> Flavour:
        """What the image is."""
        try:
            spec = parse_spec(dict(self.resource)) if self.resource else None
        except InvalidSpecError:
            spec = None
        flavour = image_flavour(self.image, spec.flavour if spec else "")
        return custom_flavour(spec.extra_image_plugins) if spec and flavour.family == "custom" else flavour

    @property
    def leader(self) -> str:
        """The pod that holds the Lease; empty where none does, or it is not known."""
        return holder_of(self.lease, ours_only=False) if self.lease else ""

    @property
    def reported(self) -> dict[str, str]:
        """What the leader wrote on its Lease."""
        return {name: str(value) for name, value in part(self.lease, "metadata", "annotations").items()}

    @property
    def port(self) -> int:
        """The port that its pods serve on."""
        value = self.flag("--secure-port")
        return int(value) if value.isascii() and value.isdigit() and 0 < int(value) < 65536 else SECURE_PORT

    @property
    def elects(self) -> bool:
        """Whether its replicas elect a leader."""
        return elects_leader(self.scheduler.deployment if self.scheduler else None)

    def flag(self, name: str) -> str:
        """The value of a flag on the scheduler's command line; empty where it is not set there."""
        return command_flag(self.scheduler.deployment if self.scheduler else None, name)


def instances_of(read: Installations) -> list[Instance]:
    """Return the instances: those with a SecondaryScheduler first, those of which only the Lease may be read last, each
    kind by place; at most 50."""
    schedulers = {place_of(each.deployment): each for each in read.components if each.component.role == "scheduler"}
    instances = []
    for resource in sorted(read.resources, key=place_of):
        namespace, name = place_of(resource)
        deployed = (namespace, operand_name(name))
        schedulers.pop((namespace, f"{deployed[1]}{CANARY_SUFFIX}"), None)
        instances.append(_instance(read, (namespace, name), resource, schedulers.pop(deployed, None), deployed))
    for place in sorted(schedulers):
        instances.append(_instance(read, place, None, schedulers[place], place))
    described = {place_of(instance.lease) for instance in instances if instance.lease is not None}
    for place in sorted(read.leases.keys() - described):
        lease = read.leases[place]
        # Where Deployments may be read, a Lease without one is left over.
        if place[0] not in read.deployments_read and is_schedulers(lease) and not place[1].endswith(CANARY_SUFFIX):
            instances.append(Instance(place, None, None, lease, False, True, ""))
    return instances[:MAX_INSTANCES]


def _instance(
    read: Installations, place: Place, resource: Json | None, scheduler: DeployedComponent | None, deployed: Place
) -> Instance:
    bare = Instance(place, resource, scheduler, None, False, False, read.configurations.get(deployed, ""))
    lease = lease_of(scheduler.deployment if scheduler is not None else None, *deployed)
    readable = lease[0] in read.leases_read
    deployments = deployed[0] in read.deployments_read
    return Instance(place, resource, scheduler, read.leases.get(lease), deployments, readable, bare.configuration)


def configuration_of(instance: Instance, read: Installations) -> Configuration | str:
    """Return what the scheduler mounts; a message where that is not valid, and an empty one where it is not known."""
    if not instance.configuration:
        return ""
    try:
        return load_configuration(
            instance.configuration,
            source="config.yaml",
            flavour=instance.flavour,
            allow_token_in_config_map=True,
            allow_default_scheduler_name=True,
            external_load=True,
            cluster_minor=kubernetes_minor(ClusterVersions(read.kubernetes)),
        )
    except ConfigurationError as error:
        return " ".join(str(error).split())


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
