"""For plugins that look at one node at a time: simple to write, and slow on large clusters."""

from collections.abc import Collection
from typing import Protocol

import numpy as np

from scheduler.framework.calls import PluginError, call_plugin
from scheduler.framework.cycle import CycleState, OverBudgetError
from scheduler.framework.interface import FilterPlugin
from scheduler.framework.objects import NodeInfo, PodInfo
from scheduler.framework.status import MAX_REASONS, SKIP, SUCCESS, IntArray, RowArray, Status, Verdicts, unresolvable
from scheduler.framework.view import NodeView


class NodeFilter(Protocol):
    """A filter written node by node."""

    @property
    def name(self) -> str:
        """Return the plugin's name."""

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeInfo, pods: Collection[PodInfo]) -> Status:
        """Return Success or a rejection for one node; `pods` are those on it."""


class NodeScore(Protocol):
    """A score written node by node."""

    @property
    def name(self) -> str:
        """Return the plugin's name."""

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeInfo, pods: Collection[PodInfo]) -> int:
        """Return the raw score of one node."""


def filter_by_node(
    plugin: NodeFilter, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray
) -> Verdicts | None:
    """Call a node-by-node filter for every row: the body of a `filter` method."""
    codes = np.zeros(len(rows), dtype=np.int8)
    bits = np.zeros(len(rows), dtype=np.int64)
    reasons: dict[str, int] = {}
    for index, row in enumerate(rows.tolist()):
        status = plugin.filter_node(state, pod, view.info(row), view.pods_on(row))
        if status.is_success:
            continue
        codes[index] = status.code
        for reason in status.reasons:
            bit = reasons.setdefault(reason, min(len(reasons), MAX_REASONS - 1))
            bits[index] |= 1 << bit
    return Verdicts(codes, bits, tuple(reasons)) if codes.any() else None


def score_by_node(plugin: NodeScore, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
    """Call a node-by-node score for every row: the body of a `score` method."""
    scores = [plugin.score_node(state, pod, view.info(row), view.pods_on(row)) for row in rows.tolist()]
    return np.array(scores, dtype=np.int64)


def missing_node_method(plugin: object) -> str | None:
    """Say which method a plugin lacks whose `filter` or `score` is one of the functions above; None where none lacks.

    No Protocol of an extension point asks for it, and at run time each attempt would fail for want of it.
    """
    for method, function in (("filter", filter_by_node), ("score", score_by_node)):
        code = getattr(getattr(type(plugin), method, None), "__code__", None)
        called = () if code is None else code.co_names
        if function.__name__ in called and not hasattr(plugin, f"{method}_node"):
            return f"its {method} calls {function.__name__}, and it has no {method}_node"
    return None


def filter_row(state: CycleState, plugin: FilterPlugin, pod: PodInfo, view: NodeView, row: int) -> Status:
    """Return what a filter says of one row after PreFilter: Success, Skip, a rejection, or the error that it raised."""
    if plugin.name in state.skip_filter:
        return SKIP.with_plugin(plugin.name)
    rows: RowArray = np.array([row], dtype=np.intp)
    try:
        verdicts = call_plugin(state, plugin.name, "Filter", plugin.filter, pod, view, rows)
    except PluginError as error:
        return error.status.with_plugin(plugin.name)
    except OverBudgetError as error:
        return unresolvable(str(error), plugin=plugin.name)
    if verdicts is None or not verdicts.codes[0]:
        return SUCCESS.with_plugin(plugin.name)
    return verdicts.status(0, plugin.name)
