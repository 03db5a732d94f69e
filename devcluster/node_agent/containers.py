"""What the life of a pod asks of whatever runs its containers: processes of this machine, or podman.

``process_containers`` and ``podman`` implement it; ``app`` chooses one for the node.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster.node_agent.objects import Obj
from devcluster.node_agent.sandbox import VolumeMount

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
