"""Containers that are processes of this machine, in a sandbox; images are names for host commands."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from devcluster.node_agent import logs
from devcluster.node_agent.containers import ContainerEnd, ContainerRequest, Decoder
from devcluster.node_agent.environment import base_environment
from devcluster.node_agent.images import Image, ImageMap, NoSuchExecutableError
from devcluster.node_agent.objects import Obj
from devcluster.node_agent.sandbox import LAUNCHER, LaunchRequest, Sandbox, StartError, VolumeMount
from devcluster.node_agent.security import container_security
from devcluster.pki import write_private
from devcluster.processes import identity

REPORT_SECONDS = 30.0
# After "kill everything" the launcher itself gets this long before it is killed, and its children with it.
FORCE_SECONDS = 5.0


@dataclass(slots=True)
class ContainerProcess:
    """A launcher and, below it, a container's processes."""

    launcher: asyncio.subprocess.Process
    entry_pid: int
    """What ``Sandbox.exec_spec`` needs to run a command in the container."""
    record: Path | None = None

    async def wait(self) -> int:
        """The container's exit code (128 + signal if killed)."""
        code = await self.launcher.wait()
        if self.record is not None:
            self.record.unlink(missing_ok=True)
        return code if code >= 0 else 128 - code

    async def stop(self, grace: float) -> None:
        """SIGTERM to the workload's process group, after ``grace`` seconds SIGKILL to everything; returns then."""
        if grace > 0:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self.launcher.wait()
        if self.launcher.returncode is None:
            self._signal(signal.SIGUSR2)
            try:
                async with asyncio.timeout(FORCE_SECONDS):
                    await self.launcher.wait()
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self.launcher.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.launcher.send_signal(number)


async def launch(spec: dict[str, Any], spec_file: Path, output: int, record: Path | None = None) -> ContainerProcess:
    """Start a launcher with its output on the descriptor ``output``; return once the workload runs.

    ``record``: file to keep the launcher's identity in, for ``kill_recorded`` after a crash. Raises StartError.
    """
    read_end, write_end = os.pipe()
    try:
        document = {**spec, "statusFd": write_end, "agentPid": os.getpid()}
        write_private(spec_file, json.dumps(document).encode())
        launcher = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(LAUNCHER), str(spec_file),
            stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            pass_fds=(write_end,), start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    process = ContainerProcess(launcher, launcher.pid, record)
    try:
        if record is not None:
            _write_record(record, launcher.pid)
        async with asyncio.timeout(REPORT_SECONDS):
            process.entry_pid = await _report(read_end) or launcher.pid
    except BaseException as error:
        await asyncio.shield(process.stop(0))
        await process.wait()
        if isinstance(error, TimeoutError):
            raise StartError(f"the sandbox was not ready within {REPORT_SECONDS:.0f} s") from error
        raise
    finally:
        _remove(spec_file)  # it holds the container's environment
    return process


async def _report(descriptor: int) -> int:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        pid = 0
        while line := await reader.readline():
            message = json.loads(line)
            if "error" in message:
                raise StartError(message["error"])
            pid = int(message.get("pid", pid))
            if message.get("started"):
                return pid
        raise StartError("the sandbox ended before the container's process started; see the container's log")
    finally:
        transport.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _write_record(path: Path, pid: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": pid, "started": identity(pid)}))


def kill_recorded(directory: Path) -> int:
    """Kill what a predecessor left running, by pid and start time; return how many there were.

    The launchers' children die with them (``PR_SET_PDEATHSIG``).
    """
    killed = 0
    for path in sorted(directory.glob("*/processes/*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            recorded = json.loads(path.read_text())
            if recorded["started"] and identity(recorded["pid"]) == recorded["started"]:
                os.kill(recorded["pid"], signal.SIGKILL)
                killed += 1
        path.unlink(missing_ok=True)
    return killed


OUTPUT_BYTES = 10 * 1024


class ProcessContainers:
    """``containers.ContainerRuntime`` by launchers in a sandbox."""

    description = "processes"

    def __init__(self, images: ImageMap, sandbox: Sandbox, version: str) -> None:
        """``version``: of the agent."""
        self._images = images
        self._sandbox = sandbox
        self.tier = sandbox.tier
        self.version = f"process://{version}"

    def image_names(self) -> Sequence[str]:
        """See ``containers.ContainerRuntime``."""
        return self._images.names()

    async def find(self, reference: str) -> "_MappedImage | None":
        """See ``containers.ContainerRuntime``."""
        image = self._images.find(reference)
        return None if image is None else _MappedImage(image, self._sandbox)

    @property
    def absent_image(self) -> str:
        """See ``containers.ContainerRuntime``."""
        return f"the node agent runs only images of its map: {', '.join(self._images.names()) or 'none'}"

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """See ``containers.ContainerRuntime``."""
        return self._sandbox.volume_text(mounts, data)

    def volume_group(self, pod: Obj) -> int | None:
        """None: a sandbox maps one group only."""
        return None

    def log_decoder(self) -> Decoder:
        """Output is kept as it comes."""
        return bytes

    async def remove_leftovers(self, pods: Path) -> int:
        """See ``containers.ContainerRuntime``."""
        return kill_recorded(pods)


@dataclass(frozen=True, slots=True)
class _MappedImage:
    image: Image
    sandbox: Sandbox
    id: str = ""

    def prepare(self, request: ContainerRequest) -> "_StartableProcess":
        host_command, args = self.image.command_line(request.command, request.args, request.variables)
        launch_request = LaunchRequest(
            host_command=host_command,
            args=args,
            env={**base_environment(self.image.env, request.hostname), **request.env},
            working_dir=request.container.get("workingDir") or "/",
            mounts=request.mounts,
            security=container_security(request.pod, request.container, self.image.user),
            hostname=request.hostname,
            host_paths=self.image.host_paths,
        )
        return _StartableProcess(self, request, launch_request)


@dataclass(frozen=True, slots=True)
class _StartableProcess:
    image: _MappedImage
    request: ContainerRequest
    launch_request: LaunchRequest

    async def start(self) -> "_RunningProcess":
        name, directory = self.request.container["name"], self.request.directory
        try:
            output = logs.open_log(self.request.log_file)
            try:
                process = await launch(
                    self.image.sandbox.launch_spec(self.launch_request),
                    directory / "specs" / f"{name}.json",
                    output,
                    directory / "processes" / f"{name}.json",
                )
            finally:
                os.close(output)
        except OSError as error:
            raise StartError(str(error)) from error
        return _RunningProcess(f"process://{uuid.uuid4().hex}", process, self)


@dataclass(frozen=True, slots=True)
class _RunningProcess:
    id: str
    process: ContainerProcess
    origin: _StartableProcess

    async def wait(self) -> ContainerEnd:
        return ContainerEnd(await self.process.wait())

    async def stop(self, grace: float) -> None:
        await self.process.stop(grace)

    async def run_command(self, command: Sequence[str], seconds: float) -> tuple[int, str]:
        image, request = self.origin.image, self.origin.launch_request
        try:
            host_command, args = image.image.exec_line(command)
        except NoSuchExecutableError as error:
            raise StartError(str(error)) from error
        spec = image.sandbox.exec_spec(request, host_command, args, self.process.entry_pid)
        output = self.origin.request.directory / "exec" / uuid.uuid4().hex
        descriptor = _open(output)
        try:
            process = await launch(spec, output.with_suffix(".json"), descriptor.fileno())
            try:
                async with asyncio.timeout(seconds):
                    code = await process.wait()
            except BaseException:
                await asyncio.shield(process.stop(0))
                raise
            return code, _read(output)
        finally:
            descriptor.close()
            output.unlink(missing_ok=True)


def _open(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(OUTPUT_BYTES).decode("utf-8", "replace").strip()
