"""A fake API server's objects of one installation, with more in them than a bundle may keep."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from scheduler.kube.client import ClientConfig
from scheduler.kube.client.errors import api_error
from secondary_scheduler.cli.bundle import collecting
from secondary_scheduler.cli.bundle.archive import Members
from secondary_scheduler.cli.bundle.collecting import BundleCollector
from secondary_scheduler.clusterstatus import installations
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer, SchedulerPod
from secondary_scheduler.kubeobjects import name_of

NAMESPACE = "schedulers"
Json = dict[str, Any]
CONFIGURATION: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "/etc/kubeconfig", "qps": 50},
    "unknownField": "dropped-1",
    "extenders": [{"urlPrefix": "https://e.example.com", "tlsConfig": {"keyData": "a2V5LWRhdGE=", "foreign": "x-9"}}],
    "profiles": [
        {
            "schedulerName": "secondary-scheduler",
            "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 3}]}},
            "pluginConfig": [
                {
                    "name": "TargetLoadPacking",
                    "args": {
                        "defaultRequests": {"cpu": "500m"},
                        "metricProvider": {
                            "type": "Prometheus",
                            "address": "https://prometheus.example.com",
                            "token": "config-token-1",
                            "unknown": "dropped-2",
                        },
                    },
                },
                {"name": "Unheard", "args": {"anything": "dropped-3"}},
            ],
        }
    ],
}


def metadata(name: str, kind: str = "", **more: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": f"uid-{kind}", "controller": True}
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": "rv-1",
        "generation": 3,
        "creationTimestamp": "2026-11-24T10:00:00Z",
        "selfLink": "/self",
        "generateName": "generate-",
        "finalizers": ["example.com/finalizer"],
        "labels": {"app": "secondary-scheduler", "app.kubernetes.io/part-of": "s", "team.example.com/name": "blue"},
        "annotations": {
            "secondary-scheduler.io/configuration-hash": "0123456789abcdef",
            "secondary-scheduler.io/revision": '{"env": "ffff"}',
            "example.com/note": "foreign",
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps(
                {"spec": {"env": [{"name": "OLD", "value": "old-variable"}], "password": "old-password"}}
            ),
        },
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:x": "y"}}}],
        "ownerReferences": [owner] if kind else [],
        **more,
    }


def pod_spec() -> Json:
    probe = {
        "httpGet": {"path": "/livez", "port": 10259, "scheme": "HTTPS", "host": "h", "httpHeaders": [{"value": "v"}]},
        "exec": {"command": ["/bin/check", "--all"]},
        "periodSeconds": 1,
    }
    container = {
        "name": "main",
        "image": "example.com/kube-scheduler:1",
        "imagePullPolicy": "Always",
        "command": ["/bin/kube-scheduler"],
        "args": ["--config=/etc/kubernetes/config.yaml", "-v=2", "--unknown-flag", "positional"],
        "ports": [{"name": "https", "containerPort": 10259, "protocol": "TCP", "hostIP": "10.0.0.1"}],
        "env": [
            {"name": "SETTING", "value": "variable-value"},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "envFrom": [{"secretRef": {"name": "from"}}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}},
        "livenessProbe": probe,
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/stop"]}}},
        "volumeMounts": [{"name": "etckubernetes", "mountPath": "/etc/kubernetes"}],
        "workingDir": "/work",
    }
    return {
        "nodeName": "node-1",
        "serviceAccountName": "secondary-scheduler",
        "schedulerName": "default-scheduler",
        "priorityClassName": "high",
        "restartPolicy": "Always",
        "hostname": "host",
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": {"x": ["affine"]}},
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["alias"]}],
        "tolerations": [{"key": "t", "operator": "Equal", "value": "tv", "effect": "NoSchedule"}],
        "initContainers": [{"name": "init", "image": "example.com/init:1", "args": ["--flag", "words"]}],
        "containers": [container],
        "volumes": [
            {"name": "etckubernetes", "configMap": {"name": "config", "items": [{"key": "config.yaml", "path": "p"}]}},
            {"name": "metrics", "secret": {"secretName": "metrics"}},
            {"name": "csi", "csi": {"driver": "d", "volumeAttributes": {"attribute": "volume-attribute"}}},
        ],
    }


def container_status() -> Json:
    ended = {"exitCode": 1, "reason": "Error", "message": "it ended", "startedAt": "s", "containerID": "c"}
    return {
        "name": "main",
        "image": "example.com/kube-scheduler:1",
        "imageID": "sha256:1",
        "containerID": "containerd://1",
        "ready": True,
        "restartCount": 1,
        "state": {"running": {"startedAt": "r"}},
        "lastState": {"terminated": ended},
    }


def condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "reason": "AsExpected", "message": "as it should be", "foreign": "f-c"}


def objects() -> dict[str, list[Json]]:
    """The objects by the plural of their kind, as the API server lists them."""
    template = {"metadata": metadata("template"), "spec": pod_spec()}
    spec = {"schedulerConfig": "config", "schedulerImage": "example.com/kube-scheduler:1", "logLevel": "Normal"}
    scheduler_spec = {
        **spec,
        "env": [{"name": "SETTING", "value": "variable-value"}],
        "extraArgs": ["--feature-gates=A=true", "--other=unknown-value"],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"x": "affine"},
        "metricCredentials": {"secretName": "metrics", "key": "token", "address": "https://prometheus.example.com"},
        "unsupportedConfigOverrides": {"any": "override"},
        "topology": {"mode": "SingleReplica"},
    }
    return {
        "secondaryschedulers": [
            {
                "apiVersion": "operator.openshift.io/v1",
                "metadata": metadata("cluster"),
                "spec": scheduler_spec,
                "status": {"conditions": [condition("Available")], "version": "0.1.0", "foreign": "f-s"},
            }
        ],
        "deployments": [
            {
                "metadata": metadata("secondary-scheduler", "SecondaryScheduler"),
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "s"}}, "template": template},
                "status": {"readyReplicas": 1, "conditions": [condition("Available")]},
            },
            {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"template": {"spec": {"containers": []}}}},
        ],
        "pods": [
            {
                "metadata": metadata("secondary-scheduler-1-a", "ReplicaSet"),
                "spec": pod_spec(),
                "status": {
                    "phase": "Running",
                    "podIP": "10.1.2.3",
                    "hostIP": "10.0.0.1",
                    "conditions": [condition("Ready")],
                    "containerStatuses": [container_status()],
                },
            }
        ],
        "leases": [
            {
                "metadata": metadata("secondary-scheduler"),
                "spec": {"holderIdentity": "secondary-scheduler-1-a_uuid", "strategy": "s", "leaseTransitions": 1},
            }
        ],
        "configmaps": [
            {
                "metadata": metadata("config"),
                "data": {"config.yaml": json.dumps(CONFIGURATION), "other.yaml": "other-file"},
                "binaryData": {"b": "YmluYXJ5"},
            }
        ],
        "events": [
            {
                "metadata": metadata("event"),
                "involvedObject": {"kind": "Pod", "name": "secondary-scheduler-1-a", "resourceVersion": "1"},
                "type": "Warning",
                "reason": "BackOff",
                "message": "back-off restarting",
                "source": {"component": "kubelet", "host": "node-host"},
                "related": {"name": "related"},
                "reportingInstance": "instance-1",
            }
        ],
    }


class FakeConnection:
    """A fake of SyncConnection that serves objects; `refused` are resources that may not be read."""

    def __init__(
        self, served: Mapping[str, list[Json]], logs: Mapping[str, bytes], refused: frozenset[str] = frozenset()
    ) -> None:
        self._served = served
        self._logs = logs
        self._refused = refused
        self.paths: list[str] = []

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
        self.paths.append(path)
        words = path.strip("/").split("/")
        if path == "/version":
            return b'{"gitVersion": "v1.34.4"}'
        if words[-1] == "log":
            self._refuse("pods/log", path)
            key = f"{(params or {})['container']}{'.previous' if (params or {}).get('previous') else ''}"
            return self._logs.get(key, b"")
        if NAMESPACE in words:
            plural = words[words.index(NAMESPACE) + 1]
            self._refuse(plural, path)
            if words[-1] == plural:
                return json.dumps({"items": self._served.get(plural, [])}).encode()
            for each in self._served[plural]:
                if isinstance(each, dict) and name_of(each) == unquote(words[-1]):
                    return json.dumps(each).encode()
        elif words[-1] == "leases":
            return b'{"items": []}'
        raise api_error("GET", path, 404, b"")

    def close(self) -> None:
        """Nothing is open."""

    def _refuse(self, resource: str, path: str) -> None:
        if resource in self._refused:
            raise api_error("GET", path, 403, b"")


LOGS = {"main": b"main starts\nmain works\n", "main.previous": b"main ended\n"}
DECISION = {"time": "2026-11-24T10:00:00Z", "pod": "shop/web-1", "result": "scheduled", "node": "node-1"}
PAGES = {
    "/metrics": b'scheduler_pending_pods{queue="active"} 1\n',
    "/debug/decisions": json.dumps({"items": [DECISION]}).encode(),
    "/debug/queue": json.dumps({"waiting": [{"pod": "shop/web-2", "reason": "no node fits"}]}).encode(),
}


class FakeScheduler:
    """Answers in place of a forwarded port; notes who was asked what."""

    def __init__(self, answers: Mapping[str, SchedulerAnswer | Exception]) -> None:
        self._answers: dict[str, SchedulerAnswer | Exception] = {
            path: SchedulerAnswer(200, page) for path, page in PAGES.items()
        }
        self._answers.update(answers)
        self.asked: list[tuple[str, str, str]] = []

    async def get(self, pod: SchedulerPod, path: str, query: Mapping[str, str]) -> SchedulerAnswer:
        self.asked.append((pod.namespace, pod.name, path))
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def collect(
    monkeypatch: Any,
    served: Mapping[str, list[Json]] | None = None,
    *,
    logs: Mapping[str, bytes] = LOGS,
    refused: frozenset[str] = frozenset(),
    answers: Mapping[str, SchedulerAnswer | Exception] | None = None,
    scheduler: FakeScheduler | None = None,
    token: str = "kubeconfig-token-1",
) -> tuple[Members, list[str]]:
    """A bundle of these objects: its files, and its problems."""
    connection = FakeConnection(copy.deepcopy(served or objects()), logs, refused)
    answering = scheduler or FakeScheduler(answers or {})
    for module in (collecting, installations):
        monkeypatch.setattr(module, "SyncConnection", lambda *_, **__: connection)
    monkeypatch.setattr(SchedulerPod, "get", lambda *question: answering.get(*question))
    config = ClientConfig(server="https://127.0.0.1:1", token=token)
    collector = BundleCollector(config, None, NAMESPACE, "2026-11-24T10:00:00Z", lambda _: None)
    members = collector.collect()
    assert not [path for path in connection.paths if "secrets" in path]
    return members, collector.problems


def everything(members: Members) -> str:
    """Names and contents of all files."""
    return "\n".join(f"{name}\n{content.decode()}" for name, content in members.contents.items())
