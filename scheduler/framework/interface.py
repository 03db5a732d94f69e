"""The extension points as Protocols. Each says who calls it, what it may answer, and what follows from the answer.

The names, their order and the meaning of each status are those of the scheduling framework (pkg/scheduler/framework of
kube-scheduler 1.34). The shape differs: Filter and Score get all nodes of a stage at once, as rows of columns, and not
one node per call. A call per node and plugin costs about 1 us in Python, so 5,000 nodes and ten plugins would cost 50
ms per pod; upstream spreads these calls over 16 goroutines, which Python cannot. `adapter.py` serves plugins that are
easier to write node by node.

Columnar methods get `rows`: any subset of the nodes, such as those that earlier filters let through, or a single one
when a preemption victim is reprieved. They answer for exactly these rows, in this order, and must not change the view.
Everything up to Permit is called synchronously on the scheduling loop and does no I/O: while a plugin works, nothing
else is decided. PreBind, Bind and PostBind are coroutines beside the loop and reach the API server through the
`Handle`.

A plugin that raises up to Score fails the attempt of this pod with upstream's text for that extension point; the pod
backs off and is tried again. Nobody else is affected.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from enum import Enum, auto
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from scheduler.framework.cycle import CycleState
from scheduler.framework.diagnosis import NodeCodes
from scheduler.framework.events import ClusterEvent, HintRegistration
from scheduler.framework.extenders import Asking, Extender
from scheduler.framework.handle import PluginContext, PodListener, Preemptor
from scheduler.framework.objects import PodInfo, SpecInfo
from scheduler.framework.status import FloatArray, IntArray, RowArray, Status, Verdicts
from scheduler.framework.view import NodeView, Objects

MAX_SCORE = 100
"""Scores lie in 0..MAX_SCORE after normalisation; others are clamped and counted."""


class PluginFactory(Protocol):
    """Builds one instance per profile; called once, when the profile is assembled.

    Raises ValueError with a message for the user when the args cannot be used: the process then does not start.
    """

    def __call__(self, args: Any, context: PluginContext, /) -> "Plugin":
        """Return the plugin for these args (an instance of the descriptor's args model, or None)."""


class Plugin(Protocol):
    """Every plugin has the name its descriptor has."""

    @property
    def name(self) -> str:
        """Return the name in the configuration."""


@runtime_checkable
class ObjectReader(Protocol):
    """Implemented by a plugin that looks objects up where it gets no view, such as in QueueSort.

    The runner finds it by isinstance on the plugin itself; a plugin at several extension points is asked once.
    """

    @abstractmethod
    def use_objects(self, objects: Objects) -> None:
        """Take the store to read from; called before the first pod is queued, and never called in some tests and
        tools, which then have no objects."""


class Pods(Protocol):
    """All pods that have one of the indexed labels, with or without a node, of every scheduler."""

    def index(self, label: str, listener: PodListener | None = None) -> None:
        """Keep the pods that have a label; `listener` is called for each that comes, changes or goes.

        `SCHEDULING_GROUP` stands for the field of that name, as if it were a label.
        """

    def labelled(self, label: str, namespace: str, value: str) -> Collection[PodInfo]:
        """Return the pods of a namespace whose label has a value, as the API server shows them."""

    def node_of(self, pod: PodInfo) -> str:
        """Return the node a pod is bound or assumed to, or ""."""


@runtime_checkable
class PodReader(Protocol):
    """Implemented by a plugin that looks at pods which have no node, or where it gets no view."""

    @abstractmethod
    def use_pods(self, pods: Pods) -> None:
        """Take the directory, and say which labels matter; called before the first pod is seen, and never called in
        some tests and tools, which then have no pods."""


class MemberTries(Enum):
    """How the members of a gang are tried.

    - UNTIL_ENOUGH: until the minimum is reached. Those that do not fit are tried once more when others found a place.
      Further members are decided one by one later.
    - EACH_ONCE: every member, in order of priority and first attempt, as kube-scheduler 1.36 does with its PodGroups,
      and members of a gang with a topology once enough run. An error ends the attempt.
    - WHILE_POSSIBLE: the same, until too few are left for the minimum, as 1.37 does.
    """

    UNTIL_ENOUGH = auto()
    EACH_ONCE = auto()
    WHILE_POSSIBLE = auto()


class GangSlice(Struct, frozen=True):
    """Members of a gang that have to be closer to each other than all of them.

    Attributes:
        uids: of those that wait.
        nodes: of those that have one.
    """

    uids: frozenset[str]
    nodes: tuple[str, ...] = ()


class GangTopology(Struct, frozen=True):
    """How close to each other the members of a gang have to be.

    A domain is the nodes that have one value of a label, and of the wider levels' labels: racks of two blocks may have
    one name.

    Attributes:
        levels: labels of nodes, the narrowest first. All members go to one domain: of the first level that has one
            with room for them.
        anywhere: whether the members may go to any nodes where no level has such a domain.
        nodes: those of members that have one; the domain must hold all of them.
        is_scored: whether the gang is tried in every domain of the level, and the one with the best score wins, as
            kube-scheduler does with its PodGroups.
        slice_label: of nodes; each of the slices goes to one domain of it, by itself; "" without slices.
        slices: in the order in which they are placed.
    """

    levels: tuple[str, ...]
    anywhere: bool = False
    nodes: tuple[str, ...] = ()
    is_scored: bool = False
    slice_label: str = ""
    slices: tuple[GangSlice, ...] = ()


HeldBack = Callable[[int, int, int, int], str]
"""Says that a gang does not fit, from how many members have a node or would fit, how many fit nowhere, how many were
not tried, and how many domains there are for a gang with a topology."""


class Gang(Struct, frozen=True):
    """Pods that are of use only together.

    Attributes:
        name: as messages and logs call it.
        waiting: members that have no node and may be given one.
        minimum: how many must run.
        placed: how many have a node, or are assumed to.
        timeout: seconds between the first reservation and the last Binding, at most.
        tries: how its members are tried.
        held_back: what is said of the gang, and to members that would fit or were not tried; None where a message sums
            up what became of all members.
        topology: how close they have to be; None where any nodes will do.
        is_entity: whether the queue treats the gang as one thing, as kube-scheduler does since 1.37: members beyond the
            minimum are placed together, too; those that are left over are tried again at once, and a gang that does
            not fit after each backoff, without an event; no member waits until others are ready to be bound.
        problem_of: why members, of which all are given, may not be placed at all; "" where they may.
        of_members: what is said to such members in place of that, by whether the attempt ended with an error.
        preemptor: who others are evicted for where too few members fit; None where nobody is.
    """

    name: str
    waiting: tuple[PodInfo, ...]
    minimum: int
    placed: int
    timeout: float
    tries: MemberTries = MemberTries.UNTIL_ENOUGH
    held_back: HeldBack | None = None
    topology: GangTopology | None = None
    is_entity: bool = False
    problem_of: Callable[[Sequence[PodInfo]], str] | None = None
    of_members: Callable[[bool], str] | None = None
    preemptor: Preemptor | None = None

    @property
    def missing(self) -> int:
        """Return how many members need a node in one attempt: as many as the minimum lacks. Beyond the minimum one
        suffices where members are placed together: the nodes of the others say where those of a gang with a topology
        may go."""
        return max(1 if self.is_entity or self.topology is not None else 0, self.minimum - self.placed)


class PreFilterResult(Struct, frozen=True):
    """Nodes worth filtering, by name; None means all."""

    node_names: frozenset[str] | None = None


class PostFilterResult(Struct, frozen=True):
    """What PostFilter decided about `status.nominatedNodeName`: leave it (None), clear it (""), or set it; and the
    pods to be evicted for it."""

    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Keeps a pod out of the active queue.

    The queue calls it whenever a pod is about to become active, and again for a gated pod at each event that the gating
    plugin registered. It must be fast: one event may ask it about thousands of pods.
    """

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return Success to let the pod pass to the next PreEnqueue plugin, and in the end to the active queue.

        Anything else makes the pod gated, in this plugin's name: the remaining plugins are not called, and the pod does
        not back off. It is looked at again at an event this plugin registered, when it changes itself, or when a plugin
        activates it.
        """


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the active queue; exactly one per process, as all profiles share the queue.

    Upstream's `Less` compares two pods at each step of the heap. A key is computed once per push and compared in C; it
    also cannot contradict itself. The price: a key that depends on anything else than the pod must be announced
    (`EventOrder`, `Handle.reorder`).
    """

    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Return a key that compares with those of all other pods; the smallest goes first, equal ones in order of
        arrival. `queued_at` is the wall clock's time: seconds since the epoch."""


@runtime_checkable
class FirstAttemptOrder(Protocol):
    """Implemented by a QueueSort plugin that orders by the time a pod first became active, if the value is true.

    `sort_key` then gets that time instead of the time the pod was last queued.
    """

    orders_by_first_attempt: bool


@runtime_checkable
class EventOrder(Protocol):
    """Implemented by a QueueSort plugin whose keys depend on other objects."""

    @abstractmethod
    def reordered_by(self, event: ClusterEvent, old: object, new: object) -> Iterable[PodInfo]:
        """Return the pods whose keys an event may have changed; the queue computes their keys again at once.

        Called at every event, so it must be cheap for events that matter to no key.
        """


@runtime_checkable
class GangPlugin(Plugin, Protocol):
    """Implemented by a Permit plugin that says which pods are placed together, or not at all.

    It has no counterpart in kube-scheduler 1.34, where members of a gang are decided one by one and wait in Permit,
    holding nodes that others could use. The engine decides all members on one snapshot and reserves for as many as the
    gang lacks, or for none.
    """

    @abstractmethod
    def has_gang(self, pod: PodInfo) -> bool:
        """Tell whether a pod names a gang that this plugin forms, whether or not it exists."""

    @abstractmethod
    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang of a pod as it is now; None for a pod that belongs to none that can be tried.

        Asked for each pod that leaves the queue. A gang with `missing` above 0 is decided as a whole; any other pod is
        decided alone.
        """

    @abstractmethod
    def gang_placed(self, pod: PodInfo) -> None:
        """Enough members of a pod's gang hold nodes; their bindings begin."""

    @abstractmethod
    def gang_settled(self, pod: PodInfo) -> None:
        """A pod's gang is complete, or holds no node any more."""

    @abstractmethod
    def gang_failed(self, pod: PodInfo) -> None:
        """A pod's gang did not fit; no member holds a node."""


@runtime_checkable
class GangReporter(GangPlugin, Protocol):
    """Implemented by a `GangPlugin` that publishes what became of a gang."""

    @abstractmethod
    def report_gang(self, pod: PodInfo, outcome: Status) -> None:
        """An attempt at a pod's gang ended: Success where enough members hold nodes, Unschedulable, or an error.

        Called for the gang plugin of the pod's own profile only.
        """


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Called once per attempt, before any node is looked at: prepares what Filter needs, or ends the attempt."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Return the nodes worth filtering, and a status.

        - Success: go on; where the result names nodes, the others are left out for all plugins.
        - Skip: go on, and do not call this plugin's Filter in this attempt.
        - UnschedulableAndUnresolvable: the attempt ends at once; no node is filtered and preemption finds nothing.
        - Unschedulable, Pending: the other PreFilter plugins still run, then the attempt ends with the first such
          status; PostFilter runs.
        - anything else is an error of the attempt.

        Not called where `filter_rule` promises that the answer for the pod's class is Success or Skip.
        """


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Implemented by a PreFilter plugin whose state depends on other pods.

    Called in what-if runs (nominated pods that may arrive, victims that may go) on a clone of the state, right after
    the view has taken the move in. Nothing is returned; raising fails the node that is tried.

    A plugin without it promises that its verdict on a node follows from the pods on that node alone. Then one run over
    many nodes answers for all of them; with it, where the plugin also has Filter, each node is a run of its own.
    A plugin that has it and no Filter keeps apart what is put on or taken from different rows: these are separate
    what-ifs then, tried together.
    """

    @abstractmethod
    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Account for a pod put on a node for a what-if run."""

    @abstractmethod
    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Account for a pod taken from a node for a what-if run."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says on which nodes the pod can run. Called in the profile's order, each for the rows that are left."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Return a verdict per row, or None when every row passes.

        A code is 0 (the node passes), Unschedulable (removing pods may help: preemption tries the node),
        UnschedulableAndUnresolvable (it does not help) or Pending (nor here; the pod wakes without backoff). Any other
        code fails the attempt. As upstream, a node that one filter rejects is not shown to the next ones.
        """


@runtime_checkable
class YieldingFilter(Plugin, Protocol):
    """Implemented by a Filter plugin that would rather step back than be the reason why a pod has no node."""

    @abstractmethod
    def step_back(self, state: CycleState) -> bool:
        """Take back what `filter` rejected in this attempt, and do not reject it again; return whether it does so.

        Called where no node passed all filters, or PreFilter ended the search. Then all filters are called again, and
        PostFilter looks for room without this plugin's say, too. Columns of a class hold its verdicts as they were
        before: it may implement `filter_rule` as if it never stepped back.
        """


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Called when no node fits, to make room. Effects go through the Handle, beside the loop."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Return what becomes of the pod's nomination, and a status. `codes` holds the status code of every node.

        - Success: no further PostFilter plugin is called; the pod waits as unschedulable, nominated as the result says.
        - UnschedulableAndUnresolvable: no further plugin is called; nothing helps.
        - Unschedulable: the next plugin is called. All reasons are added to the pod's message, and the last result that
          says something about the nomination holds.
        - anything else: an error, which is added to the message; no further plugin is called.

        The pod is rejected in every case: no pod is placed in the attempt that made the room.
        """


@runtime_checkable
class AskingPostFilter(Protocol):
    """Implemented by a PostFilter plugin that lets extenders have a say."""

    @abstractmethod
    def post_filter_asking(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender]
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """Return what `post_filter` returns, after asking these extenders, in this order.

        Called instead of `post_filter` where an extender with a preemptVerb is interested in the pod. What it read of
        view and codes is out of date after each question.
        """


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Called once per attempt with the feasible rows, where there are two or more."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Return Success, or Skip so that this plugin's Score is not called; anything else fails the attempt."""


@runtime_checkable
class RoomFilter(Protocol):
    """Implemented by a Filter plugin that knows how many pods a node would take."""

    @abstractmethod
    def room(self, spec: SpecInfo, view: NodeView) -> FloatArray:
        """Return per row how many pods of a spec the filter would let onto the node one after the other, at most: it
        may say too many and never too few. Negative where there are too many already; infinite where it never
        objects."""


@runtime_checkable
class DomainScorer(Protocol):
    """Implemented by a plugin that rates a domain as a whole (PlacementScore of kube-scheduler)."""

    @abstractmethod
    def score_domain(self, pods: Sequence[PodInfo], view: NodeView, rows: RowArray) -> int:
        """Return 0..100 for the nodes of a domain with the members of a gang on them.

        Args:
            pods: the members that were placed there now.
            view: with these on their nodes.
            rows: the domain's nodes.
        """


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks feasible nodes. Called after all PreScore plugins, where two or more nodes are feasible."""

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return a raw score per row, or None to be left out of this attempt, as if PreScore had said Skip.

        Without a `ScoreNormalizer` the scores must be within 0..100. Others are clamped and counted, where upstream
        fails the attempt: one plugin's bad number must not keep pods from running.
        """


@runtime_checkable
class ScoreNormalizer(Protocol):
    """Implemented by a Score plugin whose raw scores are not 0..100 yet."""

    @abstractmethod
    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Return scores of 0..100 for the feasible rows, given their raw scores; a new array, as these are kept for
        explanations."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Keeps its own accounts of a node that was chosen, and of a choice that came to nothing."""

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return Success to go on; the pod is already assumed on the node.

        Anything else unreserves all plugins, forgets the assumed pod and requeues it: a rejection as unschedulable in
        this plugin's name, an error with backoff.
        """

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undo `reserve`, also when Permit, PreBind or Bind failed later.

        Called for all plugins in reverse order, even those that did not reserve: must be idempotent, and must not
        fail.
        """


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """May hold a pod before it is bound. Called on the loop, after Reserve."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Return a status, and for Wait the seconds after which the pod is rejected (at most 15 minutes).

        - Success: the next Permit plugin is called, then the binding starts.
        - Wait: as Success, but the binding waits until every plugin that said so calls `Handle.allow_waiting`. The pod
          keeps its node meanwhile.
        - a rejection or an error: as from Reserve.
        """


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod may run on the node, such as binding its volumes. Runs beside the loop."""

    @abstractmethod
    def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[Status]:
        """Return Success once it is done; anything else unreserves and requeues the pod, as from Reserve.

        A long wait goes through `Handle.pause`, so that the pod does not count against the bindings under way.
        """


@runtime_checkable
class PreBindPreFlight(Protocol):
    """Implemented by a PreBind plugin that may have work that takes long; without it `pre_bind` counts as short."""

    @abstractmethod
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether `pre_bind` has such work. Called beside the loop, before the wait for permission.

        From Kubernetes 1.35 on the pod is then nominated to the node first (`status.nominatedNodeName`).
        """


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds the pod. Runs beside the loop; the first that does not say Skip is the only one that acts."""

    @abstractmethod
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[Status]:
        """Return Success only when the API server has the Binding; Skip passes the pod to the next binder.

        Anything else unreserves and requeues the pod; where the outcome is unknown, find it out first.
        """


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Learns that a pod was bound. Runs beside the loop; nothing follows from it."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> Awaitable[None]:
        """Take note; raising is logged and changes nothing for the pod."""


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Implemented by a plugin that can reject pods; without it every event on the core kinds wakes them.

    Called once, when the queue is built. An event wakes a pod when at least one of the plugins that rejected it
    registered the event and its hint says QUEUE. A plugin that registers too little leaves pods waiting until the
    five-minute timeout; one that registers too much costs attempts.
    """

    @abstractmethod
    def events_to_register(self) -> Sequence[HintRegistration]:
        """Return the events after which a pod this plugin rejected may fit."""
