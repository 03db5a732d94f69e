"""Everything that the self-test makes in a cluster, and its removal.

All of it has one label, and names with one prefix; only what has both is ever removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler import operand
from scheduler.catalog import static_cluster_roles
from scheduler.kube.client import (
    ClientConfig,
    Forbidden,
    KubeError,
    NotFound,
    SyncConnection,
    api_path,
    request_token,
)
from secondary_scheduler.cli.errors import explained
from secondary_scheduler.clusterstatus.listing import list_items, read_object
from secondary_scheduler.kubeobjects import KubeObject, part

PREFIX = "secondary-scheduler-selftest-"
LABEL = "secondary-scheduler.io/selftest"
ACCOUNT = "scheduler"
LEASE = "scheduler"
LOW_PRIORITY, HIGH_PRIORITY = -1_000_000_000, -999_999_999
"""Below whatever anybody else may have: a pod of the self-test can only preempt pods of the self-test."""
_RBAC = "rbac.authorization.k8s.io/v1"
_REMOVAL_SECONDS = 120.0
_PAUSE_SECONDS = 0.25
_TIMEOUT = 15.0


class ClusterKind(NamedTuple):
    """A kind of cluster-scoped objects that the self-test makes."""

    api_version: str
    resource: str
    kind: str


CLUSTER_KINDS = (
    ClusterKind("v1", "namespaces", "Namespace"),
    ClusterKind(_RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    ClusterKind(_RBAC, "clusterroles", "ClusterRole"),
    ClusterKind("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass"),
)
"""In the order of their removal."""
_NAMESPACED = {
    "ServiceAccount": ("v1", "serviceaccounts"),
    "Role": (_RBAC, "roles"),
    "RoleBinding": (_RBAC, "rolebindings"),
    "ConfigMap": ("v1", "configmaps"),
    "Deployment": ("apps/v1", "deployments"),
    "PodGroup": ("scheduling.x-k8s.io/v1alpha1", "podgroups"),
    "Pod": ("v1", "pods"),
}


class Leftover(NamedTuple):
    """A cluster-scoped object of a run."""

    kind: ClusterKind
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"


class Right(NamedTuple):
    """A right, of whoever runs the self-test or of the scheduler under test."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    @property
    def path(self) -> str:
        """The resource as RBAC has it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {self.path}{group}"


@dataclass(frozen=True)
class Names:
    """What one run calls its objects; `run` is six characters that no other run has."""

    run: str

    @property
    def namespace(self) -> str:
        """Of everything that is in a namespace."""
        return f"{PREFIX}{self.run}"

    @property
    def user(self) -> str:
        """As whom the scheduler asks the API server."""
        return f"system:serviceaccount:{self.namespace}:{ACCOUNT}"

    @property
    def scheduler(self) -> str:
        """The profile with the default plugins."""
        return f"selftest-{self.run}"

    @property
    def by_load(self) -> str:
        """The profile that scores by load alone."""
        return f"{self.scheduler}-by-load"

    @property
    def low(self) -> str:
        """The PriorityClass of pods to preempt."""
        return f"{self.namespace}-low"

    @property
    def high(self) -> str:
        """The PriorityClass of pods that preempt."""
        return f"{self.namespace}-high"


def scaffold(names: Names, cluster_roles: Sequence[str]) -> list[KubeObject]:
    """Return what stands before the scheduler starts, in the order of its creation.

    Args:
        names: of the run.
        cluster_roles: that an installation binds the scheduler to. The rules of ours stand in one ClusterRole of the
            run, as the cluster may have none of ours, or others; those of the cluster itself are bound as they are.
    """
    subject = operand.account(ACCOUNT, names.namespace)
    shipped = static_cluster_roles()
    rules = [rule.to_dict() for role in cluster_roles for rule in shipped.get(role, ())]
    bound = (names.namespace, *(role for role in cluster_roles if role not in shipped))
    bindings = [
        _object(_RBAC, "ClusterRoleBinding", names, f"{names.namespace}-{number}")
        | {"roleRef": operand.cluster_role_ref(role), "subjects": [subject]}
        for number, role in enumerate(bound)
    ]
    return [
        _object("v1", "Namespace", names, names.namespace),
        _object("scheduling.k8s.io/v1", "PriorityClass", names, names.low)
        | {"value": LOW_PRIORITY, "description": "Self-test of secondary-scheduler; preempted by its own pods."},
        _object("scheduling.k8s.io/v1", "PriorityClass", names, names.high)
        | {"value": HIGH_PRIORITY, "description": "Self-test of secondary-scheduler; preempts its own pods."},
        _object(_RBAC, "ClusterRole", names, names.namespace) | {"rules": rules},
        *bindings,
        _object("v1", "ServiceAccount", names, ACCOUNT, names.namespace),
        _object(_RBAC, "Role", names, LEASE, names.namespace) | {"rules": operand.lease_rules(LEASE)},
        _object(_RBAC, "RoleBinding", names, LEASE, names.namespace)
        | {"roleRef": operand.role_ref(LEASE), "subjects": [subject]},
    ]


def _object(api_version: str, kind: str, names: Names, name: str, namespace: str = "") -> KubeObject:
    metadata: dict[str, Any] = {"name": name, "labels": {LABEL: names.run}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def needed_rights(objects: Sequence[KubeObject]) -> Iterator[Right]:
    """Yield the rights for making and removing these objects, and for what the steps do in the namespace."""
    plurals = {kind.kind: kind.resource for kind in CLUSTER_KINDS} | {
        kind: resource for kind, (_, resource) in _NAMESPACED.items()
    }
    seen = {(str(item["apiVersion"]), plurals[str(item["kind"])]) for item in objects}
    for api_version, resource in sorted(seen | {("v1", "pods")}):
        group = api_version.partition("/")[0] if "/" in api_version else ""
        yield from (Right(verb, group, resource) for verb in ("create", "delete"))
    yield Right("create", "", "serviceaccounts", subresource="token")
    yield Right("list", "", "nodes")
    yield Right("list", "", "pods")


class OwnCluster:
    """The cluster, and what this run has in it.

    Attributes:
        connection: of the reader.
        names: of this run.
    """

    def __init__(self, config: ClientConfig, names: Names) -> None:
        self.config, self.names = config, names
        self.connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/selftest")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def missing(self, rights: Sequence[Right]) -> list[Right]:
        """Return those of these rights that the reader lacks."""
        return [right for right in rights if not self._may(right)]

    def _may(self, right: Right) -> bool:
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "subresource": right.subresource,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        path = api_path("authorization.k8s.io/v1", "selfsubjectaccessreviews")
        answer = read_object(self.connection.request("POST", path, body=review), path)
        return bool(part(answer, "status").get("allowed"))

    def create(self, item: Mapping[str, Any]) -> KubeObject:
        """Create an object; returns it as it is then."""
        path = _path(str(item["apiVersion"]), str(item["kind"]), str(item["metadata"].get("namespace", "")))
        return read_object(self.connection.request("POST", path, body=item), path)

    def create_here(self, kind: str, name: str, content: Mapping[str, Any], labels: Mapping[str, str]) -> KubeObject:
        """Create an object of the run's namespace."""
        item = _object(_NAMESPACED[kind][0], kind, self.names, name, self.names.namespace)
        item["metadata"]["labels"].update(labels)
        return self.create({**item, **content})

    def pods(self) -> dict[str, KubeObject]:
        """The pods of the run's namespace by their names."""
        items = list_items(self.connection, _path("v1", "Pod", self.names.namespace))
        return {str(part(item, "metadata").get("name")): item for item in items}

    def end_pod(self, name: str) -> None:
        """Delete a pod of the run's namespace at once; one that is gone is none to delete."""
        path = _path("v1", "Pod", self.names.namespace, name)
        self._delete(path, {"gracePeriodSeconds": 0})

    def _delete(self, path: str, options: Mapping[str, Any]) -> None:
        try:
            self.connection.request("DELETE", path, body=options)
        except NotFound:
            return

    def lease_holder(self) -> str:
        """Who holds the scheduler's Lease; "" if nobody."""
        path = api_path("coordination.k8s.io/v1", "leases", namespace=self.names.namespace, name=LEASE)
        try:
            lease = read_object(self.connection.get(path), path)
        except NotFound:
            return ""
        return str(part(lease, "spec").get("holderIdentity") or "")

    def serves(self, api_version: str, resource: str) -> bool:
        """Whether the API server has such a resource."""
        path = api_path(api_version, resource)
        try:
            self.connection.get(path, {"limit": 1})
        except NotFound:
            return False
        except Forbidden:
            pass  # whether it may be made is asked apart
        return True

    def token(self, seconds: int) -> str:
        """Return a token of the scheduler's ServiceAccount."""
        return request_token(self.connection, self.names.namespace, ACCOUNT, seconds)

    def leftovers(self) -> list[Leftover]:
        """Return what runs that did not end as they should have left in the cluster, in the order of its removal."""
        leftovers = []
        for kind in CLUSTER_KINDS:
            for item in list_items(
                self.connection, api_path(kind.api_version, kind.resource), {"labelSelector": LABEL}
            ):
                metadata = part(item, "metadata")
                leftover = Leftover(kind, str(metadata.get("name") or ""), str(metadata.get("uid") or ""))
                if leftover.name.startswith(PREFIX):
                    leftovers.append(leftover)
        return leftovers

    def remove(self, leftovers: Sequence[Leftover], say: Callable[[str], None]) -> list[str]:
        """Delete cluster-scoped objects, and wait until they are gone; returns what is still there, and why."""
        left = []
        for leftover in leftovers:
            kind, name, uid = leftover
            options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
            try:
                self._delete(api_path(kind.api_version, kind.resource, name=name), options)
            except KubeError as error:
                left.append(f"{leftover}: {explained(error)}")
        end = time.monotonic() + _REMOVAL_SECONDS
        waiting = [leftover.name for leftover in leftovers if leftover.kind.kind == "Namespace"]
        if waiting:
            say(f"waiting until {', '.join(waiting)} is gone")
        while waiting and time.monotonic() < end:
            waiting = [name for name in waiting if self._exists(name)]
            if waiting:
                time.sleep(_PAUSE_SECONDS)
        left += [f"Namespace {name}: not gone after {_REMOVAL_SECONDS:.0f} s" for name in waiting]
        return left

    def _exists(self, namespace: str) -> bool:
        try:
            self.connection.get(api_path("v1", "namespaces", name=namespace))
        except NotFound:
            return False
        return True


def _path(api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
    resource = {kind.kind: kind.resource for kind in CLUSTER_KINDS}.get(kind) or _NAMESPACED[kind][1]
    if namespace:
        return api_path(api_version, resource, namespace=namespace, **({"name": name} if name else {}))
    return api_path(api_version, resource, **({"name": name} if name else {}))
