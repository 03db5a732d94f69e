"""What a plugin is built with: the handle through which it has effects, the profile's filters, its environment."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion, SecondarySchedulerOptionsArgs
from scheduler.framework.clocks import STOPPED_CLOCKS, Clocks, MonotonicSeconds, WallSeconds
from scheduler.framework.cycle import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.objects import NodeInfo, PodInfo
from scheduler.framework.status import RowArray, Status
from scheduler.framework.view import NodeView
from scheduler.kube.model import ObjectMeta

PodListener = Callable[[PodInfo | None, PodInfo | None], None]
"""Called with the former and the present state of a pod with a node, as the API server shows them; None where the pod
did not exist or does not exist any more."""

GiveWay = Callable[[], Awaitable[None]]
"""Lets other work on the loop run, where the caller has kept it busy for long enough."""
PeriodicWork = Callable[[GiveWay], Awaitable[object]]
Severity = Literal["info", "warning"]


class BindingStopped(Exception):
    """A pod gives up its node before it is bound; the text says why."""


class Preemptor(Struct, frozen=True):
    """Who other pods are evicted for: a pod, or the pods of a PodGroup.

    Attributes:
        type: as messages call it, `pod` or `podgroup`.
        api_version, kind, namespace, name, uid, resource_version: the object.
        scheduler_name: of all of its pods.
        priority: only pods of lower priority are evicted.
        may_preempt: whether its policy lets it.
        pods: that need room.
        group_label: by which pods name their group, as `Pods.index` knows it; "" for a pod by itself.
        compares_victims: whether, of several ways to make room, the one that hurts least is looked for: without the
            lowest pods alone, and in several domains. kube-scheduler takes the first.
    """

    type: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    priority: int
    may_preempt: bool
    pods: tuple[PodInfo, ...]
    group_label: str = ""
    compares_victims: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def pod_as_preemptor(pod: PodInfo) -> Preemptor:
    """Return a pod as the one that others are evicted for."""
    identity = ("v1", "Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)
    may_preempt = pod.spec.preemption_policy != "Never"
    return Preemptor("pod", *identity, pod.scheduler_name, pod.priority, may_preempt, (pod,))


def group_as_preemptor(
    api_version: str,
    meta: ObjectMeta,
    pods: Sequence[PodInfo],
    group_label: str,
    *,
    priority: int | None = None,
    may_preempt: bool = True,
    compares_victims: bool = False,
) -> Preemptor:
    """Return a PodGroup as the one that others are evicted for.

    Args:
        api_version, meta: of the group.
        pods: its members that need room, one at least, of one scheduler.
        group_label, may_preempt, compares_victims: of the preemptor.
        priority: the group's own; None where the kind has none. The lowest of it and its pods' counts.
    """
    return Preemptor(
        "podgroup",
        *(api_version, "PodGroup", meta.namespace, meta.name, meta.uid, meta.resource_version),
        pods[0].scheduler_name,
        min([*([] if priority is None else [priority]), *[pod.priority for pod in pods]]),
        may_preempt,
        tuple(pods),
        group_label,
        compares_victims,
    )


class Eviction(Struct, frozen=True):
    """A preemption to be carried out.

    Attributes:
        plugin: which preempts, in whose name victims that wait for permission are rejected.
        preemptor: who needs room.
        node: where, as messages say it.
        victims: pods to be deleted, the one to be deleted last at the end.
        displaced: pods nominated to the node that have to look for another one: their nomination is cleared.
        spares_terminating: victims that are terminating already are left alone.
        spares_unbound: victims that are not bound yet give up their node, and are not deleted.
    """

    plugin: str
    preemptor: Preemptor
    node: str
    victims: tuple[PodInfo, ...]
    displaced: tuple[PodInfo, ...] = ()
    spares_terminating: bool = False
    spares_unbound: bool = False


class Handle(Protocol):
    """Through which a plugin has effects; the engine implements it, one per profile.

    Plugins and everything below the engine have no clock, no tasks and no client of their own: what they do can be
    replayed in a test or a simulation. Coroutines are for PreBind, Bind, PostBind and periodic work; all other methods
    return at once and may be called on the scheduling loop. A write that is refused, or that this process may no longer
    make as it has lost its Lease, comes back as an error Status and never as an exception.
    """

    def now(self) -> WallSeconds:
        """Return the wall clock's time, to be compared with times from outside."""

    def monotonic(self) -> MonotonicSeconds:
        """Return the monotonic clock's time, by which a plugin waits and lets things expire."""

    async def bind(self, pod: PodInfo, node: str) -> Status:
        """Write the Binding of a pod with its UID as precondition; Success only when the API server has it."""

    async def patch_pod(self, pod: PodInfo, patch: Mapping[str, Any], subresource: str = "") -> Status:
        """Apply a strategic merge patch to a pod, or to a subresource such as `status`; Skip when the pod is gone."""

    async def delete_pod(self, pod: PodInfo) -> Status:
        """Delete a pod of this UID; one that is gone already is a Success."""

    def evict(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        """Carry a preemption out beside the scheduling loop, a bounded number of them at a time.

        `finished` is called once, on the scheduling loop: with True when the deletion of every victim has been
        requested and all nominations are cleared, with False when something failed or the process ends.
        """

    async def patch_object(
        self, kind: str, item: Any, patch: Mapping[str, Any], subresource: str = ""
    ) -> tuple[Status, Any]:
        """Apply a JSON merge patch to an object of a watched kind, or to its subresource, unless it changed since
        `item` was read.

        Returns Success and the object as it is now, or an error and None: `UnknownOutcome` where it may be written all
        the same.
        """

    async def create_object(self, kind: str, namespace: str, manifest: Mapping[str, Any]) -> tuple[Status, Any]:
        """Create an object of a watched kind: Success and the object as it is on the API server, or an error and None:
        `UnknownOutcome` where it may have been created all the same."""

    async def delete_object(self, kind: str, item: Any) -> Status:
        """Delete an object of a watched kind, of the UID that `item` has; one that is gone already is a Success."""

    async def read_object(self, kind: str, item: Any) -> tuple[Status, Any]:
        """Read an object of a watched kind from the API server: Success and the object, None where it is gone or has
        been replaced by a namesake; or an error and None."""

    async def pause(self, seconds: float, *, to_end: bool = False) -> None:
        """Wait, in PreBind: meanwhile the pod does not count against the bindings that may be under way at once.

        `to_end`: the wait ends no earlier, as something must become known before the pod may give up its node.

        Raises:
            BindingStopped: the pod was preempted. PreBind lets it pass.
        """

    def exists(self, pod: PodInfo) -> bool:
        """Tell whether a pod without a node yet is still there, as far as the watch knows."""

    def node(self, name: str) -> NodeInfo | None:
        """Return a node as it is now."""

    def pods_on(self, node: str) -> Collection[PodInfo]:
        """Return the pods on a node as they are now, assumed ones included."""

    async def ended_pods(self, node: str) -> Collection[PodInfo]:
        """Return the pods of a node that have ended and whose objects are still there, which no watch brings.

        One request; empty where it fails.
        """

    def watch_pods(self, listener: PodListener) -> None:
        """Call a function whenever a pod with a node comes, changes or goes, as the API server shows it."""

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine beside the scheduling loop; failures are logged under the name."""

    def event(
        self, pod: PodInfo, kind: str, reason: str, action: str, note: str, related: Preemptor | None = None
    ) -> None:
        """Record a Kubernetes Event about a pod, `kind` being Normal or Warning; `related` is for whom the pod was
        preempted."""

    def reject_waiting(self, pod: PodInfo, plugin: str, message: str) -> bool:
        """Refuse a pod that waits for permission, in a plugin's name; False when it does not wait."""

    def stop_binding(self, pod: PodInfo, plugin: str) -> bool:
        """Have a pod that is not bound yet give up its node, in a plugin's name, and be tried again; False where it is
        bound, or its Binding is under way."""

    def waiting_pods(self) -> Collection[PodInfo]:
        """Return the pods that wait for permission."""

    def allow_waiting(self, pod: PodInfo, plugin: str) -> None:
        """Give a plugin's permission to a pod that waits for it."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move waiting pods to the active queue at once."""

    def look_at_gates(self, pods: Iterable[PodInfo]) -> None:
        """Have the queue ask PreEnqueue again about waiting pods, which no event may have told it: one that passes now
        waits for an event of those that may help it."""

    def reorder(self, pods: Iterable[PodInfo]) -> None:
        """Have the queue look at the places of pods again, whose sort keys have changed."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function on the scheduling loop after some time."""

    def run_every(self, seconds: float, work: PeriodicWork, name: str) -> None:
        """Run `work` beside the scheduling loop, now and then that many seconds after each end, until the process ends.

        Long work awaits the function it is given between its pieces: other work gets its turn there when the loop has
        been kept busy for some milliseconds. A failure is logged under the name, and the work is repeated all the same.
        """

    def measure(self, metric: str, value: float, *labels: str) -> None:
        """Add to one of the counters or histograms that plugins have (`plugin_series` of the process's metrics)."""

    def log(self, severity: Severity, plugin: str, message: str, **fields: object) -> None:
        """Write one line to the scheduler's log, in a plugin's name."""


class FilterRunner(Protocol):
    """The profile's filters, for plugins that ask what would be if: preemption tries nodes without some of their pods.

    Implemented by `ProfileRunner`. Methods that run plugins raise PluginError when a plugin fails. `state` is the
    attempt's after PreFilter, or a clone of it.
    """

    def run_filters(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """Return the rows that pass every filter; each other row's first rejection is added to the diagnosis."""

    def run_filters_with_nominated(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """Return the rows that pass every filter, with the pods nominated there and without them."""

    def looks_beyond_node(self, state: CycleState) -> bool:
        """Tell whether some filter's verdict on a node may depend on pods elsewhere: nodes are then tried one by
        one."""

    def watches_pods(self, state: CycleState) -> bool:
        """Tell whether some plugin wants to know of pods that are moved in a what-if run (`PreFilterExtensions`)."""

    def local_version(self, state: CycleState, pod: PodInfo, view: NodeView) -> Hashable | None:
        """Return a value that changes with everything the verdicts on a node depend on, except the pod's spec, the
        node, and the pods on it and nominated to it; None where a verdict depends on more than can be compared."""

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod put on a node for a what-if run."""

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod taken from a node for a what-if run."""


class NamedFile(NamedTuple):
    """A file that an environment variable names."""

    path: str
    text: str


def _no_file(variable: str) -> NamedFile:
    raise ValueError("open : no such file or directory")


class PluginEnvironment(Struct, frozen=True):
    """What plugins may learn of the process they run in. The composition root fills it: plugins themselves neither
    read a clock nor files. The default is for tests that need neither: its time stands still.

    Attributes:
        clocks: of the engine, or of the simulation.
        read_named_file: reads the file that an environment variable names. Raises ValueError where the variable is
            not set or the file cannot be read, worded as by upstream.
        scheduler_names: whose pods this process places; empty where only the profile's own is known.
    """

    clocks: Clocks = STOPPED_CLOCKS
    read_named_file: Callable[[str], NamedFile] = _no_file
    scheduler_names: frozenset[str] = frozenset()


class PluginContext(Struct, frozen=True):
    """What a plugin's constructor gets with its args.

    Attributes:
        scheduler_name: of the profile.
        options: of the profile, such as `compatibility`.
        handle: None where nothing may have effects (simulation).
        filters: runs the profile's filters. Not all of its plugins exist before the first attempt: keep it, and do not
            call it in the constructor.
        environment: what plugins may know of the process.
        kubernetes: the version of kube-scheduler that the profile behaves as.
    """

    scheduler_name: str
    options: SecondarySchedulerOptionsArgs
    handle: Handle | None = None
    filters: FilterRunner | None = None
    environment: PluginEnvironment = PluginEnvironment()
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES

    @property
    def clocks(self) -> Clocks:
        """The clocks of the engine, or of the simulation."""
        handle = self.handle
        return Clocks(handle.now, handle.monotonic) if handle is not None else self.environment.clocks

    @property
    def upstream(self) -> bool:
        """Whether deliberate differences from upstream are switched off."""
        return self.options.compatibility == "upstream"
