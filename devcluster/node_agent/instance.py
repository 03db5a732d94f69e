"""One running instance of a container: its probes, its hooks, its end."""

import asyncio
import time
from typing import Protocol

from devcluster.node_agent.containers import ContainerEnd, RunningContainer
from devcluster.node_agent.objects import Obj
from devcluster.node_agent.probing import ProbeKind, ProbeState, ProbeTiming
from devcluster.node_agent.runtime import NodeRuntime, PodRuntime, log
from devcluster.node_agent.status import ContainerReport

DEFAULT_GRACE = 30


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
        grace = timing.grace_period
        if grace is None:
            seconds = self._home.pod["spec"].get("terminationGracePeriodSeconds")
            grace = DEFAULT_GRACE if seconds is None else seconds
        # On its own: finish() cancels the probes as soon as the process has ended.
        await asyncio.shield(asyncio.ensure_future(self.stop(grace)))


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("probing failed", exc_info=task.exception())
