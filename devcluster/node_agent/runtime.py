"""What all pods of a node share, and what all containers of a pod share."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.node_agent.addresses import AddressPool
from devcluster.node_agent.api import Api
from devcluster.node_agent.containers import ContainerRuntime
from devcluster.node_agent.events import PodEventRecorder
from devcluster.node_agent.objects import Clock, DataStore, Obj
from devcluster.node_agent.probing import Prober
from devcluster.node_agent.volumes.manager import VolumeManager

log = logging.getLogger("node_agent")


@dataclass(frozen=True, slots=True)
class AgentTiming:
    """Delays in seconds; the defaults are kubelet's but for ``sync``, which is its minute made short."""

    backoff_base: float = 10.0
    """First CrashLoopBackOff and ImagePullBackOff."""
    backoff_limit: float = 300.0
    sync: float = 2.0
    """Seconds between retries of what waits (a volume's source, a refused configuration)."""
    refresh: float = 30.0
    """Seconds between checks of tokens, and refreshes of unchanged volumes."""
    shutdown_grace: float = 8.0
    """Longest grace period of a pod when the agent itself shuts down."""


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """Services and settings of the node, handed to every pod."""

    name: str
    host_ip: str
    service_env: dict[str, str]
    allocatable: dict[str, str]
    state_dir: Path
    api: Api
    recorder: PodEventRecorder
    containers: ContainerRuntime
    prober: Prober
    store: DataStore
    addresses: AddressPool
    clock: Clock
    timing: AgentTiming = field(default_factory=AgentTiming)

    def pod_directory(self, uid: str) -> Path:
        """Where everything about one pod is kept."""
        return self.state_dir / "pods" / uid

    def log_file(self, namespace: str, pod: str, container: str) -> Path:
        """A container's output."""
        return self.state_dir / "logs" / f"{namespace}_{pod}_{container}.log"


@dataclass(slots=True)
class PodRuntime:
    """What a pod's containers share; ``pod`` is replaced whenever the API server has a newer version."""

    pod: Obj
    directory: Path
    volumes: VolumeManager
    changed: Callable[[], None]
    """Called when a container's report has changed, so that the status is written."""
