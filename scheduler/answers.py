"""What the scheduler answers about decisions, the queue, nodes and their load: one form for who encodes it (the
server, `simulate`, `explain --snapshot`) and who decodes it (the command line and the pages).

Fields are camelCase in JSON. One that is unknown is ignored, and a new one gets a default: so a command line reads the
answers of a scheduler of another version. A field without a default is in every answer since 0.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field

API_VERSION: Final = "secondary-scheduler.io/v1"


class Document(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="kind", tag=True):
    """An answer as a whole; its `kind` is the name of the class.

    Attributes:
        api_version: of all answers.
        scheduler_version: of the program that answers; "" where it is older than 0.2.0.
        configuration_hash: of what the scheduler runs; "" where nothing runs.
    """

    # Made anew, as a default that is equal would be left out.
    api_version: str = field(default_factory=lambda: API_VERSION)
    scheduler_version: str = ""
    configuration_hash: str = ""


# A decision ----------------------------------------------------------------------------------------------------------
# What a decision was made from is in snake_case, as it was before the rest of an answer had a form.


class Score(Struct, frozen=True, gc=False):
    """One plugin's number for one node: as computed, scaled to 0..100, and times the weight."""

    raw: int
    normalized: int
    weighted: int


class RejectedNodes(Struct, frozen=True):
    """The nodes that a plugin rejected for one reason. A node with several reasons is in several groups.

    Attributes:
        plugin: whose filter it was.
        nodes: how many.
        examples: some of their names, in the order of the node table.
    """

    plugin: str
    reason: str
    nodes: int
    examples: tuple[str, ...]


class LoadInput(Struct, frozen=True):
    """The load of a node as the plugins saw it, in percent of its capacity; None where the source says nothing.

    Attributes:
        age: seconds since the sample was taken; None where the source does not tell.
    """

    cpu: float | None
    memory: float | None
    age: float | None


class ScoredNode(Struct, frozen=True):
    """A feasible node.

    Attributes:
        total: the weighted sum.
        chosen: whether the pod got it.
        scores: by plugin.
        load: by load source.
    """

    name: str
    total: int
    chosen: bool
    scores: Mapping[str, Score]
    load: Mapping[str, LoadInput]


class NodeShortage(Struct, frozen=True):
    """A node, and the quantities that it has too little of, by resource."""

    node: str
    missing: Mapping[str, str]


class Shortage(Struct, frozen=True):
    """Where a pod would fit if it asked for nothing.

    Attributes:
        nodes: how many such nodes lack room for its requests.
        too_small: how many of them would lack it even when empty.
        nearest: those that lack the smallest share of a request, and are large enough.
    """

    nodes: int
    too_small: int
    nearest: tuple[NodeShortage, ...]


class DecisionDetail(Struct, frozen=True):
    """A decision in some kilobytes.

    Attributes:
        evaluated: nodes that there were.
        feasible: nodes that passed all filters.
        ties: how many of them shared the best score; chance decides among these.
        rejected: the largest groups first.
        nodes: the best nodes, and the chosen one where it is not among them.
        shortage: what a pod that fits nowhere lacks where only room is missing.
        error: why nothing could be said about any node, such as what a plugin raised.
        nominated: whether the pod fits where preemption made room for it: no other node was looked at then.
        taken_back: rejections of nodes that fit nevertheless, as their plugins stepped back rather than leave no node.
    """

    evaluated: int
    feasible: int
    ties: int
    rejected: tuple[RejectedNodes, ...]
    nodes: tuple[ScoredNode, ...]
    shortage: Shortage | None = None
    error: str | None = None
    nominated: bool = False
    taken_back: tuple[RejectedNodes, ...] = ()


class PluginVerdict(Struct, frozen=True):
    """What a plugin says of the node.

    Attributes:
        point: `PreFilter`, which may reject all nodes or leave out some, or `Filter`.
        code: upstream's name of it, such as `Success`, `Skip` or `Unschedulable`.
        stepped_back: whether its rejection does not count, as it would have left no node.
    """

    plugin: str
    point: str
    code: str
    reasons: tuple[str, ...] = ()
    stepped_back: bool = False

    @property
    def rejects(self) -> bool:
        """Whether it rejects the node, be it that it steps back."""
        return self.code not in ("Success", "Skip")

    @property
    def objects(self) -> bool:
        """Whether it keeps the pod off the node."""
        return self.rejects and not self.stepped_back


class NodeVerdict(Struct, frozen=True):
    """A pod on one node.

    Attributes:
        rejection: what a decision would note of this node: the first rejection; None where the pod fits.
        nominated: whether it is rejected for the pods that are nominated to this node alone: without these it fits.
        verdicts: of all plugins that were asked, in running order, each asked whatever the others said.
        feasible: nodes on which the pod fits.
        rank: 1 for the best score; None where the pod does not fit.
        ties: feasible nodes with the score of this one, itself included.
        nodes: this node with its scores if the pod fits, and the one that it is compared with.
        error: why nothing could be said, such as what a plugin raised.
    """

    node: str
    rejection: PluginVerdict | None
    nominated: bool
    verdicts: tuple[PluginVerdict, ...]
    feasible: int
    rank: int | None
    ties: int
    nodes: tuple[ScoredNode, ...]
    error: str | None = None


class Decision(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One attempt to place a pod.

    Attributes:
        pod: `namespace/name`; so are victims.
        attempt: its number; None while it is under way, and of a simulated one.
        result: `binding`, `scheduled`, `unschedulable` or `error`; of a snapshot also `placed`, where it has a node.
        message: why it has no node.
        total: the score of the node.
        load_age_seconds: by load source.
        details: None where they were not computed.
        waited_seconds: from the time it was first active until it was bound.
        rejected_by: plugins.
        queue: where the pod went; "" where it is gone.
        nominated_node: where preemption makes room; "" nowhere.
        victims: those that may be named; `victim_count` says how many there are.
        decided_by: pod of the leader before, which handed this over; "" for one of its own.
        simulated: whether it was made on a snapshot.
    """

    time: str
    pod: str
    uid: str
    scheduler_name: str
    attempt: int | None
    result: str
    node: str | None
    message: str | None
    total: int
    evaluated_nodes: int
    feasible_nodes: int
    load_age_seconds: Mapping[str, float]
    details: DecisionDetail | None
    waited_seconds: float | None = None
    rejected_by: tuple[str, ...] = ()
    queue: str = ""
    nominated_node: str = ""
    victims: tuple[str, ...] | None = None
    victim_count: int = 0
    decided_by: str = ""
    simulated: bool = False


class HistoryCoverage(Struct, frozen=True, rename="camel"):
    """What a scheduler remembers.

    Attributes:
        since: when it has all attempts from.
        leading_since: when its process began to lead.
        inherited_from: the pod that led before, and handed over what was before; None: nothing was.
        decisions: those that looked at nodes.
        with_details: how many of them have their details.
    """

    since: str
    leading_since: str
    inherited_from: str | None
    decisions: int
    with_details: int


class Gate(Struct, frozen=True):
    """What keeps a pod out of the queue."""

    plugin: str
    message: str


class WaitingPod(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod in the queue.

    Attributes:
        pod: `namespace/name`; "" in the answer about this pod of a scheduler older than 0.2.0, as its uid.
        priority, since, seconds: None where the object of a snapshot does not say.
        attempts, rejected_by: None on a snapshot, where it is tried once.
        position: in the active queue, from 1.
        backoff_seconds: until it is tried again, in the backoff queue.
        gate: in the gated queue.
        node: on a snapshot, where it would be placed, or else
        why: not.
    """

    pod: str = ""
    uid: str = ""
    scheduler_name: str = ""
    queue: str
    priority: int | None
    since: str | None
    seconds: float | None
    attempts: int | None = None
    rejected_by: tuple[str, ...] | None = None
    position: int | None = None
    backoff_seconds: float | None = None
    gate: Gate | None = None
    node: str | None = None
    why: str | None = None


class DomainRoom(Struct, frozen=True):
    """A domain of nodes, as a gang sees it.

    Attributes:
        domain: its labels, as a selector has them.
        nodes: how many there are.
        room: how many members find room on them, as the filters are now; the gang itself is not tried.
    """

    domain: str
    nodes: int
    room: int


class GangReport(Struct, frozen=True, rename="camel"):
    """The gang of a pod that waits.

    Attributes:
        name: as messages call it.
        minimum: how many members must run.
        placed: how many have a node.
        waiting: how many may be given one.
        levels: labels of nodes by which members have to be close to each other, the narrowest first, as far as they are
            tried now.
        anywhere: whether members may go to any nodes where no level has room.
        domains: those with most room, by level.
        domain_count: how many there are of all levels.
        obstacle: why there is none; "" where there is one.
        preemption: which pods are evicted for it, or why that did not help when it was tried last; "" where it was not.
    """

    name: str
    minimum: int
    placed: int
    waiting: int
    levels: tuple[str, ...] = ()
    anywhere: bool = False
    domains: tuple[DomainRoom, ...] = ()
    domain_count: int = 0
    obstacle: str = ""
    preemption: str = ""


class TriedAgain(WaitingPod, frozen=True, kw_only=True):
    """A pod in the queue, and what would have it tried again.

    Attributes:
        woken_by: the events that may help, by the plugin that rejected it.
        now: what would be decided at this moment.
        pods_ahead: how many are tried before it, in the active queue.
        gang: what it is tried together with; None where it is tried alone.
    """

    woken_by: Mapping[str, tuple[str, ...]]
    now: DecisionDetail
    pods_ahead: int | None = None
    gang: GangReport | None = None


class WhyNot(Struct, frozen=True, rename="camel"):
    """A pod on a node as it is now.

    Attributes:
        placed_on: the pod's own node, without whose use of it the node is judged; None while it waits.
        problem: why nothing is judged; None where there is a verdict.
    """

    node: str
    placed_on: str | None
    problem: str | None
    verdict: NodeVerdict | None


class ForgottenDecision(Struct, frozen=True, rename="camel"):
    """A pod that was placed, and the scheduler no longer knows why.

    Attributes:
        time: when; None where the pod does not say.
        before: when its process began to lead, if the pod was placed before that.
        history_since: how far back it remembers.
    """

    pod: str
    node: str
    scheduler_name: str
    time: str | None
    before: str | None
    history_since: str | None


class DeploymentPods(Struct, frozen=True):
    """The pods of a Deployment or a PodGroup that have not ended.

    Attributes:
        kind: which of the two.
        pods: how many.
        explained: the one that the answer is about.
        waiting: names of those without a node.
        nodes: how many are on each.
    """

    name: str
    pods: int
    explained: str
    waiting: tuple[str, ...]
    nodes: Mapping[str, int]
    kind: str = "Deployment"


class DecisionList(Document, frozen=True, kw_only=True):
    """The last decisions, the newest first.

    Attributes:
        scheduler_names: of the profiles; empty on a snapshot.
        history: None on a snapshot, and where a node is asked about.
        waiting: where the pod that is asked about waits; None where it does not.
        why_not: about the node that is asked about.
        forgotten: added by the command line, as
        deployment: is.
    """

    items: tuple[Decision, ...]
    scheduler_names: tuple[str, ...] = ()
    history: HistoryCoverage | None = None
    waiting: TriedAgain | UnsetType | None = UNSET
    why_not: WhyNot | None = None
    forgotten: ForgottenDecision | None = None
    deployment: DeploymentPods | None = None


# The queue -----------------------------------------------------------------------------------------------------------


class Queue(Struct, frozen=True):
    """One of the queues.

    Attributes:
        pods: in it.
        readable: how many of them may be named.
        items: the first of these.
    """

    queue: str
    pods: int
    readable: int
    items: tuple[WaitingPod, ...]


class QueueReport(Document, frozen=True, kw_only=True):
    """What waits.

    Attributes:
        queues: in the order of a pod's life.
        namespace: whose pods are named; None: of all.
        namespaces: the same in an answer that is put together of several; empty: of all.
        simulated: whether each pod of a snapshot was tried once.
        others: on a snapshot, pending pods of other schedulers.
    """

    queues: tuple[Queue, ...]
    namespace: str | UnsetType | None = UNSET
    namespaces: tuple[str, ...] | UnsetType = UNSET
    simulated: bool = False
    others: Mapping[str, int] | UnsetType = UNSET


# A node --------------------------------------------------------------------------------------------------------------


class NodeTaint(Struct, frozen=True):
    """A taint as the API has it."""

    key: str
    value: str
    effect: str


class NodePods(Struct, frozen=True, rename="camel"):
    """The pods of a node: how many it may have and has, and of which scheduler; "" stands for the rarer ones."""

    allowed: int
    counted: int
    by_scheduler: Mapping[str, int]


class ChosenCount(Struct, frozen=True):
    """How many of the remembered decisions chose the node."""

    decisions: int
    times: int


class RejectedCount(Struct, frozen=True, rename="camel"):
    """How many of the last decisions with details did not get to the node, by the plugin that rejected it first."""

    decisions: int
    by_plugin: Mapping[str, int]


class PlacedPod(Struct, frozen=True, rename="camel"):
    """A pod of a snapshot that would be placed on the node."""

    pod: str
    scheduler_name: str


class NodeReport(Document, frozen=True, kw_only=True):
    """What the scheduler knows of a node.

    Attributes:
        allocatable, requested: quantities by resource.
        load: by load source.
        chosen, rejected: None on a snapshot.
        last_chosen: added by the command line: decisions that chose it; None where they may not be seen.
        pending, placed, would_place: on a snapshot, how many pods wait, how many would be placed here, and the first.
    """

    node: str
    unschedulable: bool
    taints: tuple[NodeTaint, ...]
    allocatable: Mapping[str, str]
    requested: Mapping[str, str]
    pods: NodePods
    load: Mapping[str, LoadInput]
    chosen: ChosenCount | None = None
    rejected: RejectedCount | None = None
    last_chosen: tuple[Decision, ...] | UnsetType | None = UNSET
    simulated: bool = False
    pending: int | UnsetType = UNSET
    placed: int | UnsetType = UNSET
    would_place: tuple[PlacedPod, ...] | UnsetType = UNSET


class LoadEstimate(Struct, frozen=True, gc=False):
    """Percent of a node's capacity."""

    cpu: float | None
    memory: float | None


class NodeLoadRow(Struct, frozen=True, gc=False, rename="camel"):
    """The load of a node in percent of its capacity; None where the source says nothing.

    Attributes:
        cpu, memory: as measured, averaged over the source's window.
        estimated: the same with the requests of pods that came too late to show in the average.
        age_seconds: age of the sample; None where the source does not tell.
        fresh: whether plugins use it.
    """

    name: str
    cpu: float | None
    memory: float | None
    estimated: LoadEstimate
    age_seconds: float | None
    fresh: bool


class SourceLoads(Struct, frozen=True, rename="camel"):
    """A load source, its state, and the nodes that it has a load of; `age_seconds` is that of its newest sample, None
    where there never was one."""

    source: str
    fresh: bool
    age_seconds: float | None
    nodes: tuple[NodeLoadRow, ...]


class NodeLoadReport(Document, frozen=True, kw_only=True):
    """The nodes' load as the scheduler has it."""

    sources: tuple[SourceLoads, ...]


# Shadow profiles -----------------------------------------------------------------------------------------------------


class JudgedNode(Struct, frozen=True):
    """What a profile says of a node.

    Attributes:
        rejected_by: the first plugin that rejects it; "" where the pod fits.
        reason: its words.
        total: the weighted sum, 0 where the pod does not fit.
        scores: weighted, by plugin.
    """

    node: str
    rejected_by: str
    reason: str
    total: int
    scores: Mapping[str, int]


class ShadowDifference(Struct, frozen=True, rename="camel"):
    """A decision that its shadow would have made otherwise.

    Attributes:
        outcome: `otherNode`, `onlyLivePlaced` or `onlyShadowPlaced`.
        live_node, shadow_node: None: nowhere.
        shadow_ties: how many nodes share the shadow's best score.
        shadow_message: why the shadow places the pod nowhere.
        score_loss: by how much the live node has a lower total than the best, as the shadow scores.
        live_judges, shadow_judges: what each profile says of both nodes.
    """

    time: str
    pod: str
    uid: str
    scheduler_name: str
    shadow: str
    outcome: str
    live_node: str | None
    shadow_node: str | None
    shadow_ties: int
    shadow_message: str | None
    score_loss: int
    live_judges: tuple[JudgedNode, ...]
    shadow_judges: tuple[JudgedNode, ...]


class ShadowProfile(Struct, frozen=True, rename="camel"):
    """A profile, its shadow, and how many decisions had which outcome."""

    scheduler_name: str
    shadow: str
    compared: Mapping[str, int]


class ShadowReport(Document, frozen=True, kw_only=True):
    """Where shadow profiles decide otherwise, the newest first; `namespace` is whose pods are named, None: of all."""

    namespace: str | None
    profiles: tuple[ShadowProfile, ...]
    items: tuple[ShadowDifference, ...]


# A simulation --------------------------------------------------------------------------------------------------------


class NodeRejection(Struct, frozen=True):
    """The first filter that rejects a node."""

    plugin: str
    code: str
    reasons: tuple[str, ...]


class MatrixNode(Struct, frozen=True):
    """A node in the matrix of a decision; `filter` is None where the pod fits."""

    feasible: bool
    filter: NodeRejection | None
    scores: Mapping[str, Score]
    total: int


class SimulatedDecision(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What `simulate` decided about a pod; the nodes follow it.

    Attributes:
        victims: pods that were removed to make room.
        remark: what is to be known of a pod that was placed.
    """

    pod: str
    scheduler_name: str
    node: str | None
    message: str | None
    victims: tuple[str, ...] = ()
    remark: str = ""
