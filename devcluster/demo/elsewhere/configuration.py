"""What the demo's scheduler is configured with, and the objects that run it in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

SCHEDULER_NAME = "secondary-scheduler-demo"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_RBAC = "rbac.authorization.k8s.io"
_BUILT_IN = ("system:kube-scheduler", "system:volume-scheduler")


def configuration(load_settings: Mapping[str, Any], kubeconfig: str | None) -> str:
    """Write the KubeSchedulerConfiguration of stack `local`, with another source of load, and without a Lease."""
    packing = {"targetUtilization": 50, "defaultRequests": {"cpu": "500m"}, **load_settings}
    profile = {
        "schedulerName": SCHEDULER_NAME,
        "plugins": {
            "score": {
                "enabled": [{"name": "TargetLoadPacking", "weight": 10}],
                "disabled": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}],
            }
        },
        "pluginConfig": [
            {"name": "TargetLoadPacking", "args": packing},
            {"name": "SecondarySchedulerOptions", "args": {"load": {"refreshSeconds": 2}}},
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **({"clientConnection": {"kubeconfig": kubeconfig}} if kubeconfig else {}),
        "profiles": [profile],
    }
    return yaml.safe_dump(document, sort_keys=False)


def cluster_objects(name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return ClusterRoles and ClusterRoleBindings, all of whose names begin with the demo's."""
    role = {
        "metadata": {"name": name},
        "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]}],
    }
    subject = {"kind": "ServiceAccount", "name": name, "namespace": name}
    bindings = [
        {
            "metadata": {"name": f"{name}-{number}"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": granted},
            "subjects": [subject],
        }
        for number, granted in enumerate((*_BUILT_IN, name))
    ]
    return [role], bindings


def deployment(name: str, image: str) -> dict[str, Any]:
    """Return the Deployment that runs the image; its configuration is the ConfigMap of the same name."""
    labels = {"app": name}
    container = {
        "name": "scheduler",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/kube-scheduler"],
        "args": ["--config=/etc/demo/config.yaml", "--secure-port=0"],
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "10m", "memory": "100Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/demo"}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 ours
    }
    pod = {
        "serviceAccountName": name,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": name}}, {"name": "tmp", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 5,
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
