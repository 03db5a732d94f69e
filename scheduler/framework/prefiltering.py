"""A profile's PreFilter plugins, one after the other: what they say together, as RunPreFilterPlugins."""

from collections.abc import Iterable, Sequence

from scheduler.framework.calls import PluginError, PreFilterOutcome, call_plugin
from scheduler.framework.cycle import CycleState
from scheduler.framework.interface import PreFilterPlugin
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import SUCCESS, Code, Status, unresolvable
from scheduler.framework.view import NodeView


def pre_filter(
    plugins: Iterable[PreFilterPlugin],
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    skippable: frozenset[str],
    late: list[PreFilterPlugin],
) -> PreFilterOutcome:
    """Return a status, the only nodes worth filtering (None: all), and the plugins that left the others out.

    Plugins named in `skippable` are put on `late` instead of being called.

    Raises:
        PluginError: a plugin raised or answered neither Success, Skip nor a rejection.
    """
    names: frozenset[str] | None = None
    restricting: list[str] = []
    remembered: Status | None = None
    for plugin in plugins:
        if plugin.name in skippable:
            late.append(plugin)
            continue
        result, status = call_plugin(state, plugin.name, "PreFilter", plugin.pre_filter, pod, view)
        if status.is_skip:
            state.skip_filter.add(plugin.name)
            continue
        if status.is_rejection:
            status = status.with_plugin(plugin.name)
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return status, None, ()
            remembered = remembered or status
            continue
        if not status.is_success:
            raise PluginError(plugin.name, "PreFilter", status.message)
        if result is not None and result.node_names is not None:
            names = result.node_names if names is None else names & result.node_names
            restricting.append(plugin.name)
            if not names:
                return _no_nodes(restricting), None, ()
    return remembered or SUCCESS, names, tuple(restricting)


def pre_filter_late(plugins: Iterable[PreFilterPlugin], state: CycleState, pod: PodInfo, view: NodeView) -> None:
    """Call plugins that were skipped before, whose state or verdicts are needed after all.

    Raises:
        PluginError: a plugin raised.
    """
    for plugin in plugins:
        _, status = call_plugin(state, plugin.name, "PreFilter", plugin.pre_filter, pod, view)
        if status.is_skip:
            state.skip_filter.add(plugin.name)


def _no_nodes(restricting: Sequence[str]) -> Status:
    if len(restricting) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {restricting[0]}", plugin=restricting[0])
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(restricting)}] simultaneously"
    return unresolvable(reason, plugin=restricting[-1])
