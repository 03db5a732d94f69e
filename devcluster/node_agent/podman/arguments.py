"""The command line of podman for a container of a pod. Pure.

A pod's author may be hostile, and podman runs with the rights of the agent. So whatever comes from the pod stands in an
argument that begins with its option (``--label=…``) or behind the image, where podman looks for no options; the image
is named by its id; what is split at a character may not contain it; the environment goes through a file that others
cannot read, and never into podman's own.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.node_agent.admission import amounts
from devcluster.node_agent.containers import ContainerRequest
from devcluster.node_agent.objects import ContainerConfigError, Obj
from devcluster.node_agent.podman.host import AGENT_LABEL

LOG_SIZE = "10mb"
HOSTNAME_CHARACTERS = 63
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_CPU_PERIOD = 100_000
_MIN_CPU_QUOTA, _MIN_CPU_SHARES = 1000, 2


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says of itself."""

    id: str
    user: str = ""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stop_signal: str = ""

    @property
    def user_number(self) -> int | str | None:
        """The user, as a number where it is one; None where the image names none."""
        name = self.user.partition(":")[0]
        return int(name) if name.isascii() and name.isdigit() else name or None


@dataclass(frozen=True, slots=True)
class Placement:
    """What a container is started with that its pod does not say."""

    name: str
    agent: Path
    """State directory of the agent."""
    env_file: Path
    monitor_dir: Path
    """Working directory of the container's monitor, which writes its pid there, and a file ``oom`` where memory ran
    out. Of one instance."""
    controllers: frozenset[str]
    open_files: int
    processes: int

    @property
    def pid_file(self) -> Path:
        """Where podman writes the monitor's pid."""
        return self.monitor_dir / "pid"


def container_name(request: ContainerRequest, attempt: str) -> str:
    """``k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT``, as cri-dockerd has it."""
    metadata = request.pod["metadata"]
    return f"k8s_{request.container['name']}_{metadata['name']}_{metadata['namespace']}_{metadata['uid']}_{attempt}"


def command_line(image: ImageConfig, request: ContainerRequest, appended: Mapping[str, Sequence[str]]) -> list[str]:
    """Executable and arguments by Kubernetes' rules, with what the image map appends for the executable; [] if none."""
    if request.command:
        line = [*request.command, *request.args]
    else:
        line = [*image.entrypoint, *(request.args or image.command)]
    return [*line, *appended.get(line[0], ())] if line else []


def run_arguments(image: ImageConfig, request: ContainerRequest, line: Sequence[str], place: Placement) -> list[str]:
    """The arguments of ``podman run`` that start a container in the background.

    Raises ContainerConfigError for what podman cannot be told.
    """
    container = request.container
    own: dict[str, Any] = container.get("securityContext") or {}
    return [
        "run",
        "--detach",
        "--pull=never",
        f"--name={place.name}",
        *_labels(request, place),
        "--network=host",
        f"--hostname={request.hostname[:HOSTNAME_CHARACTERS].rstrip('-.')}",
        # Podman would raise both as far as it can, which it may not inside of another container.
        f"--ulimit=nofile={place.open_files}:{place.open_files}",
        f"--ulimit=nproc={place.processes}:{place.processes}",
        "--systemd=false",
        "--sdnotify=ignore",
        "--http-proxy=false",
        "--log-driver=k8s-file",
        f"--log-opt=path={request.log_file}",
        f"--log-opt=max-size={LOG_SIZE}",
        f"--conmon-pidfile={place.pid_file}",
        f"--env-file={place.env_file}",
        # Volumes are in the agent's directories, whose labels are not a container's.
        "--security-opt=label=disable",
        *_user(request.pod, own),
        *_restrictions(request.pod, own),
        *_limits(container, place.controllers),
        *(_volume(mount.source, mount.path, mount.read_only) for mount in request.mounts),
        *([f"--workdir={container['workingDir']}"] if container.get("workingDir") else []),
        f"--entrypoint={json.dumps([line[0]])}",
        image.id,
        *line[1:],
    ]


def environment_file(request: ContainerRequest) -> tuple[str, list[str]]:
    """The text for ``--env-file``, and the options for what a file cannot hold: values of several lines.

    Raises ContainerConfigError for a name that podman would read as something else, and for such a value of a container
    that takes variables from Secrets: everybody on this machine can see options.
    """
    lines, options = [], []
    for name, value in request.env.items():
        if not _NAME.fullmatch(name):
            raise ContainerConfigError(f"env {name!r}: podman takes letters, digits, '-', '_' and '.' in a name")
        if "\n" not in value and "\r" not in value and "\0" not in value:
            lines.append(f"{name}={value}\n")
        elif _takes_from_secrets(request.container):
            raise ContainerConfigError(
                f"env {name}: several lines cannot be passed to podman unseen: mount the Secret as a volume"
            )
        else:
            options.append(f"--env={name}={value}")
    return "".join(lines), options


def _takes_from_secrets(container: Obj) -> bool:
    return any("secretRef" in source for source in container.get("envFrom") or []) or any(
        "secretKeyRef" in (variable.get("valueFrom") or {}) for variable in container.get("env") or []
    )


def _labels(request: ContainerRequest, place: Placement) -> list[str]:
    metadata = request.pod["metadata"]
    labels = {
        AGENT_LABEL: str(place.agent),
        "io.kubernetes.container.name": request.container["name"],
        "io.kubernetes.pod.name": metadata["name"],
        "io.kubernetes.pod.namespace": metadata["namespace"],
        "io.kubernetes.pod.uid": metadata["uid"],
    }
    return [f"--label={name}={value}" for name, value in labels.items()]


def _user(pod: Obj, own: dict[str, Any]) -> list[str]:
    shared: dict[str, Any] = pod["spec"].get("securityContext") or {}
    user, group = (own.get(name, shared.get(name)) for name in ("runAsUser", "runAsGroup"))
    groups = [*(shared.get("supplementalGroups") or []), *([shared["fsGroup"]] if shared.get("fsGroup") else [])]
    options = [f"--group-add={number}" for number in groups]
    if user is not None:
        options.append(f"--user={user}" if group is None else f"--user={user}:{group}")
    return options


def _restrictions(pod: Obj, own: dict[str, Any]) -> list[str]:
    options = []
    if own.get("readOnlyRootFilesystem"):
        options += ["--read-only", "--read-only-tmpfs=false"]
    if own.get("allowPrivilegeEscalation") is False:
        options.append("--security-opt=no-new-privileges")
    capabilities = own.get("capabilities") or {}
    for change in ("drop", "add"):
        options += [f"--cap-{change}={name.lower()}" for name in capabilities.get(change) or []]
    shared: dict[str, Any] = pod["spec"].get("securityContext") or {}
    profile = own.get("seccompProfile") or shared.get("seccompProfile") or {}
    if profile.get("type") == "Unconfined":
        options.append("--security-opt=seccomp=unconfined")
    return options


def _limits(container: Obj, controllers: frozenset[str]) -> list[str]:
    """As kubelet: a CPU limit is a quota of a tenth of a second, memory goes without swap."""
    resources = container.get("resources") or {}
    limits, requests = amounts(resources.get("limits")), amounts(resources.get("requests"))
    options = []
    if "memory" in controllers and limits.get("memory"):
        options += [f"--memory={limits['memory']}b", f"--memory-swap={limits['memory']}b"]
    if "cpu" in controllers:
        if limits.get("cpu"):
            quota = max(_MIN_CPU_QUOTA, limits["cpu"] * _CPU_PERIOD // 1000)
            options += [f"--cpu-period={_CPU_PERIOD}", f"--cpu-quota={quota}"]
        shares = requests.get("cpu", limits.get("cpu", 0)) * 1024 // 1000
        options.append(f"--cpu-shares={max(_MIN_CPU_SHARES, shares)}")
    return options


def _volume(source: str, path: str, read_only: bool) -> str:
    if ":" in source or ":" in path:
        raise ContainerConfigError(f"volumeMount at {path}: podman takes no path with a colon: {source}")
    return f"--volume={source}:{path}:{'ro' if read_only else 'rw'}"
