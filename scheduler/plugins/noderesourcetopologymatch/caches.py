"""Which zones a decision rests on: what the agents last published, or that less what was promised since
(pkg/noderesourcetopology/cache of scheduler-plugins v0.34.7)."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Protocol

from scheduler.catalog import NodeResourceTopologyMatchArgs
from scheduler.framework import Handle, Objects, PodInfo, SpecInfo
from scheduler.kube.model import NodeResourceTopology, add_amounts
from scheduler.plugins.noderesourcetopologymatch.align import NeedsOf
from scheduler.plugins.noderesourcetopologymatch.fingerprint import (
    fingerprint,
    incompatibility,
    is_started,
    listed_resources,
    published_fingerprint,
    sets_with_exclusive,
)
from scheduler.plugins.noderesourcetopologymatch.placement import Placements
from scheduler.plugins.noderesourcetopologymatch.topology import (
    KIND,
    NAME,
    NodeGroup,
    ZoneTable,
    read,
    topology_manager,
)

MISMATCH = "other pods than on the node"
PodsOn = Callable[[str], Collection[PodInfo]]


class TopologyCache(Protocol):
    """The zones as a decision may count on them.

    Attributes:
        table: the zones.
        closes_promised_nodes: whether a node takes no pod that this attempt has promised to another one.
        deducts_promised: whether what pods of this attempt are promised is missing from all zones of their node.
    """

    table: ZoneTable
    closes_promised_nodes: bool
    deducts_promised: bool

    def refresh(self, objects: Objects) -> None:
        """Take in what has changed. Cheap when nothing has."""

    def item(self, node: str) -> NodeResourceTopology | None:
        """Return the object whose numbers count on a node."""

    def reserved_amounts(self, node: str, without: Container[str] = ()) -> Mapping[str, int]:
        """Return what is held back of each of a node's zones, but for pods of these UIDs."""

    def is_reserved(self, uid: str, node: str) -> bool:
        """Tell whether something is held back for a pod."""

    def stale(self) -> Collection[str]:
        """Return the nodes whose zones cannot be counted on for now."""

    def reserve(self, pod: PodInfo, node: str) -> None:
        """A node was chosen for a pod."""

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """That came to nothing."""

    def bound(self, pod: PodInfo, node: str) -> None:
        """The pod is bound."""


class _PublishedCache:
    """The zones as they were last published."""

    closes_promised_nodes = False
    deducts_promised = False

    def __init__(self, *, handle: Handle | None, placements: Placements | None = None) -> None:
        self.table = ZoneTable()
        self._handle = handle
        self._placements = placements
        self._objects: Objects | None = None
        self._generation = -1
        self._objects_by_node: dict[str, NodeResourceTopology] = {}

    def refresh(self, objects: Objects) -> None:
        """Take in every object that has changed."""
        generation = objects.generation(KIND)
        if objects is self._objects and generation == self._generation:
            return
        self._objects, self._generation = objects, generation
        published = {item.metadata.name: item for item in objects.every(KIND)}
        for name, item in published.items():
            if self._objects_by_node.get(name) is not item:
                self.take(item)
        for name in [name for name in self._objects_by_node if name not in published]:
            self.drop(name)

    def take(self, item: NodeResourceTopology) -> None:
        """Count on what an object says from now on."""
        name = item.metadata.name
        self._objects_by_node[name] = item
        topology = read(item)
        if topology.flaws and self._handle is not None:
            self._handle.log(
                "warning",
                NAME,
                "a node's resource topology makes no sense in parts",
                node=name,
                resourceVersion=item.metadata.resource_version,
                flaws=list(topology.flaws[:5]),
            )
        self.table.put(name, topology, self.reserved_amounts(name))

    def drop(self, name: str) -> None:
        """Forget a node's zones."""
        del self._objects_by_node[name]
        self.table.remove(name)
        if self._placements is not None:
            self._placements.forget(name)

    def item(self, node: str) -> NodeResourceTopology | None:
        """Return the object whose numbers count on a node."""
        return self._objects_by_node.get(node)

    def reserved_amounts(self, node: str, without: Container[str] = ()) -> Mapping[str, int]:
        """Return what is held back of each of a node's zones, but for pods of these UIDs."""
        return {}

    def is_reserved(self, uid: str, node: str) -> bool:
        """Nothing is held back."""
        return False

    def stale(self) -> Collection[str]:
        """Return none: what is published counts."""
        return ()

    def reserve(self, pod: PodInfo, node: str) -> None:
        """Nothing is held back."""

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Nothing is held back."""

    def bound(self, pod: PodInfo, node: str) -> None:
        """Nothing is held back."""


class Passthrough(_PublishedCache):
    """What the agents publish is believed at once."""


class DiscardReserved(_PublishedCache):
    """A node that a pod is on its way to takes no other one until that pod is bound."""

    closes_promised_nodes = True

    def __init__(self, *, handle: Handle | None, placements: Placements | None = None) -> None:
        super().__init__(handle=handle, placements=placements)
        self._reserved: dict[str, set[str]] = {}

    def stale(self) -> Collection[str]:
        """Nodes with pods on their way."""
        return self._reserved.keys()

    def reserve(self, pod: PodInfo, node: str) -> None:
        """Close the node to other pods."""
        self._reserved.setdefault(node, set()).add(pod.uid)

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Open the node again."""
        pods = self._reserved.get(node)
        if pods is not None:
            pods.discard(pod.uid)
            if not pods:
                del self._reserved[node]

    def bound(self, pod: PodInfo, node: str) -> None:
        """Open the node again: its agent is expected to publish soon."""
        self.unreserve(pod, node)


class OverReserve(_PublishedCache):
    """What a reserved pod requests is missing from every zone of its node until the agent has published numbers that
    include exactly the pods on the node (cache/overreserve.go).

    Published numbers are looked at when a resync finds that a node rejected a pod, got pods of other schedulers, or has
    another topology manager; otherwise what was taken in first stays. `counts_ended` says whether pods that have
    ended may be part of a fingerprint.
    """

    deducts_promised = True
    compares_empty_nodes = True
    """Whether the fingerprint of a node without pods is compared."""

    def __init__(
        self,
        args: NodeResourceTopologyMatchArgs,
        scheduler_name: str,
        needs_of: NeedsOf,
        *,
        handle: Handle | None,
        placements: Placements | None = None,
    ) -> None:
        super().__init__(handle=handle, placements=placements)
        self._scheduler_name = scheduler_name
        self._needs_of = needs_of
        self._detect = args.cache.foreign_pods_detect
        self._method = args.cache.resync_method
        self.counts_ended = args.cache.informer_mode != "Shared"
        self._running_only = args.cache.informer_mode == "Shared"
        self._watch_managers = args.cache.resync_scope != "OnlyResources"
        self._has_decided = False
        self._reserved: dict[str, dict[str, Mapping[str, int]]] = {}
        self._maybe_over_reserved: set[str] = set()
        self._foreign: set[str] = set()

    def refresh(self, objects: Objects) -> None:
        """Take in all objects at the first decision, later those of nodes that had none; drop those that are gone."""
        if not self._has_decided:
            self.preload(objects)
            self.start_deciding()
            return
        generation = objects.generation(KIND)
        if generation != self._generation:
            self._generation = generation
            self.take_changes(objects)

    def start_deciding(self) -> None:
        """Note that the first decision is taken: from now on published numbers are taken in with care."""
        self._has_decided = True

    def take_changes(self, objects: Objects) -> None:
        """Take in the objects of nodes that had none, and drop those that are gone."""
        published = {item.metadata.name: item for item in objects.every(KIND)}
        for name, item in published.items():
            if name not in self._objects_by_node:
                self.take(item)
        for name in [name for name in self._objects_by_node if name not in published]:
            self.drop(name)
            self._forget(name)

    def preload(self, objects: Objects) -> None:
        """Before the first decision, trust what is published: reservations of another replica are not known here."""
        if not self._has_decided:
            super().refresh(objects)

    def reserved_amounts(self, node: str, without: Container[str] = ()) -> Mapping[str, int]:
        """Return the sum of what the reserved pods request, but for pods of these UIDs."""
        total: dict[str, int] = {}
        for uid, request in self._reserved.get(node, {}).items():
            if uid not in without:
                add_amounts(total, request)
        return total

    def is_reserved(self, uid: str, node: str) -> bool:
        """Tell whether something is held back for a pod."""
        return uid in self._reserved.get(node, {})

    def stale(self) -> Collection[str]:
        """Nodes on which something happened that the numbers may not include."""
        return self._foreign & self._objects_by_node.keys()

    def mark_maybe_over_reserved(self, nodes: Iterable[str]) -> None:
        """Nodes had no zone for a pod, perhaps only because too much is held back: look at them at the next resync."""
        self._maybe_over_reserved.update(nodes)

    def reserve(self, pod: PodInfo, node: str) -> None:
        """Hold back what the pod requests."""
        self._reserved.setdefault(node, {})[pod.uid] = self._needs_of(pod.spec).whole
        self.table.reserve(node, self.reserved_amounts(node))

    def unreserve(self, pod: PodInfo, node: str) -> None:
        """Release what the pod held back."""
        pods = self._reserved.get(node)
        if pods is not None and pods.pop(pod.uid, None) is not None:
            if not pods:
                del self._reserved[node]
            self.table.reserve(node, self.reserved_amounts(node))

    def pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        """A pod on a node came, changed or went.

        If it is not ours, the node's numbers may not include that.
        """
        pod = new or old
        if pod is None:
            return
        if pod.scheduler_name == self._scheduler_name:
            if new is None:
                self.own_pod_deleted(pod)
        elif not (old is not None and new is not None and old.resource_version == new.resource_version != ""):
            self.note_foreign_pod(pod)

    def own_pod_deleted(self, pod: PodInfo) -> None:
        """Release what a pod of this scheduler held back: the numbers counted on are older than its reservation."""
        self.unreserve(pod, pod.node_name)

    def note_foreign_pod(self, pod: PodInfo) -> None:
        """Note that a node has a pod of another scheduler, as far as the configuration cares."""
        if self._detect == "None":
            return
        if self._detect == "OnlyExclusiveResources" and not self._is_exclusive(pod):
            return
        self._foreign.add(pod.node_name)

    def desynced(self, objects: Objects) -> tuple[list[str], list[str]]:
        """Return the nodes whose fingerprint must be compared, and those whose topology manager has changed."""
        suspects = sorted((self._foreign | self._maybe_over_reserved) & self._objects_by_node.keys())
        if not self._watch_managers:
            return suspects, []
        changed = []
        for name, known in self._objects_by_node.items():
            item = objects.get(KIND, "", name)
            if item is not None and item is not known:
                manager = topology_manager(item.topology_policies, item.attributes)
                if manager != topology_manager(known.topology_policies, known.attributes):
                    changed.append(name)
        return suspects, changed

    def compare(self, node: str, objects: Objects, pods_on: PodsOn, ended: Collection[PodInfo] = ()) -> str:
        """Take in a node's object if it includes exactly the pods on the node; else return why not.

        `ended` are pods that have ended: kubelets before 1.34 go on reporting them while their objects exist.
        """
        item = objects.get(KIND, "", node)
        if item is None:
            return "no object"
        everyone = pods_on(node)
        uids = {pod.uid for pod in everyone}
        pods = [pod for pod in everyone if self._is_reported(pod)]
        pods += [pod for pod in ended if pod.uid not in uids]
        if not pods and not self.compares_empty_nodes:
            return "no pods on the node"
        expected, exclusive_only = published_fingerprint(item, self._method)
        problem = incompatibility(expected) if expected else "no fingerprint"
        if problem:
            return problem
        sets = sets_with_exclusive(pods, item, self._needs_of) if exclusive_only else (pods,)
        for counted in sets:
            if fingerprint((pod.namespace, pod.name) for pod in counted) == expected:
                break
        else:
            return MISMATCH
        self._flush(item, {pod.uid for pod in everyone if not self._is_reported(pod)})
        if self._placements is not None:
            self._placements.note(item, counted)
        return ""

    def update_topology_manager(self, item: NodeResourceTopology) -> None:
        """Take in an object with another topology manager; keep what is held back until the fingerprint is right."""
        self._maybe_over_reserved.add(item.metadata.name)
        self.take(item)

    def _flush(self, item: NodeResourceTopology, not_started: Collection[str]) -> None:
        """Count on what a node's object says, less what pods hold back that no agent can know yet."""
        node = item.metadata.name
        reserved = self._reserved.get(node, {})
        self._forget(node)
        kept = self._kept_reservations(reserved, not_started)
        if kept:
            self._reserved[node] = kept
        self.take(item)

    def _kept_reservations(
        self, reserved: Mapping[str, Mapping[str, int]], not_started: Collection[str]
    ) -> dict[str, Mapping[str, int]]:
        """Return the reservations, by UID, that outlive an agent's new numbers: those of pods not started yet."""
        return {uid: request for uid, request in reserved.items() if uid in not_started}

    def forget_nodes(self, exists: Callable[[str], bool]) -> None:
        """Forget what was noted of nodes that are gone and never had an object."""
        self._foreign -= {node for node in self._foreign - self._objects_by_node.keys() if not exists(node)}

    def _forget(self, node: str) -> None:
        self._reserved.pop(node, None)
        self._maybe_over_reserved.discard(node)
        self._foreign.discard(node)

    def _is_exclusive(self, pod: PodInfo) -> bool:
        needs, item = self._needs_of(pod.spec), self._objects_by_node.get(pod.node_name)
        # Where nothing is known of a node, any device may be in one of its zones.
        return needs.is_exclusive(needs.devices if item is None else listed_resources(item))

    def _is_reported(self, pod: PodInfo) -> bool:
        return pod.phase == "Running" if self._running_only else is_started(pod)


def assumed_amounts(specs: Iterable[tuple[str, SpecInfo]], needs_of: NeedsOf) -> dict[str, dict[str, int]]:
    """Return, by node, what pods that are promised a node will take there."""
    total: dict[str, dict[str, int]] = {}
    for node, spec in specs:
        amounts = total.setdefault(node, {})
        for name, amount in needs_of(spec).whole.items():
            amounts[name] = amounts.get(name, 0) + amount
    return total


# What `compatibility: upstream` changes in NodeResourceTopologyMatch: pkg/noderesourcetopology of scheduler-plugins
# v0.34.7 as it is.
class UpstreamDiscardReserved(DiscardReserved):
    """Pods of one attempt do not see each other's nodes as reserved."""

    closes_promised_nodes = False


class UpstreamOverReserve(OverReserve):
    """Only the nodes that had an object at the first decision are ever known, and reservations are dropped early."""

    deducts_promised = False
    compares_empty_nodes = False

    def start_deciding(self) -> None:
        """Forget foreign pods on nodes without an object."""
        super().start_deciding()
        self._foreign &= self._objects_by_node.keys()

    def take_changes(self, objects: Objects) -> None:
        """Ignore new objects, and keep those that are gone."""

    def reserve(self, pod: PodInfo, node: str) -> None:
        """Look at the node no more, though a pod was rejected there."""
        super().reserve(pod, node)
        self._maybe_over_reserved.discard(node)

    def own_pod_deleted(self, pod: PodInfo) -> None:
        """Go on holding back what the pod requested."""

    def note_foreign_pod(self, pod: PodInfo) -> None:
        """Ignore nodes without an object once decisions are taken."""
        if not self._has_decided or pod.node_name in self._objects_by_node:
            super().note_foreign_pod(pod)

    def update_topology_manager(self, item: NodeResourceTopology) -> None:
        """Take in an object with another topology manager, and drop reservations without a look at the fingerprint."""
        self._flush(item, ())

    def _kept_reservations(
        self, reserved: Mapping[str, Mapping[str, int]], not_started: Collection[str]
    ) -> dict[str, Mapping[str, int]]:
        """Keep none, also of pods whose images are still being pulled."""
        return {}


def zone_at_number(group: NodeGroup, zone: int) -> int:
    """Return the zone that a request is subtracted from: upstream takes a zone's number for its position in the list,
    and thus another zone where they differ."""
    number = group.numbers[zone]
    return number if number < len(group.numbers) else zone
