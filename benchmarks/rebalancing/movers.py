"""The processes of a run: the scheduler, and who moves pods. Both get the same thresholds and limits.

Time is compressed: an interval is 10 s and stands for 5 minutes; what is measured in minutes is as much shorter.
"""

from __future__ import annotations

import enum
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.harness.contestants import ROOT
from benchmarks.harness.scenario import Json
from benchmarks.rebalancing.placement import PROFILE
from devcluster.cluster import LocalCluster
from devcluster.inventory import real_node_names
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok
from devcluster.processes import ServiceProcess
from devcluster.services.monitoring import CPU_RATIO

OWN_NAMESPACE, SCHEDULER, REBALANCER, DESCHEDULER = "scheduling", "secondary-scheduler", "rebalancer", "descheduler"
IMAGE = "registry.example.com/descheduler"
"""What the local cluster's real node runs for the descheduler's image."""
INTERVAL_SECONDS = 10
WINDOW_SECONDS = 30
"""A load window of 15 minutes, 30 times as fast."""
LOW, HIGH = 50.0, 80.0
"""Per cent of CPU: below the first a node has room, above the second it is overloaded."""
_TOTAL, _PER_NODE = 5, 2
_OLDEST_SECONDS = 30
_LEASE = (f"--leader-elect-resource-namespace={OWN_NAMESPACE}", f"--leader-elect-resource-name={SCHEDULER}")


class Placing(enum.StrEnum):
    """Who places pods."""

    TARGET = "TargetLoadPacking"
    RISK = "LoadVariationRiskBalancing"
    KUBE = "kube-scheduler"


class Moving(enum.StrEnum):
    """Who moves pods."""

    NOTHING = "nothing"
    OURS = "rebalancer"
    REQUESTS = "descheduler, requests"
    PROMETHEUS = "descheduler, Prometheus"


@dataclass(frozen=True)
class Pair:
    """A row of the table."""

    moving: Moving
    placing: Placing

    def __str__(self) -> str:
        return f"{self.moving} + {self.placing}"


PAIRS = {
    "nothing": Pair(Moving.NOTHING, Placing.TARGET),
    "ours": Pair(Moving.OURS, Placing.TARGET),
    "ours-risk": Pair(Moving.OURS, Placing.RISK),
    "descheduler-requests": Pair(Moving.REQUESTS, Placing.TARGET),
    "descheduler-prometheus": Pair(Moving.PROMETHEUS, Placing.TARGET),
    "descheduler-kube": Pair(Moving.PROMETHEUS, Placing.KUBE),
}


@dataclass(frozen=True)
class RunSite:
    """Where a run takes place.

    Attributes:
        kube_scheduler: its executable; None if nobody uses it.
    """

    cluster: LocalCluster
    kube_scheduler: Path | None

    @property
    def prometheus(self) -> str:
        """Address in clear text: the descheduler's client checks certificates against the wrong name."""
        return self.cluster.prometheus_backend_url

    @property
    def real_node(self) -> str:
        """The node whose pods are processes."""
        return real_node_names(1)[0]

    def file(self, name: str) -> Path:
        """A file of the processes."""
        return self.cluster.layout.config(f"rebalancing-{name}")


def configuration(placing: Placing, site: RunSite) -> str:
    """The scheduler's configuration: what a stack with a load source has by default, or kube-scheduler's own."""
    profile: Json = {"schedulerName": PROFILE}
    if placing is not Placing.KUBE:
        replaced = [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]
        profile["plugins"] = {"score": {"enabled": [{"name": placing.value, "weight": 10}], "disabled": replaced}}
        load = {"refreshSeconds": 2, "window": f"{WINDOW_SECONDS}s"}
        profile["pluginConfig"] = [
            {"name": placing.value, "args": {"metricProvider": {"type": "Prometheus", "address": site.prometheus}}},
            {"name": "SecondarySchedulerOptions", "args": {"load": load}},
        ]
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(site.cluster.kubeconfig)},
            "leaderElection": {"leaderElect": True, "resourceNamespace": OWN_NAMESPACE, "resourceName": SCHEDULER},
            "profiles": [profile],
        }
    )


def scheduler(placing: Placing, site: RunSite, port: int) -> ServiceProcess:
    """The scheduler's process; its configuration is written."""
    config = site.file("config.json")
    config.write_text(configuration(placing, site))
    kubeconfig = site.cluster.kubeconfig
    rights = [f"--{purpose}-kubeconfig={kubeconfig}" for purpose in ("authentication", "authorization")]
    program = [str(site.kube_scheduler)] if placing is Placing.KUBE else [sys.executable, "-m", "scheduler"]
    return ServiceProcess(
        "benchmarked-scheduler",
        [*program, f"--config={config}", f"--bind-address={LOOPBACK}", f"--secure-port={port}", *_LEASE, *rights],
        ports=[port],
        env={"PYTHONPATH": str(ROOT)},
        ready=https_ok(port, "/readyz", None),
    )


def stand_in(node: str, text: str) -> list[Json]:
    """What the cluster shows of our scheduler, which runs outside of it: a Deployment whose pod is a simulated one.

    The rebalancer looks at it, and moves nothing while it is not available.
    """
    labels = {"app": SCHEDULER}
    container = {
        "name": "kube-scheduler",
        "image": "registry.example.com/kube-scheduler:1",
        "command": ["/bin/kube-scheduler"],
        "args": list(_LEASE),
    }
    spec = {
        "nodeName": node,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "config"}}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "config", "namespace": OWN_NAMESPACE},
            "data": {"config.yaml": text},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": SCHEDULER, "namespace": OWN_NAMESPACE},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    ]


def rebalancer(site: RunSite) -> ServiceProcess:
    """Our rebalancer's process, in mode Automatic, with its defaults at the faster pace."""
    settings = site.file("settings.yaml")
    settings.write_text(
        yaml.safe_dump(
            {
                "thresholds": {"cpu": LOW},
                "targetThresholds": {"cpu": HIGH},
                "intervalSeconds": INTERVAL_SECONDS,
                "minPodAgeSeconds": _OLDEST_SECONDS,
                "cooldownSeconds": _OLDEST_SECONDS,
                "maxCooldownSeconds": 720,
                "historyWindowSeconds": 5760,
                "evictionLimits": {"total": _TOTAL, "node": _PER_NODE, "workload": "10%"},
            }
        )
    )
    argv = [sys.executable, "-m", "secondary_scheduler.rebalancer", "--mode=Automatic"]
    argv += [f"--config={site.file('config.json')}"]
    argv += [f"--settings={settings}", f"--kubeconfig={site.cluster.kubeconfig}", f"--bind-address={LOOPBACK}"]
    argv += [f"--namespace={OWN_NAMESPACE}", f"--name={REBALANCER}", f"--scheduler={OWN_NAMESPACE}/{SCHEDULER}"]
    return ServiceProcess(REBALANCER, [*argv, "--port=0", "--metrics-port=0"], env={"PYTHONPATH": str(ROOT)})


def policy(moving: Moving, prometheus: str) -> Json:
    """The descheduler's policy: the thresholds and limits of ours, with what it needs to look where pods would fit."""
    metric = "MetricResource" if moving is Moving.PROMETHEUS else "cpu"
    utilization: Json = {"thresholds": {metric: LOW}, "targetThresholds": {metric: HIGH}}
    document: Json = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "nodeSelector": "type=kwok",
        "maxNoOfPodsToEvictPerNode": _PER_NODE,
        "maxNoOfPodsToEvictTotal": _TOTAL,
    }
    if moving is Moving.PROMETHEUS:
        # One interval back, as kube-prometheus' 5 minutes are. A value above 1 would end the round.
        query = f"clamp_max(avg_over_time({CPU_RATIO}[{INTERVAL_SECONDS}s]), 1)"
        utilization["metricsUtilization"] = {"source": "Prometheus", "prometheus": {"query": query}}
        document["metricsProviders"] = [{"source": "Prometheus", "prometheus": {"url": prometheus}}]
    evictor = {"nodeFit": True, "minReplicas": 2, "minPodAge": f"{_OLDEST_SECONDS}s", "noEvictionPolicy": "Mandatory"}
    document["profiles"] = [
        {
            "name": "load",
            "pluginConfig": [
                {"name": "DefaultEvictor", "args": evictor},
                {"name": "LowNodeUtilization", "args": utilization},
            ],
            "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}},
        }
    ]
    return document


def descheduler(node: str, moving: Moving, prometheus: str) -> list[Json]:
    """The descheduler as a pod of a real node: it reads Prometheus only with the files that a pod has."""
    metadata = {"name": DESCHEDULER, "namespace": OWN_NAMESPACE}
    # Rights are not what is compared.
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": DESCHEDULER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    container = {
        "name": DESCHEDULER,
        "image": f"{IMAGE}:1",
        "command": ["/bin/descheduler"],
        "args": [
            "--policy-config-file=/policy/policy.yaml",
            f"--descheduling-interval={INTERVAL_SECONDS}s",
            "--cert-dir=/tmp/certificates",
            "--v=2",
        ],
        "volumeMounts": [{"name": "policy", "mountPath": "/policy"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "serviceAccountName": DESCHEDULER,
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "policy", "configMap": {"name": DESCHEDULER}}, {"name": "tmp", "emptyDir": {}}],
        },
    }
    text = json.dumps(policy(moving, prometheus))
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        binding,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}},
        pod,
    ]
