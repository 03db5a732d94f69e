"""NodePorts: host ports that are still free on the node (plugins/nodeports)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers.holding import port_key

REASON = "node(s) didn't have free ports for the requested pod ports"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- compared with, never listened on
_Addresses = Mapping[tuple[str, int], set[str]]
"""By protocol and number of a port."""


class NodePorts(fw.PreFilterPlugin, fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule, fw.RoomFilter):
    """Filter over the ports of the pods on each node."""

    name = "NodePorts"

    def __init__(self, args: object, context: fw.PluginContext) -> None:
        # Of pods with many ports, until the last of the class is gone: others are not to go through them.
        self._addresses: WeakKeyDictionary[fw.SpecInfo, _Addresses] = WeakKeyDictionary()

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip pods that want no port of the node."""
        return None, fw.SUCCESS if pod.spec.host_ports else fw.SKIP

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes where one of the ports is taken."""
        if pod.spec.lists_much:
            holders = sum(len(view.holders(port_key(port))) for port in pod.spec.host_ports)
            state.work.charge(len(pod.spec.host_ports) + holders, "host ports x pods on nodes that have them")
        wanted = _addresses(pod.spec.host_ports)
        conflicting_rows: set[int] = set()
        compared: set[str] = set()
        for port in pod.spec.host_ports:
            for holder in view.holders(port_key(port)):
                # Each pod once, with all ports: two pods with thousands of the same ones would take their product.
                if holder.row in conflicting_rows or holder.pod.uid in compared:
                    continue
                compared.add(holder.pod.uid)
                if self._conflict(wanted, holder.pod.spec):
                    conflicting_rows.add(holder.row)
        return (
            fw.reject(np.isin(rows, list(conflicting_rows)), fw.Code.UNSCHEDULABLE, REASON)
            if conflicting_rows
            else None
        )

    def room(self, spec: fw.SpecInfo, view: fw.NodeView) -> fw.FloatArray:
        """Return one for pods that want a port of the node: two of a kind want the same."""
        return np.full(view.size, 1.0 if spec.host_ports else np.inf)

    def _conflict(self, wanted: _Addresses, other: fw.SpecInfo) -> bool:
        if not other.lists_much:
            return _takes_one_of(wanted, other.host_ports)
        used = self._addresses.get(other)
        if used is None:
            used = self._addresses[other] = _addresses(other.host_ports)
        fewer, more = (wanted, used) if len(wanted) <= len(used) else (used, wanted)
        return any(_overlap(addresses, more[port]) for port, addresses in fewer.items() if port in more)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from the ports of the pods on the node."""
        return fw.Reads.PODS if spec.host_ports else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register deleted pods, which may free a port, and new nodes."""
        return (
            fw.HintRegistration(fw.POD, ActionType.DELETE, _pod_deleted),
            fw.HintRegistration(fw.NODE, ActionType.ADD),
        )


def _pod_deleted(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, fw.PodInfo):
        return fw.Hint.QUEUE
    if not (old.node_name or old.nominated_node):
        return fw.Hint.SKIP
    return fw.Hint.QUEUE if _conflict(pod.spec.host_ports, old.spec.host_ports) else fw.Hint.SKIP


def _conflict(wanted: Sequence[fw.HostPort], used: Sequence[fw.HostPort]) -> bool:
    """Tell whether a port is in both: same protocol and number, and the same address or one of them any address."""
    return bool(used) and _takes_one_of(_addresses(wanted), used)


def _addresses(ports: Iterable[fw.HostPort]) -> _Addresses:
    """Return the addresses of ports by protocol and number."""
    addresses: dict[tuple[str, int], set[str]] = {}
    for port in ports:
        addresses.setdefault((port.protocol, port.port), set()).add(port.ip or _ANY_ADDRESS)
    return addresses


def _takes_one_of(wanted: _Addresses, used: Iterable[fw.HostPort]) -> bool:
    for port in used:
        addresses = wanted.get((port.protocol, port.port))
        if addresses is not None and _overlap(addresses, (port.ip or _ANY_ADDRESS,)):
            return True
    return False


def _overlap(addresses: set[str], others: Collection[str]) -> bool:
    return _ANY_ADDRESS in addresses or _ANY_ADDRESS in others or not addresses.isdisjoint(others)
