"""One pod on this node, from its assignment to its removal from the API."""

import asyncio
import contextlib
import shutil

from devcluster.node_agent.admission import AdmissionRejection, Amounts, pod_requests
from devcluster.node_agent.container import ContainerRunner
from devcluster.node_agent.containers import NodeRuntime, PodRuntime, log
from devcluster.node_agent.objects import (
    DEFAULT_GRACE,
    NEVER_RESTARTS,
    DataKind,
    Obj,
    all_containers,
    grace_period,
    is_sidecar,
    pod_name,
)
from devcluster.node_agent.status import ContainerReport, PodReport, pod_status, restored_report, waiting
from devcluster.node_agent.supported_fields import unsupported_fields
from devcluster.node_agent.volumes.manager import MountError, VolumeManager
from devcluster.node_agent.volumes.sources import TokenManager, references
from scheduler.kube.client import Conflict, KubeError, NotFound, api_path

# Nobody waits for a pod whose object is already deleted.
GONE_GRACE = 2.0
RETRY_SECONDS = 1.0
LAST_STATUS_SECONDS = 2.0


class PodWorker:
    """Call ``run`` once in a task; tell it of changes by ``update``, ``gone`` and ``data_changed``.

    A pod with a ``rejection`` starts nothing: it is reported as failed, and stays so until it is deleted.
    """

    def __init__(self, node: NodeRuntime, pod: Obj, rejection: AdmissionRejection | None = None) -> None:
        self._node = node
        self._rejection = rejection
        self.uid: str = pod["metadata"]["uid"]
        directory = node.pod_directory(self.uid)
        tokens = TokenManager(node.api, pod, node.clock)
        volumes = VolumeManager(
            directory / "volumes",
            node.containers,
            node.store,
            tokens,
            node.allocatable,
            node.containers.volume_group(pod),
        )
        self._home = PodRuntime(pod, directory, volumes, self._mark_changed)
        spec, old = pod["spec"], pod.get("status") or {}
        self._init = [
            restored_report(c, old.get("initContainerStatuses"), node.clock()) for c in spec.get("initContainers") or []
        ]
        self._main = [restored_report(c, old.get("containerStatuses"), node.clock()) for c in spec["containers"]]
        self._runners: dict[str, tuple[ContainerRunner, asyncio.Task[None]]] = {}
        self._address = ""
        self._began = node.clock()
        self._sandbox_ready = False
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._data_changed = asyncio.Event()
        self._ending = asyncio.Event()
        self._grace = DEFAULT_GRACE
        self._exists = True
        self._stopping = False
        self._written: Obj = {}
        self._writing = asyncio.Lock()
        self._finished = old.get("phase") in NEVER_RESTARTS
        self._resize_pending: AdmissionRejection | None = None
        self._grant(spec)
        self._stop_tasks: set[asyncio.Task[None]] = set()

    # --- news from outside --------------------------------------------------------------------------------------------
    def update(self, pod: Obj) -> None:
        """A newer version of the pod object."""
        self._set_pod(pod)
        if not pod["metadata"].get("deletionTimestamp"):
            self._data_changed.set()  # its labels and annotations may stand in files
            return
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        self._end(DEFAULT_GRACE if grace is None else float(grace))

    def pod_deleted(self) -> None:
        """The pod object does not exist any more."""
        self._exists = False
        self._end(GONE_GRACE)

    def data_changed(self, kind: DataKind, name: str) -> None:
        """A ConfigMap or Secret of the pod's namespace changed."""
        if (kind, name) in references(self._home.pod):
            self._data_changed.set()

    def _end(self, grace: float) -> None:
        if self._stopping and grace < self._grace:
            task = asyncio.create_task(self._stop_all(grace))
            self._stop_tasks.add(task)
            task.add_done_callback(self._stop_tasks.discard)
        self._grace = grace
        self._ending.set()

    def runs(self, container: str) -> bool:
        """Whether a container may still write to its log."""
        return any(report.spec["name"] == container and not report.finished for report in (*self._init, *self._main))

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self._home.pod["metadata"]["name"])

    @property
    def address(self) -> str:
        """The pod's address; "" before it has one."""
        return self._address

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self._home.pod["metadata"]["namespace"])

    @property
    def occupies(self) -> bool:
        """Whether it takes room: it was admitted, and has not ended."""
        ended = self._finished or self._written.get("phase") in NEVER_RESTARTS
        return self._rejection is None and not ended

    # --- resources ----------------------------------------------------------------------------------------------------
    @property
    def spec(self) -> Obj:
        """The pod's spec as the API server has it."""
        spec: Obj = self._home.pod["spec"]
        return spec

    @property
    def is_resized(self) -> bool:
        """Whether the spec requests something else than was granted, or did and was not heard yet."""
        return _resources(self.spec) != self._granted or self._resize_pending is not None

    def resize(self, obstacle: AdmissionRejection | None) -> None:
        """Grant what the spec requests, or say what is in the way. No process notices either."""
        if obstacle is None:
            self._grant(self.spec)
        if obstacle is None or obstacle != self._resize_pending:
            self._resize_pending = obstacle
            self._mark_changed()

    def _grant(self, spec: Obj) -> None:
        self._granted = _resources(spec)
        self.requests: Amounts = pod_requests(spec)
        for report in (*self._init, *self._main):
            report.granted = self._granted[report.spec["name"]]

    # --- life ---------------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Run the pod until it is deleted; afterwards neither processes nor files nor the object are left."""
        writer = asyncio.create_task(self._write_statuses())
        self.update(self._home.pod)
        pod_task = asyncio.create_task(self._run_guarded())
        ending = asyncio.create_task(self._ending.wait())
        try:
            await ending
            await self._stop(pod_task)
            if self._exists:
                await self._write_last_status()
                await self._delete()
        finally:
            for task in (writer, pod_task, ending):
                task.cancel()
            self._remove_files()

    async def shutdown(self, longest: float) -> None:
        """End all processes because the agent ends; the pod object stays."""
        self._grace = min(longest, grace_period(self.spec))
        await self._stop_all(self._grace)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_STATUS_SECONDS):
                await self._write_last_status()

    async def _run_guarded(self) -> None:
        try:
            await self._run_until_deleted()
        except Exception as error:  # a bug in here must end neither the agent nor the pod's deletion
            log.exception("pod %s", pod_name(self._home.pod))
            self._node.recorder.warning(self._home.pod, "FailedSync", f"Error syncing pod: {error!r}")

    async def _run_until_deleted(self) -> None:
        if self._finished:  # before this agent started: only its deletion is left to wait for
            return
        if self._rejection is not None:
            await self._reject(self._rejection)
            return
        problems = unsupported_fields(self._home.pod)
        if problems:
            self._refuse(problems)
            return
        host_network = bool(self._home.pod["spec"].get("hostNetwork"))
        self._address = self._node.host_ip if host_network else self._node.addresses.take()
        self._set_pod(self._home.pod)
        self._mark_changed()
        await self._node.store.follow(self.uid, self.namespace, references(self._home.pod))
        await self._mount()
        self._sandbox_ready = True
        self._mark_changed()
        async with asyncio.TaskGroup() as group:
            refreshing = group.create_task(self._refresh())
            if await self._run_init():
                await self._run_main()
            refreshing.cancel()

    async def _reject(self, rejection: AdmissionRejection) -> None:
        """Report the pod as failed, as kubelet's rejectPod does."""
        self._node.recorder.warning(self._home.pod, rejection.reason, rejection.message)
        text = f"Pod was rejected: {rejection.message}"
        status = {"phase": "Failed", "reason": rejection.reason, "message": text}
        while not self._finished:
            try:
                await self._patch_status(status)
            except (NotFound, Conflict):  # the object is gone, or a namesake has taken its place
                return
            except KubeError as error:
                log.warning("cannot write the status of pod %s: %s", pod_name(self._home.pod), error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._finished = True

    def _refuse(self, problems: list[str]) -> None:
        text = f"not supported by the node agent: {', '.join(problems)}"
        for report in (*self._init, *self._main):
            report.state = waiting("CreateContainerConfigError", text)
        self._node.recorder.warning(self._home.pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {text}")
        self._mark_changed()

    async def _mount(self) -> None:
        while True:
            try:
                await self._home.volumes.refresh(self._home.pod)
                return
            except MountError as error:
                self._node.recorder.warning(self._home.pod, "FailedMount", str(error))
            self._data_changed.clear()
            await self._wait_for_news(self._node.timing.sync)

    async def _refresh(self) -> None:
        while True:
            await self._wait_for_news(self._node.timing.refresh)
            self._data_changed.clear()
            try:
                await self._home.volumes.refresh(self._home.pod)
            except MountError as error:
                self._node.recorder.warning(self._home.pod, "FailedMount", str(error))

    async def _wait_for_news(self, longest: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._data_changed.wait()

    async def _run_init(self) -> bool:
        """Run init containers in order; return whether the main ones may start."""
        for report in self._main:
            if self._init and not report.last_state and not report.finished:
                report.state = waiting("PodInitializing")
        for report in self._init:
            if is_sidecar(report.spec):
                self._start(report, "initContainers")
                while not report.started:
                    self._progress.clear()
                    await self._progress.wait()
                continue
            await self._all_ended([self._start(report, "initContainers")])
            if (report.finished or {}).get("exitCode") != 0:
                return False
        return True

    async def _run_main(self) -> None:
        await self._all_ended([self._start(report, "containers") for report in self._main])
        if not self._stopping:
            await self._stop_section(sidecars=True, grace=grace_period(self.spec))

    async def _all_ended(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Wait for containers without passing our own cancellation on to them; raise what a bug in one raised."""
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    def _start(self, report: ContainerReport, section: str) -> "asyncio.Task[None]":
        runner = ContainerRunner(self._node, self._home, report, section)
        # A task of its own: cancelling the pod's life must not cut off the orderly end of its containers.
        task = asyncio.create_task(runner.run())
        self._runners[report.spec["name"]] = (runner, task)
        return task

    # --- the end ------------------------------------------------------------------------------------------------------
    async def _stop(self, task: "asyncio.Task[None]") -> None:
        self._stopping = True
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await self._stop_all(self._grace)

    async def _stop_all(self, grace: float) -> None:
        self._stopping = True
        await self._stop_section(sidecars=False, grace=grace)
        await self._stop_section(sidecars=True, grace=grace)

    async def _stop_section(self, *, sidecars: bool, grace: float) -> None:
        chosen = [entry for entry in self._runners.values() if is_sidecar(entry[0].container) is sidecars]
        await asyncio.gather(*(runner.stop(grace) for runner, _ in chosen))
        for runner, task in chosen:
            with contextlib.suppress(asyncio.CancelledError):
                await task
            if runner.report.finished is None and runner.report.last_state:
                runner.report.state = runner.report.last_state
        self._mark_changed()

    async def _delete(self) -> None:
        metadata = self._home.pod["metadata"]
        path = api_path("v1", "pods", namespace=metadata["namespace"], name=metadata["name"])
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        while self._exists:
            try:
                await self._node.api.delete(path, options)
                return
            except (NotFound, Conflict):
                return
            except KubeError as error:
                log.warning("cannot remove pod %s: %s", pod_name(self._home.pod), error)
                await asyncio.sleep(RETRY_SECONDS)

    def _remove_files(self) -> None:
        shutil.rmtree(self._home.directory, ignore_errors=True)
        self._node.addresses.release(self._address)
        self._node.store.release(self.uid)

    # --- status -------------------------------------------------------------------------------------------------------
    def _set_pod(self, pod: Obj) -> None:
        addresses = {
            "podIP": self._address,
            "podIPs": [{"ip": self._address}] if self._address else [],
            "hostIP": self._node.host_ip,
        }
        self._home.pod = {**pod, "status": {**(pod.get("status") or {}), **addresses}}

    def _mark_changed(self) -> None:
        self._changed.set()
        self._progress.set()

    async def _write_statuses(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write_status()
            except (NotFound, Conflict):  # the object is gone, or a namesake has taken its place
                return
            except KubeError as error:
                log.warning("cannot write the status of pod %s: %s", pod_name(self._home.pod), error)
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _write_last_status(self) -> None:
        with contextlib.suppress(KubeError):
            await self._write_status()

    async def _write_status(self) -> None:
        if self._finished:
            return
        async with self._writing:
            await self._write_current_status()

    async def _write_current_status(self) -> None:
        pod = self._home.pod
        previous = self._written or pod.get("status") or {}
        facts = PodReport(
            pod=pod,
            init=self._init,
            main=self._main,
            host_ip=self._node.host_ip,
            pod_ip=self._address,
            started=self._began,
            sandbox_ready=self._sandbox_ready,
            resize_pending=self._resize_pending,
        )
        status = pod_status(facts, previous, self._node.clock())
        if status == self._written:
            return
        await self._patch_status(status)
        self._written = status

    async def _patch_status(self, status: Obj) -> None:
        metadata = self._home.pod["metadata"]
        path = api_path("v1", "pods", namespace=metadata["namespace"], name=metadata["name"], subresource="status")
        await self._node.api.patch(path, {"metadata": {"uid": self.uid}, "status": status})


def _resources(spec: Obj) -> dict[str, Obj]:
    """The containers' resources, by name."""
    return {container["name"]: container.get("resources") or {} for container in all_containers(spec)}
