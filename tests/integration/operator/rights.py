"""The rights that the install gives the operator, and by the audit log what it made of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from components._operator_rules import Instance, cluster_rules, namespace_rules
from devcluster.cluster import LocalCluster
from scheduler.catalog import REBALANCER_CLUSTER_ROLE, STATUS_KINDS, shipped_cluster_roles, static_cluster_roles
from scheduler.kube.client import AlreadyExists, NotFound
from tests.integration.operator.support import Api

ACCOUNT = "secondary-scheduler-operator"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Request(NamedTuple):
    """One entry of the audit log; `resource` has its subresource."""

    group: str
    resource: str
    verb: str
    name: str
    code: int


def install_roles_of_schedulers(api: Api) -> None:
    """The static ClusterRoles and the rebalancer's, if the cluster does not have them."""
    roles = {**static_cluster_roles(), REBALANCER_CLUSTER_ROLE: shipped_cluster_roles()[REBALANCER_CLUSTER_ROLE]}
    for name, rules in roles.items():
        body = {"metadata": {"name": name}, "rules": [rule.to_dict() for rule in rules]}
        with contextlib.suppress(AlreadyExists):
            api.call("POST", f"{_RBAC}/clusterroles", body)


def requests_of(cluster: LocalCluster, user: str) -> Iterator[Request]:
    """All that a user asked of the API server for an object, by the audit log."""
    for line in cluster.audit_log.read_text().splitlines():
        if user not in line:
            continue
        entry = json.loads(line)
        reference = entry.get("objectRef")
        if entry["user"]["username"] == user and reference:
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            code = int((entry.get("responseStatus") or {}).get("code") or 0)
            yield Request(reference.get("apiGroup", ""), resource, entry["verb"], reference.get("name", ""), code)


class Rights:
    """Role and ClusterRole of an operator for some instances, as the install has them, and an account with nothing
    else."""

    def __init__(
        self,
        api: Api,
        instances: Collection[Instance] = (),
        *,
        rebalancers: bool = False,
        status_of: Collection[str] = STATUS_KINDS,
    ) -> None:
        self._api = api
        self._rebalancers, self._status_of = rebalancers, status_of
        self.name = f"operator-of-{api.namespace}"
        self.instances = [(api.namespace, "cluster"), *instances]

    @property
    def cluster(self) -> list[dict[str, Any]]:
        """Rules of the ClusterRole."""
        return cluster_rules(static_cluster_roles(), self.instances, self._status_of, rebalancers=self._rebalancers)

    @property
    def by_namespace(self) -> Mapping[str, list[dict[str, Any]]]:
        """Rules of the Role in each namespace."""
        namespaces = dict.fromkeys(namespace for namespace, _ in self.instances)
        return {
            namespace: namespace_rules([n for ns, n in self.instances if ns == namespace]) for namespace in namespaces
        }

    def grant(self) -> None:
        """Create the objects."""
        api = self._api
        api.create("serviceaccounts", ACCOUNT)
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": api.namespace}
        for namespace, rules in {"": self.cluster, **self.by_namespace}.items():
            kind = "Role" if namespace else "ClusterRole"
            place = f"{_RBAC}/namespaces/{namespace}/role" if namespace else f"{_RBAC}/clusterrole"
            metadata = {"metadata": {"name": self.name}}
            api.call("POST", f"{place}s", {**metadata, "rules": rules})
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": self.name}
            api.call("POST", f"{place}bindings", {**metadata, "roleRef": reference, "subjects": [subject]})

    def withdraw(self) -> None:
        """Delete what is not in the namespace."""
        for plural in ("clusterrolebindings", "clusterroles"):
            with contextlib.suppress(NotFound):
                self._api.call("DELETE", f"{_RBAC}/{plural}/{self.name}")

    def kubeconfig(self, cluster: LocalCluster, path: Path) -> Path:
        """Write one that connects as the account."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = self._api.call("POST", self._api.path("serviceaccounts", ACCOUNT) + "/token", request)
        config = yaml.safe_load(Path(cluster.kubeconfig).read_text())
        for user in config["users"]:
            user["user"] = {"token": answer["status"]["token"]}
        path.write_text(yaml.safe_dump(config))
        return path

    def requests(self, cluster: LocalCluster) -> Iterator[Request]:
        """All that the account asked for."""
        return requests_of(cluster, f"system:serviceaccount:{self._api.namespace}:{ACCOUNT}")

    def check(self, cluster: LocalCluster, expected: Collection[str] = ()) -> None:
        """Nothing was refused but requests for these resources, and what was bound may be bound."""
        seen = list(self.requests(cluster))
        assert seen, "the audit log has what the operator did"
        refused = {request for request in seen if request.code == 403 and request.resource not in expected}
        assert not refused, f"refused: {sorted(refused)}"
        allowed = {
            name
            for rule in self.cluster
            if rule["resources"] == ["clusterrolebindings"] and "create" in rule["verbs"]
            for name in rule["resourceNames"]
        }
        written = {
            request for request in seen if request.code != 403 and request[1:3] == ("clusterrolebindings", "patch")
        }
        assert {request.name for request in written} <= allowed
