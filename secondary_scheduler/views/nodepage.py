"""One node: what it has, how full it is, and the pods on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.framework import NodeInfo, PodInfo
from secondary_scheduler.simulation.deciding import PLACED
from secondary_scheduler.views.nodes import MEASURES, RESOURCES, NodeColumns
from secondary_scheduler.views.pagemodels import PageModel
from secondary_scheduler.views.runs import PodDecision

_MAX_PODS = 500


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """One resource of a node: amounts as the API counts them, shares in percent by measure; NaN is not known.

    Attributes:
        recorded: the shares as recorded, by measure, where it is a moment of a recording.
    """

    resource: str
    allocatable: float
    requested: float
    shares: tuple[tuple[str, float], ...]
    recorded: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodePage:
    """What the page of a node shows.

    Attributes:
        age: seconds since its load was measured; NaN where there is none.
        fresh: whether that is recent enough.
        pods: those on it, at most some hundreds, the largest request of CPU first.
        coming: pending pods that are placed here; in a recording, those that the replay has here.
        hidden: pods on it, of namespaces that the reader may not see; not in `pods`, but in `pod_count`.
        hidden_coming: of such namespaces, too; not in `coming`.
    """

    info: NodeInfo
    usage: tuple[ResourceUsage, ...]
    age: float
    fresh: bool
    pod_count: int
    pods: Sequence[PodInfo]
    coming: Sequence[PodDecision]
    hidden: int
    hidden_coming: int


def node_page(page_model: PageModel, name: str) -> NodePage | None:
    """Return the page of a node; None where there is none of that name."""
    columns = page_model.run.after if page_model.is_replayed else page_model.run.before
    index = _index(columns, name)
    if index is None:
        return None
    recorded = _index(page_model.run.before, name) if page_model.is_replayed else None
    usage = tuple(
        ResourceUsage(
            resource,
            float(columns.allocatable[resource][index]),
            float(columns.requested[resource][index]),
            tuple((measure, float(columns.shares[measure, resource][index])) for measure in MEASURES),
            {}
            if recorded is None
            else {measure: float(page_model.run.before.shares[measure, resource][recorded]) for measure in MEASURES},
        )
        for resource in RESOURCES
    )
    pods = sorted(page_model.pods_on(name), key=lambda pod: (-pod.requests.get("cpu", 0), pod.key))
    uids = {pod.uid for pod in pods}
    return NodePage(
        columns.infos[index],
        usage,
        float(columns.ages[index]),
        columns.fresh[index],
        len(pods) + page_model.withheld.pods_on(name),
        pods[:_MAX_PODS],
        [
            decision
            for decision in page_model.run.decisions
            if decision.result == PLACED
            and decision.node == name
            and (not page_model.is_replayed or decision.uid in uids)
        ],
        page_model.withheld.pods_on(name),
        page_model.withheld.placed[name],
    )


def _index(columns: NodeColumns, name: str) -> int | None:
    return next((index for index, info in enumerate(columns.infos) if info.name == name), None)
