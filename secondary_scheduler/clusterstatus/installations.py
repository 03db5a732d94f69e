"""What the API server says of the installations: instances, Deployments, Leases, configurations, versions.

What the caller may not read is left out and named in `CallerLimits`; everything else is still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.catalog import OPERATOR_NAMESPACE
from scheduler.kube.client import ClientConfig, Forbidden, KubeError, NotFound, SyncConnection, api_path
from scheduler.operand import CONFIG_KEY, CONFIG_VOLUME
from secondary_scheduler.clusterstatus.installed import InstalledComponent, component_of, server_version
from secondary_scheduler.clusterstatus.listing import list_items, part, parts, read_object

Json = Mapping[str, Any]
Place = tuple[str, str]
"""Namespace and name."""
MAX_INSTANCES = 50
_MAX_LISTED = 5000
_TIMEOUT = 15.0
"""Objects of a kind that are looked at; a namespace with more has another purpose."""


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
    deployment: Json


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
    resources: list[Json]
    components: list[DeployedComponent]
    leases: Mapping[Place, Json]
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
    leases: dict[Place, Json] = {}
    leases_read: set[str] = set()
    for place in dict.fromkeys([*places, *(each.component.namespace for each in components)]):
        listed = _list(connection, "coordination.k8s.io/v1", "leases", place, "leaders and what they report", limits)
        if listed is not None:
            leases_read.add(place)
            leases |= {place_of(lease): lease for lease in listed}
    schedulers = [each for each in components if each.component.role == "scheduler"][:MAX_INSTANCES]
    configurations = {
        place_of(each.deployment): text
        for each in schedulers
        if (text := _configuration(connection, each.deployment, limits))
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


def place_of(content: Json) -> Place:
    """Return namespace and name of an object."""
    metadata = part(content, "metadata")
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _namespace(content: Json) -> str:
    return place_of(content)[0]


def _resources(connection: SyncConnection, namespace: str | None, limits: CallerLimits) -> list[Json]:
    """The SecondarySchedulers: of all namespaces where these may be listed, else of the operator's."""
    path = api_path(API_VERSION, "secondaryschedulers", namespace=namespace)
    try:
        return list(_bounded(connection, path))
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
    listed = _list(connection, "apps/v1", "deployments", namespace, "replicas, images and plugins", limits)
    if listed is None:
        return None
    components = ((component_of(deployment), deployment) for deployment in listed)
    deployed = [DeployedComponent(component, deployment) for component, deployment in components if component]
    return sorted(deployed, key=lambda each: each.component)


def _list(
    connection: SyncConnection, api_version: str, plural: str, namespace: str | None, shows: str, limits: CallerLimits
) -> list[Json] | None:
    """The objects of a kind; None where the caller may not list them."""
    try:
        return list(_bounded(connection, api_path(api_version, plural, namespace=namespace)))
    except Forbidden:
        place = f"namespace {namespace}" if namespace else "all namespaces"
        limits.note(f"{shows}: this user needs to list {plural} in {place}")
        return None


def _bounded(connection: SyncConnection, path: str) -> Iterable[Json]:
    for number, item in enumerate(list_items(connection, path)):
        if number == _MAX_LISTED:
            return
        yield item


def _configuration(connection: SyncConnection, deployment: Json, limits: CallerLimits) -> str:
    """The text of the ConfigMap that a Deployment mounts; empty where there is none, or it may not be read."""
    volumes = parts(deployment, "spec", "template", "spec", "volumes")
    name = next((part(each, "configMap").get("name") for each in volumes if each.get("name") == CONFIG_VOLUME), None)
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


KIND: Final = "SecondaryScheduler"
API_VERSION: Final = "operator.openshift.io/v1"
