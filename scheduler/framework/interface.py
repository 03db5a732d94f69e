"""The extension points as Protocols. Each says who calls it, what it may answer, and what follows from the answer.

Columnar ones get `rows`: any subset of nodes, those that survived earlier plugins, or a single one when a preemption
victim is reprieved. They answer for exactly these rows in this order and must not change the view. Everything up to
Permit is called synchronously on the scheduling loop and does no I/O; PreBind, Bind and PostBind are coroutines and
reach the API through the `Handle`.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from scheduler.catalog import SecondarySchedulerOptionsArgs
from scheduler.framework.cycle import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.events import ClusterEvent, HintRegistration
from scheduler.framework.nodecodes import NodeCodes
from scheduler.framework.objects import NodeInfo, PodInfo
from scheduler.framework.status import IntArray, RowArray, Status, Verdicts
from scheduler.framework.view import NodeView, Objects

PodListener = Callable[[PodInfo | None, PodInfo | None], None]
"""Told of a pod with a node as the API server shows it: (before, now), None where it was or is not there."""

MAX_SCORE = 100
"""Scores lie in 0..MAX_SCORE after normalisation; others are clamped and counted."""


GiveWay = Callable[[], Awaitable[None]]
"""Lets other work on the loop run, where the caller has kept it busy for long enough."""
PeriodicWork = Callable[[GiveWay], Awaitable[object]]
Severity = Literal["info", "warning"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A preemption to be carried out.

    Attributes:
        plugin: which preempts, in whose name victims that wait for permission are rejected.
        preemptor: the pod that needs room.
        node: where.
        victims: pods to be deleted, the one to be deleted last at the end.
        displaced: pods nominated to the node that have to look for another one: their nomination is cleared.
    """

    plugin: str
    preemptor: PodInfo
    node: str
    victims: tuple[PodInfo, ...]
    displaced: tuple[PodInfo, ...] = ()


class Handle(Protocol):
    """Through which a plugin has effects; the engine implements it."""

    def now(self) -> float:
        """Return seconds since the epoch."""

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

    async def patch_object(self, kind: str, item: Any, patch: Mapping[str, Any]) -> tuple[Status, Any]:
        """Apply a JSON merge patch to an object of a watched kind, unless it changed since `item` was read.

        Returns Success and the object as it is now, or an error and None.
        """

    async def pause(self, seconds: float) -> None:
        """Wait, in PreBind: meanwhile the pod does not count against the bindings that may be under way at once."""

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
        self, pod: PodInfo, kind: str, reason: str, action: str, note: str, related: PodInfo | None = None
    ) -> None:
        """Record a Kubernetes Event about a pod, `kind` being Normal or Warning; `related` is another pod it is about
        as well."""

    def reject_waiting(self, pod: PodInfo, plugin: str, message: str) -> bool:
        """Refuse a pod that waits for permission, in a plugin's name; False when it does not wait."""

    def waiting_pods(self) -> Collection[PodInfo]:
        """Return the pods that wait for permission."""

    def allow_waiting(self, pod: PodInfo, plugin: str) -> None:
        """Give a plugin's permission to a pod that waits for it."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move waiting pods to the active queue at once."""

    def reorder(self, pods: Iterable[PodInfo]) -> None:
        """Have the queue look at the places of pods again, whose sort keys have changed."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function on the scheduling loop after some time."""

    def run_every(self, seconds: float, work: PeriodicWork, name: str) -> None:
        """Run `work` beside the scheduling loop, now and then that many seconds after each end, until the process ends.

        Long work awaits the function it is given between its pieces: other work gets its turn there when the loop has
        been kept busy for some milliseconds. A failure ends the repetition and is logged under the name.
        """

    def log(self, severity: Severity, plugin: str, message: str, **fields: object) -> None:
        """Write one line to the scheduler's log, in a plugin's name."""


class FilterRunner(Protocol):
    """The profile's filters, for plugins that ask what would be if. They raise PluginError when a plugin fails."""

    def run_filters(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """Return the rows that pass every filter; each other row's first rejection is added to the diagnosis."""

    def run_filters_with_nominated(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """Return the rows that pass every filter, with the pods nominated there and without them."""

    def looks_beyond_node(self, state: CycleState) -> bool:
        """Tell whether some filter's verdict on a node may depend on pods elsewhere."""

    def watches_pods(self, state: CycleState) -> bool:
        """Tell whether some plugin wants to be told of pods that are moved in a what-if run."""

    def local_version(self, state: CycleState, pod: PodInfo, view: NodeView) -> Hashable | None:
        """Return what the verdicts on a node follow from besides the pod's spec, the node, and the pods on it and
        nominated to it; None where they follow from more than that."""

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod put on a node for a what-if run."""

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod taken from a node for a what-if run."""


class NamedFile(NamedTuple):
    """A file that an environment variable names."""

    path: str
    text: str


def _stopped_clock() -> float:
    return 0.0


def _no_file(variable: str) -> NamedFile:
    raise ValueError("open : no such file or directory")


@dataclass(frozen=True, slots=True)
class PluginEnvironment:
    """What plugins may learn of the process they run in. The composition root fills it: plugins themselves neither
    read a clock nor files. The default is for tests that need neither: its time stands still.

    Attributes:
        clock: returns seconds since the epoch.
        read_named_file: reads the file that an environment variable names. Raises ValueError where the variable is
            not set or the file cannot be read, worded as by upstream.
    """

    clock: Callable[[], float] = _stopped_clock
    read_named_file: Callable[[str], NamedFile] = _no_file


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What a plugin's constructor gets besides its args. `handle` is None where nothing may have effects
    (simulation). `filters` runs the profile's filters; its plugins are not all there before the first attempt."""

    scheduler_name: str
    options: SecondarySchedulerOptionsArgs
    handle: Handle | None = None
    filters: FilterRunner | None = None
    environment: PluginEnvironment = PluginEnvironment()

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the engine, or of the simulation: returns seconds since the epoch."""
        return self.handle.now if self.handle is not None else self.environment.clock

    @property
    def upstream(self) -> bool:
        """Whether deliberate differences from upstream are switched off."""
        return self.options.compatibility == "upstream"


class PluginFactory(Protocol):
    """Builds one instance per profile. Raises ValueError with a user's message when the args cannot be used."""

    def __call__(self, args: Any, context: PluginContext, /) -> "Plugin":
        """Return the plugin for these args (an instance of the descriptor's args model, or None)."""


class Plugin(Protocol):
    """Every plugin has the name its descriptor has."""

    @property
    def name(self) -> str:
        """Return the name in the configuration."""


@runtime_checkable
class ObjectReader(Protocol):
    """Implemented by a plugin that looks objects up where it gets no view, such as in QueueSort."""

    def use_objects(self, objects: Objects) -> None:
        """Take the store to read from; called before the first pod is queued, and never called in some tests and
        tools, which then have no objects."""


class Pods(Protocol):
    """All pods that have a label someone asked for, with or without a node, whoever schedules them."""

    def index(self, label: str, listener: PodListener | None = None) -> None:
        """Keep the pods that have a label; `listener` is told of each that comes, changes or goes."""

    def labelled(self, label: str, namespace: str, value: str) -> Collection[PodInfo]:
        """Return the pods of a namespace whose label has a value, as the API server shows them."""

    def node_of(self, pod: PodInfo) -> str:
        """Return the node a pod is bound or assumed to, or ""."""


@runtime_checkable
class PodReader(Protocol):
    """Implemented by a plugin that looks at pods which have no node, or where it gets no view."""

    def use_pods(self, pods: Pods) -> None:
        """Take the directory, and say which labels matter; called before the first pod is seen, and never called in
        some tests and tools, which then have no pods."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are of use only together.

    Attributes:
        name: as messages and logs call it.
        waiting: members that have no node and may be given one.
        minimum: how many must run.
        placed: how many have a node, or are assumed to.
        timeout: seconds between the first reservation and the last Binding, at most.
    """

    name: str
    waiting: tuple[PodInfo, ...]
    minimum: int
    placed: int
    timeout: float

    @property
    def missing(self) -> int:
        """Return how many members need a node before any of them may run."""
        return max(0, self.minimum - self.placed)


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Nodes worth filtering, by name; None means all."""

    node_names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What PostFilter decided about `status.nominatedNodeName`: leave it (None), clear it (""), or set it; and the
    pods that have to go for it."""

    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Called before a pod enters the active queue; must be fast."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Anything but Success parks the pod as gated until an event this plugin registered."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue; exactly one per process."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Return a key; the pod with the smallest goes first, equal ones in order of arrival."""


@runtime_checkable
class FirstAttemptOrder(Protocol):
    """Implemented by a QueueSort plugin that orders by the time a pod first became active, if the value is true."""

    orders_by_first_attempt: bool


@runtime_checkable
class EventOrder(Protocol):
    """Implemented by a QueueSort plugin whose keys depend on other objects."""

    def reordered_by(self, event: ClusterEvent, old: object, new: object) -> Iterable[PodInfo]:
        """Return the pods whose keys an event may have changed."""


@runtime_checkable
class GangPlugin(Plugin, Protocol):
    """Implemented by a Permit plugin that says which pods are placed together, or not at all."""

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang of a pod as it is now; None for a pod that belongs to none that can be tried."""

    def gang_placed(self, pod: PodInfo) -> None:
        """Told that enough members of a pod's gang hold nodes; their bindings begin."""

    def gang_settled(self, pod: PodInfo) -> None:
        """Told that a pod's gang is complete, or holds no node any more."""

    def gang_failed(self, pod: PodInfo) -> None:
        """Told that a pod's gang did not fit; nobody holds anything."""


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Called once per attempt, before any node is looked at."""

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Skip drops the plugin's Filter; UnschedulableAndUnresolvable ends the attempt at once; Unschedulable after
        the rest."""


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Implemented by a PreFilter plugin whose state depends on other pods.

    Without it, the plugin's verdict on a node must follow from the pods on that node: what-if runs rely on it.
    A plugin that has it and no Filter keeps apart what is put on or taken from different rows: these are separate
    what-ifs then, tried together.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Account for a pod put on a node for a what-if run."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Account for a pod taken from a node for a what-if run."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says on which nodes the pod can run."""

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Return a verdict per row, or None when every row passes."""


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Called when no node fits; the first Success ends the round. Effects go through the Handle."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """`codes` holds the status code of every node. Unschedulable adds its reasons to the pod's message."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Called once per attempt with the feasible rows."""

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Skip drops the plugin's Score; anything else but Success fails the attempt."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks feasible nodes."""

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return a raw score per row, or None to be left out of this attempt, as if PreScore had said Skip."""


@runtime_checkable
class ScoreNormalizer(Protocol):
    """Implemented by a Score plugin whose raw scores are not 0..100 yet."""

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Return scores of 0..100 over all feasible rows."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Told when a node was chosen, and when that came to nothing."""

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """A rejection unreserves all plugins and fails the attempt."""

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Called for all plugins in reverse order, even those that did not reserve: must be idempotent."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """May hold a pod before it is bound."""

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Return Success, Wait with a timeout in seconds, or a rejection."""


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod may run on the node."""

    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[Status]:
        """Anything but Success gives the node up."""


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds the pod."""

    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[Status]:
        """Skip passes the pod to the next binder."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Told that a pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[None]:
        """For information only."""


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Implemented by a plugin that can reject pods; without it every event on the core kinds wakes them."""

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Return the events after which a pod this plugin rejected may fit."""
