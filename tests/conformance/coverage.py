"""What the cases have made each plugin do, on our side: agreement about a plugin that never had a say shows nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.catalog import descriptors
from scheduler.core import Explanation
from tests.conformance import profiles

_FILTERED, _REJECTED, _DISTINGUISHED, _DECIDED = "filtered", "rejected", "distinguished", "decided"
_COLUMNS = (_FILTERED, _REJECTED, _DISTINGUISHED, _DECIDED)
_SILENT: dict[str, str] = {
    "NodeName": "a pod that names its node comes to no scheduler",
    "PrioritySort": "pods are asked about one by one; tests/integration/scheduler/test_queueing.py",
    "DefaultBinder": "binds, and chooses nothing",
    "DynamicResources": "no pod has resource claims; test_dra.py, tests/integration/scheduler/test_devices.py",
    "NodeDeclaredFeatures": "since 1.36: python -m tests.conformance --kubernetes 1.36",
}
"""Default plugins that no case can make say anything, and why."""


@dataclass(frozen=True)
class Exercised:
    """What plugins did about one pod.

    Attributes:
        filtered: those that rejected some node.
        rejected: those that rejected the pod as a whole, before any node or after all.
        distinguished: those that gave feasible nodes differing scores.
        decided: those that gave a chosen node more than another feasible one, or chose whom to preempt.
    """

    filtered: frozenset[str] = frozenset()
    rejected: frozenset[str] = frozenset()
    distinguished: frozenset[str] = frozenset()
    decided: frozenset[str] = frozenset()


def exercised(explanation: Explanation) -> Exercised:
    """Read it off a pod's explanation."""
    diagnosis = explanation.diagnosis
    rows = {name: node.scores for name, node in explanation.nodes() if node.feasible}
    plugins = {plugin for scores in rows.values() for plugin in scores}
    weighted = {plugin: {node: scores[plugin].weighted for node, scores in rows.items()} for plugin in plugins}
    distinguished = frozenset(plugin for plugin, scores in weighted.items() if len(set(scores.values())) > 1)
    return Exercised(
        filtered=frozenset(rejection.plugin for rejection in diagnosis.rejections if len(rejection.rows)),
        rejected=frozenset({diagnosis.pre_filter.plugin} if diagnosis.pre_filter is not None else ())
        | frozenset(diagnosis.absent_plugins),
        distinguished=distinguished,
        decided=frozenset(
            plugin
            for plugin in distinguished
            if any(weighted[plugin][node] > min(weighted[plugin].values()) for node in explanation.best)
        ),
    )


@dataclass
class Coverage:
    """In how many cases each plugin did what."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {column: Counter() for column in _COLUMNS})

    def add(self, case: Iterable[Exercised]) -> None:
        """Count a case, of which these were the pods."""
        pods = list(case)
        for column, name in zip(_COLUMNS, ("filtered", "rejected", "distinguished", "decided"), strict=True):
            self.counts[column].update(frozenset[str]().union(*(getattr(pod, name) for pod in pods)))

    def missing(self) -> list[str]:
        """What a plugin of the default profile can do, and no case made it do."""
        lines = []
        for descriptor in descriptors():
            if not descriptor.default or descriptor.name in _SILENT or descriptor.name in profiles.missing():
                continue
            points = {str(point) for point in descriptor.points}
            if "postFilter" in points:
                if not self.counts[_DECIDED][descriptor.name]:
                    lines.append(f"{descriptor.name} chose no victims")
                continue
            if {"filter", "preFilter", "preEnqueue"} & points and not self.counts[_FILTERED][
                descriptor.name
            ] + self.counts[_REJECTED][descriptor.name]:
                lines.append(f"{descriptor.name} rejected nothing")
            if (
                "score" in points
                and descriptor.name != "VolumeBinding"
                and not self.counts[_DISTINGUISHED][descriptor.name]
            ):
                lines.append(f"{descriptor.name} scored all nodes alike")
        return lines

    def table(self) -> str:
        """Cases per plugin and column, as people read it."""
        plugins = [
            descriptor.name
            for descriptor in descriptors()
            if descriptor.default or any(descriptor.name in c for c in self.counts.values())
        ]
        width = max(map(len, plugins))
        lines = [f"{'cases in which it':{width}}  " + "  ".join(f"{column:>11}" for column in _COLUMNS)]
        for name in plugins:
            cells = "  ".join(f"{self.counts[column][name] or '-':>11}" for column in _COLUMNS)
            lines.append(f"{name:{width}}  {cells}" + (f"  ({_SILENT[name]})" if name in _SILENT else ""))
        return "\n".join(lines)
