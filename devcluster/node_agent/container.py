"""One container of a pod through all its instances: start, probe, end, back off, start again."""

import asyncio
import contextlib
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from devcluster.node_agent import logs
from devcluster.node_agent.environment import (
    base_environment,
    container_environment,
)
from devcluster.node_agent.expansion import expand
from devcluster.node_agent.fields import FieldError
from devcluster.node_agent.images import Image, NoSuchExecutableError
from devcluster.node_agent.instance import ContainerInstance
from devcluster.node_agent.objects import ContainerConfigError, is_sidecar
from devcluster.node_agent.process import launch
from devcluster.node_agent.runtime import NodeRuntime, PodRuntime, log
from devcluster.node_agent.sandbox import LaunchRequest, StartError, VolumeMount
from devcluster.node_agent.sandbox.launcher import EXIT_START_ERROR
from devcluster.node_agent.security import container_security
from devcluster.node_agent.status import ContainerReport, running, terminated, waiting

TERMINATION_MESSAGE_BYTES = 4096
DEFAULT_TERMINATION_PATH = "/dev/termination-log"


@dataclass(slots=True)
class Backoff:
    """Doubling delays with kubelet's reset rule (client-go ``flowcontrol.Backoff``).

    The first failure costs nothing; then ``base`` seconds, doubling up to ``limit``. Who ran longer than twice the
    limit starts over.
    """

    base: float = 10.0
    limit: float = 300.0
    _current: float = 0.0
    _last: float = 0.0

    def delay(self, now: float) -> float:
        """Seconds to wait after a failure at ``now`` before the next attempt; call it once per failure."""
        if self._current == 0 or now - self._last > 2 * self.limit:
            wait, self._current = 0.0, self.base
        else:
            wait, self._current = self._current, min(self._current * 2, self.limit)
        self._last = now + wait
        return wait


class ContainerRunner:
    """Runs a container until its restart policy says it is over, or it is stopped."""

    def __init__(self, node: NodeRuntime, home: PodRuntime, report: ContainerReport, section: str) -> None:
        self._node = node
        self._home = home
        self.report = report
        self.container = report.spec
        self._field = f"{section}{{{self.container['name']}}}"
        self._stopping = asyncio.Event()
        self._stopped_grace = 0.0
        self._instance: ContainerInstance | None = None
        timing = node.timing
        self._restart_backoff = Backoff(timing.backoff_base, timing.backoff_limit)
        self._image_backoff = Backoff(timing.backoff_base, timing.backoff_limit)

    # --- life ---------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Return when the container will not run again."""
        if self.report.finished:  # by a predecessor of this agent
            if not self._runs_again(self.report.finished["exitCode"]):
                return
            self.report.last_state, self.report.state = self.report.state, waiting("ContainerCreating")
        while not self._stopping.is_set():
            image = await self._pull()
            request = self._configure(image) if image else None
            if image is None or request is None:
                if image is not None:
                    await self._pause(self._node.timing.sync)
                continue
            code = await self._run_once(request, image)
            if self._stopping.is_set() or not self._runs_again(code):
                return
            await self._back_off()

    async def stop(self, grace: float) -> None:
        """End it for good: preStop hook, SIGTERM, and SIGKILL after ``grace`` seconds in all."""
        self._stopping.set()
        if self._instance is not None:
            self._event("Killing", f"Stopping container {self.container['name']}")
            await self._instance.stop(grace)

    @property
    def succeeded(self) -> bool:
        """Whether it ran to completion with code 0."""
        return (self.report.finished or {}).get("exitCode") == 0

    def _runs_again(self, code: int) -> bool:
        policy = "Always" if is_sidecar(self.container) else self._home.pod["spec"].get("restartPolicy", "Always")
        if self._field.startswith("initContainers") and not is_sidecar(self.container):
            return code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    async def _back_off(self) -> None:
        delay = self._restart_backoff.delay(time.monotonic())
        self.report.last_state = self.report.state
        if delay <= 0:
            return
        pod = self._home.pod["metadata"]
        full_name = f"{self.container['name']} in pod {pod['name']}_{pod['namespace']}({pod['uid']})"
        self._wait("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container={full_name}")
        self._event("BackOff", f"Back-off restarting failed container {full_name}", warning=True)
        await self._pause(delay)

    # --- before the start ---------------------------------------------------------------------------------------------
    async def _pull(self) -> Image | None:
        """The image, or None after having waited its back-off."""
        reference = self.container["image"]
        image = self._node.images.find(reference)
        if image is not None:
            self._event("Pulled", f'Container image "{reference}" already present on machine')
            return image
        if self.container.get("imagePullPolicy") == "Never":
            text = f'Container image "{reference}" is not present with pull policy of Never'
            self._wait("ErrImageNeverPull", text)
            self._event("ErrImageNeverPull", text, warning=True)
            await self._pause(self._node.timing.backoff_base)
            return None
        known = ", ".join(self._node.images.names()) or "none"
        problem = f'Failed to pull image "{reference}": not found: the node agent runs only images of its map: {known}'
        self._event("Pulling", f'Pulling image "{reference}"')
        self._event("Failed", problem, warning=True)
        self._event("Failed", "Error: ErrImagePull", warning=True)
        self._wait("ErrImagePull", problem)
        await self._pause(min(1.0, self._node.timing.backoff_base))
        self._event("BackOff", f'Back-off pulling image "{reference}"')
        self._event("Failed", "Error: ImagePullBackOff", warning=True)
        self._wait("ImagePullBackOff", f'Back-off pulling image "{reference}": {problem}')
        await self._pause(self._image_backoff.delay(time.monotonic()) or self._node.timing.backoff_base)
        return None

    def _configure(self, image: Image) -> LaunchRequest | None:
        """The launch request, or None with the reason in status and Events."""
        try:
            return self._request(image)
        except (ContainerConfigError, FieldError) as error:
            self._wait("CreateContainerConfigError", str(error))
            self._event("Failed", f"Error: {error}", warning=True)
        except (NoSuchExecutableError, OSError) as error:
            self._refused(str(error))
        return None

    def _request(self, image: Image) -> LaunchRequest:
        pod, container = self._home.pod, self.container
        hostname = pod["spec"].get("hostname") or pod["metadata"]["name"]
        own = container_environment(container, self._home.volumes.context(pod), self._node.service_env)
        security = container_security(pod, container, image.user)
        variables = {
            "POD_IP": pod["status"]["podIP"],
            "POD_NAME": pod["metadata"]["name"],
            "POD_NAMESPACE": pod["metadata"]["namespace"],
            "NODE_NAME": self._node.name,
        }
        host_command, args = image.command_line(
            [expand(text, own) for text in container.get("command") or []],
            [expand(text, own) for text in container.get("args") or []],
            variables,
        )
        self._home.volumes.make_sub_paths(pod, [container])
        return LaunchRequest(
            host_command=host_command,
            args=args,
            env={**base_environment(image.env, hostname), **own},
            working_dir=container.get("workingDir") or "/",
            mounts=(*self._home.volumes.mounts(pod, container), self._termination_mount()),
            security=security,
            hostname=hostname,
            host_paths=image.host_paths,
        )

    def _termination_mount(self) -> VolumeMount:
        path = self._message_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        return VolumeMount(self.container.get("terminationMessagePath") or DEFAULT_TERMINATION_PATH, str(path), False)

    def _message_file(self) -> Path:
        return self._home.directory / "termination" / str(self.container["name"])

    # --- one instance -------------------------------------------------------------------------------------------------
    async def _run_once(self, request: LaunchRequest, image: Image) -> int:
        began = self._node.clock()
        if self.report.last_state:
            self.report.restarts += 1
        self.report.container_id = f"process://{uuid.uuid4().hex}"
        name = self.container["name"]
        metadata = self._home.pod["metadata"]
        log_file = self._node.log_file(metadata["namespace"], metadata["name"], name)
        try:
            instance = await self._launch(request, image, log_file)
        except StartError as error:
            self._event("Failed", f"Error: failed to start container {name!r}: {error}", warning=True)
            self._ended(EXIT_START_ERROR, "StartError", str(error), began)
            return EXIT_START_ERROR
        self._instance = instance
        self._event("Created", f"Created container: {name}")
        self._event("Started", f"Started container {name}")
        self.report.state = running(began)
        self._home.changed()
        if self._stopping.is_set():
            await instance.stop(0)
        code = await instance.finish()
        self._instance = None
        self._ended(code, "Completed" if code == 0 else "Error", self._message(code, log_file), began)
        return code

    async def _launch(self, request: LaunchRequest, image: Image, log_file: Path) -> ContainerInstance:
        name = self.container["name"]
        output = logs.open_log(log_file)
        try:
            process = await launch(
                self._node.sandbox.launch_spec(request),
                self._home.directory / "specs" / f"{name}.json",
                output,
                self._home.directory / "processes" / f"{name}.json",
            )
        except OSError as error:
            raise StartError(str(error)) from error
        finally:
            os.close(output)
        return ContainerInstance(self._node, self._home, self.report, process, request, image, self._event)

    def _ended(self, code: int, reason: str, message: str, began: float) -> None:
        report = self.report
        report.state = terminated(code, reason, message, began, self._node.clock(), report.container_id)
        report.ready = report.started = False
        self._home.changed()

    def _message(self, code: int, log_file: Path) -> str:
        try:
            with self._message_file().open("rb") as stream:
                text = stream.read(TERMINATION_MESSAGE_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        if not text and code != 0 and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = logs.tail(log_file)
        return text

    # --- telling ------------------------------------------------------------------------------------------------------
    def _refused(self, problem: str) -> None:
        self._wait("CreateContainerError", problem)
        self._event("Failed", f"Error: {problem}", warning=True)

    def _wait(self, reason: str, message: str) -> None:
        state = waiting(reason, message)
        if self.report.state != state:
            self.report.state = state
            self._home.changed()

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        record = self._node.recorder.warning if warning else self._node.recorder.normal
        record(self._home.pod, reason, message, self._field)
        log.info("%s: %s: %s", self._home.pod["metadata"]["name"], reason, message)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
