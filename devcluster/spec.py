"""What a local cluster consists of.

It stands apart from `cluster`, since `startup` reads it and `cluster` calls `startup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster import releases, state
from devcluster.errors import SpecError

MAX_NODES = 10_000
MAX_REAL_NODES = 50


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What a cluster consists of. etcd, kube-apiserver and kube-controller-manager are always there."""

    name: str = "dev"
    kubernetes: str = field(default_factory=releases.chosen)
    """Minor release of the control plane and the default scheduler, `1.36`; also accepted with its patch level."""
    nodes: int = 20
    """Simulated nodes; 0 for none."""
    real_nodes: int = 1
    """Nodes whose pods run on this machine."""
    containers: state.Containers = state.Containers.PROCESSES
    """What the containers of their pods are. With `podman`, the images of `make image` must be there."""
    prometheus: bool = True
    """Prometheus with its gateway, and the load generator it scrapes."""
    pod_loads: bool = False
    """Whether the load of simulated nodes follows the pods that are bound to them (`pod_loads`), and a metrics server
    serves it; needs `prometheus`."""
    default_scheduler: bool = True
    kwok: bool = True
    olm: bool = False
    """The operator lifecycle manager, with a catalog to install from."""
    olm_catalog: Path | None = None
    """Directory of that catalog; None for the one of this project, which a checkout has."""
    tools: bool = True
    """Whether kubectl and pulumi must be there as well; the processes do not need them."""
    state_root: Path = field(default_factory=state.default_root)
    api_server_port: int = 0
    """0 for a free one."""
    prometheus_port: int = 0
    api_server_flags: tuple[str, ...] = ()
    """Further flags of kube-apiserver; they win over ours."""
    images: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further images that real nodes can run as processes: repository, or reference with a tag, to entry of the node
    agent's image map."""

    def __post_init__(self) -> None:
        releases.control_plane_of(self.kubernetes)
        if self.pod_loads and not self.prometheus:
            raise SpecError("pod loads need the load generator, which comes with Prometheus")
        for text, value, most in (("nodes", self.nodes, MAX_NODES), ("real nodes", self.real_nodes, MAX_REAL_NODES)):
            if not 0 <= value <= most:
                raise SpecError(f"{value} {text}: use 0 to {most}")
        for text, port in (("API server", self.api_server_port), ("Prometheus", self.prometheus_port)):
            if port and not 1024 <= port <= 65535:
                raise SpecError(f"port {port} of {text}: use 1024 to 65535, or 0 for a free one")
