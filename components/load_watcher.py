"""A load-watcher beside the scheduler, which alone has the credentials for the metric source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from scheduler import operand
from scheduler.catalog import CANARY_SUFFIX, page_name, rebalancer_name

from .kube_object import child, in_kubernetes_spelling, name_of, rollout_timeouts, unawaited_service
from .labels import COMPONENT
from .operand_args import BesideArgs
from .scheduler_configuration import SchedulerConfiguration, SchedulerConfigurationArgs
from .settings import LOAD_WATCHER_PORT, ManagedLoadWatcher, load_watcher_name

_COMMAND = "/bin/load-watcher"


@dataclass(frozen=True, kw_only=True)
class LoadWatcherArgs(BesideArgs):
    """The scheduler's pods and canaries alone may ask it, a rebalancer's and a page's. Attributes:
    watcher: its image, its configuration, and what it may do with credentials.
    audience: of a token of its ServiceAccount that is the credential instead of a Secret.
    rebalancer: whether there is a rebalancer.
    page: whether there is a page.
    """

    watcher: ManagedLoadWatcher = field(repr=False)
    audience: str = ""
    rebalancer: bool = False
    page: bool = False


class LoadWatcher(pulumi.ComponentResource):
    """Deployment, Service, ServiceAccount without rights, NetworkPolicy; done when it has read a load.

    It serves whoever reaches it, because the Go plugins can send neither token nor certificate. So its NetworkPolicy
    is no optional object.
    """

    name: pulumi.Output[str]

    def __init__(self, name: str, args: LoadWatcherArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:LoadWatcher", name, None, opts)
        self._args = args
        self._object_name = load_watcher_name(args.operand)
        self._labels = {operand.LABEL_APP: self._object_name, COMPONENT: "load-watcher"}
        metadata = self._metadata()
        configuration = SchedulerConfiguration(
            f"{name}-configuration",
            SchedulerConfigurationArgs(
                args.namespace, self._object_name, args.watcher.content, checked=args.watcher.configuration
            ),
            child(self),
        )
        account = k8s.core.v1.ServiceAccount(
            f"{name}-serviceaccount", metadata=metadata, automount_service_account_token=False, opts=child(self)
        )
        policy = k8s.networking.v1.NetworkPolicy(
            f"{name}-networkpolicy",
            metadata=metadata,
            spec=in_kubernetes_spelling(self._network_policy()),
            opts=child(self),
        )
        # The Deployment is waited for; its endpoints follow from that.
        unawaited_service(f"{name}-service", metadata, self._service(), child(self))
        deployment = k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=in_kubernetes_spelling(self._deployment(name_of(account), configuration.config_map_name)),
            opts=child(
                self,
                # The policy first: nobody else may reach it, not even for a moment.
                depends_on=[policy, *args.needs],
                custom_timeouts=rollout_timeouts(args.settings.ready_seconds),
            ),
        )
        self.name = name_of(deployment)
        self.register_outputs({"name": self.name})

    def _metadata(self) -> k8s.meta.v1.ObjectMetaArgsDict:
        return {"name": self._object_name, "namespace": self._args.namespace, "labels": self._labels}

    def _network_policy(self) -> dict[str, Any]:
        args = self._args
        clients = [args.operand, f"{args.operand}{CANARY_SUFFIX}"]
        if args.rebalancer:
            clients.append(rebalancer_name(args.operand))
        if args.page:
            clients.append(page_name(args.operand))
        ports = {*operand.source_ports(args.watcher.configuration), *args.settings.egress_ports}
        return operand.fenced_network_policy_spec(self._selector(), clients, LOAD_WATCHER_PORT, ports)

    def _service(self) -> dict[str, Any]:
        port = {"name": "http", "port": LOAD_WATCHER_PORT, "targetPort": LOAD_WATCHER_PORT, "protocol": "TCP"}
        return {"selector": self._selector(), "ports": [port]}

    def _selector(self) -> dict[str, str]:
        return {operand.LABEL_APP: self._object_name}

    def _deployment(self, account: pulumi.Input[str], config_map: pulumi.Input[str]) -> dict[str, Any]:
        args = self._args
        return {
            "replicas": 1,
            "selector": {"matchLabels": self._selector()},
            "strategy": dict(operand.ROLLING_UPDATE),
            "template": {
                "metadata": {
                    "labels": self._labels,
                    "annotations": {"openshift.io/required-scc": "restricted-v2"},
                },
                "spec": {
                    "serviceAccountName": account,
                    # The ServiceAccount's own token only where it is the credential.
                    "automountServiceAccountToken": args.watcher.rules.service_account_token is not None,
                    "securityContext": operand.pod_security(openshift=args.openshift),
                    "containers": [self._container()],
                    "volumes": self._volumes(config_map),
                },
            },
        }

    def _container(self) -> dict[str, Any]:
        args = self._args
        mounts: list[dict[str, Any]] = [
            {"name": operand.CONFIG_VOLUME, "mountPath": operand.CONFIG_DIRECTORY, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
        ]
        if self._credentials() is not None:
            directory = operand.METRIC_CREDENTIALS_DIRECTORY
            mounts.append({"name": operand.METRICS_VOLUME, "mountPath": directory, "readOnly": True})
        return {
            "name": "load-watcher",
            "image": args.watcher.image,
            "command": [_COMMAND],
            "args": [
                f"--config={operand.CONFIG_DIRECTORY}/{operand.CONFIG_KEY}",
                f"--listen=$(POD_IP):{LOAD_WATCHER_PORT}",
                "--serve-unauthenticated",
                *args.watcher.rules.arguments(),
            ],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
            "ports": [{"name": "http", "containerPort": LOAD_WATCHER_PORT, "protocol": "TCP"}],
            "startupProbe": {**_probe("/livez"), "periodSeconds": 1, "failureThreshold": 60},
            "livenessProbe": {**_probe("/livez"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
            "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "timeoutSeconds": 2},
            "resources": {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}},
            "securityContext": operand.CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        }

    def _volumes(self, config_map: pulumi.Input[str]) -> list[dict[str, Any]]:
        items = [{"key": operand.CONFIG_KEY, "path": operand.CONFIG_KEY}]
        credentials = self._credentials()
        return [
            {"name": operand.CONFIG_VOLUME, "configMap": {"name": config_map, "items": items}},
            operand.temporary_volume(),
            *([credentials] if credentials is not None else []),
        ]

    def _credentials(self) -> dict[str, Any] | None:
        reference = self._args.credentials
        return operand.metric_credentials_volume(reference.secret_name if reference else None, self._args.audience)


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": LOAD_WATCHER_PORT, "scheme": "HTTP"}}
