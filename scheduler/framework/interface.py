"""The extension points as Protocols. Each says who calls it, what it may answer, and what follows from the answer.

Columnar ones get `rows`: any subset of nodes, those that survived earlier plugins, or a single one when a preemption
victim is reprieved. They answer for exactly these rows in this order and must not change the view. Everything up to
Permit is called synchronously on the scheduling loop and does no I/O; PreBind, Bind and PostBind are coroutines and
reach the API through the `Handle`.
"""

from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from scheduler.framework.cycle import CycleState
from scheduler.framework.events import ClusterEvent, HintRegistration
from scheduler.framework.handle import PluginContext, PodListener
from scheduler.framework.nodecodes import NodeCodes
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import IntArray, RowArray, Status, Verdicts
from scheduler.framework.view import NodeView, Objects

MAX_SCORE = 100
"""Scores lie in 0..MAX_SCORE after normalisation; others are clamped and counted."""


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
