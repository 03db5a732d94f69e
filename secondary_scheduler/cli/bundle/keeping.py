"""The allowlist: which fields of which objects go into a bundle. What is not named here stays behind.

A new field is a decision: `tests/unit/cli/bundle/test_keeping.py` and docs/bundle.md have the same list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from scheduler import __version__, catalog
from scheduler.options import parse_options
from secondary_scheduler.cli.shapes import Each, Fields, Flags, Scalar, Table, scalars

OWN_DOMAIN: Final = "secondary-scheduler.io/"
_LABEL_DOMAINS: Final = (OWN_DOMAIN, "app.kubernetes.io/")
_LABELS: Final = ("app", "pod-template-hash")
OWN_ANNOTATIONS: Final = frozenset(
    {
        catalog.ANNOTATION_CACHE_CURRENT,
        catalog.ANNOTATION_CACHE_MESSAGE,
        catalog.ANNOTATION_CLUSTER_VERSION,
        catalog.ANNOTATION_CONFIGURATION_HASH,
        catalog.ANNOTATION_LOAD_FRESH,
        catalog.ANNOTATION_LOAD_MESSAGE,
        catalog.ANNOTATION_OVERCOMMITTED,
        catalog.ANNOTATION_OVERCOMMITTED_MESSAGE,
        catalog.ANNOTATION_UNREAD,
        catalog.ANNOTATION_VERSION,
        catalog.ANNOTATION_VERSION_MESSAGE,
        f"{OWN_DOMAIN}source",
    }
)
"""By name, not by our domain: others of ours hold arguments and environment of a revision."""
PROGRAMS: Final = frozenset({"kube-scheduler", "secondary-scheduler-operator"})
OPERATOR_FLAGS: Final = frozenset(
    {
        "--namespace",
        "--watch-namespaces",
        "--status-of",
        "--secrets",
        "--kubeconfig",
        "--bind-address",
        "--port",
        "--metrics-port",
        "--max-connections",
        "--max-connections-per-address",
        "-v",
        "--version",
        # Upstream's operator.
        "--config",
    }
)
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


@lru_cache
def known_flags() -> frozenset[str]:
    """Flags of the schedulers, ours and the Go ones, and of the operators."""
    shown = parse_options((), __version__).shown
    return OPERATOR_FLAGS | {f"--{name}" for name in shown} | {"-v"}


def is_own_label(key: str) -> bool:
    """Whether a label is ours or one of the recommended ones."""
    return key in _LABELS or key.startswith(_LABEL_DOMAINS)


def command_line() -> Flags:
    """What is kept of `command`, `args` and `extraArgs`."""
    return Flags(known_flags(), PROGRAMS)


def _metadata(*more: str) -> Fields:
    return Fields(
        {
            **scalars("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation", *more),
            "labels": Table(wanted=is_own_label),
            "annotations": Table(wanted=OWN_ANNOTATIONS.__contains__),
            "ownerReferences": Each(Fields(scalars("kind", "name", "uid"))),
        }
    )


_CONDITIONS: Final = Each(
    Fields(scalars("type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime", "observedGeneration"))
)
_TOLERATIONS: Final = Each(Fields(scalars("key", "operator", "value", "effect", "tolerationSeconds")))
_RESOURCES: Final = Fields({"requests": Table(), "limits": Table()})
_PROBE: Final = Fields(
    {
        "httpGet": Fields(scalars("path", "port", "scheme")),
        **scalars("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold"),
    }
)
_STATE: Final = Fields(
    {
        "running": Fields(scalars("startedAt")),
        "waiting": Fields(scalars("reason", "message")),
        "terminated": Fields(scalars("exitCode", "signal", "reason", "message", "startedAt", "finishedAt")),
    }
)
_CONTAINER_STATUSES: Final = Each(
    Fields(
        {
            **scalars("name", "image", "imageID", "ready", "started", "restartCount"),
            "state": _STATE,
            "lastState": _STATE,
        }
    )
)
ENVIRONMENT: Final = Each(Fields(scalars("name")))
"""Names, and no values."""


@lru_cache
def _pod_spec() -> Fields:
    container = Fields(
        {
            **scalars("name", "image", "imagePullPolicy"),
            "command": command_line(),
            "args": command_line(),
            "ports": Each(Fields(scalars("name", "containerPort", "protocol"))),
            "resources": _RESOURCES,
            "env": ENVIRONMENT,
            **dict.fromkeys(_PROBES, _PROBE),
        }
    )
    return Fields(
        {
            **scalars(
                "nodeName",
                "serviceAccountName",
                "schedulerName",
                "priorityClassName",
                "priority",
                "restartPolicy",
                "terminationGracePeriodSeconds",
            ),
            "nodeSelector": Table(),
            "tolerations": _TOLERATIONS,
            "initContainers": Each(container),
            "containers": Each(container),
            "volumes": Each(
                Fields(
                    {
                        **scalars("name"),
                        "configMap": Fields(scalars("name", "optional")),
                        "secret": Fields(scalars("secretName", "optional")),
                    }
                )
            ),
        }
    )


def _template() -> Fields:
    return Fields({"metadata": _metadata(), "spec": _pod_spec()})


def _secondary_scheduler() -> Fields:
    names = scalars(
        "managementState",
        "logLevel",
        "operatorLogLevel",
        "schedulerConfig",
        "schedulerImage",
        "flavour",
        "configPolicy",
        "priorityClassName",
        "allowDefaultSchedulerName",
        "allowTokenInConfigMap",
        "allowInsecureMetricCredentials",
    )
    topology = Fields(
        {
            **scalars("mode"),
            "highlyAvailableTopology": Fields(
                {**scalars("maxReplicas"), "nodeSelector": Table(), "tolerations": _TOLERATIONS}
            ),
        }
    )
    credentials = Fields({**scalars("secretName", "key", "address"), "serviceAccount": Fields(scalars("audience"))})
    spec = Fields(
        {
            **names,
            "topology": topology,
            "resources": _RESOURCES,
            "egressPorts": Each(Scalar()),
            "scrapeNamespaces": Each(Scalar()),
            "imagePullSecrets": Each(Fields(scalars("name"))),
            "command": command_line(),
            "extraArgs": command_line(),
            "env": ENVIRONMENT,
            "nodeSelector": Table(),
            "tolerations": _TOLERATIONS,
            "leaderElection": Fields(scalars("leaseDuration", "renewDeadline", "retryPeriod")),
            "metricCredentials": credentials,
            "rollout": Fields(scalars("canary")),
            "without": Each(Scalar()),
            "extraPlugins": Each(Fields({**scalars("name"), "points": Each(Scalar())})),
        }
    )
    generations = Each(Fields(scalars("group", "resource", "namespace", "name", "lastGeneration", "hash")))
    status = Fields(
        {
            **scalars(
                "observedGeneration",
                "version",
                "readyReplicas",
                "latestAvailableRevision",
                "configurationHash",
                "kubernetesVersion",
            ),
            "conditions": _CONDITIONS,
            "generations": generations,
            "schedulerNames": Each(Scalar()),
            "lastRollout": Fields(scalars("configurationHash", "image", "outcome", "message", "time")),
        }
    )
    return Fields({"metadata": _metadata(), "spec": spec, "status": status})


def _deployment() -> Fields:
    strategy = Fields({**scalars("type"), "rollingUpdate": Fields(scalars("maxSurge", "maxUnavailable"))})
    return Fields(
        {
            "metadata": _metadata(),
            "spec": Fields(
                {
                    **scalars("replicas", "paused", "progressDeadlineSeconds", "revisionHistoryLimit"),
                    "strategy": strategy,
                    "template": _template(),
                }
            ),
            "status": Fields(
                {
                    **scalars(
                        "observedGeneration",
                        "replicas",
                        "updatedReplicas",
                        "readyReplicas",
                        "availableReplicas",
                        "unavailableReplicas",
                    ),
                    "conditions": _CONDITIONS,
                }
            ),
        }
    )


def _replica_set() -> Fields:
    counts = scalars("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
    return Fields(
        {
            "metadata": _metadata(),
            "spec": Fields({**scalars("replicas"), "template": _template()}),
            "status": Fields({**counts, "conditions": _CONDITIONS}),
        }
    )


def _pod() -> Fields:
    status = Fields(
        {
            **scalars("phase", "reason", "message", "startTime", "qosClass"),
            "conditions": _CONDITIONS,
            "initContainerStatuses": _CONTAINER_STATUSES,
            "containerStatuses": _CONTAINER_STATUSES,
        }
    )
    return Fields({"metadata": _metadata(), "spec": _pod_spec(), "status": status})


def _lease() -> Fields:
    spec = scalars("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions")
    return Fields({"metadata": _metadata(), "spec": Fields(spec)})


def _event() -> Fields:
    return Fields(
        {
            "metadata": Fields(scalars("name", "namespace", "creationTimestamp")),
            "involvedObject": Fields(scalars("kind", "namespace", "name", "uid", "fieldPath")),
            **scalars("type", "reason", "action", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime"),
            **scalars("reportingComponent"),
            "series": Fields(scalars("count", "lastObservedTime")),
            "source": Fields(scalars("component")),
        }
    )


@lru_cache
def shapes() -> Mapping[str, Fields]:
    """What is kept of each kind, by the name of the kind."""
    return {
        "SecondaryScheduler": _secondary_scheduler(),
        "Deployment": _deployment(),
        "ReplicaSet": _replica_set(),
        "Pod": _pod(),
        "Lease": _lease(),
        "Event": _event(),
        # Its key config.yaml is kept by `keep_configuration`.
        "ConfigMap": Fields({"metadata": _metadata()}),
    }


@lru_cache
def allowlist() -> dict[str, list[str]]:
    """Return the paths that may be kept, by kind: `.metadata.labels{}`, `.spec.containers[].image`."""
    return {kind: list(shape.paths()) for kind, shape in shapes().items()}


def keep_object(kind: str, raw: Any) -> dict[str, Any]:
    """Return what of an object is kept, with its kind."""
    kept = shapes()[kind].keep(raw)
    return {"kind": kind, **(kept if isinstance(kept, dict) else {})}
