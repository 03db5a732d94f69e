"""The rebalancer beside a scheduler: its Deployment, and its rights in the scheduler's namespace."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.catalog import OPERAND, CredentialRules, rebalancer_name
from scheduler.operand.deployment import (
    CONTAINER_SECURITY,
    METRICS_VOLUME,
    ROLLING_UPDATE,
    metric_credentials_volume,
    pod_security,
    temporary_volume,
)
from scheduler.operand.objects import (
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    CONFIG_VOLUME,
    LABEL_APP,
    METRIC_CREDENTIALS_DIRECTORY,
    lease_rules,
    scrape_endpoint,
    scraped_service_spec,
    scraping_monitor_spec,
)

Json = dict[str, Any]

REBALANCER_COMMAND = "/bin/rebalancer"
REBALANCER_SETTINGS_KEY = "rebalance.yaml"
ANNOTATION_SETTINGS_HASH = "secondary-scheduler.io/settings-hash"
HEALTH_PORT, METRICS_PORT = 8080, 8443
_METRICS_PORT_NAME = "metrics"
_SETTINGS_DIRECTORY, _SETTINGS_VOLUME = "/etc/rebalancer", "settings"


@dataclass(frozen=True, kw_only=True)
class RebalancerOperand:
    """One rebalancer. Values that the Pulumi program may not know yet are of any type.

    Attributes:
        operand: name of the scheduler, from which the rebalancer's follows.
        mode: Predictive or Automatic.
        settings: what may be moved, as the rebalancer reads it.
        image: this project's.
        config_map: the ConfigMap with the scheduler's configuration.
        settings_map: the ConfigMap with `settings_text(settings)`.
        service_account: the identity that it runs under.
        openshift: whether admission chooses the numeric user.
        labels: of the pods; `app` among them.
        rules: where the configuration may take credentials for the load source from, and send them to.
        metric_secret: Secret with these credentials, if there is one.
        metric_audience: audience of a token of the ServiceAccount that is the credential instead.
        image_pull_secrets, node_selector, tolerations: of the pods; left out if empty.
    """

    mode: str
    settings: Mapping[str, Any]
    image: Any
    config_map: Any
    settings_map: Any
    service_account: Any
    operand: str = OPERAND
    openshift: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    rules: CredentialRules = field(default_factory=CredentialRules)
    metric_secret: Any = None
    metric_audience: str = ""
    image_pull_secrets: Sequence[Json] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()


def settings_map_name(operand: str) -> str:
    """Return the name of the ConfigMap that says what a scheduler's rebalancer may move."""
    return f"{rebalancer_name(operand)}-settings"


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return the file that the rebalancer reads, as JSON."""
    return json.dumps(settings, indent=1, sort_keys=True)


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Return a hash of what may be moved; 16 hex digits."""
    return hashlib.sha256(settings_text(settings).encode()).hexdigest()[:16]


def rebalancer_selector(operand: str) -> dict[str, str]:
    """Return the label by which a rebalancer's pods are selected."""
    return {LABEL_APP: rebalancer_name(operand)}


def rebalancer_deployment_spec(rebalancer: RebalancerOperand) -> Json:
    """Return the spec of the Deployment."""
    credentials = metric_credentials_volume(rebalancer.metric_secret, rebalancer.metric_audience)
    # A change of what may be moved takes effect with the update, not when the kubelet has noticed.
    changing = {ANNOTATION_SETTINGS_HASH: settings_hash(rebalancer.settings)}
    optional: Json = {
        "imagePullSecrets": list(rebalancer.image_pull_secrets),
        "nodeSelector": dict(rebalancer.node_selector),
        "tolerations": list(rebalancer.tolerations),
    }
    items = [{"key": CONFIG_KEY, "path": CONFIG_KEY}]
    return {
        "replicas": 1,
        "selector": {"matchLabels": rebalancer_selector(rebalancer.operand)},
        "strategy": dict(ROLLING_UPDATE),
        "template": {
            "metadata": {
                "labels": dict(rebalancer.labels),
                "annotations": {"openshift.io/required-scc": "restricted-v2", **changing},
            },
            "spec": {
                "serviceAccountName": rebalancer.service_account,
                "securityContext": pod_security(openshift=rebalancer.openshift),
                "containers": [_container(rebalancer, with_credentials=credentials is not None)],
                "volumes": [
                    {"name": CONFIG_VOLUME, "configMap": {"name": rebalancer.config_map, "items": items}},
                    {"name": _SETTINGS_VOLUME, "configMap": {"name": rebalancer.settings_map}},
                    temporary_volume(),
                    *([credentials] if credentials is not None else []),
                ],
                **{key: value for key, value in optional.items() if value},
            },
        },
    }


def rebalancer_service_spec(operand: str) -> Json:
    """Return the spec of the Service that Prometheus scrapes; it has the rebalancer's name."""
    return scraped_service_spec(rebalancer_selector(operand), _METRICS_PORT_NAME, METRICS_PORT)


def rebalancer_monitor_spec(operand: str, namespace: str) -> Json:
    """Return the spec of a ServiceMonitor for that Service. The certificate is self-signed, on OpenShift, too."""
    return scraping_monitor_spec(rebalancer_selector(operand), namespace, scrape_endpoint(_METRICS_PORT_NAME))


def rebalancer_namespace_rules(operand: str) -> list[Json]:
    """Return a rebalancer's rights in the scheduler's namespace: its Lease, its status, and the scheduler's health.

    The operator grants them, so it must hold each of them.
    """
    name = rebalancer_name(operand)
    return [
        *lease_rules(name),
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]},
        # RBAC cannot restrict create by name: the authorizer does not know the name yet.
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": [operand], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [operand], "verbs": ["get"]},
        {"apiGroups": ["operator.openshift.io"], "resources": ["secondaryschedulers"], "verbs": ["list"]},
    ]


def _container(rebalancer: RebalancerOperand, *, with_credentials: bool) -> Json:
    mounts: list[Json] = [
        {"name": CONFIG_VOLUME, "mountPath": CONFIG_DIRECTORY, "readOnly": True},
        {"name": _SETTINGS_VOLUME, "mountPath": _SETTINGS_DIRECTORY, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a path in the container
    ]
    if with_credentials:
        mounts.append({"name": METRICS_VOLUME, "mountPath": METRIC_CREDENTIALS_DIRECTORY, "readOnly": True})
    return {
        "name": "rebalancer",
        "image": rebalancer.image,
        "command": [REBALANCER_COMMAND],
        "args": [
            f"--config={CONFIG_DIRECTORY}/{CONFIG_KEY}",
            f"--settings={_SETTINGS_DIRECTORY}/{REBALANCER_SETTINGS_KEY}",
            f"--mode={rebalancer.mode}",
            f"--scheduler=$(POD_NAMESPACE)/{rebalancer.operand}",
            f"--name={rebalancer_name(rebalancer.operand)}",
            *rebalancer.rules.arguments(),
        ],
        "env": [
            _from_pod("POD_NAMESPACE", "metadata.namespace"),
            _from_pod("POD_NAME", "metadata.name"),
            _from_pod("POD_IP", "status.podIP"),
        ],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": _METRICS_PORT_NAME, "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 2, "timeoutSeconds": 2},
        "resources": {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }


def _from_pod(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _probe(path: str) -> Json:
    return {"httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"}}
