"""A page in the cluster, beside the scheduler, with rights of its own that it lends to nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import page_name, page_namespace_rules, page_rules

from ._inputs import joined
from .kube_object import (
    child,
    cluster_role_binding,
    in_kubernetes_spelling,
    name_of,
    rollout_timeouts,
    unawaited_service,
)
from .labels import COMPONENT
from .namespace import cluster_scoped_name
from .operand_args import ReaderArgs
from .settings import PagePlan

_COMMAND = "/bin/secondary-scheduler-page"
_PAGE_PORT, _PROBES_PORT = 8443, 8081
_SERVICE_PORT = 443
_TLS_DIRECTORY, _TLS_VOLUME = "/etc/page-tls", "tls"


@dataclass(frozen=True, kw_only=True)
class PageArgs(ReaderArgs):
    """`plan`: image, hosts and certificate."""

    plan: PagePlan


class Page(pulumi.ComponentResource):
    """Deployment, Service, ServiceAccount with its rights, NetworkPolicy; done when it serves.

    The NetworkPolicy is no optional object: it is made before the server that every tenant may reach.
    """

    name: pulumi.Output[str]

    def __init__(self, name: str, args: PageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:Page", name, None, opts)
        self._prefix, self._args = name, args
        self._object_name = page_name(args.operand)
        self._labels = {operand.LABEL_APP: self._object_name, COMPONENT: "page"}
        metadata = self._metadata()
        account = k8s.core.v1.ServiceAccount(f"{name}-serviceaccount", metadata=metadata, opts=child(self))
        # The Deployment is waited for; its endpoints follow from that.
        unawaited_service(f"{name}-service", metadata, self._service(), child(self))
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=in_kubernetes_spelling(self._deployment(name_of(account))),
            opts=child(
                self,
                depends_on=[account, self._network_policy(), *self._rights(), *args.needs],
                custom_timeouts=rollout_timeouts(args.settings.ready_seconds),
            ),
        )
        self.name = name_of(deployment)
        self.register_outputs({"name": self.name})

    def _metadata(self) -> k8s.meta.v1.ObjectMetaArgsDict:
        return {"name": self._object_name, "namespace": self._args.namespace, "labels": self._labels}

    def _selector(self) -> dict[str, str]:
        return {operand.LABEL_APP: self._object_name}

    def _rights(self) -> list[pulumi.Resource]:
        args, everywhere = self._args, cluster_scoped_name(self._object_name, self._args.namespace)
        cluster_role = k8s.rbac.v1.ClusterRole(
            f"{self._prefix}-clusterrole",
            metadata={"name": everywhere, "labels": self._labels},
            rules=in_kubernetes_spelling([rule.to_dict() for rule in page_rules()]),
            opts=child(self),
        )
        rights: list[pulumi.Resource] = [
            cluster_role,
            self._binding("clusterrolebinding", everywhere, name_of(cluster_role)),
            *self._role_and_binding(),
        ]
        source = args.access.cluster_role
        if source is not None:
            rights.append(self._binding("metrics", joined(everywhere, "-", source), source))
        return rights

    def _role_and_binding(self) -> list[pulumi.Resource]:
        role = k8s.rbac.v1.Role(
            f"{self._prefix}-role",
            metadata=self._metadata(),
            rules=in_kubernetes_spelling([rule.to_dict() for rule in page_namespace_rules(self._args.operand)]),
            opts=child(self),
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{self._prefix}-rolebinding",
            metadata=self._metadata(),
            role_ref=in_kubernetes_spelling(operand.role_ref(self._object_name)),
            subjects=in_kubernetes_spelling(self._subjects()),
            opts=child(self),
        )
        return [role, binding]

    def _subjects(self) -> list[dict[str, Any]]:
        return [{"kind": "ServiceAccount", "name": self._object_name, "namespace": self._args.namespace}]

    def _binding(self, part: str, name: pulumi.Input[str], role: pulumi.Input[str]) -> pulumi.Resource:
        metadata = {"name": name, "labels": self._labels}
        return cluster_role_binding(f"{self._prefix}-{part}", metadata, role, self._subjects(), child(self))

    def _network_policy(self) -> pulumi.Resource:
        args = self._args
        egress = {*operand.source_ports(args.configuration), *args.settings.egress_ports}
        spec = operand.network_policy_spec(self._selector(), [_PAGE_PORT, _PROBES_PORT], egress)
        return k8s.networking.v1.NetworkPolicy(
            f"{self._prefix}-networkpolicy",
            metadata=self._metadata(),
            spec=in_kubernetes_spelling(spec),
            opts=child(self),
        )

    def _service(self) -> dict[str, Any]:
        port = {"name": "https", "port": _SERVICE_PORT, "targetPort": _PAGE_PORT, "protocol": "TCP"}
        return {"selector": self._selector(), "ports": [port]}

    def _deployment(self, account: pulumi.Input[str]) -> dict[str, Any]:
        return {
            "replicas": 1,
            "selector": {"matchLabels": self._selector()},
            # Sessions are in its memory: two of them would send visitors to the form and back.
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {
                    "labels": self._labels,
                    "annotations": {"openshift.io/required-scc": "restricted-v2"},
                },
                "spec": {
                    "serviceAccountName": account,
                    "securityContext": operand.pod_security(openshift=self._args.openshift),
                    "containers": [self._container()],
                    "volumes": self._volumes(),
                },
            },
        }

    def _container(self) -> dict[str, Any]:
        return {
            "name": "page",
            "image": self._args.plan.image,
            "command": [_COMMAND],
            "args": self._arguments(),
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
            "ports": [
                {"name": "https", "containerPort": _PAGE_PORT, "protocol": "TCP"},
                {"name": "probes", "containerPort": _PROBES_PORT, "protocol": "TCP"},
            ],
            "startupProbe": {**_probe("/livez"), "periodSeconds": 1, "failureThreshold": 60},
            "livenessProbe": {**_probe("/livez"), "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6},
            "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "timeoutSeconds": 5},
            "resources": {
                "requests": {"cpu": "10m", "memory": "128Mi"},
                "limits": {"cpu": "1", "memory": "512Mi"},
            },
            "securityContext": operand.CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": self._mounts(),
        }

    def _arguments(self) -> list[pulumi.Input[str]]:
        args, name, namespace = self._args, self._object_name, self._args.namespace
        # Longer names of the Service end in the cluster's domain, which this program does not know; it is usually this.
        own = [name, *(joined(f"{name}.", namespace, end) for end in ("", ".svc", ".svc.cluster.local"))]
        files = (f"--tls-cert-file={_TLS_DIRECTORY}/tls.crt", f"--tls-private-key-file={_TLS_DIRECTORY}/tls.key")
        return [
            f"--config={operand.CONFIG_DIRECTORY}/{operand.CONFIG_KEY}",
            joined("--config-map=", namespace, "/", args.config_map_name),
            joined("--lease=", namespace, "/", args.operand),
            f"--listen=$(POD_IP):{_PAGE_PORT}",
            f"--probes=$(POD_IP):{_PROBES_PORT}",
            *(joined("--host=", host) for host in (*args.plan.hosts, *own)),
            *(files if args.plan.tls_secret else ()),
            *args.configuration.bound_rules(args.access.rules).arguments(),
        ]

    def _mounts(self) -> list[dict[str, Any]]:
        mounts: list[dict[str, Any]] = [
            {"name": operand.CONFIG_VOLUME, "mountPath": operand.CONFIG_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
        ]
        if self._args.plan.tls_secret:
            mounts.append({"name": _TLS_VOLUME, "mountPath": _TLS_DIRECTORY, "readOnly": True})
        if self._credentials() is not None:
            directory = operand.METRIC_CREDENTIALS_DIRECTORY
            mounts.append({"name": operand.METRICS_VOLUME, "mountPath": directory, "readOnly": True})
        return mounts

    def _volumes(self) -> list[dict[str, Any]]:
        args, credentials = self._args, self._credentials()
        items = [{"key": operand.CONFIG_KEY, "path": operand.CONFIG_KEY}]
        volumes: list[dict[str, Any]] = [
            {"name": operand.CONFIG_VOLUME, "configMap": {"name": args.config_map_name, "items": items}},
            operand.temporary_volume(),
        ]
        if args.plan.tls_secret:
            volumes.append({"name": _TLS_VOLUME, "secret": {"secretName": args.plan.tls_secret}})
        return [*volumes, *([credentials] if credentials is not None else [])]

    def _credentials(self) -> dict[str, Any] | None:
        reference, audience = self._args.credentials, self._args.access.audience
        return operand.metric_credentials_volume(reference.secret_name if reference else None, audience)


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": _PROBES_PORT, "scheme": "HTTPS"}}
