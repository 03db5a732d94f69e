"""Composition root of the agent."""

import asyncio
import contextlib
import fcntl
import logging
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from devcluster.node_agent import admission, logs
from devcluster.node_agent.addresses import AddressPool
from devcluster.node_agent.cluster import ClusterApi, ClusterData, watch_pods
from devcluster.node_agent.containers import AgentTiming, ContainerRuntime, NodeRuntime
from devcluster.node_agent.endpoint import KubeletEndpoint
from devcluster.node_agent.events import PodEventRecorder
from devcluster.node_agent.images import ImageMap
from devcluster.node_agent.objects import NEVER_RESTARTS, DataKind, Obj
from devcluster.node_agent.pod import PodWorker
from devcluster.node_agent.podman import PodmanContainers, find_podman
from devcluster.node_agent.probing import Prober
from devcluster.node_agent.process_containers import ProcessContainers
from devcluster.node_agent.registration import NodeDescription, Registration, host_capacity
from devcluster.node_agent.sandbox import choose
from scheduler.kube.client import ClientConfig, KubeClient

log = logging.getLogger("node_agent")

HOST_IP = "127.0.0.1"
HOUSEKEEPING_SECONDS = 30.0
LAST_EVENTS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How to run an agent; see the command line's help."""

    kubeconfig: Path
    node_name: str
    state_dir: Path
    images: ImageMap
    pod_network: str
    containers: str = "processes"
    """What runs the pods: processes, or podman."""
    sandbox: str = "auto"
    masked: tuple[Path, ...] = ()
    timing: AgentTiming = field(default_factory=AgentTiming)


class StateDirectoryError(RuntimeError):
    """The state directory belongs to another agent."""


class Agent:
    """Runs the pods that the API server assigns to one node."""

    def __init__(self, settings: AgentSettings) -> None:
        """Nothing is opened yet.

        Raises ConfigError, PodmanUnavailableError, SandboxUnavailableError, StateDirectoryError or ValueError.
        """
        self._settings = settings
        config = ClientConfig.load(settings.kubeconfig)
        self._client = KubeClient(config, qps=100, burst=200, user_agent="secondary-scheduler-node-agent")
        api = ClusterApi(self._client)
        addresses = AddressPool(settings.pod_network)
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        state_dir = settings.state_dir.resolve()
        self._lock = _lock(state_dir)
        containers = _containers(settings, state_dir)
        self._data = ClusterData(self._client, self._data_changed)
        self._recorder = PodEventRecorder(api, settings.node_name)
        capacity = host_capacity(state_dir)
        self._allocatable = admission.amounts(capacity)
        server = urlsplit(config.server)
        self._node = NodeRuntime(
            name=settings.node_name,
            host_ip=HOST_IP,
            service_env={
                "KUBERNETES_SERVICE_HOST": str(server.hostname),
                "KUBERNETES_SERVICE_PORT": str(server.port or 443),
                "KUBERNETES_SERVICE_PORT_HTTPS": str(server.port or 443),
            },
            allocatable=capacity,
            state_dir=state_dir,
            api=api,
            recorder=self._recorder,
            containers=containers,
            prober=Prober(),
            store=self._data,
            addresses=addresses,
            clock=time.time,
            timing=settings.timing,
        )
        description = NodeDescription(
            name=settings.node_name,
            host_ip=HOST_IP,
            tier=containers.tier,
            pod_cidr=str(addresses.network),
            capacity=capacity,
            version=version("secondary-scheduler"),
            runtime=containers.version,
            pods_are=containers.description,
            images=tuple(containers.image_names()),
        )
        self._workers: dict[str, PodWorker] = {}
        authority = _authority(config)
        self._endpoint = KubeletEndpoint(HOST_IP, authority, self._node, self._workers) if authority else None
        self._registration = Registration(api, description, time.time)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closing = False

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; then end all pods' processes and return."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        leftovers = await self._node.containers.remove_leftovers(self._node.state_dir / "pods")
        if leftovers:
            log.info("ended %d %s that an earlier agent left behind", leftovers, self._node.containers.description)
        if self._endpoint is not None:
            self._registration.port = await self._endpoint.start()
        pods = watch_pods(self._client, self._settings.node_name, self._pods_changed)
        background = [
            asyncio.create_task(job)
            for job in (self._recorder.run(), self._registration.run(), pods.run(), self._housekeeping())
        ]
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({stopping, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                await task  # a background job never ends by itself: this raises what ended it
        finally:
            await self._shut_down([*background, stopping])

    async def _shut_down(self, background: Sequence["asyncio.Task[object]"]) -> None:
        self._closing = True
        longest = self._settings.timing.shutdown_grace
        await asyncio.gather(*(worker.shutdown(longest) for worker in self._workers.values()), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_EVENTS_SECONDS):
                await self._write_last_status()
        for task in (*self._tasks.values(), *background):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *background, return_exceptions=True)
        if self._endpoint is not None:
            await self._endpoint.close()
        await self._data.close()
        await self._node.prober.close()
        await self._client.close()

    async def _write_last_status(self) -> None:
        await self._registration.mark_not_ready()
        await self._recorder.flush()

    # --- news ---------------------------------------------------------------------------------------------------------
    def _pods_changed(self, deleted: Sequence[Obj], present: Sequence[Obj]) -> None:
        for pod in deleted:
            worker = self._workers.get(pod["metadata"]["uid"])
            if worker is not None:
                worker.pod_deleted()
        # The oldest first, as kubelet admits those that come together.
        for pod in sorted(present, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))):
            uid = pod["metadata"]["uid"]
            worker = self._workers.get(uid)
            if worker is None and self._closing:
                continue
            if worker is None:
                worker = self._workers[uid] = PodWorker(self._node, pod, self._rejection(pod))
                task = self._tasks[uid] = asyncio.create_task(worker.run())
                task.add_done_callback(partial(self._forget, uid))
            else:
                worker.update(pod)
        self._resize()

    def _resize(self) -> None:
        """Grant resizes, those of the oldest pods first; who has to wait is looked at again at the next change."""
        for worker in self._workers.values():
            if worker.occupies and worker.is_resized:
                others = [other.requests for other in self._workers.values() if other is not worker and other.occupies]
                worker.resize(admission.resize_obstacle(worker.spec, others, self._allocatable))

    def _rejection(self, pod: Obj) -> admission.AdmissionRejection | None:
        """Why a pod that has just come is not admitted; None also for one that ends, or has ended."""
        if pod["metadata"].get("deletionTimestamp") or (pod.get("status") or {}).get("phase") in NEVER_RESTARTS:
            return None
        others = (worker.requests for worker in self._workers.values() if worker.occupies)
        return admission.rejection(pod["spec"], others, self._allocatable)

    def _forget(self, uid: str, task: "asyncio.Task[None]") -> None:
        self._workers.pop(uid, None)
        self._tasks.pop(uid, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("pod %s", uid, exc_info=task.exception())

    def _data_changed(self, kind: DataKind, namespace: str, name: str) -> None:
        for worker in self._workers.values():
            if worker.namespace == namespace:
                worker.data_changed(kind, name)

    async def _housekeeping(self) -> None:
        """Cap logs, and remove the directories of pods that went while no agent was running."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
            self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        for path in (self._node.state_dir / "logs").glob("*.log"):
            logs.cap(path)
        for directory in (self._node.state_dir / "pods").glob("*"):
            if directory.name not in self._workers:
                shutil.rmtree(directory, ignore_errors=True)


def _containers(settings: AgentSettings, state_dir: Path) -> ContainerRuntime:
    if settings.containers == "podman":
        return PodmanContainers(find_podman(), state_dir, settings.images)
    sandbox = choose(settings.sandbox, state_dir, (state_dir, settings.kubeconfig, *settings.masked))
    return ProcessContainers(settings.images, sandbox, version("secondary-scheduler"))


def _lock(state_dir: Path) -> BinaryIO:
    """Hold the directory while the file is open: a second agent would kill the first one's pods as leftovers."""
    stream = (state_dir / "lock").open("wb")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise StateDirectoryError(
            f"state directory {state_dir} is in use by another node agent; give each its own --state-dir"
        ) from None
    return stream


def _authority(config: ClientConfig) -> str:
    """PEM of the cluster's authority as the kubeconfig has it, or ''."""
    if config.ca_data is not None:
        return config.ca_data.decode()
    return config.ca_file.read_text() if config.ca_file is not None else ""
