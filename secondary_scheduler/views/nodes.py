"""The nodes as columns of numbers, and what the page of all nodes shows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from scheduler.catalog import ExtensionPoint, LoadOptions, TargetLoadPackingArgs
from scheduler.config import Configuration
from scheduler.framework import FloatArray, LoadReading, NodeInfo, NodeView, is_fresh
from scheduler.helpers.unmeasured import UnmeasuredUse, requested as requested_by
from scheduler.kube.primitives import quantity_milli_value
from scheduler.plugins.targetloadpacking import predicted_cpu
from scheduler.state import ClusterState

RESOURCES = ("cpu", "memory")
MEASURED, ESTIMATED, REQUESTED = "measured", "estimated", "requested"
MEASURES = (MEASURED, ESTIMATED, REQUESTED)
ORDERS = ("highest", "lowest", "name")
ZONE = "topology.kubernetes.io/zone"
NO_GROUPS = "none"
_MAX_KEYS = 30
_MAX_GROUPS = 64
"""A label with more values groups nothing: each node has its own host name."""
_TARGET_LOAD_PACKING = "TargetLoadPacking"


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Facts about all nodes, one entry per node.

    Attributes:
        shares: by measure and resource, in percent of what the node has; NaN where that is not known.
        allocatable, requested: by resource; CPU in milli-units, memory in bytes.
        target: the utilization in percent that TargetLoadPacking fills nodes up to; None where it does not score.
        ages: seconds since the load was measured; NaN where there is none.
        pods: how many are on the node.
        fresh: whether the load is recent enough to be used.
    """

    infos: tuple[NodeInfo, ...]
    shares: Mapping[tuple[str, str], FloatArray]
    allocatable: Mapping[str, FloatArray]
    requested: Mapping[str, FloatArray]
    ages: FloatArray
    fresh: Sequence[bool]
    pods: Sequence[int]
    target: float | None = None

    def __len__(self) -> int:
        return len(self.infos)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One node of the heat map. `level` is a tenth of the share as it is shown, without decimals, 0 to 10 (100 % and
    more); None: not known."""

    name: str
    share: float | None
    level: int | None


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """Nodes with one value of a label.

    Attributes:
        mean: None where no share is known.
        line: how many cells stand before the line at the target; None where there is no line.
    """

    title: str
    cells: tuple[HeatCell, ...]
    mean: float | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """What the page of all nodes shows.

    Attributes:
        target: where the line is, in percent; None where what is shown has none.
        above: nodes whose share is larger.
    """

    groups: tuple[HeatGroup, ...]
    nodes: int
    unknown: int
    mean: float | None
    spread: float | None
    levels: tuple[int, ...]
    target: float | None = None
    above: int = 0


def node_columns(
    state: ClusterState, configuration: Configuration, measured: LoadReading | None, now: float
) -> NodeColumns:
    """Return the nodes of a state.

    Args:
        state: it is read and not kept.
        configuration: whose first profile says how long a load is fresh and how a pod's use is predicted.
        measured: load by name of node; None where there is none.
        now: seconds since the epoch.
    """
    view: NodeView = state.snapshot(now)
    rows = view.rows
    infos = tuple(view.info(row) for row in rows.tolist())
    capacity = {
        "cpu": np.array([info.capacity_cpu for info in infos], dtype=float),
        "memory": np.array([info.capacity_memory for info in infos], dtype=float),
    }
    allocatable = {resource: view.allocatable(resource)[rows].copy() for resource in RESOURCES}
    requested = {resource: view.requested(resource)[rows].copy() for resource in RESOURCES}
    shares = {(REQUESTED, resource): _percent(requested[resource], allocatable[resource]) for resource in RESOURCES}
    unknown = np.full(len(rows), np.nan)
    # As TargetLoadPacking does where no load is fresh: by what pods request, or would use that request nothing.
    args, target = _packing_args(configuration), _target(configuration)
    busy = {resource: view.nonzero_requested(resource)[rows] for resource in RESOURCES}
    guessed = {
        "cpu": _percent(busy["cpu"] * args.multiplier, capacity["cpu"]),
        "memory": _percent(busy["memory"], capacity["memory"]),
    }
    if measured is None:
        shares |= {(MEASURED, resource): unknown for resource in RESOURCES}
        shares |= {(ESTIMATED, resource): guessed[resource] for resource in RESOURCES}
        return NodeColumns(
            infos, shares, allocatable, requested, unknown, (False,) * len(rows), _pods_of(state, infos), target
        )
    load = state.lay_out_load(measured)
    averages = {"cpu": load.cpu_average[rows], "memory": load.memory_average[rows]}
    sampled_at = load.sampled_at[rows]
    fresh = is_fresh(sampled_at, now, _max_age(configuration))
    default_request = quantity_milli_value(args.default_requests.get("cpu", 0))
    predictions = {
        "cpu": lambda entry: predicted_cpu(entry.spec, args.multiplier, default_request),
        "memory": requested_by("memory"),
    }
    for resource in RESOURCES:
        missing = UnmeasuredUse(predictions[resource], upstream=False).by_row(view, load)[rows]
        known = fresh & ~np.isnan(averages[resource])
        shares[MEASURED, resource] = averages[resource].copy()
        estimate = averages[resource] + np.nan_to_num(_percent(missing, capacity[resource]))
        shares[ESTIMATED, resource] = np.where(known, estimate, guessed[resource])
    has_load = ~(np.isnan(averages["cpu"]) & np.isnan(averages["memory"]))
    ages = np.where(has_load & (sampled_at > 0), np.maximum(0.0, now - sampled_at), np.nan)
    return NodeColumns(
        infos, shares, allocatable, requested, ages, (fresh & has_load).tolist(), _pods_of(state, infos), target
    )


def heat_map(columns: NodeColumns, measure: str, resource: str, group_by: str, order: str) -> HeatMap:
    """Return the cells by group, in order."""
    values = columns.shares[measure, resource]
    known = values[~np.isnan(values)]
    groups: dict[str, list[int]] = {}
    for index, info in enumerate(columns.infos):
        title = "" if group_by == NO_GROUPS else info.labels.get(group_by, "")
        groups.setdefault(title, []).append(index)
    cells = [_cell(info.name, float(value)) for info, value in zip(columns.infos, values, strict=True)]
    levels = Counter(cell.level for cell in cells)
    # TargetLoadPacking looks at the CPU, and never at requests where a load is measured.
    target = columns.target if resource == "cpu" and measure != REQUESTED else None

    def group(title: str) -> HeatGroup:
        ordered = _ordered([cells[index] for index in groups[title]], order)
        return HeatGroup(title, tuple(ordered), _mean(values[groups[title]]), _line(ordered, target, order))

    return HeatMap(
        tuple(group(title) for title in sorted(groups, key=lambda title: (title == "", title))),
        len(columns),
        len(values) - len(known),
        _mean(values),
        float(known.std()) if len(known) else None,
        tuple(levels.get(level, 0) for level in range(11)),
        target,
        int((known > target).sum()) if target is not None else 0,
    )


def group_keys(columns: NodeColumns) -> tuple[str, ...]:
    """Return the labels that group nodes: with some values, but not one for each node; the zone first."""
    values: dict[str, set[str]] = {}
    for info in columns.infos:
        for key, text in info.labels.items():
            texts = values.setdefault(key, set())
            if len(texts) <= _MAX_GROUPS:
                texts.add(text)
    most = min(_MAX_GROUPS, max(1, len(columns) // 2))
    keys = sorted(key for key, texts in values.items() if 1 < len(texts) <= most)
    return tuple(sorted(keys, key=lambda key: key != ZONE)[:_MAX_KEYS])


def _cell(name: str, share: float) -> HeatCell:
    if np.isnan(share):
        return HeatCell(name, None, None)
    return HeatCell(name, share, max(0, min(10, round(share) // 10)))


def _ordered(cells: list[HeatCell], order: str) -> list[HeatCell]:
    if order == "name":
        return sorted(cells, key=lambda cell: cell.name)
    sign = 1 if order == "lowest" else -1
    # What is not known comes last in either order.
    return sorted(cells, key=lambda cell: (cell.share is None, sign * (cell.share or 0.0), cell.name))


def _line(cells: Sequence[HeatCell], target: float | None, order: str) -> int | None:
    """How many cells stand on the line's first side; by name there is no such place."""
    if target is None or order == "name":
        return None
    above = sum(cell.share is not None and cell.share > target for cell in cells)
    return above if order == "highest" else sum(cell.share is not None for cell in cells) - above


def _mean(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _percent(amount: FloatArray, whole: FloatArray) -> FloatArray:
    share: FloatArray = np.divide(100.0 * amount, whole, out=np.full(len(amount), np.nan), where=whole > 0)
    return share


def _packing_args(configuration: Configuration) -> TargetLoadPackingArgs:
    for profile in configuration.profiles:
        args = profile.args(_TARGET_LOAD_PACKING)
        if isinstance(args, TargetLoadPackingArgs):
            return args
    return TargetLoadPackingArgs()


def _target(configuration: Configuration) -> float | None:
    """Of the first profile whose nodes TargetLoadPacking scores."""
    for profile in configuration.profiles:
        args = profile.args(_TARGET_LOAD_PACKING)
        scores = any(plugin.name == _TARGET_LOAD_PACKING for plugin in profile.plugins(ExtensionPoint.SCORE))
        if scores and isinstance(args, TargetLoadPackingArgs):
            return float(args.effective_target)
    return None


def _max_age(configuration: Configuration) -> float:
    ages = [profile.options.load.max_age_seconds for profile in configuration.profiles]
    return min(ages) if ages else LoadOptions().max_age_seconds


def _pods_of(state: ClusterState, infos: Sequence[NodeInfo]) -> tuple[int, ...]:
    return tuple(len(state.pods_on(info.name)) for info in infos)


PAGE = 100
"""Rows of one."""
_Row = TypeVar("_Row")


def page_of(rows: Sequence[_Row], page: int) -> tuple[Sequence[_Row], int, int]:
    """Return the rows of a page, its number and how many there are: from 1, the last one for a larger number."""
    pages = max(1, -(-len(rows) // PAGE))
    page = min(page, pages)
    return rows[(page - 1) * PAGE : page * PAGE], page, pages
