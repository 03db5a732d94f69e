"""What the life of a pod asks of whatever runs its containers: processes of this machine, or podman.

``process_containers`` and ``podman`` implement it; ``app`` chooses one for the node.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from devcluster.node_agent.addresses import AddressPool
from devcluster.node_agent.cluster import ClusterApi, ClusterData
from devcluster.node_agent.events import PodEventRecorder
from devcluster.node_agent.objects import Clock, Obj
from devcluster.node_agent.probing import Prober
from devcluster.node_agent.sandbox import VolumeMount
from devcluster.node_agent.volumes.manager import VolumeManager

Decoder = Callable[[bytes], bytes]
"""Turns pieces of a log file, in their order, into what the container wrote."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """A container to start, as its pod asks for it; everything in ``command``, ``args`` and ``env`` is expanded."""

    pod: Obj
    container: Obj
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    """The pod's own; the image's is added by who starts it."""
    variables: Mapping[str, str]
    """What ``appendArgs`` of the image map may use."""
    mounts: tuple[VolumeMount, ...]
    hostname: str
    directory: Path
    """The pod's, for files that go with it."""
    log_file: Path


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended: exit code (128 + signal if killed), and a reason if that does not tell it."""

    code: int
    reason: str = ""


class RunningContainer(Protocol):
    """One instance, from its start to its exit code."""

    @property
    def id(self) -> str:
        """As ``containerID`` of the status has it."""

    async def wait(self) -> ContainerEnd:
        """Return once it has ended and nothing of it is left. Called once."""

    async def stop(self, grace: float) -> None:
        """SIGTERM, after ``grace`` seconds SIGKILL; return when it has ended. A call with less grace hastens others."""

    async def run_command(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        """Run a further command in it: (exit code, output). TimeoutError, StartError."""


class StartableContainer(Protocol):
    """A request that can be carried out."""

    async def start(self) -> RunningContainer:
        """Return once its first process runs. Raises StartError."""


class LocalImage(Protocol):
    """An image that this machine has."""

    @property
    def id(self) -> str:
        """As ``imageID`` of the status has it; "" for the reference itself."""

    def prepare(self, request: ContainerRequest) -> StartableContainer:
        """Settle how a container of the image is started, and start nothing yet.

        Raises ContainerConfigError for a pod that cannot run so, and NoSuchExecutableError.
        """


class ContainerRuntime(Protocol):
    """Runs the containers of one node."""

    @property
    def tier(self) -> str:
        """Shown in the Node's annotation."""

    @property
    def version(self) -> str:
        """The Node's ``containerRuntimeVersion``."""

    @property
    def description(self) -> str:
        """What pods are on this node: "processes", for example."""

    def image_names(self) -> Sequence[str]:
        """Images for the Node's status."""

    async def find(self, reference: str) -> LocalImage | None:
        """The image of a reference, if this machine has it. Nothing is ever pulled."""

    @property
    def absent_image(self) -> str:
        """Why an image that was not found is not there, and what to do."""

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """A file of a ConfigMap volume as the container must read it."""

    def volume_group(self, pod: Obj) -> int | None:
        """The group that a pod's volumes are given to; None to leave them as they are."""

    def log_decoder(self) -> Decoder:
        """A new decoder for one log file."""

    async def remove_leftovers(self, pods: Path) -> int:
        """End what an earlier agent has left running; how many there were. ``pods`` has a directory for each pod."""


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
    api: ClusterApi
    recorder: PodEventRecorder
    containers: ContainerRuntime
    prober: Prober
    store: ClusterData
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
