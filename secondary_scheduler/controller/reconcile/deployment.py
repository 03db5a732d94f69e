"""The scheduler's Deployment.

Upstream's contract (command, paths, port, flag names, labels) is kept, since users' dashboards and images know it. What
differs is repaired on purpose: probes that answer at once and tell live from ready, short Lease timings, TLS flags only
when there is a certificate, a numeric user, the rollout keyed by the configuration's content.
"""

from typing import Any

from scheduler.config import DEFAULT_SCHEDULER_NAME, flavour_of
from secondary_scheduler.controller.reconcile import names
from secondary_scheduler.controller.reconcile.configuration import EffectiveConfiguration
from secondary_scheduler.controller.reconcile.model import Json, Observed
from secondary_scheduler.controller.reconcile.objects import new_object
from secondary_scheduler.controller.reconcile.spec import Spec

USER = 65532
"""The user of distroless images, upstream's scheduler images included."""
DEFAULT_RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "128Mi"}}
STARTUP_SECONDS = 120
"""How long a scheduler may take to list a large cluster before it counts as stuck."""

_CERTS_VOLUME = "certs-dir"
_METRICS_VOLUME = "metric-credentials"


def is_our_image(image: str) -> bool:
    """Whether the image is this project's scheduler, from whatever registry: it reports its configuration's hash."""
    return flavour_of(image).is_ours


def deployment(observed: Observed, spec: Spec, configuration: EffectiveConfiguration, replicas: int) -> Json:
    """The Deployment that runs the image with the configuration; spec.schedulerImage must not be empty."""
    serving_cert = has_serving_cert(observed)
    template = {
        "metadata": {
            "labels": observed.names.labels,
            "annotations": _pod_annotations(observed, configuration),
        },
        "spec": _pod_spec(observed, spec, configuration, serving_cert=serving_cert),
    }
    return new_object(
        observed,
        "Deployment",
        observed.names.operand,
        observed.names.labels,
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": _selector(observed)},
            # The Lease keeps two at a time from scheduling; the old one leaves only when the new one is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template,
        },
    )


def has_serving_cert(observed: Observed) -> bool:
    """Whether to serve the certificate of the serving-cert Secret; keeps what runs where Secrets cannot be read."""
    if "Secret" not in observed.unreadable:
        return observed.get("Secret", observed.names.serving_cert_secret) is not None
    live = observed.get("Deployment", observed.names.operand)
    volumes = live["spec"]["template"]["spec"].get("volumes") or [] if live else []
    return any(volume["name"] == _CERTS_VOLUME for volume in volumes)


def arguments(
    observed: Observed, spec: Spec, configuration: EffectiveConfiguration, *, serving_cert: bool
) -> list[str]:
    """The scheduler's command line. The Lease flags win over leaderElection in the file, as upstream."""
    timings = spec.leader_election
    args = [f"--config={names.CONFIG_DIRECTORY}/{names.CONFIG_KEY}"]
    if serving_cert:
        args += [
            f"--tls-cert-file={names.CERTS_DIRECTORY}/tls.crt",
            f"--tls-private-key-file={names.CERTS_DIRECTORY}/tls.key",
        ]
    return [
        *args,
        "--leader-elect=true",
        f"--leader-elect-lease-duration={timings.lease_duration}",
        f"--leader-elect-renew-deadline={timings.renew_deadline}",
        "--leader-elect-resource-lock=leases",
        f"--leader-elect-resource-name={observed.names.operand}",
        f"--leader-elect-resource-namespace={observed.namespace}",
        f"--leader-elect-retry-period={timings.retry_period}",
        f"-v={spec.verbosity}",
        *(["--allow-default-scheduler-name"] if _must_allow_default_name(spec, configuration) else []),
        *spec.extra_args,
    ]


def _must_allow_default_name(spec: Spec, configuration: EffectiveConfiguration) -> bool:
    # The configuration was accepted with that name. Upstream's binary does not know the flag, and needs none.
    return DEFAULT_SCHEDULER_NAME in configuration.scheduler_names and is_our_image(spec.scheduler_image)


def _pod_annotations(observed: Observed, configuration: EffectiveConfiguration) -> dict[str, str]:
    annotations = {names.ANNOTATION_CONFIGURATION_HASH: configuration.hash}
    if observed.openshift:
        annotations["openshift.io/required-scc"] = "restricted-v2"
    return annotations


def _pod_spec(observed: Observed, spec: Spec, configuration: EffectiveConfiguration, *, serving_cert: bool) -> Json:
    security: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not observed.openshift:
        # OpenShift's SCC assigns a user from the namespace's range and refuses any other.
        security["runAsUser"] = USER
    topology = spec.topology.highly_available_topology if spec.highly_available else None
    node_selector = {**(topology.node_selector if topology else {}), **spec.node_selector}
    tolerations = [*(topology.tolerations if topology else []), *spec.tolerations]
    optional = {
        "priorityClassName": spec.priority_class_name,
        "imagePullSecrets": spec.image_pull_secrets,
        "nodeSelector": node_selector,
        "tolerations": tolerations,
    }
    return {
        "serviceAccountName": observed.names.operand,
        "restartPolicy": "Always",
        "securityContext": security,
        "affinity": spec.affinity if spec.affinity is not None else _spread_over_nodes(observed),
        "containers": [_container(observed, spec, configuration, serving_cert=serving_cert)],
        "volumes": _volumes(observed, spec, configuration, serving_cert=serving_cert),
        **{key: value for key, value in optional.items() if value},
    }


def _container(observed: Observed, spec: Spec, configuration: EffectiveConfiguration, *, serving_cert: bool) -> Json:
    mounts: list[Json] = [
        {"name": names.CONFIG_VOLUME, "mountPath": names.CONFIG_DIRECTORY, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 the only place upstream's images may write to
    ]
    if serving_cert:
        mounts.append({"name": _CERTS_VOLUME, "mountPath": names.CERTS_DIRECTORY, "readOnly": True})
    if spec.metric_credentials:
        mounts.append({"name": _METRICS_VOLUME, "mountPath": names.METRIC_CREDENTIALS_DIRECTORY, "readOnly": True})
    container = {
        "name": names.OPERAND,
        "image": spec.scheduler_image,
        "command": list(spec.command or flavour_of(spec.scheduler_image).command),
        "args": arguments(observed, spec, configuration, serving_cert=serving_cert),
        "ports": [{"name": "https", "containerPort": names.SECURE_PORT, "protocol": "TCP"}],
        "resources": spec.resources if spec.resources is not None else DEFAULT_RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "startupProbe": _probe("/livez", period=1, timeout=2, failures=STARTUP_SECONDS),
        "livenessProbe": _probe("/livez", period=10, timeout=5, failures=3),
        "readinessProbe": _probe("/readyz", period=2, timeout=2, failures=3),
        "volumeMounts": mounts,
    }
    if spec.env:
        container["env"] = spec.env
    return container


def _volumes(
    observed: Observed, spec: Spec, configuration: EffectiveConfiguration, *, serving_cert: bool
) -> list[Json]:
    copy = observed.names.active_config_map(configuration.hash)
    volumes: list[Json] = [
        {"name": names.CONFIG_VOLUME, "configMap": {"name": copy}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if serving_cert:
        volumes.append({"name": _CERTS_VOLUME, "secret": {"secretName": observed.names.serving_cert_secret}})
    if spec.metric_credentials:
        # Mounted whole, so that a renewed token reaches the running pod and a ca.crt beside it is found.
        volumes.append({"name": _METRICS_VOLUME, "secret": {"secretName": spec.metric_credentials.secret_name}})
    return volumes


def _probe(path: str, *, period: int, timeout: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": names.SECURE_PORT, "scheme": "HTTPS"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


def _selector(observed: Observed) -> dict[str, str]:
    return {names.LABEL_APP: observed.names.operand}


def _spread_over_nodes(observed: Observed) -> Json:
    term = {"labelSelector": {"matchLabels": _selector(observed)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }
