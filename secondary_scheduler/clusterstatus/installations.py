"""What the API server says of the installations: instances, Deployments, Leases, configurations, versions.

What the caller may not read is left out and named in `CallerLimits`; everything else is still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.catalog import (
    CANARY_SUFFIX,
    OPERATOR_NAMESPACE,
    operand_name,
)
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
from scheduler.kube.client import ClientConfig, Forbidden, KubeError, NotFound, SyncConnection, api_path
from scheduler.operand import CONFIG_KEY, CONFIG_VOLUME, SECURE_PORT
from secondary_scheduler.clusterstatus.installed import (
    InstalledComponent,
    component_of,
    holder_of,
    is_schedulers,
    server_version,
)
from secondary_scheduler.clusterstatus.listing import list_items, read_object
from secondary_scheduler.kubeobjects import KubeObject, part, parts
from secondary_scheduler.rebalancing import command_flag, elects_leader, lease_of

Place = tuple[str, str]
"""Namespace and name."""
KIND: Final = "SecondaryScheduler"
API_VERSION: Final = "operator.openshift.io/v1"
MAX_INSTANCES = 50
_MAX_LISTED = 5000
"""Objects of a kind that are looked at; a namespace with more has another purpose."""
_TIMEOUT = 15.0


@dataclass
class CallerLimits:
    """What is not shown, and which right would show it; each line once.

    Attributes:
        option: of the command, that names a namespace to look in; empty where it has none.
    """

    lines: list[str] = field(default_factory=list)
    option: str = "--namespace"

    def note(self, line: str) -> None:
        """Add a line."""
        if line not in self.lines:
            self.lines.append(line)


@dataclass(frozen=True)
class DeployedComponent:
    """A Deployment of a scheduler or an operator."""

    component: InstalledComponent
    deployment: KubeObject


@dataclass(frozen=True)
class Installations:
    """What was read.

    Attributes:
        server: address of the API server.
        kubernetes, openshift: versions; empty where they are not known.
        resources: the SecondarySchedulers.
        components: schedulers and operators.
        leases: by place.
        deployments_read, leases_read: namespaces whose Deployments and Leases the caller may list.
        configurations: the text that a scheduler mounts, by the place of its Deployment.
    """

    server: str
    kubernetes: str
    openshift: str
    resources: list[KubeObject]
    components: list[DeployedComponent]
    leases: Mapping[Place, KubeObject]
    deployments_read: frozenset[str]
    leases_read: frozenset[str]
    configurations: Mapping[Place, str]


def installations_of(
    config: ClientConfig, namespace: str | None, limits: CallerLimits, *, everywhere: bool, command: str
) -> Installations:
    """Connect and read as `read_installations`; `command` is named to the API server."""
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent=f"secondary-scheduler/{command}")
    try:
        return read_installations(connection, config.server, namespace, limits, everywhere=everywhere)
    finally:
        connection.close()


def read_installations(
    connection: SyncConnection, server: str, namespace: str | None, limits: CallerLimits, *, everywhere: bool = False
) -> Installations:
    """Read one namespace, or all that have a SecondaryScheduler, and the operator's.

    Args:
        connection: to the API server.
        server: its address.
        namespace: None for all.
        limits: gets what the caller may not read.
        everywhere: look for Deployments in all namespaces, too.

    Raises:
        KubeError: the API server does not answer.
    """
    kubernetes = server_version(connection)
    resources = _resources(connection, namespace, limits)
    places = dict.fromkeys([namespace] if namespace else [*map(_namespace, resources), OPERATOR_NAMESPACE])
    searched: Iterable[str | None] = [None] if everywhere else list(places)
    components: list[DeployedComponent] = []
    deployments_read: set[str] = set()
    for searched_place in searched:
        deployed = _components(connection, searched_place, limits)
        components += deployed or ()
        if deployed is not None:
            deployments_read |= {searched_place} if searched_place else set(places)
    leases: dict[Place, KubeObject] = {}
    leases_read: set[str] = set()
    for place in dict.fromkeys([*places, *(deployed.component.namespace for deployed in components)]):
        leases_of_place = _list(
            connection, "coordination.k8s.io/v1", "leases", place, "leaders and what they report", limits
        )
        if leases_of_place is not None:
            leases_read.add(place)
            leases |= {place_of(lease): lease for lease in leases_of_place}
    schedulers = [deployed for deployed in components if deployed.component.role == "scheduler"][:MAX_INSTANCES]
    configurations = {
        place_of(deployed.deployment): text
        for deployed in schedulers
        if (text := _configuration(connection, deployed.deployment, limits))
    }
    return Installations(
        server,
        kubernetes,
        _openshift_version(connection),
        resources,
        components,
        leases,
        frozenset(deployments_read),
        frozenset(leases_read),
        configurations,
    )


def place_of(content: KubeObject) -> Place:
    """Return namespace and name of an object."""
    metadata = part(content, "metadata")
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _namespace(content: KubeObject) -> str:
    return place_of(content)[0]


def _resources(connection: SyncConnection, namespace: str | None, limits: CallerLimits) -> list[KubeObject]:
    """The SecondarySchedulers: of all namespaces where these may be listed, else of the operator's."""
    path = api_path(API_VERSION, "secondaryschedulers", namespace=namespace)
    try:
        return list(list_items(connection, path, limit=_MAX_LISTED))
    except NotFound:
        return []
    except Forbidden:
        if namespace is None:
            advice = f"; name one with {limits.option}" if limits.option else ""
            limits.note(
                f"SecondarySchedulers outside of namespace {OPERATOR_NAMESPACE}: this user needs to list "
                f"secondaryschedulers in all namespaces{advice}"
            )
            return _resources(connection, OPERATOR_NAMESPACE, limits)
        limits.note(f"SecondarySchedulers: this user needs to list secondaryschedulers in namespace {namespace}")
        return []


def _components(
    connection: SyncConnection, namespace: str | None, limits: CallerLimits
) -> list[DeployedComponent] | None:
    """Schedulers and operators; None where the caller may not list Deployments."""
    deployments = _list(connection, "apps/v1", "deployments", namespace, "replicas, images and plugins", limits)
    if deployments is None:
        return None
    components = ((component_of(deployment), deployment) for deployment in deployments)
    deployed = [DeployedComponent(component, deployment) for component, deployment in components if component]
    return sorted(deployed, key=lambda entry: entry.component)


def _list(
    connection: SyncConnection, api_version: str, plural: str, namespace: str | None, shows: str, limits: CallerLimits
) -> list[KubeObject] | None:
    """The objects of a kind; None where the caller may not list them."""
    try:
        return list(list_items(connection, api_path(api_version, plural, namespace=namespace), limit=_MAX_LISTED))
    except Forbidden:
        place = f"namespace {namespace}" if namespace else "all namespaces"
        limits.note(f"{shows}: this user needs to list {plural} in {place}")
        return None


def _configuration(connection: SyncConnection, deployment: KubeObject, limits: CallerLimits) -> str:
    """The text of the ConfigMap that a Deployment mounts; empty where there is none, or it may not be read."""
    volumes = parts(deployment, "spec", "template", "spec", "volumes")
    name = next(
        (part(volume, "configMap").get("name") for volume in volumes if volume.get("name") == CONFIG_VOLUME), None
    )
    if not isinstance(name, str):
        return ""
    namespace = _namespace(deployment)
    path = api_path("v1", "configmaps", namespace=namespace, name=name)
    try:
        return str(part(read_object(connection.get(path), path), "data").get(CONFIG_KEY) or "")
    except Forbidden:
        limits.note(f"profiles and plugins: this user needs to get configmaps in namespace {namespace}")
    except NotFound:
        pass
    return ""


def _openshift_version(connection: SyncConnection) -> str:
    """The cluster's version of OpenShift; empty on other clusters, and where it may not be read."""
    path = api_path("config.openshift.io/v1", "clusterversions", name="version")
    try:
        return str(part(read_object(connection.get(path), path), "status", "desired").get("version") or "")
    except KubeError:
        return ""


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
    resource: KubeObject | None
    scheduler: DeployedComponent | None
    lease: KubeObject | None
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
    schedulers = {
        place_of(deployed.deployment): deployed
        for deployed in read.components
        if deployed.component.role == "scheduler"
    }
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
    read: Installations, place: Place, resource: KubeObject | None, scheduler: DeployedComponent | None, deployed: Place
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
