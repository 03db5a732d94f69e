"""The scheduler's Deployment.

Upstream's contract (command, paths, port, flag names, labels) is kept, as users' dashboards and images rely on it. The
differences are deliberate: probes that react at once and tell liveness from readiness, short Lease timings, TLS flags
only with a certificate, a numeric user, and rollouts triggered by the configuration's content.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from scheduler.catalog import HANDOVER_AUDIENCE, HANDOVER_DIRECTORY, OPERAND
from scheduler.config import Flavour, flavour_of
from scheduler.operand.objects import (
    CERTS_DIRECTORY,
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    CONFIG_VOLUME,
    LABEL_APP,
    METRIC_CREDENTIALS_DIRECTORY,
    SECURE_PORT,
)

Json = dict[str, Any]

CERTS_VOLUME = "certs-dir"
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_USER = 65532
"""The user of distroless images, upstream's scheduler images included."""
_DEFAULT_RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}
"""With 5,000 nodes and 35,000 pods ours takes 165 MiB and kube-scheduler 615 MiB (docs/benchmarks.md). The limit ends a
process that grows without end before its node suffers, and leaves large clusters room. No limit for CPU: throttling
would delay the Lease."""
_TEMPORARY_SIZE = "64Mi"
"""Nothing but a certificate for the moment that it is loaded, and what a crash dumps, goes there."""
_STARTUP_SECONDS = 120
"""How long a scheduler may take to list a large cluster before it counts as stuck."""
_TOKEN_SECONDS = 3600
_HANDOVER_TOKEN_SECONDS = 600
"""The shortest that Kubernetes issues."""
HANDOVER_VOLUME = "handover-token"
METRICS_VOLUME = "metric-credentials"
ROLLING_UPDATE: Json = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
"""The Lease keeps two from scheduling at a time; the old one is removed only when the new one is ready."""


class Timings(NamedTuple):
    """Timings of the Lease, as Go durations."""

    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"


@dataclass(frozen=True)
class Operand:
    """One scheduler with its replicas.

    Attributes:
        name: of Deployment and Lease, and value of the pods' label `app`.
        namespace: where it runs.
        image: of the container; the command follows from its name unless `command` is given.
        config_map: the ConfigMap whose key `config.yaml` is its configuration.
        service_account: the identity that it runs under.
        openshift: whether admission chooses the numeric user.
        labels: of the pods; `app` among them.
        annotations: of the pods.
        strategy: how the Deployment replaces pods.
        replicas: number of pods.
        command: of the container; empty for that of the image's flavour.
        arguments: appended to the fixed arguments.
        timings: of the Lease.
        verbosity: the scheduler's `-v`.
        env: of the container.
        serving_cert_secret: Secret with the serving certificate; without it the scheduler generates its own.
        metric_secret: Secret with the credentials for the metric source.
        metric_audience: audience of a token of the ServiceAccount that is the credential instead.
        priority_class_name, image_pull_secrets, node_selector, tolerations: of the pods; left out if empty.
        resources: of the container; None for requests of 100m CPU and 128Mi memory, and a limit of 2Gi memory.
        affinity: None to prefer different nodes for replicas.
    """

    name: str
    namespace: str
    image: str
    config_map: str
    service_account: str = OPERAND
    openshift: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    strategy: Json = field(default_factory=lambda: dict(ROLLING_UPDATE))
    replicas: int = 1
    command: Sequence[str] = ()
    arguments: Sequence[str] = ()
    timings: Timings = field(default_factory=Timings)
    verbosity: int = 2
    env: Sequence[Json] = ()
    resources: Json | None = None
    serving_cert_secret: str | None = None
    metric_secret: str | None = None
    metric_audience: str = ""
    priority_class_name: str = ""
    image_pull_secrets: Sequence[Json] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()
    affinity: Json | None = None


def deployment_spec(operand: Operand) -> Json:
    """Return the spec of the Deployment."""
    annotations = dict(operand.annotations)
    if operand.openshift:
        annotations["openshift.io/required-scc"] = "restricted-v2"
    return {
        "replicas": operand.replicas,
        "selector": {"matchLabels": _selector(operand)},
        "strategy": operand.strategy,
        "template": {
            "metadata": {"labels": {**operand.labels, **_selector(operand)}, "annotations": annotations},
            "spec": _pod_spec(operand),
        },
    }


def environment_for(image: Flavour, *, openshift: bool) -> list[Json]:
    """Return the environment that upstream sets: the image's load-watcher then trusts OpenShift's certificates.

    On other clusters the variable would make it distrust those that the configuration names.
    """
    wanted = openshift and not image.is_ours
    return [{"name": "ENABLE_OPENSHIFT_AUTH", "value": "true"}] if wanted else []


def pod_security(*, openshift: bool) -> Json:
    """Return a pod security context for the `restricted` Pod Security Standard."""
    security: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not openshift:
        # OpenShift's SCC assigns a user from the namespace's range and rejects any other.
        security["runAsUser"] = _USER
    return security


def temporary_volume() -> Json:
    """Return the volume `tmp` for /tmp, whose size is limited: the kubelet evicts a pod that fills it."""
    return {"name": "tmp", "emptyDir": {"sizeLimit": _TEMPORARY_SIZE}}


def metric_credentials_volume(secret: object, audience: str) -> Json | None:
    """Return the volume with the credentials for the metric source: a Secret, or a token of the ServiceAccount for an
    audience; None if there is neither.

    `secret` is a name, which the Pulumi program may not know yet. A Secret is mounted as a whole, so that a rotated
    token reaches the running pod and a ca.crt next to it is found.
    """
    if secret is not None:
        return {"name": METRICS_VOLUME, "secret": {"secretName": secret}}
    if audience:
        token = {"audience": audience, "path": "token", "expirationSeconds": _TOKEN_SECONDS}
        return {"name": METRICS_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
    return None


def is_fixed_flag(argument: str) -> bool:
    """Tell whether an argument sets a flag that is part of the contract and must not be overridden.

    Operator and program rely on the location of configuration and Lease and on the serving port.
    """
    # Kubernetes' flags may be written with underscores.
    flag = argument.partition("=")[0].replace("_", "-")
    return flag in ("--config", "--secure-port", "--leader-elect") or flag.startswith("--leader-elect-")


def _arguments(operand: Operand) -> list[str]:
    """The scheduler's command line. The Lease flags take precedence over leaderElection in the file, as upstream."""
    args = [f"--config={CONFIG_DIRECTORY}/{CONFIG_KEY}"]
    if operand.serving_cert_secret:
        args += [
            f"--tls-cert-file={CERTS_DIRECTORY}/tls.crt",
            f"--tls-private-key-file={CERTS_DIRECTORY}/tls.key",
        ]
    return [
        *args,
        "--leader-elect=true",
        f"--leader-elect-lease-duration={operand.timings.lease_duration}",
        f"--leader-elect-renew-deadline={operand.timings.renew_deadline}",
        "--leader-elect-resource-lock=leases",
        f"--leader-elect-resource-name={operand.name}",
        f"--leader-elect-resource-namespace={operand.namespace}",
        f"--leader-elect-retry-period={operand.timings.retry_period}",
        f"-v={operand.verbosity}",
        *operand.arguments,
    ]


def _pod_spec(operand: Operand) -> Json:
    optional: Json = {
        "priorityClassName": operand.priority_class_name,
        "imagePullSecrets": list(operand.image_pull_secrets),
        "nodeSelector": dict(operand.node_selector),
        "tolerations": list(operand.tolerations),
    }
    return {
        "serviceAccountName": operand.service_account,
        "restartPolicy": "Always",
        "securityContext": pod_security(openshift=operand.openshift),
        "affinity": operand.affinity if operand.affinity is not None else _spread_over_nodes(operand),
        "containers": [_container(operand)],
        "volumes": _volumes(operand),
        **{key: value for key, value in optional.items() if value},
    }


def _container(operand: Operand) -> Json:
    mounts: list[Json] = [
        {"name": CONFIG_VOLUME, "mountPath": CONFIG_DIRECTORY, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 the only place upstream's images may write to
    ]
    if operand.serving_cert_secret:
        mounts.append({"name": CERTS_VOLUME, "mountPath": CERTS_DIRECTORY, "readOnly": True})
    if _takes_over(operand):
        mounts.append({"name": HANDOVER_VOLUME, "mountPath": HANDOVER_DIRECTORY, "readOnly": True})
    if operand.metric_secret or operand.metric_audience:
        mounts.append({"name": METRICS_VOLUME, "mountPath": METRIC_CREDENTIALS_DIRECTORY, "readOnly": True})
    return {
        "name": OPERAND,
        "image": operand.image,
        "command": list(operand.command or flavour_of(operand.image).command),
        "args": _arguments(operand),
        "ports": [{"name": "https", "containerPort": SECURE_PORT, "protocol": "TCP"}],
        "resources": operand.resources if operand.resources is not None else _DEFAULT_RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": _probe("/livez", period=1, timeout=2, failures=_STARTUP_SECONDS),
        "livenessProbe": _probe("/livez", period=10, timeout=5, failures=3),
        "readinessProbe": _probe("/readyz", period=2, timeout=2, failures=3),
        "volumeMounts": mounts,
        **({"env": list(operand.env)} if operand.env else {}),
    }


def _volumes(operand: Operand) -> list[Json]:
    # One key only: another file of the ConfigMap could be named as a kubeconfig or CA that whoever wrote it controls.
    config = {"name": operand.config_map, "items": [{"key": CONFIG_KEY, "path": CONFIG_KEY}]}
    volumes: list[Json] = [
        {"name": CONFIG_VOLUME, "configMap": config},
        temporary_volume(),
    ]
    if operand.serving_cert_secret:
        volumes.append({"name": CERTS_VOLUME, "secret": {"secretName": operand.serving_cert_secret}})
    if _takes_over(operand):
        token = {"audience": HANDOVER_AUDIENCE, "path": "token", "expirationSeconds": _HANDOVER_TOKEN_SECONDS}
        volumes.append({"name": HANDOVER_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}})
    credentials = metric_credentials_volume(operand.metric_secret or None, operand.metric_audience)
    return [*volumes, credentials] if credentials is not None else volumes


def _takes_over(operand: Operand) -> bool:
    """Whether the image hands the history of decisions over to the next leader."""
    return flavour_of(operand.image).is_ours


def _probe(path: str, *, period: int, timeout: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": SECURE_PORT, "scheme": "HTTPS"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _selector(operand: Operand) -> dict[str, str]:
    return {LABEL_APP: operand.name}


def _spread_over_nodes(operand: Operand) -> Json:
    term = {"labelSelector": {"matchLabels": _selector(operand)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


FEWER_REPLICAS: Final = "FewerReplicas"
"""Reason of the condition Available, whose message then begins with both numbers and why, up to a semicolon."""


def shortage_of(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Return what the conditions of a SecondaryScheduler say about it, such as `1 of 2 wanted: one suitable node`; ""
    where as many replicas run as are wanted."""
    for condition in conditions:
        if condition.get("type") == "Available" and condition.get("reason") == FEWER_REPLICAS:
            return str(condition.get("message") or "").partition(";")[0]
    return ""
