"""Composition root: wires client, caches, queue, plugins, load sources, Lease and endpoints."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from scheduler.answers import Document
from scheduler.catalog import HANDOVER_DIRECTORY, POD_GROUP_METRICS
from scheduler.clusterversion import leaders_minor
from scheduler.config import Configuration, redacted
from scheduler.engine import (
    HISTORY_BYTES,
    MAX_ANSWER_BYTES,
    SYSTEM_CLOCKS,
    Engine,
    EventRecorder,
    HistoryLimits,
    LoadFeeds,
    Outputs,
    Permissions,
    Takeover,
    VersionFollower,
    check_rules,
    declared_watches,
    describe_versions,
    new_reflector,
    reduce_node_update,
    show_requested,
)
from scheduler.gates import gates_of, gone, is_on
from scheduler.helpers import PodReducer, salvage_pod
from scheduler.kube.client import (
    CONTROL_PLANE_LEASES,
    EtcdRestores,
    KubeClient,
    KubeError,
    LeasePoll,
    PageReader,
    Reflector,
)
from scheduler.kube.lease import LeaseElector, LeaseSettings, exit_process
from scheduler.kube.model import NODES, PODS
from scheduler.logs import report_problem
from scheduler.observe import (
    EndpointSources,
    GaugeRefresh,
    LoopWatchdog,
    Metrics,
    Question,
    Server,
    Tracing,
    TracingRefused,
    UnansweredError,
    new_tracing,
    task_stacks,
)
from scheduler.options import USER_AGENT, LeaderElection, Options
from scheduler.reporting import Reporter, introduce
from scheduler.serving import health_checks, new_authorities, new_review_client, new_server, pages_of, serve_later

if TYPE_CHECKING:
    from scheduler.engine import Extending
    from scheduler.handover import Handover

EXIT_OK, EXIT_ERROR = 0, 1
_FINISH_SECONDS, _RESOLVE_SECONDS = 5.0, 12.0
"""How long bindings get to end by themselves, and then to find out what became of those without an answer. Together
with the Events and the Lease they stay below the 30 s that a pod is given by default."""
_EVENTS_SECONDS = 5.0
_OFFER_SECONDS, _OFFER_AFTER_LOSS_SECONDS = 10.0, 15.0
"""How long the history is kept for the next leader, which tries to get a Lease that is free every 4.4 s at most; one
that was lost it gets five seconds later, as it has to expire first."""
_GRACE_SECONDS = 27.0
"""How long all of that and the hand-over of the history may take together."""
_REPORT_SECONDS, _FIRST_REPORT_SECONDS = 10.0, 0.5
_FIRST_LOAD_SECONDS = 2.0
_SYNC_WARNING_SECONDS = 10.0
log = structlog.get_logger(component="app")


class Daemon:
    """One scheduler process. Construct and run it on one event loop."""

    def __init__(
        self, options: Options, configuration: Configuration, client: KubeClient, *, nodes: PageReader, pods: PageReader
    ) -> None:
        """Wire everything.

        Args:
            options: the command line.
            configuration: the file, defaulted and validated.
            client: for all but Events; the caller closes it.
            nodes, pods: readers of the first lists, which may have begun.

        Raises:
            ValueError: a plugin refuses its args, or a feature gate is one that the version no longer has.
        """
        self.options = options
        self.configuration = configuration
        self.client = client
        self.client_config = client.config
        self._readers = {"nodes": nodes, "pods": pods}
        self.election: LeaderElection = options.leader_election(configuration.model)
        self._minor = configuration.profiles[0].kubernetes.minor
        if names := gone(self._minor, options.feature_gates):
            raise ValueError(
                f"--feature-gates {', '.join(names)}: unrecognized feature gate: kube-scheduler 1.{self._minor} no "
                "longer has it, so that it would not start; remove it"
            )
        self.metrics = Metrics(configuration.profiles[0].kubernetes.entity_label)
        self.metrics.show_features(gates_of(self._minor, options.feature_gates))
        self._warn_of_missing_pod_groups()
        self.watch = LoopWatchdog(tolerance_seconds=60)
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._exit_code = EXIT_OK
        self._leading = not self.election.enabled
        self._synced = False
        self._stopping = False
        self._reflectors: dict[str, Reflector[Any, Any]] = {}
        connection = configuration.model.client_connection
        # A rate limit of its own, as upstream: a flood of Events never delays a binding. The connections are shared:
        # most Events are written when the bindings no longer use theirs.
        self.event_client = self._new_client(f"{USER_AGENT}/events", connection.qps, connection.burst, client)
        client.observe(self.metrics.clients.observer(self.client_config.server))
        self.check_client = None
        if check_rules(configuration):
            # So have these reads; and no tenant's pods may make one as large as a list.
            self.check_client = KubeClient(
                self.client_config,
                qps=connection.qps,
                burst=connection.burst,
                user_agent=f"{USER_AGENT}/node-check",
                max_bytes=MAX_ANSWER_BYTES,
                observer=self.metrics.clients.observer(self.client_config.server),
            )
        self._extending = self._new_extending()
        self._tracing = self._new_tracing()
        self._restores = EtcdRestores(lambda: self._reflectors, self._on_restore)
        self.elector = self._new_elector() if self.election.enabled else None
        self._lease_poll = None if self.elector else LeasePoll(client, self._leases_of_others(), self._restores.notice)
        self.recorder = EventRecorder(
            self.event_client,
            instance=socket.gethostname(),
            on_drop=self.metrics.events_dropped.inc,
            backlog=lambda: self.engine.queue.ready,
            work=self.metrics.work_queues,
        )
        self.engine = Engine(
            configuration,
            Outputs(
                client,
                self.recorder,
                self.metrics,
                self.watch,
                self.check_client,
                options.verbosity,
                self._extending.extenders if self._extending is not None else None,
                self._history_limits(),
                self._tracing,
            ),
            Permissions(self._may_write, self._may_schedule),
            unschedulable_after=options.pod_max_in_unschedulable_pods_duration,
            pop_from_backoff=is_on("SchedulerPopFromBackoffQ", self._minor, options.feature_gates),
        )
        self._handover = self._new_handover()
        self._inheriting: asyncio.Task[None] | None = None
        self._takeover = Takeover(self._reflectors, self.engine.cycle.wake)
        self._feeds = LoadFeeds(configuration, self.engine, self.metrics, options.credential_rules)
        self._reporter = Reporter(
            self.recorder, self.election, configuration.scheduler_names[0], self.elector, self._may_schedule
        )
        self._version = VersionFollower(client, configuration, self._reporter.report_version, self._leaders_minor)

    def _new_client(self, agent: str, qps: float, burst: int, beside: KubeClient | None = None) -> KubeClient:
        observer = self.metrics.clients.observer(self.client_config.server)
        return KubeClient(self.client_config, qps=qps, burst=burst, user_agent=agent, observer=observer, beside=beside)

    def _new_extending(self) -> Extending | None:
        """The extenders of the configuration, with a client that reads what they are sent."""
        if not self.configuration.model.extenders:
            return None
        from scheduler.engine import Extending  # here, since it takes aiohttp, and few have extenders

        connection = self.configuration.model.client_connection
        # A rate limit of its own: reads for extenders never delay a binding.
        client = self._new_client(f"{USER_AGENT}/extenders", connection.qps, connection.burst)
        recording = self.options.extender_recording
        return Extending(self.configuration.model.extenders, client, self.metrics, recording)

    def _new_tracing(self) -> Tracing | None:
        """Traces, where the environment asks for them. A mistake there is told and ends nothing: it may have been set
        for all pods of a namespace, and a scheduler that places pods is worth more than its traces."""
        try:
            tracing = new_tracing(os.environ, self.metrics.count_spans)
        except TracingRefused as error:
            log.warning("attempts are not traced", reason=str(error))
            return None
        if tracing is not None:
            log.info("attempts are traced", endpoint=tracing.endpoint, ratio=tracing.ratio)
            for remark in tracing.remarks:
                log.warning("tracing", problem=remark)
        return tracing

    def _new_elector(self) -> LeaseElector:
        election = self.election
        settings = LeaseSettings(
            namespace=election.namespace,
            name=election.name,
            duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )
        elector = LeaseElector(
            self.client_config,
            settings,
            on_started_leading=self._on_started_leading,
            on_lost=self._on_lost,
            on_restore=self._restores.notice,
        )
        introduce(elector, self.configuration)
        self.metrics.leader.labels(election.name).set(0)
        return elector

    def _new_handover(self) -> Handover | None:
        """Between pods that the operator or the program made: these have a token for it."""
        history = self.engine.history
        token_file = Path(HANDOVER_DIRECTORY) / "token"
        if history is None or self.elector is None or not token_file.exists():
            return None
        from scheduler.handover import Handover  # here, as few processes have somebody to hand over to

        return Handover(
            self.client,
            history,
            lease=(self.election.namespace, self.election.name),
            pod=socket.gethostname(),
            port=self.options.secure_port,
            most=self.options.decision_history,
            wall=SYSTEM_CLOCKS.wall,
            token_file=token_file,
        )

    async def run(self) -> int:
        """Run until a signal or a lost Lease; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop.set)
        server = self._new_server()
        self.metrics.configuration.labels(self.configuration.hash).set(1)
        self._version.announce()
        self.recorder.start()
        if self._tracing is not None:
            self._tracing.queue.start()
        reflectors = self._reflectors
        reflectors |= self._new_reflectors()
        lasting = [
            *(asyncio.create_task(reflector.run(), name=name) for name, reflector in reflectors.items()),
            asyncio.create_task(self.engine.cycle.run(), name="cycle"),
            asyncio.create_task(self._report_states(), name="reports"),
            asyncio.create_task(self._version.run(), name="version"),
            asyncio.create_task(self._takeover.run(), name="takeover"),
            asyncio.create_task(self._restores.run(), name="etcd restores"),
        ]
        if self._lease_poll:
            lasting.append(asyncio.create_task(self._lease_poll.run(), name="lease poll"))
        sync = asyncio.create_task(self._fill_caches(reflectors), name="sync")
        if server:
            lasting.append(asyncio.create_task(serve_later(server, sync), name="serving"))
        if self.elector:
            self.elector.start()
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        reason = ""
        try:
            reason = await self._wait_for_end({*lasting, sync, stop}, sync, stop)
        finally:
            await self._shut_down(server, [*lasting, sync, stop])
        if reason:
            # Last, as the kubelet shows the end of the log.
            report_problem(f"kube-scheduler: {reason}", logging_format=self.options.logging_format)
        return self._exit_code

    async def _wait_for_end(
        self, pending: set[asyncio.Task[Any]], sync: asyncio.Task[None], stop: asyncio.Task[Any]
    ) -> str:
        """Wait for the signal, or for the end of a task that the scheduler cannot do without; return why it ends."""
        while True:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                if task is sync and not task.cancelled() and task.exception() is None:
                    continue
                self._exit_code = EXIT_ERROR
                return _report_end(task)
            if stop in done:
                return ""

    def _new_reflectors(self) -> dict[str, Reflector[Any, Any]]:
        node_list = Reflector(self.client, self._readers["nodes"], NODES, self.engine.nodes, reduce_node_update)
        pod_list = Reflector(
            self.client,
            self._readers["pods"],
            PODS,
            self.engine.pods,
            PodReducer(self.configuration.profiles[0].kubernetes).reduce,
            on_page=self.engine.pods.add_page,
            salvage=salvage_pod,
        )
        watched = {
            watch.resource: new_reflector(watch, self.client, self.engine.object_inputs(watch))
            for watch in declared_watches(
                (name, profile.kubernetes) for profile in self.configuration.profiles for name in profile.enabled
            )
        }
        reflectors: dict[str, Reflector[Any, Any]] = {"nodes": node_list, "pods": pod_list, **watched}
        if self._extending is not None:
            reflectors |= self._extending.reflectors()
        for resource, reflector in reflectors.items():
            reflector.on_refusal = functools.partial(self._on_refusal, resource)
        return reflectors

    async def _shut_down(self, server: Server | None, tasks: list[asyncio.Task[Any]]) -> None:
        """Pop no more pods, let bindings end, write the Events, release the Lease once no write can land any more."""
        log.info("Requested to terminate, exiting")
        self._stopping = True
        ends_by = self._loop.time() + _GRACE_SECONDS
        self._feeds.request_stop()
        await self.engine.cycle.finish(_FINISH_SECONDS)
        unresolved = await self.engine.cycle.stop_writing(_RESOLVE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.recorder.drain(_EVENTS_SECONDS)
        if unresolved:
            log.warning("writes without an answer may still be carried out: the Lease is not released", of=unresolved)
        if self.elector:
            await asyncio.to_thread(self.elector.stop, release=not unresolved)
        if self._inheriting is not None:
            self._inheriting.cancel()
        if self._handover is not None and self._leading and server and not unresolved:
            self._leading = False
            await self._handover.offer(min(_OFFER_SECONDS, ends_by - self._loop.time()))
        if server:
            await asyncio.to_thread(server.stop)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.queue.close)
        await self.event_client.close()
        if self.check_client:
            await self.check_client.close()
        if self._extending is not None:
            await self._extending.close()

    async def _fill_caches(self, reflectors: Mapping[str, Reflector[Any, Any]]) -> None:
        loads = asyncio.create_task(self._read_first_loads(reflectors["nodes"]), name="first loads")
        try:
            await self._wait_for_lists(reflectors)
            # What imports and the first lists made lives as long as the process: the collector never looks at it again.
            # Not even once, now, which would take a tenth of a second to free a few thousand objects.
            gc.freeze()
            gc.set_threshold(50_000, 20, 50)
            await loads
        finally:
            loads.cancel()
        self._synced = True
        log.info("caches are filled", nodes=self.engine.state.node_count, pods=self.engine.state.pod_count)
        self.engine.cycle.wake()

    async def _wait_for_lists(self, reflectors: Mapping[str, Reflector[Any, Any]]) -> None:
        for resource, reflector in reflectors.items():
            while not reflector.synced.is_set():
                try:
                    async with asyncio.timeout(_SYNC_WARNING_SECONDS):
                        await reflector.synced.wait()
                except TimeoutError:
                    # Nothing is scheduled before: say why, as a missing RBAC rule would go unnoticed.
                    log.warning("cache is not filled yet", resource=resource, reason=str(reflector.state.error or ""))

    async def _read_first_loads(self, nodes: Reflector[Any, Any]) -> None:
        """Read the load for the first time, after the nodes, to which it is matched, and before the first decision,
        while pods are still listed. A source that does not answer delays it by two seconds at most."""
        await nodes.synced.wait()
        self._feeds.start(self.client_config, self._reporter.report_load)
        await self._feeds.wait_for_first_reads(_FIRST_LOAD_SECONDS)

    def _on_started_leading(self) -> None:
        """Called on the elector's thread."""
        self._loop.call_soon_threadsafe(self._become_leader)

    def _become_leader(self) -> None:
        self._leading = True
        if self._synced:  # what is listed from now on needs no second look
            self._takeover.begin()
        if self.engine.history is not None:
            self.engine.history.begin()
        if self._handover is not None and self.elector is not None:
            last = pod_of(self.elector.previous_holder)
            self._inheriting = self._loop.create_task(self._handover.inherit(last), name="inherit history")
        self.metrics.leader.labels(self.election.name).set(1)
        log.info("became leader", lease=f"{self.election.namespace}/{self.election.name}")
        self.engine.cycle.wake()

    def _on_lost(self, reason: str) -> None:
        """Called on a thread of the elector. No write is sent any more (`_may_write`); the history may still be asked
        for. This thread ends the process in any case, whatever the loop is stuck in."""
        if self._handover is not None and self._leading:
            self._leading, self._stopping = False, True
            self._handover.offer_from_thread(_OFFER_AFTER_LOSS_SECONDS)
        exit_process(reason)

    def _may_write(self) -> bool:
        return self.elector is None or self.elector.is_leader()

    def _may_schedule(self) -> bool:
        ready = self._leading and self._synced and not (self._takeover.pending or self._restores.pending)
        return ready and not self._stopping and self._may_write()

    def _warn_of_missing_pod_groups(self) -> None:
        if (
            self.options.feature_gates.get("GenericWorkload")
            and not self.configuration.profiles[0].kubernetes.pod_groups
        ):
            log.warning(
                "--feature-gates GenericWorkload has no effect: PodGroups of scheduling.k8s.io are followed from "
                "Kubernetes 1.36 on",
                kubernetesVersion=f"1.{self._minor}",
            )

    async def _leaders_minor(self) -> int | None:
        if self._leading:
            return None
        return await leaders_minor(self.client, (self.election.namespace, self.election.name))

    async def _report_states(self) -> None:
        """Report soon after the caches are filled, so that the operator does not long say Unknown of what is known."""
        while True:
            await asyncio.sleep(_REPORT_SECONDS if self._synced else _FIRST_REPORT_SECONDS)
            if self._synced:
                self._reporter.report_overcommits(self.engine.overcommits.report())
                self._reporter.report_unread(self._reflectors)
                self._reporter.report_failing(self._reflectors)

    def _refresh_gauges(self) -> None:
        state = self.engine.state
        cache = {"nodes": state.node_count, "pods": state.pod_count, "assumed_pods": state.assumed_count}
        self.metrics.show_sizes(cache, self.engine.queue.counts())
        self.engine.show_queue()
        if self.elector:
            self.metrics.lease_slow_paths.labels(self.election.name).value = self.elector.slow_paths
        for resource, reflector in self._reflectors.items():
            self.metrics.watch_served.labels(resource).set(not reflector.state.absent)
        self._feeds.show()
        self.engine.overcommits.show()
        show_requested(state, self.metrics.nodes_requested, self.engine.clocks.wall())

    def _new_server(self) -> Server | None:
        """The HTTPS server, which has its port but does not answer yet."""
        options = self.options
        if options.secure_port == 0:
            return None
        behaves_as, flags = pages_of(options, self.configuration.profiles[0].kubernetes)
        answers = EndpointSources(
            checks=health_checks(
                self.elector,
                self.watch,
                self._reflectors,
                synced=lambda: self._synced,
                outdated=lambda: self._restores.message if self._restores.pending else "",
                stopping=lambda: self._stopping,
            ),
            registry=self.metrics.registry,
            gauges=GaugeRefresh(self._loop, self._refresh_gauges),
            make_review_client=lambda: new_review_client(options, self.client_config),
            review_seconds=msgspec.structs.astuple(options.review_memory),
            disabled_metrics=options.disabled_metrics | self._later_metrics(),
            metric_levels=self.configuration.profiles[0].kubernetes.metric_levels,
            configz=lambda: {
                "componentconfig": redacted(self.configuration.model.to_dict()),
                "behavior": describe_versions(self.configuration),
            },
            always_allow=options.always_allow_paths,
            authorities=new_authorities(options),
            behaves_as=behaves_as,
            flags=flags,
            flags_as_text=self.configuration.profiles[0].kubernetes.shows_flags_as_text,
            profiling=self.configuration.model.enable_profiling,
            loop_stacks=task_stacks,
            node_loads=self._feeds.node_loads,
            inspect=None if self.engine.inspector is None else self._inspect,
            handover=self._handover,
            pod_resources=lambda: self.engine.pod_resources() if self._leading else [],
        )
        return new_server(options, answers, self.metrics.show_certificate, self.metrics.count_drop)

    def _history_limits(self) -> HistoryLimits | None:
        """Without a port nobody could read the history."""
        records = self.options.decision_history if self.options.secure_port else 0
        if not records:
            return None
        return HistoryLimits(records, records * HISTORY_BYTES, self.options.decision_details)

    def _inspect(self, question: Question) -> Document:
        """Answer a question about decisions.

        Raises:
            UnansweredError: it cannot be answered here, or not now.
        """
        inspector = self.engine.inspector
        if inspector is None or not self._leading:
            leader = pod_of(self.elector.observed_holder) if self.elector else ""
            advice = f"{leader} does" if leader else "its Lease names the one that does"
            raise UnansweredError(503, f"this replica does not lead; {advice}")
        return msgspec.structs.replace(inspector.answer(question), configuration_hash=self.configuration.hash)

    def _later_metrics(self) -> frozenset[str]:
        """Metrics that no profile's version of kube-scheduler has yet, or shows without PodGroups."""
        profiles = self.configuration.profiles
        later = frozenset.intersection(*(frozenset(profile.kubernetes.later_metrics) for profile in profiles))
        return later if any("GangScheduling" in profile.enabled for profile in profiles) else later | POD_GROUP_METRICS

    def _leases_of_others(self) -> tuple[tuple[str, str], ...]:
        """The Leases that show a process without one whether the cluster went back: the one that it would hold, which
        is kube-scheduler's unless the configuration says otherwise, and those of the control plane."""
        own = (self.election.namespace, self.election.name)
        return tuple(dict.fromkeys((own, *CONTROL_PLANE_LEASES)))

    def _on_restore(self) -> None:
        if self._restores.pending:
            self.metrics.restores.inc()
            self.engine.pods.go_back()
        self._reporter.report_restore(self._restores)
        self.engine.cycle.wake()

    def _on_refusal(self, resource: str, error: KubeError | None) -> None:
        self.metrics.watch_refused.labels(resource).set(error is not None)
        self._reporter.report_refusal(resource, error, self._reflectors[resource].state.unread)


def pod_of(identity: str) -> str:
    """Return the pod of a holder of the Lease, whose identity is the pod's name and a UUID, as upstream's."""
    return identity.rpartition("_")[0]


def _report_end(task: asyncio.Task[Any]) -> str:
    """Log why a task ended that should not have; return it in one line."""
    error = None if task.cancelled() else task.exception()
    reason = "ended" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())}"
    # Bad input needs no traceback; a mistake of ours does.
    is_input = isinstance(error, OSError | ValueError | KubeError) and task.get_name() in ("sync", "serving", "version")
    log.error("an essential task ended", task=task.get_name(), reason=reason, exc_info=None if is_input else error)
    return f"{task.get_name()}: {reason}"
