"""One filter's answer about one node, for whoever asks about this node and not for a decision."""

import numpy as np

from scheduler.framework.calls import PluginError, call_plugin
from scheduler.framework.cycle import CycleState
from scheduler.framework.interface import FilterPlugin
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import SKIP, SUCCESS, RowArray, Status, unresolvable
from scheduler.framework.view import NodeView
from scheduler.framework.work import OverBudgetError


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
