"""Instances: a SecondaryScheduler with its Deployment and Lease, a scheduler's Deployment that none describes, or a
Lease where neither may be read."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.catalog import CANARY_SUFFIX, operand_name
from scheduler.config import (
    ClusterVersions,
    Configuration,
    ConfigurationError,
    Flavour,
    InvalidSpecError,
    custom_flavour,
    image_flavour,
    kubernetes_minor,
    load_configuration,
    parse_spec,
)
from scheduler.operand import SECURE_PORT
from secondary_scheduler.clusterstatus.customresource import KIND
from secondary_scheduler.clusterstatus.installations import (
    MOST_INSTANCES,
    DeployedComponent,
    Installations,
    Json,
    Place,
    place_of,
)
from secondary_scheduler.clusterstatus.leaders import holder_of, is_schedulers
from secondary_scheduler.clusterstatus.listing import part
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
    return instances[:MOST_INSTANCES]


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
