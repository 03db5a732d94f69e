"""Nodes for this scheduler alone: what keeps its pods on them, and what keeps the other schedulers off.

Two mechanisms of Kubernetes do it. Every profile gets the nodes' label as `addedAffinity` of NodeAffinity, so that its
pods go nowhere else. The nodes' taint keeps out the pods of every other scheduler, which do not tolerate it. The stack
labels and taints no node itself: nodes come and go, and whoever makes them (a machine set, a node pool) knows both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from scheduler.catalog import ExtensionPoint, is_qualified_name
from scheduler.config import Configuration, Problem, SettingsModel

NODE_AFFINITY = "NodeAffinity"
KEY = "nodePartition"
_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_EFFECTS = ("NoSchedule", "NoExecute")


def _label(value: str) -> str:
    key, equals, text = value.partition("=")
    if not equals or not is_qualified_name(key) or not _VALUE.fullmatch(text):
        raise ValueError("is not a label with a value; write KEY=VALUE, such as example.com/scheduler=secondary")
    return value


def _taint(value: str) -> str:
    label, _, effect = value.rpartition(":")
    if effect not in _EFFECTS:
        raise ValueError("must end with :NoSchedule or :NoExecute; other taints keep no pod away")
    try:
        _label(label)
    except ValueError:
        raise ValueError("is not a taint; write KEY=VALUE:NoSchedule") from None
    return value


class NodePartitionSettings(SettingsModel):
    """The nodes that only this scheduler uses.

    Attributes:
        label: `key=value` that these nodes have and no others.
        taint: `key=value:effect` that these nodes have; the scheduler's pods tolerate it.
    """

    label: Annotated[str, AfterValidator(_label)]
    taint: Annotated[str, AfterValidator(_taint)]

    def added_affinity(self) -> dict[str, Any]:
        """Return `addedAffinity` for the nodes of the partition."""
        key, _, value = self.label.partition("=")
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    def instructions(self) -> dict[str, Any]:
        """Return the stack's output: what is to be done to nodes and to pods.

        Nothing for the default scheduler: the taint keeps its pods off. An `addedAffinity` against these nodes would
        also keep off the pods of DaemonSets (the network's, say), which it places too.
        """
        key, _, value = self.label.partition("=")
        label, _, effect = self.taint.rpartition(":")
        taint_key, _, taint_value = label.partition("=")
        toleration = {"key": taint_key, "operator": "Equal", "value": taint_value, "effect": effect}
        return {
            "nodes": [f"kubectl label node NODE {self.label}", f"kubectl taint node NODE {self.taint}"],
            "pods": {"tolerations": [toleration], "nodeSelector": {key: value}},
        }


class SharedNodesSettings(SettingsModel):
    """What to do where another scheduler uses the same nodes.

    Attributes:
        recheck_above_percent: from how full on a node is read again right before a pod is bound to it.
    """

    recheck_above_percent: int | None = Field(None, ge=0, le=100)


def conflicting_args(args: Mapping[str, Any]) -> bool:
    """Tell whether args of NodeAffinity in a profile's settings say already where its pods go."""
    return "addedAffinity" in args


def unenforced(partition: NodePartitionSettings | None, configuration: Configuration) -> Iterator[Problem]:
    """Yield the profiles that would not keep their pods on the partition, as NodeAffinity does not filter there."""
    if partition is None:
        return
    for profile in configuration.profiles:
        if NODE_AFFINITY not in {plugin.name for plugin in profile.plugins(ExtensionPoint.FILTER)}:
            message = (
                f"the profile {profile.scheduler_name} has NodeAffinity disabled, which keeps pods on these nodes;"
                f" enable it at filter, or remove {KEY}"
            )
            yield Problem((KEY,), message)
