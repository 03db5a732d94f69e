"""The live engine: what `assemble` builds, with the queue, the loop, the handles and the inputs of the watches.

One per process. The daemon gives it clients and health; tests give it a fake API server and a fake clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec import Struct

from scheduler.catalog import Watch
from scheduler.config import Configuration, EffectiveProfile
from scheduler.engine.assembly import SYSTEM_CLOCKS, assemble, assemble_shadows
from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.cycle import SchedulingCycle
from scheduler.engine.decisions import DecisionHistory, HistoryLimits
from scheduler.engine.extending import Extenders
from scheduler.engine.failures import FailureReporter
from scheduler.engine.handle import EngineHandle
from scheduler.engine.inputs import NodeInputs, PodInputs
from scheduler.engine.inspector import Inspector
from scheduler.engine.nodecheck import NodeCheck, check_rules
from scheduler.engine.objects import ObjectInputs, event_prefix, is_custom
from scheduler.engine.overcommits import Overcommits
from scheduler.engine.recorder import EventRecorder
from scheduler.engine.shadows import Shadows
from scheduler.engine.timing import AttemptTraces, ProfileTiming, QueueTiming
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    ALL_EVENTS,
    EXTENDER,
    Clocks,
    EventOrder,
    FirstAttemptOrder,
    PodInfo,
    RandomSource,
    Status,
    upstream_label,
)
from scheduler.kube.client import KubeClient
from scheduler.observe import LoopWatchdog, Metrics, PodResources, Tracing
from scheduler.state import WATCHED_KINDS, ClusterState, SchedulingQueue


class Permissions(Struct, frozen=True):
    """Whether this process may act; asked each time.

    Attributes:
        may_write: it holds its Lease, or needs none.
        may_schedule: it may also take pods from the queue: its caches are filled and it is not stopping.
    """

    may_write: Callable[[], bool]
    may_schedule: Callable[[], bool]


class Outputs(Struct, frozen=True):
    """Where the engine writes to.

    Attributes:
        client: for Bindings, patches and deletions.
        recorder: for Events; has a client of its own in the daemon.
        metrics: the process's.
        watch: gets a sign of life at each round of the loop.
        check_client: for reading nodes again before Bindings, where a profile asks for it; limits rate and size.
        verbosity: klog's -v: what the log says of attempts (`attemptlog`).
        extenders: the extenders of the configuration, if there are any.
        history: how many decisions are remembered; None: none.
        tracing: where traces of attempts go; None: there are none.
    """

    client: KubeClient
    recorder: EventRecorder
    metrics: Metrics
    watch: LoopWatchdog
    check_client: KubeClient | None = None
    verbosity: int = 0
    extenders: Extenders | None = None
    history: HistoryLimits | None = None
    tracing: Tracing | None = None


class Engine:
    """All that decides and binds. Construct it on the event loop that runs it."""

    def __init__(
        self,
        configuration: Configuration,
        outputs: Outputs,
        permissions: Permissions,
        *,
        clocks: Clocks = SYSTEM_CLOCKS,
        rng: RandomSource | None = None,
        unschedulable_after: float = 300.0,
        pop_from_backoff: bool = True,
    ) -> None:
        """Wire everything; nothing runs yet.

        Args:
            configuration: profiles, and the queue's backoff.
            outputs: where it writes to.
            permissions: whether it may.
            clocks: of the process.
            rng: breaks ties; seeded by the system where none is given.
            unschedulable_after: seconds after which an unschedulable pod is tried again in any case.
            pop_from_backoff: whether a pod that is backing off is tried when there is nothing else to do.

        Raises:
            ValueError: a plugin refuses its args.
        """
        self.state = ClusterState()
        self._metrics = outputs.metrics
        self.waiting = WaitingPods()
        self.pending: dict[str, PodInfo] = {}
        self.failures = FailureReporter(
            {profile.scheduler_name for profile in configuration.profiles if profile.options.explain_annotation},
            {profile.scheduler_name for profile in configuration.profiles if _hides_quota(profile)},
        )
        self.clocks = clocks
        self.may_write = permissions.may_write
        rules = check_rules(configuration)
        node_check = None
        if rules:
            node_check = NodeCheck(self.state, outputs.check_client or outputs.client, outputs.metrics, rules)
        # Before the plugins, which are built with them. They know the engine, and ask it only once it runs.
        self.handles = {
            name: EngineHandle(
                name,
                self,
                client=outputs.client,
                recorder=outputs.recorder,
                metrics=outputs.metrics,
                node_check=node_check,
            )
            for name in configuration.scheduler_names
        }
        extenders = () if outputs.extenders is None else outputs.extenders.in_order
        assembly = assemble(
            configuration,
            clocks=clocks,
            rng=rng,
            state=self.state,
            new_handle=self.handles.__getitem__,
            extenders=extenders,
        )
        self.runners = assembly.runners
        # Set from outside, as a runner measures nothing by itself: shadows, simulations and what-ifs do not count.
        self.timings = {name: ProfileTiming(name, outputs.metrics) for name in self.runners}
        for name, runner in self.runners.items():
            runner.timing = self.timings[name]
        renames = any(profile.kubernetes.names_target_pods for profile in configuration.profiles)
        self.queue = self._new_queue(
            configuration,
            QueueTiming(outputs.metrics, named=partial(upstream_label, own=True) if renames else str),
            unschedulable_after,
            pop_from_backoff=pop_from_backoff,
        )
        self.shadow_runners = assemble_shadows(configuration, self.state, clocks)
        shadows = None
        if self.shadow_runners:
            shadows = Shadows(
                self.shadow_runners,
                clocks,
                outputs.metrics,
                lambda: self.queue.ready,
                extenders,
            )
        # Whether shadows and history may work depends on whether pods wait, so they come after the queue; the cycle
        # tells them of each decision, so they come before it.
        self.inspector = None
        self.history = None
        if outputs.history is not None:
            self.history = DecisionHistory(outputs.history, clocks, lambda: self.queue.ready > 0)
            self.inspector = Inspector(self.history, self.queue, assembly.attempts, clocks, shadows)
        traces = None
        if outputs.tracing is not None:
            traces = AttemptTraces(outputs.tracing.sample, outputs.tracing.queue.offer)
        self.cycle = SchedulingCycle(
            attempts=assembly.attempts,
            queue=self.queue,
            handles=self.handles,
            timings=self.timings,
            pending=self.pending,
            failures=self.failures,
            waiting=self.waiting,
            metrics=outputs.metrics,
            may_schedule=permissions.may_schedule,
            watch=outputs.watch,
            attempt_log=AttemptLog(outputs.verbosity, self.history, traces, shadows),
            extenders=outputs.extenders,
        )
        # What the watches feed comes last: each event may wake the cycle.
        self.nodes = NodeInputs(self.state, self.queue, wake=self.cycle.wake, metrics=outputs.metrics)
        self.overcommits = Overcommits(self.state, scheduler_names=self.runners, metrics=outputs.metrics, clocks=clocks)
        self.pods = PodInputs(
            self.state,
            self.queue,
            pending=self.pending,
            scheduler_names=self.runners,
            waiting=self.waiting,
            named=upstream_label if renames else str,
            failures=self.failures,
            nodes=self.nodes,
            overcommits=self.overcommits,
            wake=self.cycle.wake,
            clocks=clocks,
            woken_at_binding={
                profile.scheduler_name for profile in configuration.profiles if profile.kubernetes.wakes_at_binding
            },
            metrics=outputs.metrics,
        )

    def _new_queue(
        self,
        configuration: Configuration,
        observer: QueueTiming,
        unschedulable_after: float,
        *,
        pop_from_backoff: bool,
    ) -> SchedulingQueue:
        runners, timings = self.runners, self.timings

        def pre_enqueue(pod: PodInfo) -> Status:
            timing = timings[pod.scheduler_name]
            began = timing.now()
            status = runners[pod.scheduler_name].run_pre_enqueue(pod)
            timing.point("PreEnqueue", status.code, timing.now() - began)
            return status

        # All profiles have the same queue sort plugin, with the same args: the configuration is checked for it.
        sorter = next(iter(runners.values())).queue_sort
        return SchedulingQueue(
            clocks=self.clocks,
            sort_key=sorter.sort_key,
            by_first_attempt=isinstance(sorter, FirstAttemptOrder) and sorter.orders_by_first_attempt,
            reordered_by=sorter.reordered_by if isinstance(sorter, EventOrder) else None,
            pre_enqueue=pre_enqueue,
            still_gated=lambda pod: runners[pod.scheduler_name].run_pre_enqueue(pod),
            observer=observer,
            # As upstream: what an extender rejected, any event may cure.
            hints={name: {**runner.hint_registrations(), EXTENDER: ALL_EVENTS} for name, runner in runners.items()},
            initial_backoff=configuration.model.pod_initial_backoff_seconds,
            max_backoff=configuration.model.pod_max_backoff_seconds,
            unschedulable_after=unschedulable_after,
            pop_from_backoff=pop_from_backoff,
        )

    def object_inputs(self, watch: Watch) -> ObjectInputs:
        """Return the sink of the watch on a kind that plugins read."""
        return ObjectInputs(
            WATCHED_KINDS[watch],
            self.state,
            self.queue,
            wake=self.cycle.wake,
            metrics=self._metrics,
            prefix=event_prefix(watch),
            custom=is_custom(watch),
        )

    # What the handles ask for ---------------------------------------------------------------------------------------

    def is_pending(self, uid: str) -> bool:
        """Whether a pod still waits for a node, as far as the watch knows."""
        return uid in self.pending

    def activate(self, uids: Iterable[str]) -> None:
        """Move pods to the active queue at once, and wake the loop even where there are none."""
        self.cycle.activate(uids)

    def look_at_gates(self, uids: Iterable[str]) -> None:
        """Ask PreEnqueue about gated pods again."""
        self.queue.look_at_gates(uids)

    def reorder(self, uids: Iterable[str]) -> None:
        """Put pods of the active queue where they belong now."""
        self.queue.reorder(uids)

    # What a scrape shows ---------------------------------------------------------------------------------------------

    def show_queue(self) -> None:
        """Set the gauges that are counted when they are read: who rejected the waiting pods, what is in flight."""
        rejected = Counter(
            (plugin, queued.pod.scheduler_name) for queued in self.queue.pending() for plugin in queued.rejectors
        )
        self._metrics.show_rejections(rejected)
        self._metrics.show_entities(self._entities())
        in_flight = {(label,): count for label, count in self.queue.in_flight_counts().items()}
        self._metrics.show_in_flight(in_flight)
        self._metrics.goroutines.labels("binding").set(self.cycle.bindings_under_way)

    def _entities(self) -> Mapping[tuple[str, str], int]:
        """Return how many pods and PodGroups of scheduling.k8s.io each queue has, by queue and `pod` or `podgroup`."""
        counts = {(name, kind): 0 for name in self.queue.counts() for kind in ("pod", "podgroup")}
        groups = set()
        for queued in self.queue.pending():
            pod, name = queued.pod, self.queue.queue_of(queued.pod.uid) or ""
            if not pod.scheduling_group or "GangScheduling" not in self.runners[pod.scheduler_name].plugins:
                counts[name, "pod"] += 1
                continue
            group = name, pod.namespace, pod.scheduling_group
            counts[name, "podgroup"] += group not in groups
            groups.add(group)
        return counts

    def pod_resources(self) -> Iterable[PodResources]:
        """Return what the pods on nodes, and ours without one, request and may use at most. The pods are those of now,
        whenever and on whichever thread this is gone through."""
        pods = [*self.state.pods(), *(pod for uid, pod in self.pending.items() if self.state.pod(uid) is None)]
        return map(_resources_of, pods)


def _resources_of(pod: PodInfo) -> PodResources:
    amounts = pod.spec.requests, pod.spec.limits
    return PodResources(pod.namespace, pod.name, pod.node_name, pod.scheduler_name, str(pod.priority), *amounts)


def _hides_quota(profile: EffectiveProfile) -> bool:
    options = profile.options
    return options.hide_quota_from_autoscalers and options.compatibility == "safe"
