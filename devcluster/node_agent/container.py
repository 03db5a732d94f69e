"""One container of a pod through all its instances: start, probe, end, back off, start again."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster.node_agent import logs
from devcluster.node_agent.containers import (
    ContainerEnd,
    ContainerRequest,
    LocalImage,
    NodeRuntime,
    PodRuntime,
    RunningContainer,
    StartableContainer,
    log,
)
from devcluster.node_agent.environment import container_environment, expand
from devcluster.node_agent.images import NoSuchExecutableError
from devcluster.node_agent.objects import ContainerConfigError, FieldError, Obj, grace_period, is_sidecar
from devcluster.node_agent.probing import ProbeKind, ProbeState, ProbeTiming
from devcluster.node_agent.sandbox import StartError, VolumeMount
from devcluster.node_agent.sandbox.launcher import EXIT_START_ERROR
from devcluster.node_agent.status import ContainerReport, running, terminated, waiting

TERMINATION_MESSAGE_BYTES = 4096
DEFAULT_TERMINATION_PATH = "/dev/termination-log"


@dataclass(slots=True)
class RestartBackoff:
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
        self._instance: ContainerInstance | None = None
        timing = node.timing
        self._restart_backoff = RestartBackoff(timing.backoff_base, timing.backoff_limit)
        self._image_backoff = RestartBackoff(timing.backoff_base, timing.backoff_limit)

    # --- life ---------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Return when the container will not run again."""
        if self.report.finished:  # by a predecessor of this agent
            if not self._runs_again(self.report.finished["exitCode"]):
                return
            self.report.last_state, self.report.state = self.report.state, waiting("ContainerCreating")
        while not self._stopping.is_set():
            image = await self._pull()
            startable = self._configure(image) if image else None
            if image is None or startable is None:
                if image is not None:
                    await self._pause(self._node.timing.sync)
                continue
            code = await self._run_once(startable, image)
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
    async def _pull(self) -> LocalImage | None:
        """The image, or None after having waited its back-off."""
        reference = self.container["image"]
        image = await self._node.containers.find(reference)
        if image is not None:
            self._event("Pulled", f'Container image "{reference}" already present on machine')
            return image
        if self.container.get("imagePullPolicy") == "Never":
            text = f'Container image "{reference}" is not present with pull policy of Never'
            self._wait("ErrImageNeverPull", text)
            self._event("ErrImageNeverPull", text, warning=True)
            await self._pause(self._node.timing.backoff_base)
            return None
        problem = f'Failed to pull image "{reference}": not found: {self._node.containers.absent_image}'
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

    def _configure(self, image: LocalImage) -> StartableContainer | None:
        """The container to start, or None with the reason in status and Events."""
        try:
            return image.prepare(self._request())
        except (ContainerConfigError, FieldError) as error:
            self._wait("CreateContainerConfigError", str(error))
            self._event("Failed", f"Error: {error}", warning=True)
        except (NoSuchExecutableError, OSError) as error:
            self._refused(str(error))
        return None

    def _request(self) -> ContainerRequest:
        pod, container = self._home.pod, self.container
        own = container_environment(container, self._home.volumes.context(pod), self._node.service_env)
        variables = {
            "POD_IP": pod["status"]["podIP"],
            "POD_NAME": pod["metadata"]["name"],
            "POD_NAMESPACE": pod["metadata"]["namespace"],
            "NODE_NAME": self._node.name,
        }
        self._home.volumes.make_sub_paths(pod, [container])
        return ContainerRequest(
            pod=pod,
            container=container,
            command=tuple(expand(text, own) for text in container.get("command") or []),
            args=tuple(expand(text, own) for text in container.get("args") or []),
            env=own,
            variables=variables,
            mounts=(*self._home.volumes.mounts(pod, container), self._termination_mount()),
            hostname=pod["spec"].get("hostname") or pod["metadata"]["name"],
            directory=self._home.directory,
            log_file=self._log_file(),
        )

    def _termination_mount(self) -> VolumeMount:
        path = self._message_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        path.chmod(0o666)  # whoever the container's user is
        return VolumeMount(self.container.get("terminationMessagePath") or DEFAULT_TERMINATION_PATH, str(path), False)

    def _message_file(self) -> Path:
        return self._home.directory / "termination" / str(self.container["name"])

    def _log_file(self) -> Path:
        metadata = self._home.pod["metadata"]
        return self._node.log_file(metadata["namespace"], metadata["name"], self.container["name"])

    # --- one instance -------------------------------------------------------------------------------------------------
    async def _run_once(self, startable: StartableContainer, image: LocalImage) -> int:
        began = self._node.clock()
        if self.report.last_state:
            self.report.restarts += 1
        name = self.container["name"]
        try:
            running_container = await startable.start()
        except StartError as error:
            self._event("Failed", f"Error: failed to start container {name!r}: {error}", warning=True)
            self._ended(EXIT_START_ERROR, "StartError", str(error), began)
            return EXIT_START_ERROR
        self.report.container_id, self.report.image_id = running_container.id, image.id
        instance = ContainerInstance(self._node, self._home, self.report, running_container, self._event)
        self._instance = instance
        self._event("Created", f"Created container: {name}")
        self._event("Started", f"Started container {name}")
        self.report.state = running(began)
        self._home.changed()
        if self._stopping.is_set():
            await instance.stop(0)
        end = await instance.finish()
        self._instance = None
        reason = end.reason or ("Completed" if end.code == 0 else "Error")
        self._ended(end.code, reason, self._message(end.code), began)
        return end.code

    def _ended(self, code: int, reason: str, message: str, began: float) -> None:
        report = self.report
        report.state = terminated(code, reason, message, began, self._node.clock(), report.container_id)
        report.ready = report.started = False
        self._home.changed()

    def _message(self, code: int) -> str:
        try:
            with self._message_file().open("rb") as stream:
                text = stream.read(TERMINATION_MESSAGE_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        if not text and code != 0 and self.container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = logs.tail(self._log_file(), self._node.containers.log_decoder())
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


class EventSink(Protocol):
    """Records an Event of this container."""

    def __call__(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record it."""


class ContainerInstance:
    """Tends it from its start to its exit code."""

    def __init__(
        self, node: NodeRuntime, home: PodRuntime, report: ContainerReport, running: RunningContainer, event: EventSink
    ) -> None:
        self._node = node
        self._home = home
        self._report = report
        self._container = report.spec
        self._running = running
        self._event = event
        self._stop_lock = asyncio.Lock()

    async def finish(self) -> ContainerEnd:
        """Probe until the container ends."""
        probing = asyncio.create_task(self._probe_all())
        probing.add_done_callback(_log_failure)
        try:
            return await self._running.wait()
        finally:
            probing.cancel()
            await asyncio.wait({probing})

    async def stop(self, grace: float) -> None:
        """preStop, SIGTERM, SIGKILL after ``grace`` seconds in all. A second call with less grace hastens the first."""
        if self._stop_lock.locked():
            await self._running.stop(grace)
            return
        async with self._stop_lock:
            deadline = time.monotonic() + grace
            hook = (self._container.get("lifecycle") or {}).get("preStop")
            if hook and grace > 0:
                await self._pre_stop(hook, grace)
            await self._running.stop(max(0.0, deadline - time.monotonic()))

    async def _pre_stop(self, hook: Obj, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                if "sleep" in hook:
                    await asyncio.sleep(float(hook["sleep"]["seconds"]))
                    return
                address = self._home.pod["status"]["podIP"]
                result = await self._node.prober.probe(hook, self._container, address, grace, self._running.run_command)
                if not result.ok:
                    self._event("FailedPreStopHook", f"PreStopHook failed: {result.message}", warning=True)
        except TimeoutError:
            self._event("FailedPreStopHook", "PreStopHook did not end within the grace period", warning=True)

    # --- probes -------------------------------------------------------------------------------------------------------
    async def _probe_all(self) -> None:
        began = time.monotonic()
        startup = self._container.get("startupProbe")
        if startup is not None and not await self._probe_until_decided("startup", startup, began):
            return
        self._report.started = True
        readiness = self._container.get("readinessProbe")
        self._report.ready = readiness is None
        self._home.changed()
        others: list[tuple[ProbeKind, Obj | None]] = [
            ("liveness", self._container.get("livenessProbe")),
            ("readiness", readiness),
        ]
        async with asyncio.TaskGroup() as group:
            for kind, probe in others:
                if probe is not None:
                    group.create_task(self._probe_until_decided(kind, probe, began))

    async def _probe_until_decided(self, kind: ProbeKind, probe: Obj, began: float) -> bool:
        """Probe for ever (readiness), until failed (liveness) or until decided (startup); return whether it passed."""
        state = ProbeState(kind, ProbeTiming.of(probe), began)
        state.hold_until(time.monotonic())
        while True:
            await asyncio.sleep(max(0.0, state.due() - time.monotonic()))
            address = self._home.pod["status"]["podIP"]
            timeout = state.timing.timeout
            asked_at = time.monotonic()
            result = await self._node.prober.probe(probe, self._container, address, timeout, self._running.run_command)
            if not result.ok:
                self._event("Unhealthy", f"{kind.capitalize()} probe failed: {result.message}", warning=True)
            if not state.record(result.ok, asked_at):
                continue
            if kind == "readiness":
                self._report.ready = state.passing
                self._home.changed()
            elif not state.passing:
                await self._failed(kind, state.timing)
                return False
            elif kind == "startup":
                return True

    async def _failed(self, kind: ProbeKind, timing: ProbeTiming) -> None:
        name = self._container["name"]
        self._event("Killing", f"Container {name} failed {kind} probe, will be restarted")
        grace = grace_period(self._home.pod["spec"]) if timing.grace_period is None else timing.grace_period
        # On its own: finish() cancels the probes as soon as the process has ended.
        await asyncio.shield(asyncio.ensure_future(self.stop(grace)))


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("probing failed", exc_info=task.exception())
