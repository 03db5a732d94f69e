"""etcd, kube-apiserver, kube-controller-manager and the default kube-scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from devcluster.layout import SERVICE_NETWORK, Layout
from devcluster.ports import LOOPBACK
from devcluster.probes import http_ok, https_ok
from devcluster.processes import ServiceProcess

# What people look for in an audit log here: who changed what, and which node each binding named. Heartbeats would
# drown it.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "None", "resources": [{"group": "", "resources": ["nodes/status"]}]},
        {
            "level": "None",
            "namespaces": ["kube-node-lease"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding", "bindings"]}]},
        {"level": "Metadata"},
    ],
}
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def etcd(binary: Path, layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """One member; its data is thrown away with the cluster, so it never waits for the disk."""
    client = f"http://{LOOPBACK}:{ports['etcd']}"
    peer = f"http://{LOOPBACK}:{ports['etcd-peer']}"
    return ServiceProcess(
        "etcd",
        [
            str(binary),
            "--name=local",
            f"--data-dir={layout.data('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ],
        ports=[ports["etcd"], ports["etcd-peer"]],
        ready=http_ok(ports["etcd"], "/health"),
        ready_seconds=30,
        stop_seconds=2,
    )


def kube_apiserver(binary: Path, layout: Layout, ports: Mapping[str, int], extra: Sequence[str] = ()) -> ServiceProcess:
    """The API server with RBAC, the Node authorizer, an audit log and ServiceAccount tokens; `extra` flags win."""
    policy = layout.config("audit-policy.yaml")
    policy.write_text(yaml.safe_dump(_AUDIT_POLICY, sort_keys=False))
    port = ports["kube-apiserver"]
    return ServiceProcess(
        "kube-apiserver",
        [
            str(binary),
            f"--etcd-servers=http://{LOOPBACK}:{ports['etcd']}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            # The endpoint of Service `kubernetes` may not be a loopback address; nothing here routes Services anyway.
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--client-ca-file={layout.pki('ca.crt')}",
            f"--tls-cert-file={layout.pki('apiserver.crt')}",
            f"--tls-private-key-file={layout.pki('apiserver.key')}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={layout.pki('service-account.pub')}",
            f"--service-account-signing-key-file={layout.pki('service-account.key')}",
            # Logs are requested from node agents by address, since no DNS resolves the nodes' names.
            f"--kubelet-client-certificate={layout.pki('kubelet-client.crt')}",
            f"--kubelet-client-key={layout.pki('kubelet-client.key')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={layout.audit_log}",
            "--audit-log-maxsize=100",
            "--audit-log-maxbackup=1",
            "--event-ttl=1h",
            "--profiling=false",
            *extra,
        ],
        ports=[port],
        ready=https_ok(port, "/readyz", layout.pki("ca.crt")),
        ready_seconds=90,
        stop_seconds=3,
    )


def kube_controller_manager(binary: Path, layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """All controllers, without leader election, and quick to notice nodes."""
    kubeconfig = layout.config("kube-controller-manager.kubeconfig")
    return ServiceProcess(
        "kube-controller-manager",
        [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports['kube-controller-manager']}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--root-ca-file={layout.pki('ca.crt')}",
            f"--service-account-private-key-file={layout.pki('service-account.key')}",
            f"--cluster-signing-cert-file={layout.pki('ca.crt')}",
            f"--cluster-signing-key-file={layout.pki('ca.key')}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--node-monitor-period=1s",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--profiling=false",
        ],
        ports=[ports["kube-controller-manager"]],
        ready=https_ok(ports["kube-controller-manager"], "/healthz", None),
        stop_seconds=2,
    )


def kube_scheduler(binary: Path, layout: Layout, ports: Mapping[str, int]) -> ServiceProcess:
    """The default scheduler: it places our own Deployments, as on any cluster."""
    kubeconfig = layout.config("kube-scheduler.kubeconfig")
    return ServiceProcess(
        "kube-scheduler",
        [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports['kube-scheduler']}",
            "--leader-elect=false",
            "--profiling=false",
        ],
        ports=[ports["kube-scheduler"]],
        ready=https_ok(ports["kube-scheduler"], "/readyz", None, older="/healthz"),  # /readyz came with 1.31
        stop_seconds=2,
    )
