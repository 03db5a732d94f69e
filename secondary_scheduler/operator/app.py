"""The operator's process: wires client, Lease, controller and health endpoints together."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

import structlog

from scheduler import __version__
from scheduler.kube.client import ClientConfig, EtcdRestores, KubeClient, KubeError, NotFound, Reflector
from scheduler.kube.lease import LeaseElector, LeaseSettings
from scheduler.kube.model import Unstructured
from secondary_scheduler.operator import logs
from secondary_scheduler.operator.controller import Controller
from secondary_scheduler.operator.groups import StatusController, status_controllers
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.options import LEASE_NAME, OperatorOptions, parse_options
from secondary_scheduler.operator.reconcile import Json, ObjectKey
from secondary_scheduler.operator.standby import LeaseHolder, NamespaceLeases, Standby
from secondary_scheduler.operator.writer import Writer
from secondary_scheduler.serving import serve

log = structlog.stdlib.get_logger(__name__)

_HOLDER_CHECK_SECONDS = 1.0
"""Seconds between looks at who keeps this operator waiting."""

_STARTUP_RETRY_SECONDS = 2.0
"""Seconds between attempts to reach an API server that does not answer yet."""

_VERSION_CHECK_SECONDS = 3600.0
"""Seconds between looks at the version of the cluster."""

_FINISH_SECONDS = 20.0
"""Seconds that a stopped operator takes to finish deletions; below the 30 s that a pod is given by default."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal (0) or until it cannot go on (1); the console script's entry point."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    logs.configure(options.verbosity)
    try:
        return asyncio.run(run(options))
    except KubeError as error:
        log.error("cannot start", error=str(error))
    except OSError as error:
        ports = f"{options.port}, {options.metrics_port}"
        log.error("cannot serve", address=options.bind_address, ports=ports, error=error.strerror or str(error))
    return 1


async def run(options: OperatorOptions) -> int:
    """Serve health at once, compete for the Lease, and reconcile while holding it."""
    config = ClientConfig.load(options.kubeconfig)
    process = _Process(options, config)
    async with (
        KubeClient(config, user_agent=f"secondary-scheduler-operator/{__version__}") as client,
        # Of its own: a flood of tokens must not wait before the operator's writes.
        KubeClient(
            config, user_agent=f"secondary-scheduler-operator/{__version__} reviews", qps=20, burst=40
        ) as reviews,
        serve(
            host=options.bind_address,
            port=options.port,
            metrics_port=options.metrics_port,
            metrics=process.metrics,
            healthy=process.liveness_problem,
            ready=process.readiness_problem,
            reviews=reviews,
            limits=options.connection_limits,
        ) as ports,
    ):
        log.info(
            "started",
            version=__version__,
            server=config.server,
            namespace=process.namespace,
            port=ports.health,
            metrics_port=ports.metrics,
        )
        return await process.run(client)


class _Process:
    """What the health endpoints and the main task share."""

    def __init__(self, options: OperatorOptions, config: ClientConfig) -> None:
        self.metrics = OperatorMetrics(__version__)
        self.namespace = options.namespace_of(config)
        self._served = options.served(config)
        self._status_of = options.status_of
        self._secrets = options.secrets
        self._controller: Controller | None = None
        self._status_controllers: list[StatusController[Any, Any]] = []
        self._leading = asyncio.Event()
        self._stopped = asyncio.Event()
        self._lost_reason = ""
        self._loop = asyncio.get_running_loop()
        self._restores = EtcdRestores(self._reflectors, self._on_restore)
        user_agent = f"secondary-scheduler-operator/{__version__} leader-election"
        self._elector = LeaseElector(
            config,
            LeaseSettings(namespace=self.namespace, name=LEASE_NAME),
            identity=options.identity,
            on_started_leading=lambda: self._from_thread(self._leading.set),
            on_lost=self._stop_leading,
            on_restore=self._restores.notice,
            user_agent=user_agent,
        )
        # Only the holder of the operator's own Lease competes for these; two replicas would otherwise share them out.
        self._leases = NamespaceLeases(
            config,
            [namespace for namespace in self._served if namespace != self.namespace],
            LEASE_NAME,
            identity=self._elector.identity,
            on_acquired=lambda namespace: self._from_thread(lambda: self._serve(namespace)),
            user_agent=user_agent,
        )

    def liveness_problem(self) -> str | None:
        """Answer of /healthz."""
        if not self._elector.healthy():
            return "leader election is not working"
        return self._controller.liveness_problem() if self._controller else None

    def readiness_problem(self) -> str | None:
        """Answer of /readyz. Standing by is ready: a rolling update must be able to replace the holder of the Lease."""
        if self._controller is None:
            return None
        return self._restores.message if self._restores.pending else self._controller.readiness_problem()

    async def run(self, client: KubeClient) -> int:
        """Reconcile while leading; returns the exit code."""
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(signum, self._stopped.set)
        self._elector.start()
        standby = Standby(client, Writer(client, self.metrics, _ignore_answer), self._served, self._held_by_another)
        log.info("waiting for the Lease", lease=f"{self.namespace}/{LEASE_NAME}", identity=self._elector.identity)
        work = asyncio.create_task(self._lead(client), name="controller")
        announcing = asyncio.create_task(standby.run(), name="standby")
        restores = asyncio.create_task(self._restores.run(), name="etcd restores")
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and not self._lost_reason:
            await self._finish_deletions()
        tasks = (work, stopped, announcing, restores)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Only after the last write may another operator take over.
        await asyncio.to_thread(self._leases.stop)
        await asyncio.to_thread(self._elector.stop)
        if work.done() and not work.cancelled() and (error := work.exception()) is not None:
            log.error("stopped by an unexpected error", exc_info=error)
            return 1
        if self._lost_reason:
            log.error("leader election lost", reason=self._lost_reason)
            return 1
        log.info("stopped")
        return 0

    async def _finish_deletions(self) -> None:
        """Where an instance and the operator are deleted together, nobody else would ever remove the finalizer."""
        deadline = self._loop.time() + _FINISH_SECONDS
        while self._controller and self._controller.has_finalizing_instances() and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # the end of a deletion comes with the caches, whichever way it happens

    async def _lead(self, client: KubeClient) -> None:
        await self._wait_for_lease()
        self.metrics.leader.set(1)
        openshift = await _is_openshift(client)
        minor = await kubernetes_minor(client)
        log.info("leading", openshift=openshift, kubernetes_minor=minor)
        self._controller = Controller(
            client,
            namespaces=self._served,
            secrets=self._secrets,
            version=__version__,
            metrics=self.metrics,
            leads=self._may_write,
            holds=lambda namespace: namespace == self.namespace or self._leases.holds(namespace),
            openshift=openshift,
            kubernetes_minor=minor,
        )
        self._leases.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run(), name="instances")
            group.create_task(_follow_version(client, self._controller), name="version of the cluster")
            self._status_controllers = status_controllers(client, self._status_of, self.metrics, self._may_write)
            for controller in self._status_controllers:
                group.create_task(controller.run(), name=f"status of {controller.name}")

    async def _wait_for_lease(self) -> None:
        last_holder = ""
        while not self._leading.is_set():
            holder = self._elector.observed_holder
            if holder not in ("", last_holder, self._elector.identity):
                log.info("another operator holds the Lease: waiting", holder=holder)
                last_holder = holder
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HOLDER_CHECK_SECONDS):
                    await self._leading.wait()

    def _reflectors(self) -> dict[str, Reflector[Any, Any]]:
        reflectors = self._controller.caches.reflectors() if self._controller is not None else {}
        for controller in self._status_controllers:
            reflectors |= controller.reflectors()
        return reflectors

    def _may_write(self) -> bool:
        """Whether this operator holds its Lease, and what it knows is not from before etcd was restored."""
        return self._elector.is_leader() and not self._restores.pending

    def _on_restore(self) -> None:
        if self._restores.pending:
            self.metrics.restores.inc()
        elif self._controller is not None:
            for namespace in self._served:
                # What was to be done meanwhile was left.
                self._controller.enqueue_namespace(namespace)

    def _held_by_another(self, namespace: str) -> LeaseHolder | None:
        if not self._leading.is_set():
            holder = self._elector.observed_holder
            foreign = holder not in ("", self._elector.identity)
            return LeaseHolder(f"{self.namespace}/{LEASE_NAME}", holder) if foreign else None
        holder = self._leases.holder(namespace) if namespace != self.namespace else ""
        return LeaseHolder(f"{namespace}/{LEASE_NAME}", holder) if holder else None

    def _serve(self, namespace: str) -> None:
        log.info("serving another namespace", namespace=namespace)
        if self._controller is not None:
            self._controller.enqueue_namespace(namespace)

    def _stop_leading(self, reason: str) -> None:
        self._lost_reason = reason
        self._from_thread(self._stopped.set)

    def _from_thread(self, call: object) -> None:
        if callable(call) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


def _ignore_answer(key: ObjectKey, answer: Unstructured) -> Json:
    """Events are not cached."""
    return answer.content


async def _follow_version(client: KubeClient, controller: Controller) -> None:
    while True:
        await asyncio.sleep(_VERSION_CHECK_SECONDS)
        controller.set_kubernetes_minor(await kubernetes_minor(client))


async def kubernetes_minor(client: KubeClient) -> int | None:
    """The API server's minor version; None if it does not say."""
    try:
        minor = json.loads(await client.get("/version"))["minor"]
        # Some distributions write 34+.
        return int(str(minor).rstrip("+"))
    except (KubeError, ValueError, TypeError, KeyError) as error:
        log.warning("cannot read the version of the cluster", error=str(error))
        return None


async def _is_openshift(client: KubeClient) -> bool:
    """Whether the cluster has OpenShift's security context constraints."""
    while True:
        try:
            await client.get("/apis/security.openshift.io")
        except NotFound:
            return False
        except KubeError as error:
            log.warning("cannot discover the platform, trying again", error=str(error))
            await asyncio.sleep(_STARTUP_RETRY_SECONDS)
        else:
            return True
