"""Which cluster the demo is to use, and whether it can."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client as kubernetes, config as kubernetes_config
from kubernetes.client.exceptions import ApiException

from devcluster.errors import ClusterStateError, ServiceError
from scheduler.kube.primitives import quantity_milli_value

OLDEST_MINOR = 29
_TIMEOUT_SECONDS = 10
MAX_NODES = 1000

_ALWAYS = (
    ("create", "", "namespaces"),
    ("delete", "", "namespaces"),
    ("list", "", "nodes"),
    ("list", "", "pods"),
    ("create", "", "pods"),
)
_OF_A_PROCESS = (("create", "", "pods/binding"), ("patch", "", "pods/status"), ("create", "events.k8s.io", "events"))
_OF_A_POD = (
    ("create", "apps", "deployments"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
)


@dataclass(frozen=True)
class TargetNode:
    """A node that any pod may go to, with its processors in thousandths."""

    name: str
    cpu: int


@dataclass(frozen=True)
class TargetCluster:
    """A context of a kubeconfig, and a client for it."""

    context: str
    server: str
    kubeconfig: Path | None
    """None: as kubectl finds it."""
    api: kubernetes.ApiClient

    @classmethod
    def of(cls, kubeconfig: Path | None, context: str | None) -> TargetCluster:
        """Read the kubeconfig; nothing is asked of the cluster. Raises ClusterStateError."""
        file = str(kubeconfig) if kubeconfig else None
        configuration = kubernetes.Configuration()
        try:
            contexts, current = kubernetes_config.list_kube_config_contexts(config_file=file)
            name = context or current["name"]
            if name not in (entry["name"] for entry in contexts):
                raise ClusterStateError(f"{file or 'the kubeconfig'} has no context {name!r}; see: kubectl config view")
            kubernetes_config.load_kube_config(file, name, configuration, persist_config=False)
        except (kubernetes_config.ConfigException, OSError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ClusterStateError(
                f"{file or '$KUBECONFIG or ~/.kube/config'} names no cluster ({reason}): start one, for example with "
                "kind create cluster, or name a kubeconfig: make demo CLUSTER=/path/to/kubeconfig"
            ) from None
        configuration.retries = urllib3.Retry(0)
        return cls(name, configuration.host, kubeconfig, kubernetes.ApiClient(configuration))

    def version(self) -> str:
        """Return the cluster's version, such as `v1.34.4`. Raises ServiceError: it does not answer, or is too old."""
        try:
            code = kubernetes.VersionApi(self.api).get_code(_request_timeout=_TIMEOUT_SECONDS)
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise ServiceError(
                f"context {self.context}: {self.server} does not answer ({type(reason).__name__}): is the cluster "
                "running, and is this the right context?"
            ) from None
        except ApiException as error:
            raise ServiceError(f"context {self.context}: {self.server} refused {refusal(error)}") from None
        minor = int((re.match(r"\d+", code.minor) or ["0"])[0])
        if (int(code.major), minor) < (1, OLDEST_MINOR):
            raise ServiceError(
                f"context {self.context}: the cluster has Kubernetes {code.git_version}; the scheduler needs "
                f"1.{OLDEST_MINOR} or newer"
            )
        return str(code.git_version)

    def check_rights(self, *, in_cluster: bool) -> None:
        """Raise ServiceError if the context's user lacks a right that the demo needs; names all that are missing."""
        review = kubernetes.AuthorizationV1Api(self.api)
        missing = []
        for verb, group, resource in (*_ALWAYS, *(_OF_A_POD if in_cluster else _OF_A_PROCESS)):
            name, _, subresource = resource.partition("/")
            attributes = {"verb": verb, "group": group, "resource": name, "subresource": subresource}
            answer = review.create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
            if not answer.status.allowed:
                missing.append(f"{verb} {resource}")
        if missing:
            raise ServiceError(
                f"context {self.context}: its user may not {', '.join(missing)}; use a context with the rights of "
                "cluster-admin"
            )

    def nodes(self) -> list[TargetNode]:
        """Nodes that are ready and take any pod, by name. Raises ServiceError if there is none."""
        items = kubernetes.CoreV1Api(self.api).list_node(limit=MAX_NODES, _request_timeout=_TIMEOUT_SECONDS).items
        usable = [
            TargetNode(node.metadata.name, quantity_milli_value(node.status.allocatable["cpu"]))
            for node in items
            if _takes_any_pod(node)
        ]
        if not usable:
            raise ServiceError(
                f"context {self.context}: none of {len(items)} nodes is ready and without a taint; the demo's pods "
                "tolerate none"
            )
        return sorted(usable, key=lambda node: node.name)


def _takes_any_pod(node: Any) -> bool:
    ready = any(item.type == "Ready" and item.status == "True" for item in node.status.conditions or ())
    refusing = any(taint.effect in ("NoSchedule", "NoExecute") for taint in node.spec.taints or ())
    return bool(ready and not refusing and not node.spec.unschedulable and "cpu" in (node.status.allocatable or {}))


def refusal(error: ApiException) -> str:
    """Return what the API server said, in one line: it never holds what was sent to it."""
    messages: Sequence[str] = re.findall(r'"message":"((?:[^"\\]|\\.)*)"', error.body or "")
    return f"({error.status} {error.reason}{': ' + messages[0][:300] if messages else ''})"
