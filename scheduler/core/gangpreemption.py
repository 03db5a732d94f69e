"""PostFilter for a gang that does not fit: preempting plugins try it on clusters with fewer pods."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from scheduler.core.gang import GROUP_UNSCHEDULABLE, GangDecision, decide_in_domains, gang_message
from scheduler.framework import (
    SUCCESS,
    CycleState,
    Diagnosis,
    Extender,
    Gang,
    GangAssignment,
    GangPostFilter,
    GangPostFilterResult,
    GangTrial,
    MemberTries,
    NodeView,
    OverBudgetError,
    PluginError,
    PodInfo,
    ProfileRunner,
    RandomSource,
    RowArray,
    Status,
    Work,
    failure,
    unschedulable,
)
from scheduler.state import Snapshot

_FILTER_UNITS, _NODES_PER_UNIT = 150, 100
"""PreFilter of a member and the filters on its node."""
_ASKS_EXTENDER = "pod group preemption: not tried, as an extender has a say in the nodes of its pods"


class GangPostFilterOutcome(Struct, frozen=True):
    """What PostFilter made of a gang that does not fit.

    Attributes:
        message: what is added to the messages of members; "" where no plugin was asked.
        result: who goes and where the members wait; None where preemption does not help.
        over_budget: whether it was given up as too much work.
    """

    message: str = ""
    result: GangPostFilterResult | None = None
    over_budget: bool = False


NOT_ASKED = GangPostFilterOutcome()


def run_gang_post_filters(
    snapshot: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner: ProfileRunner,
    rng: RandomSource,
    work: Work,
    extenders: Sequence[Extender] = (),
) -> GangPostFilterOutcome:
    """Run a profile's PostFilter plugins for a gang that does not fit (RunPodGroupPostFilterPlugins of 1.37).

    A gang whose pods an extender would be asked about preempts nobody: it might refuse the nodes afterwards.

    Args:
        snapshot: the cluster.
        gang, pods: who belongs together, and the members that wait.
        runner: the profile of all of them.
        rng: for ties.
        work: of the attempt that this is a part of.
        extenders: of the configuration.
    """
    plugins = [plugin for plugin in runner.post_filters if isinstance(plugin, GangPostFilter)]
    preemptor = gang.preemptor
    if not plugins or preemptor is None:
        return NOT_ASKED
    if any(extender.filter_verb and extender.is_interested(pod) for extender in extenders for pod in pods):
        return GangPostFilterOutcome(_ASKS_EXTENDER)
    # A copy, which has no turns.
    work = work.save()
    trials = _Trials(gang, pods, runner, rng, work)
    reasons: list[str] = []
    for plugin in plugins:
        try:
            result, status = plugin.post_filter_gang(preemptor, snapshot, trials, work)
        except OverBudgetError as error:
            return GangPostFilterOutcome(f"pod group preemption: {error}.", over_budget=True)
        if status.is_success:
            return GangPostFilterOutcome(status.message, result)
        reasons += [status.message] if status.message else []
    return GangPostFilterOutcome(", ".join(reasons))


class _Trials:
    """Places the members of one gang on clusters with fewer pods."""

    def __init__(
        self, gang: Gang, pods: Sequence[PodInfo], runner: ProfileRunner, rng: RandomSource, work: Work
    ) -> None:
        self._gang = gang
        self._pods = pods
        self._runner = runner
        self._rng = rng
        self._work = work

    def place(self, view: NodeView, before: NodeView) -> Iterator[GangTrial]:
        """Place the members that have no node, in one domain after the other."""
        assert isinstance(view, Snapshot)
        assert isinstance(before, Snapshot)
        gang, pods = self._gang, self._pods
        enough = gang.missing if gang.tries is MemberTries.UNTIL_ENOUGH else len(pods)
        for decision in decide_in_domains(
            view, before, gang, pods, lambda pod: self._runner, self._rng, enough, self._work
        ):
            if decision.over_budget:
                raise OverBudgetError(self._work.done, self._work.limit, "members of the gang x nodes")
            placed = [(placement.pod, placement.node) for placement in decision.placed]
            assignments = tuple([GangAssignment(pod, node) for pod, node in placed if node is not None])
            yield GangTrial(assignments, self._status(decision))

    def _status(self, decision: GangDecision) -> Status:
        message = gang_message(decision, members=len(self._pods))
        if decision.error:
            return failure(message)
        if len(decision.placed) < self._gang.missing or not decision.placed:
            return unschedulable(message.removeprefix(f"{GROUP_UNSCHEDULABLE}, "))
        return SUCCESS

    def prepare(self, view: NodeView, pod: PodInfo) -> tuple[CycleState, bool] | None:
        """Return a member's state for filters that look at the node alone, and whether others are left out."""
        state = self._pre_filtered(view, pod)
        if state is None:
            return None
        others = set(self._runner.pod_watchers) - state.skip_filter
        state.skip_filter |= others
        return state, bool(others)

    def _pre_filtered(self, view: NodeView, pod: PodInfo) -> CycleState | None:
        self._work.charge(_FILTER_UNITS + view.size // _NODES_PER_UNIT, "members of the gang x lower pods")
        state = CycleState(self._rng, work=self._work)
        try:
            status, _, _ = self._runner.run_pre_filter(state, pod, view)
        except PluginError:
            return None
        return state if status.is_success else None

    def still_fit(self, view: NodeView, assignments: Sequence[GangAssignment]) -> bool:
        """Tell whether each of some members passes the filters of its node, beside the ones before it."""
        beside = view.overlay()
        for pod, node in assignments:
            row, state = beside.row(node), self._pre_filtered(beside, pod)
            if state is None or row < 0:
                return False
            rows: RowArray = np.array([row], dtype=np.intp)
            try:
                if not len(self._runner.run_filters_with_nominated(state, pod, beside, rows, Diagnosis(1))):
                    return False
            except PluginError:
                return False
            beside.add_pod(pod, row)
        return True
