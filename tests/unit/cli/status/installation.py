"""An installation as the API server describes it, for the tests of `status`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scheduler.config import load_configuration
from tests.support import answers

NAMESPACE = "openshift-secondary-scheduler-operator"
NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins:
    score: {enabled: [{name: TargetLoadPacking, weight: 10}], disabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: "http://prometheus:9090"}}
"""
HASH = load_configuration(CONFIGURATION, source="config.yaml").hash
IMAGE = "registry.example.com/secondary-scheduler/kube-scheduler:0.1.0"
OPERATOR_IMAGE = "registry.example.com/secondary-scheduler/operator:0.1.0"
POD = "secondary-scheduler-7f-abc"

CRS = "/apis/operator.openshift.io/v1/secondaryschedulers"
CRS_OF_NAMESPACE = f"/apis/operator.openshift.io/v1/namespaces/{NAMESPACE}/secondaryschedulers"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/active"


def condition(kind: str, status: str, reason: str = "AsExpected", message: str = "") -> dict[str, Any]:
    since = "2026-11-24T11:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


HEALTHY = (
    condition("Available", "True", message="1 of 1 replicas are available"),
    condition("Progressing", "False"),
    condition("Degraded", "False"),
    condition("Upgradeable", "True"),
    condition("LoadDataFresh", "True", "Fresh"),
    condition("NodesOvercommitted", "False"),
    condition("KubernetesVersionCurrent", "True"),
    condition("CacheCurrent", "True"),
)


def resource(*conditions: dict[str, Any], name: str = "cluster", **spec: Any) -> dict[str, Any]:
    kinds = {each["type"] for each in conditions}
    status = {
        "conditions": [*(each for each in HEALTHY if each["type"] not in kinds), *conditions],
        "configurationHash": HASH,
        "lastRollout": {"configurationHash": HASH, "outcome": "Succeeded", "time": "2026-11-24T09:00:00Z"},
    }
    metadata = {"namespace": NAMESPACE, "name": name}
    return {"metadata": metadata, "spec": {"schedulerImage": IMAGE, **spec}, "status": status}


def deployment(
    name: str = "secondary-scheduler",
    *,
    ready: int = 1,
    replicas: int = 1,
    args: tuple[str, ...] = (),
    image: str = IMAGE,
    command: str = "/bin/kube-scheduler",
) -> dict[str, Any]:
    container = {"image": image, "command": [command], "args": list(args)}
    template = {
        "metadata": {"annotations": {"secondary-scheduler.io/configuration-hash": HASH}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "etckubernetes", "configMap": {"name": "active"}}],
        },
    }
    return {
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {"replicas": replicas, "template": template},
        "status": {"readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": ready},
    }


def lease(
    name: str = "secondary-scheduler",
    *,
    holder: str = f"{POD}_1b2c",
    renewed: str = "2026-11-24T11:59:59.000000Z",
    running: str = HASH,
    **annotations: str,
) -> dict[str, Any]:
    reported = {"configuration-hash": running, "load-data-fresh": "true", "kubernetes-version": "1.34", **annotations}
    return {
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "annotations": {f"secondary-scheduler.io/{key.replace('_', '-')}": text for key, text in reported.items()},
        },
        "spec": {
            "holderIdentity": holder,
            "acquireTime": "2026-11-24T09:00:00.000000Z",
            "renewTime": renewed,
            "leaseDurationSeconds": 15,
        },
    }


OPERATOR = deployment("operator", image=OPERATOR_IMAGE, command="/bin/secondary-scheduler-operator")


def installation(**answers: Any) -> dict[str, Any]:
    """What the API server answers about one healthy installation, or with these answers in place of its own."""
    usual: dict[str, Any] = {
        "crs": [resource()],
        "deployments": [OPERATOR, deployment()],
        "leases": [lease()],
        "config_map": {"data": {"config.yaml": CONFIGURATION}},
        **answers,
    }
    paths = {"crs": CRS, "deployments": DEPLOYMENTS, "leases": LEASES, "config_map": CONFIG_MAP}
    return {paths[name]: answer for name, answer in usual.items() if answer is not None}


METRICS = """\
# HELP scheduler_pending_pods [STABLE] waiting
# TYPE scheduler_pending_pods gauge
scheduler_pending_pods{queue="active"} 0.0
scheduler_pending_pods{queue="backoff"} 1.0
scheduler_pending_pods{queue="unschedulable"} 2.0
scheduler_pending_pods{queue="gated"} 0.0
# TYPE scheduler_unschedulable_pods gauge
scheduler_unschedulable_pods{plugin="TaintToleration",profile="mine"} 1.0
scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="mine"} 2.0
scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="other"} 1.0
scheduler_unschedulable_pods{plugin="NodeAffinity",profile="mine"} 0.0
# TYPE scheduler_schedule_attempts counter
scheduler_schedule_attempts_total{profile="mine",result="scheduled"} 40.0
scheduler_schedule_attempts_total{profile="other",result="scheduled"} 2.0
scheduler_schedule_attempts_total{profile="mine",result="error"} 1.0
# TYPE scheduler_plugin_execution_duration_seconds histogram
scheduler_plugin_execution_duration_seconds_bucket{plugin="x",le="+Inf"} 7.0
# TYPE leader_election_master_status gauge
leader_election_master_status{name="secondary-scheduler"} 1.0
# TYPE secondary_scheduler_load_data_fresh gauge
secondary_scheduler_load_data_fresh{source="Prometheus:http://prometheus:9090"} 1.0
# TYPE secondary_scheduler_load_data_age_seconds gauge
secondary_scheduler_load_data_age_seconds{source="Prometheus:http://prometheus:9090"} 12.34
# TYPE secondary_scheduler_load_node_states gauge
secondary_scheduler_load_node_states{source="Prometheus:http://prometheus:9090",state="fresh"} 20.0
secondary_scheduler_load_node_states{source="Prometheus:http://prometheus:9090",state="absent"} 1.0
"""


def decision(result: str, time: str, message: str | None = None) -> dict[str, Any]:
    return answers.decision(result=result, time=time, node="node-7" if result == "scheduled" else None, message=message)


DECISIONS = answers.decisions(
    decision("error", "2026-11-24T11:59:00Z", message="the Binding was refused"),
    decision("scheduled", "2026-11-24T11:58:00Z"),
    decision("unschedulable", "2026-11-24T11:57:30Z"),
    decision("scheduled", "2026-11-24T11:56:00Z"),
)
