"""Objects that make a scheduler safer or better observed, and without which it runs all the same.

A failure to write one is told as a warning and holds nothing else up.
"""

from collections.abc import Iterator

from secondary_scheduler.controller.reconcile import names
from secondary_scheduler.controller.reconcile.model import Json, Observed
from secondary_scheduler.controller.reconcile.objects import new_object

KINDS = frozenset({"PodDisruptionBudget", "NetworkPolicy", "FlowSchema", "ServiceMonitor"})

_SERVICE_CA = "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"
_PROMETHEUS_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 -- a path


def optional_objects(observed: Observed, replicas: int) -> Iterator[Json]:
    """What is wanted of these kinds, as far as the API server serves them."""
    if replicas > 1:
        yield _disruption_budget(observed)
    yield _network_policy(observed)
    yield from _flow_schemas(observed)
    if "ServiceMonitor" not in observed.unserved:
        yield _service_monitor(observed)


def _disruption_budget(observed: Observed) -> Json:
    """One replica at a time may be drained. A single one has no budget: it would make its node undrainable."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _pods(observed)}}
    return _object(observed, "PodDisruptionBudget", observed.names.operand, spec)


def _network_policy(observed: Observed) -> Json:
    """Only the port that is authenticated can be reached."""
    spec = {
        "podSelector": {"matchLabels": _pods(observed)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": names.SECURE_PORT}]}],
    }
    return _object(observed, "NetworkPolicy", observed.names.operand, spec)


def _flow_schemas(observed: Observed) -> Iterator[Json]:
    """Under load the API server shall neither starve the Lease, whose loss ends the process, nor the bindings.

    The priority levels are those that every API server has.
    """
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}
    leases = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["*"],
        "namespaces": [observed.namespace],
    }
    account = {"kind": "ServiceAccount", "serviceAccount": _account(observed)}
    # Above the precedence of the API server's own schemas for service accounts (9,000) and workloads.
    for purpose, level, precedence, rule in (
        ("leases", "leader-election", 150, leases),
        ("requests", "workload-high", 900, everything),
    ):
        spec: Json = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [account], "resourceRules": [rule]}],
        }
        yield _object(observed, "FlowSchema", observed.names.flow_schema(purpose), spec)


def _service_monitor(observed: Observed) -> Json:
    tls: Json = {"insecureSkipVerify": True}  # it serves a certificate that it made itself
    if observed.openshift:
        service = f"{observed.names.metrics_service}.{observed.namespace}.svc"
        tls = {"caFile": _SERVICE_CA, "serverName": service}
    endpoint = {
        "port": "https",
        "scheme": "https",
        "path": "/metrics",
        "interval": "30s",
        "bearerTokenFile": _PROMETHEUS_TOKEN,
        "tlsConfig": tls,
        # The namespace of the pod that a metric is about, not of the scheduler that tells it.
        "metricRelabelings": [
            {"action": "replace", "sourceLabels": ["exported_namespace"], "targetLabel": "pod_namespace"}
        ],
    }
    spec = {
        "namespaceSelector": {"matchNames": [observed.namespace]},
        "selector": {"matchLabels": _pods(observed)},
        "endpoints": [endpoint],
    }
    return _object(observed, "ServiceMonitor", observed.names.operand, spec)


def _object(observed: Observed, kind: str, name: str, spec: Json) -> Json:
    return new_object(observed, kind, name, observed.names.labels, spec=spec)


def _pods(observed: Observed) -> dict[str, str]:
    return {names.LABEL_APP: observed.names.operand}


def _account(observed: Observed) -> Json:
    return {"name": observed.names.operand, "namespace": observed.namespace}
