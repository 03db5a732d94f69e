"""The scheduler's Deployment.

Upstream's contract (command, paths, port, flag names, labels) is kept, since users' dashboards and images know it. What
differs is repaired on purpose: probes that answer at once and tell live from ready, short Lease timings, TLS flags only
when there is a certificate, a numeric user, the rollout keyed by the configuration's content.
"""

import json
from dataclasses import dataclass
from typing import Any

from scheduler.catalog import OPERAND
from scheduler.config import DEFAULT_SCHEDULER_NAME, flavour_of
from secondary_scheduler.controller.reconcile import names
from secondary_scheduler.controller.reconcile.configuration import EffectiveConfiguration
from secondary_scheduler.controller.reconcile.model import Json, Observed
from secondary_scheduler.controller.reconcile.objects import new_object
from secondary_scheduler.controller.reconcile.platform import tls_arguments
from secondary_scheduler.controller.reconcile.revision import Revision, Run, note
from secondary_scheduler.controller.reconcile.spec import Spec

USER = 65532
"""The user of distroless images, upstream's scheduler images included."""
DEFAULT_RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "128Mi"}}
CONTAINER_SECURITY: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
STARTUP_SECONDS = 120
"""How long a scheduler may take to list a large cluster before it counts as stuck."""

_CERTS_VOLUME = "certs-dir"
_METRICS_VOLUME = "metric-credentials"


def is_our_image(image: str) -> bool:
    """Whether the image is this project's scheduler, from whatever registry: it reports its configuration's hash."""
    return flavour_of(image).is_ours


@dataclass(frozen=True)
class _Part:
    """What the scheduler and its candidate differ in."""

    name: str
    """Of the Deployment and the Lease, and the pods' label `app`."""
    labels: dict[str, str]
    config_map: str
    strategy: Json
    replicas: int
    configuration_hash: str
    revision_mark: str


def wanted_revision(observed: Observed, spec: Spec, configuration: EffectiveConfiguration) -> Revision:
    """What the spec asks for, with a configuration."""
    timings = spec.leader_election
    return Revision(
        configuration=configuration.hash,
        image=spec.scheduler_image,
        command=tuple(spec.command),
        lease_timings=(timings.lease_duration, timings.renew_deadline, timings.retry_period),
        args=(
            *(["--allow-default-scheduler-name"] if _must_allow_default_name(spec, configuration) else []),
            *tls_arguments(observed, spec.extra_args),
            *spec.extra_args,
        ),
        env=json.dumps([*_environment(observed, spec), *spec.env], sort_keys=True),
    )


def _environment(observed: Observed, spec: Spec) -> list[Json]:
    """What upstream gives its image: the load-watcher in it then trusts OpenShift's own certificates. Elsewhere the
    variable would make it distrust those that the configuration names."""
    name = "ENABLE_OPENSHIFT_AUTH"
    given = any(variable.get("name") == name for variable in spec.env)
    wanted = observed.openshift and not is_our_image(spec.scheduler_image) and not given
    return [{"name": name, "value": "true"}] if wanted else []


def flags_of_lease(observed: Observed, spec: Spec) -> dict[str, object]:
    """What the flags say, under the names that `leaderElection` of a configuration has for it."""
    timings = spec.leader_election
    return {
        "leaderElect": True,
        "leaseDuration": timings.lease_duration,
        "renewDeadline": timings.renew_deadline,
        "retryPeriod": timings.retry_period,
        "resourceLock": "leases",
        "resourceName": observed.names.operand,
        "resourceNamespace": observed.namespace,
    }


def deployment(observed: Observed, spec: Spec, run: Run, replicas: int) -> Json:
    """The Deployment that runs a revision; what can not be proven by a candidate comes from the spec."""
    part = _Part(
        name=observed.names.operand,
        labels=observed.names.labels,
        config_map=observed.names.active_config_map(run.revision.configuration),
        # The Lease keeps two at a time from scheduling; the old one leaves only when the new one is ready.
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        replicas=replicas,
        configuration_hash=run.revision.configuration,
        revision_mark=run.revision.key,
    )
    return _deployment(observed, spec, run, part)


def candidate_deployment(observed: Observed, spec: Spec, run: Run, reported_hash: str, attempt: str) -> Json:
    """The same for the candidate, whose own configuration has another hash; a former attempt's pod goes first."""
    part = _Part(
        name=observed.names.candidate,
        labels=observed.names.candidate_labels,
        config_map=observed.names.candidate_config_map(run.revision.configuration),
        strategy={"type": "Recreate"},
        replicas=1,
        configuration_hash=reported_hash,
        revision_mark=attempt,
    )
    return _deployment(observed, spec, run, part)


def _deployment(observed: Observed, spec: Spec, run: Run, part: _Part) -> Json:
    annotations = {
        names.ANNOTATION_CONFIGURATION_HASH: part.configuration_hash,
        names.ANNOTATION_REVISION: part.revision_mark,
    }
    if observed.openshift:
        annotations["openshift.io/required-scc"] = "restricted-v2"
    body = new_object(
        observed,
        "Deployment",
        part.name,
        part.labels,
        spec={
            "replicas": part.replicas,
            "selector": {"matchLabels": _selector(part)},
            "strategy": part.strategy,
            "template": {
                "metadata": {"labels": part.labels, "annotations": annotations},
                "spec": _pod_spec(observed, spec, run.revision, part, serving_cert=has_serving_cert(observed)),
            },
        },
    )
    body["metadata"]["annotations"] = {names.ANNOTATION_REVISION: note(run)}
    return body


def has_serving_cert(observed: Observed) -> bool:
    """Whether to serve the certificate of the serving-cert Secret; keeps what runs where Secrets cannot be read."""
    if "Secret" not in observed.unreadable:
        return observed.get("Secret", observed.names.serving_cert_secret) is not None
    live = observed.get("Deployment", observed.names.operand)
    volumes = live["spec"]["template"]["spec"].get("volumes") or [] if live else []
    return any(volume["name"] == _CERTS_VOLUME for volume in volumes)


def _arguments(observed: Observed, spec: Spec, revision: Revision, lease: str, *, serving_cert: bool) -> list[str]:
    """The scheduler's command line. The Lease flags win over leaderElection in the file, as upstream."""
    lease_duration, renew_deadline, retry_period = revision.lease_timings
    args = [f"--config={names.CONFIG_DIRECTORY}/{names.CONFIG_KEY}"]
    if serving_cert:
        args += [
            f"--tls-cert-file={names.CERTS_DIRECTORY}/tls.crt",
            f"--tls-private-key-file={names.CERTS_DIRECTORY}/tls.key",
        ]
    return [
        *args,
        "--leader-elect=true",
        f"--leader-elect-lease-duration={lease_duration}",
        f"--leader-elect-renew-deadline={renew_deadline}",
        "--leader-elect-resource-lock=leases",
        f"--leader-elect-resource-name={lease}",
        f"--leader-elect-resource-namespace={observed.namespace}",
        f"--leader-elect-retry-period={retry_period}",
        f"-v={spec.verbosity}",
        *revision.args,
    ]


def _must_allow_default_name(spec: Spec, configuration: EffectiveConfiguration) -> bool:
    # The configuration was accepted with that name. Upstream's binary does not know the flag, and needs none.
    return DEFAULT_SCHEDULER_NAME in configuration.scheduler_names and is_our_image(spec.scheduler_image)


def pod_security(observed: Observed) -> Json:
    """What Kubernetes' restricted pods are."""
    security: Json = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if not observed.openshift:
        # OpenShift's SCC assigns a user from the namespace's range and refuses any other.
        security["runAsUser"] = USER
    return security


def _pod_spec(observed: Observed, spec: Spec, revision: Revision, part: _Part, *, serving_cert: bool) -> Json:
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
        "securityContext": pod_security(observed),
        "affinity": spec.affinity if spec.affinity is not None else _spread_over_nodes(part),
        "containers": [_container(observed, spec, revision, part, serving_cert=serving_cert)],
        "volumes": _volumes(observed, spec, part, serving_cert=serving_cert),
        **{key: value for key, value in optional.items() if value},
    }


def _container(observed: Observed, spec: Spec, revision: Revision, part: _Part, *, serving_cert: bool) -> Json:
    mounts: list[Json] = [
        {"name": names.CONFIG_VOLUME, "mountPath": names.CONFIG_DIRECTORY, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 the only place upstream's images may write to
    ]
    if serving_cert:
        mounts.append({"name": _CERTS_VOLUME, "mountPath": names.CERTS_DIRECTORY, "readOnly": True})
    if spec.metric_credentials:
        mounts.append({"name": _METRICS_VOLUME, "mountPath": names.METRIC_CREDENTIALS_DIRECTORY, "readOnly": True})
    container = {
        "name": OPERAND,
        "image": revision.image,
        "command": list(revision.command or flavour_of(revision.image).command),
        "args": _arguments(observed, spec, revision, part.name, serving_cert=serving_cert),
        "ports": [{"name": "https", "containerPort": names.SECURE_PORT, "protocol": "TCP"}],
        "resources": spec.resources if spec.resources is not None else DEFAULT_RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": _probe("/livez", period=1, timeout=2, failures=STARTUP_SECONDS),
        "livenessProbe": _probe("/livez", period=10, timeout=5, failures=3),
        "readinessProbe": _probe("/readyz", period=2, timeout=2, failures=3),
        "volumeMounts": mounts,
    }
    env = json.loads(revision.env)
    if env:
        container["env"] = env
    return container


def _volumes(observed: Observed, spec: Spec, part: _Part, *, serving_cert: bool) -> list[Json]:
    volumes: list[Json] = [
        {"name": names.CONFIG_VOLUME, "configMap": {"name": part.config_map}},
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


def _selector(part: _Part) -> dict[str, str]:
    return {names.LABEL_APP: part.name}


def _spread_over_nodes(part: _Part) -> Json:
    term = {"labelSelector": {"matchLabels": _selector(part)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }
