"""What `compatibility: upstream` changes in NodeResourceTopologyMatch: pkg/noderesourcetopology of scheduler-plugins
v0.34.7 as it is."""

from collections.abc import Collection, Mapping

from scheduler.framework import Objects, PodInfo
from scheduler.kube.model import NodeResourceTopology
from scheduler.plugins.noderesourcetopologymatch.caches import DiscardReserved, OverReserve
from scheduler.plugins.noderesourcetopologymatch.table import Group


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


def zone_at_number(group: Group, zone: int) -> int:
    """Return the zone that a request is subtracted from: upstream takes a zone's number for its position in the list,
    and thus another zone where they differ."""
    number = group.numbers[zone]
    return number if number < len(group.numbers) else zone
