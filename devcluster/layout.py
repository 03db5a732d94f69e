"""The files of one cluster, and the credentials made for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from devcluster import pki
from devcluster.bootstrap import NODE_AGENTS, READERS
from devcluster.ports import LOOPBACK

OLM_USER, CATALOG_USER = "olm-operator", "catalog-operator"
SERVICE_NETWORK = "10.96.0.0/16"
_API_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True)
class Layout:
    """Paths below a cluster's state directory."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def readonly_kubeconfig(self) -> Path:
        """The kubeconfig of a user who may read everything but Secrets, and change nothing."""
        return self.root / "kubeconfig-readonly"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON object per line."""
        return self.root / "logs" / "audit.log"

    @property
    def prometheus_token(self) -> Path:
        """File with the bearer token that Prometheus asks for."""
        return self.root / "pki" / "prometheus-token"

    @property
    def prometheus_ca(self) -> Path:
        """Certificate of the authority that signed Prometheus' serving certificate."""
        return self.root / "pki" / "ca.crt"

    @property
    def bin(self) -> Path:
        """Directory of links to kubectl, pulumi and its plugins, for PATH."""
        return self.root / "bin"

    def pki(self, name: str) -> Path:
        """A certificate or key."""
        return self.root / "pki" / name

    def config(self, name: str) -> Path:
        """A configuration file of a service, or the kubeconfig of a component."""
        return self.root / "config" / name

    def data(self, name: str) -> Path:
        """The data directory of a service."""
        return self.root / "data" / name

    @property
    def private(self) -> tuple[Path, ...]:
        """What no pod may see: keys, credentials and other services' data."""
        return (
            self.root / "pki",
            self.root / "config",
            self.root / "pulumi",
            self.root / "logs",
            self.kubeconfig,
            self.readonly_kubeconfig,
        )

    def node_kubeconfig(self, node: str) -> Path:
        """The kubeconfig of a real node's agent."""
        return self.config(f"{node}.kubeconfig")


def write_credentials(layout: Layout, cluster: str, api_server: str, real_nodes: list[str]) -> None:
    """Make the authority, all certificates, keys, tokens and kubeconfigs of a cluster, readable by the owner only."""
    authority = pki.CertificateAuthority(f"{cluster}-ca")
    files = {
        "ca": authority.pair,
        "apiserver": authority.server("kube-apiserver", _API_SERVER_NAMES, [LOOPBACK, "::1", "10.96.0.1"]),
        "kubelet-client": authority.client("kube-apiserver-kubelet-client", ["system:masters"]),
        "prometheus": authority.server("prometheus", ["localhost"], [LOOPBACK, "::1"]),
    }
    for name, pair in files.items():
        pki.write_private(layout.pki(f"{name}.crt"), pair.certificate)
        pki.write_private(layout.pki(f"{name}.key"), pair.key)
    accounts = pki.service_account_keys()
    pki.write_private(layout.pki("service-account.pub"), accounts.certificate)
    pki.write_private(layout.pki("service-account.key"), accounts.key)
    pki.write_private(layout.prometheus_token, secrets.token_urlsafe(32).encode())

    users = {
        layout.kubeconfig: ("admin", ["system:masters"]),
        layout.readonly_kubeconfig: ("readonly", [READERS]),
        layout.config("kube-controller-manager.kubeconfig"): ("system:kube-controller-manager", []),
        layout.config("kube-scheduler.kubeconfig"): ("system:kube-scheduler", []),
        layout.config("kwok.kubeconfig"): ("system:kwok", ["system:masters"]),
        layout.config(f"{OLM_USER}.kubeconfig"): (OLM_USER, []),
        layout.config(f"{CATALOG_USER}.kubeconfig"): (CATALOG_USER, []),
    }
    users |= {
        layout.node_kubeconfig(node): (f"system:node:{node}", ["system:nodes", NODE_AGENTS]) for node in real_nodes
    }
    context = f"secondary-scheduler-{cluster}"
    for path, (user, groups) in users.items():
        pair = authority.client(user, groups)
        if path == layout.kubeconfig:
            pki.write_private(layout.pki("admin.crt"), pair.certificate)
            pki.write_private(layout.pki("admin.key"), pair.key)
        pki.write_kubeconfig(path, context, api_server, authority.pair.certificate, user, pair)
