"""Containers of pods by podman: started in the background, watched through their monitor's process, removed at the end.

conmon, podman's monitor of a container, outlives the agent and writes the log. It ends once the container has ended
and its exit code is recorded, which a pidfd tells without asking again and again.

The command line of podman for a container of a pod. Pure.

A pod's author may be hostile, and podman runs with the rights of the agent. So whatever comes from the pod stands in an
argument that begins with its option (``--label=…``) or behind the image, where podman looks for no options; the image
is named by its id; what is split at a character may not contain it; the environment goes through a file that others
cannot read, and never into podman's own.
"""

import asyncio
import contextlib
import json
import os
import re
import resource
import shutil
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.node_agent import logs
from devcluster.node_agent.admission import amounts
from devcluster.node_agent.containers import ContainerEnd, ContainerRequest, Decoder
from devcluster.node_agent.environment import expand
from devcluster.node_agent.images import ImageMap, NoSuchExecutableError
from devcluster.node_agent.objects import ContainerConfigError, Obj
from devcluster.node_agent.podman.host import AGENT_LABEL, RUNTIME, PodmanHost, last_line, remove_containers
from devcluster.node_agent.sandbox import StartError, VolumeMount
from devcluster.node_agent.security import container_security
from devcluster.pki import write_private

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
class ContainerPlacement:
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


def run_arguments(
    image: ImageConfig, request: ContainerRequest, line: Sequence[str], place: ContainerPlacement
) -> list[str]:
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


def _labels(request: ContainerRequest, place: ContainerPlacement) -> list[str]:
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


COMMAND_SECONDS = 120.0
OUTPUT_BYTES = 1 << 20
EXEC_OUTPUT_BYTES = 10 * 1024
# How long a container may take to go after SIGKILL.
FORCE_SECONDS = 10.0
KILLED = 137
_MAX_FILES = _MAX_PROCESSES = 16384
_MONITORS = ("conmon", "podman")


class PodmanContainers:
    """``containers.ContainerRuntime`` by podman."""

    tier = "podman"
    description = "containers of podman"
    absent_image = (
        "the node agent pulls nothing, and podman has no such image on this machine: "
        "build it (make image) or load it (podman load)"
    )

    def __init__(self, host: PodmanHost, state_dir: Path, images: ImageMap) -> None:
        """``state_dir``: the agent's, which marks its containers. Of ``images`` only ``appendArgs`` count."""
        self.host = host
        self.state_dir = state_dir
        self.images = images
        self.version = f"podman://{host.version}"

    def image_names(self) -> Sequence[str]:
        """None: podman's images come and go."""
        return ()

    async def find(self, reference: str) -> "_PodmanImage | None":
        """See ``containers.ContainerRuntime``."""
        config = None
        with contextlib.suppress(TimeoutError, OSError):  # it is looked for again
            code, text, _ = await self.podman("image", "inspect", "--", reference)
            config = _image_config(text) if code == 0 else None
        return None if config is None else _PodmanImage(self, reference, config)

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """Unchanged: every path exists as written."""
        return data

    def volume_group(self, pod: Obj) -> int | None:
        """fsGroup, where the agent may give files away."""
        group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        return int(group) if group is not None and os.geteuid() == 0 else None

    def log_decoder(self) -> Decoder:
        """conmon writes each line with its time and stream."""
        return logs.CriDecoder()

    async def remove_leftovers(self, pods: Path) -> int:
        """See ``containers.ContainerRuntime``."""
        return await asyncio.to_thread(remove_containers, self.host.program, self.state_dir)

    async def remove(self, *names: str) -> None:
        """Kill and remove containers, with the volumes that their images made."""
        await self.podman("rm", "--force", "--ignore", "--volumes", "--time=0", *names)

    async def podman(
        self,
        *arguments: str,
        seconds: float = COMMAND_SECONDS,
        most: int = OUTPUT_BYTES,
        directory: Path | None = None,
    ) -> tuple[int, str, str]:
        """Run podman; (exit code, output, errors), each of at most ``most`` bytes. Raises TimeoutError, OSError.

        ``directory``: where it works, by default in the agent's state.
        """
        process = await asyncio.create_subprocess_exec(
            self.host.program, RUNTIME, *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=directory or self.state_dir, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(seconds):
                output, errors = await asyncio.gather(_read(process.stdout, most), _read(process.stderr, most))
                return await process.wait(), output, errors
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
            raise


@dataclass(frozen=True, slots=True)
class _PodmanImage:
    runtime: PodmanContainers
    reference: str
    config: ImageConfig

    @property
    def id(self) -> str:
        return f"sha256:{self.config.id}"

    def prepare(self, request: ContainerRequest) -> "_StartableContainer":
        container_security(request.pod, request.container, self.config.user_number)
        mapped = self.runtime.images.find(self.reference)
        appended = {} if mapped is None else mapped.append_args
        expanded = {
            name: [expand(text, request.variables) for text in arguments] for name, arguments in appended.items()
        }
        line = command_line(self.config, request, expanded)
        if not line:
            raise NoSuchExecutableError("no command specified")
        name, files = request.container["name"], request.directory / "podman"
        attempt = uuid.uuid4().hex[:8]
        place = ContainerPlacement(
            name=container_name(request, attempt),
            agent=self.runtime.state_dir,
            env_file=files / f"{name}.env",
            monitor_dir=files / f"{name}-{attempt}",
            controllers=self.runtime.host.controllers,
            open_files=_limit(resource.RLIMIT_NOFILE, _MAX_FILES),
            processes=_limit(resource.RLIMIT_NPROC, _MAX_PROCESSES),
        )
        environment, options = environment_file(request)
        first, *rest = run_arguments(self.config, request, line, place)
        return _StartableContainer(self, request, place, environment, (first, *options, *rest))


@dataclass(frozen=True, slots=True)
class _StartableContainer:
    image: _PodmanImage
    request: ContainerRequest
    place: ContainerPlacement
    environment: str
    arguments: tuple[str, ...]

    async def start(self) -> "_RunningContainer":
        runtime, place = self.image.runtime, self.place
        try:
            write_private(place.env_file, self.environment.encode())
            place.monitor_dir.mkdir()
            os.close(logs.open_log(self.request.log_file))
            code, output, errors = await runtime.podman(*self.arguments, directory=place.monitor_dir)
            if code != 0:
                raise StartError(last_line(errors))
            return _RunningContainer(runtime, output.split()[-1], place, self.image.config)
        except BaseException as error:
            await asyncio.shield(_suppressing(runtime.remove(place.name)))
            shutil.rmtree(place.monitor_dir, ignore_errors=True)
            if isinstance(error, TimeoutError | OSError | ValueError | IndexError):
                raise StartError(f"podman run: {error or 'it did not end in time'}") from error
            raise
        finally:
            place.env_file.unlink(missing_ok=True)  # it holds the container's environment


class _RunningContainer:
    def __init__(self, runtime: PodmanContainers, name: str, place: ContainerPlacement, image: ImageConfig) -> None:
        """``name``: podman's id of it. Raises OSError and ValueError if its monitor left no pid."""
        self._runtime = runtime
        self._name = name
        self._place = place
        self._signal = image.stop_signal or "SIGTERM"
        self._ended = asyncio.Event()
        monitor = _monitor(place.pid_file)
        if monitor is None:
            self._ended.set()
        else:
            asyncio.get_running_loop().add_reader(monitor, self._monitor_ended, monitor)

    @property
    def id(self) -> str:
        return f"podman://{self._name}"

    def _monitor_ended(self, monitor: int) -> None:
        asyncio.get_running_loop().remove_reader(monitor)
        os.close(monitor)
        self._ended.set()

    async def wait(self) -> ContainerEnd:
        await self._ended.wait()
        end = ContainerEnd(KILLED)
        form = "--format={{.State.ExitCode}} {{.State.OOMKilled}} {{.State.Running}}"
        with contextlib.suppress(TimeoutError, OSError):
            code, text, _ = await self._runtime.podman("container", "inspect", form, self._name)
            match text.split():
                # One that runs though its monitor has ended is killed now.
                case [exit_code, killed, "false"] if code == 0:
                    lacked_memory = killed == "true" or _exists(self._place.monitor_dir / "oom")
                    end = ContainerEnd(int(exit_code), "OOMKilled" if lacked_memory and int(exit_code) else "")
        await _suppressing(self._runtime.remove(self._name))
        shutil.rmtree(self._place.monitor_dir, ignore_errors=True)
        return end

    async def stop(self, grace: float) -> None:
        if grace > 0 and not self._ended.is_set():
            await self._kill(self._signal)
            await self._wait_ended(grace)
        if not self._ended.is_set():
            await self._kill("SIGKILL")
            await self._wait_ended(FORCE_SECONDS)
        if not self._ended.is_set():
            await _suppressing(self._runtime.remove(self._name))
            await self._wait_ended(FORCE_SECONDS)
            self._ended.set()

    async def run_command(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        code, output, errors = await self._runtime.podman(
            "exec", self._name, *command, seconds=seconds, most=EXEC_OUTPUT_BYTES
        )
        return code, (output + errors).strip()

    async def _kill(self, number: str) -> None:
        await _suppressing(self._runtime.podman("kill", f"--signal={number}", self._name))

    async def _wait_ended(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()


async def _suppressing(action: Awaitable[object]) -> None:
    """What podman cannot do now is tried again by who removes leftovers."""
    with contextlib.suppress(TimeoutError, OSError):
        await action


async def _read(stream: asyncio.StreamReader, most: int) -> str:
    """Everything is read, so that the writer can go on, and the beginning kept."""
    output = b""
    while data := await stream.read(1 << 16):
        output += data[: most - len(output)]
    return output.decode("utf-8", "replace")


def _image_config(text: str) -> ImageConfig | None:
    try:
        (image,) = json.loads(text)
        config = image.get("Config") or {}
        return ImageConfig(
            id=image["Id"],
            user=config.get("User") or "",
            entrypoint=tuple(config.get("Entrypoint") or ()),
            command=tuple(config.get("Cmd") or ()),
            stop_signal=config.get("StopSignal") or "",
        )
    except (ValueError, KeyError, TypeError):
        return None


def _exists(path: Path) -> bool:
    return path.exists()


def _limit(kind: int, most: int) -> int:
    """What may be set without raising what this process has."""
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def _monitor(pid_file: Path) -> int | None:
    """A pidfd of the monitor whose pid podman has written; None if it has ended already."""
    pid = int(pid_file.read_text())
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().strip() in _MONITORS:
            return descriptor
    os.close(descriptor)  # the number belongs to another process by now
    return None
