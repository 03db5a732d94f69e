"""Containers that are processes of this machine, in a sandbox; images are names for host commands."""

import asyncio
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from devcluster.node_agent import logs
from devcluster.node_agent.containers import ContainerEnd, ContainerRequest, Decoder
from devcluster.node_agent.environment import base_environment
from devcluster.node_agent.images import Image, ImageMap, NoSuchExecutableError
from devcluster.node_agent.objects import Obj
from devcluster.node_agent.process import ContainerProcess, kill_recorded, launch
from devcluster.node_agent.sandbox import LaunchRequest, Sandbox, StartError, VolumeMount
from devcluster.node_agent.security import container_security

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
