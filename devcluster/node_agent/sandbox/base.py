"""What every tier offers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from devcluster.node_agent.security import Security


class StartError(RuntimeError):
    """The container's process could not be started; the message says why, as a runtime would."""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A file or directory of the host that the container sees at ``path``."""

    path: str
    source: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One container to start. ``host_command`` stands for its executable, ``args`` are the container's own."""

    host_command: tuple[str, ...]
    args: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str
    mounts: tuple[VolumeMount, ...]
    security: Security
    hostname: str
    host_paths: tuple[str, ...] = ()


class Sandbox(Protocol):
    """Turns a request into the launcher's spec."""

    @property
    def tier(self) -> str:
        """The tier's name, shown in the Node's annotation."""

    def launch_spec(self, request: LaunchRequest) -> dict[str, Any]:
        """The launcher's document for a container; see ``launcher``."""

    def exec_spec(
        self, request: LaunchRequest, host_command: Sequence[str], args: Sequence[str], pid: int
    ) -> dict[str, Any]:
        """The launcher's document for a further command in the running container whose reported pid is given."""

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """A file of a ConfigMap volume as the container must read it."""
