"""A profile's plugins, instantiated and called in order."""

from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from scheduler.catalog import ExtensionPoint
from scheduler.config import EffectiveProfile
from scheduler.framework.adapter import missing_node_method
from scheduler.framework.calls import (
    PermitOutcome,
    PluginError,
    PluginScores,
    PostFilterAnswers,
    PreFilterOutcome,
    attributed,
    call_plugin,
    check_codes,
    timed,
    timed_to_end,
)
from scheduler.framework.clocks import AttemptTiming
from scheduler.framework.cycle import CycleState, OverBudgetError
from scheduler.framework.diagnosis import Diagnosis, NodeCodes, Rejection
from scheduler.framework.events import HintRegistration
from scheduler.framework.extenders import Asking, Extender
from scheduler.framework.handle import (
    BindingStopped,
    Handle,
    PluginContext,
    PluginEnvironment,
)
from scheduler.framework.interface import (
    MAX_SCORE,
    AskingPostFilter,
    BindPlugin,
    DomainScorer,
    FilterPlugin,
    ObjectReader,
    PermitPlugin,
    Plugin,
    PluginFactory,
    PodReader,
    Pods,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlight,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    RoomFilter,
    ScoreNormalizer,
    ScorePlugin,
    YieldingFilter,
)
from scheduler.framework.nominated import rows_fitting_beside_nominated
from scheduler.framework.objects import PodInfo
from scheduler.framework.registrations import registrations_of
from scheduler.framework.rules import local_version
from scheduler.framework.status import (
    SUCCESS,
    Code,
    IntArray,
    RowArray,
    Status,
    failure,
    unresolvable,
)
from scheduler.framework.view import NodeView, Objects

Wrap = Callable[[ExtensionPoint, Plugin], Plugin]
"""Puts an observer around a plugin at one extension point; the wrapper implements that point and passes everything
on."""

MAX_PERMIT_SECONDS = 900.0
"""Upstream's cap on how long Permit may hold a pod."""


class ProfileRunner:
    """One profile ready to run. Extension point methods follow pkg/scheduler/framework/runtime/framework.go."""

    def __init__(
        self,
        effective: EffectiveProfile,
        factories: Mapping[str, PluginFactory],
        handle: Handle | None = None,
        wrap: Wrap = lambda point, plugin: plugin,
        environment: PluginEnvironment = PluginEnvironment(),  # noqa: B008 # immutable
    ) -> None:
        """Build an instance of every enabled plugin.

        Raises:
            ValueError: a plugin has no constructor here, or refuses its args; the text names the plugin.
        """
        self.effective = effective
        self.scheduler_name = effective.scheduler_name
        self.options = effective.options
        context = PluginContext(
            effective.scheduler_name, effective.options, handle, self, environment, effective.kubernetes
        )
        # What the core remembers between decisions of this profile: without it they are slower, and the same.
        self.memory: MutableMapping[str, object] = {}
        # Measures attempts, where the engine sets it.
        self.timing: AttemptTiming | None = None
        self.plugins: dict[str, Plugin] = {}
        for name in effective.enabled:
            try:
                self.plugins[name] = factories[name](effective.args(name), context)
            except KeyError as error:
                raise ValueError(f'initializing plugin "{name}": this scheduler has no such plugin') from error
            except ValueError as error:
                raise ValueError(f'initializing plugin "{name}": {error}') from error
            if missing := missing_node_method(self.plugins[name]):
                raise ValueError(f'plugin "{name}": {missing}')
        self._wrap = wrap
        at = self._at
        self.pre_enqueue: tuple[PreEnqueuePlugin, ...] = at(ExtensionPoint.PRE_ENQUEUE, PreEnqueuePlugin)
        self.queue_sort: QueueSortPlugin = at(ExtensionPoint.QUEUE_SORT, QueueSortPlugin)[0]
        self.pre_filters: tuple[PreFilterPlugin, ...] = at(ExtensionPoint.PRE_FILTER, PreFilterPlugin)
        self.filters: tuple[FilterPlugin, ...] = at(ExtensionPoint.FILTER, FilterPlugin)
        self.post_filters: tuple[PostFilterPlugin, ...] = at(ExtensionPoint.POST_FILTER, PostFilterPlugin)
        self.pre_scores: tuple[PreScorePlugin, ...] = at(ExtensionPoint.PRE_SCORE, PreScorePlugin)
        self.reserve: tuple[ReservePlugin, ...] = at(ExtensionPoint.RESERVE, ReservePlugin)
        self.permit: tuple[PermitPlugin, ...] = at(ExtensionPoint.PERMIT, PermitPlugin)
        self.pre_bind: tuple[PreBindPlugin, ...] = at(ExtensionPoint.PRE_BIND, PreBindPlugin)
        self.nominates_before_binding = effective.kubernetes.nominates_before_binding
        self._pre_flights = tuple(
            instance for plugin in self.pre_bind if isinstance(instance := self.plugins[plugin.name], PreBindPreFlight)
        )
        self.bind: tuple[BindPlugin, ...] = at(ExtensionPoint.BIND, BindPlugin)
        self.post_bind: tuple[PostBindPlugin, ...] = at(ExtensionPoint.POST_BIND, PostBindPlugin)
        weights = {plugin.name: plugin.weight for plugin in effective.plugins(ExtensionPoint.SCORE)}
        scorers: tuple[ScorePlugin, ...] = at(ExtensionPoint.SCORE, ScorePlugin)
        self.scores = tuple((scorer, weights[scorer.name]) for scorer in scorers)
        self.load_scores = tuple(
            (scorer, weight)
            for scorer, weight in self.scores
            if (args := effective.args(scorer.name)) is not None and args.source_key() is not None
        )
        self.domain_scorers = tuple(
            (plugin, weights.get(plugin.name, 1))
            for plugin in self.plugins.values()
            if isinstance(plugin, DomainScorer)
        )
        self.rooms = tuple(
            instance for plugin in self.filters if isinstance(instance := self.plugins[plugin.name], RoomFilter)
        )
        # Looked up once: isinstance against a Protocol costs more than most scores.
        self._normalizers = {scorer.name: scorer.normalize for scorer in scorers if isinstance(scorer, ScoreNormalizer)}
        self._yielding = tuple(
            instance for plugin in self.filters if isinstance(instance := self.plugins[plugin.name], YieldingFilter)
        )
        self._filter_names = frozenset(plugin.name for plugin in self.filters)
        self._pod_watchers = tuple(
            (plugin.name, instance)
            for plugin in self.pre_filters
            if isinstance(instance := self.plugins[plugin.name], PreFilterExtensions)
        )

    def _at(self, point: ExtensionPoint, kind: Any) -> tuple[Any, ...]:
        plugins: list[Any] = []
        for enabled in self.effective.plugins(point):
            plugin = self._wrap(point, self.plugins[enabled.name])
            if not isinstance(plugin, kind):
                members = (member for base in kind.__mro__ for member in vars(base) if not member.startswith("_"))
                lacking = ", ".join(member for member in members if not hasattr(plugin, member))
                raise ValueError(f'plugin "{enabled.name}" does not extend {kind.__name__} plugin: it has no {lacking}')
            plugins.append(plugin)
        return tuple(plugins)

    @property
    def pod_watchers(self) -> frozenset[str]:
        """Plugins that keep count of pods elsewhere: their verdict on a node may change with pods on other nodes."""
        return frozenset(name for name, _ in self._pod_watchers)

    # Queueing -------------------------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo) -> Status:
        """Return Success, or the first rejection under its plugin's name."""
        for plugin in self.pre_enqueue:
            status = plugin.pre_enqueue(pod)
            if status is not SUCCESS and not status.is_success:  # whenever a victim goes, for all who wait for theirs
                return status.with_plugin(plugin.name)
        return SUCCESS

    def use_objects(self, objects: Objects) -> None:
        """Give the plugins that look objects up outside of a view the store to read from."""
        for plugin in self.plugins.values():
            if isinstance(plugin, ObjectReader):
                plugin.use_objects(objects)

    def use_pods(self, pods: Pods) -> None:
        """Give the plugins that look at pods without a node the directory to read from."""
        for plugin in self.plugins.values():
            if isinstance(plugin, PodReader):
                plugin.use_pods(pods)

    def hint_registrations(self) -> dict[str, tuple[HintRegistration, ...]]:
        """Return, per plugin that can reject a pod, the events that may help."""
        rejecting = (*self.pre_enqueue, *self.pre_filters, *self.filters, *self.reserve, *self.permit)
        return {plugin.name: registrations_of(self.plugins[plugin.name]) for plugin in rejecting}

    # Finding feasible nodes -----------------------------------------------------------------------------------------

    def run_pre_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, skippable: frozenset[str] = frozenset()
    ) -> PreFilterOutcome:
        """Return a status, the only nodes worth filtering (None: all), and the plugins that left the others out.

        Args:
            skippable: plugins known to answer Success or Skip for this pod, without naming nodes. They are not called,
                unless another plugin's answer makes it necessary to look at every node's verdict.

        Raises:
            PluginError: a plugin raised or answered neither Success, Skip nor a rejection.
        """
        late: list[PreFilterPlugin] = []
        outcome = pre_filter(self.pre_filters, state, pod, view, skippable, late)
        if late and (not outcome[0].is_success or outcome[1] is not None):
            pre_filter_late(late, state, pod, view)
        return outcome

    def run_skipped_pre_filters(
        self, state: CycleState, pod: PodInfo, view: NodeView, skippable: frozenset[str]
    ) -> None:
        """Call the PreFilter plugins that `run_pre_filter` skipped, as their state or verdicts are needed after all."""
        pre_filter_late([plugin for plugin in self.pre_filters if plugin.name in skippable], state, pod, view)

    def run_filters(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """Return the rows that pass every filter; each other row's first rejection is added to the diagnosis.

        Raises:
            PluginError: a plugin raised, or gave a node something else than Success or a rejection.
        """
        for plugin in self.filters:
            if plugin.name in state.skip_filter:
                continue
            if not len(rows):
                break
            verdicts = call_plugin(state, plugin.name, "Filter", plugin.filter, pod, view, rows)
            if verdicts is None:
                continue
            failed = verdicts.codes != 0
            rejected = np.flatnonzero(failed)
            if not len(rejected):
                continue
            rejection = Rejection.of(plugin.name, rows, verdicts, rejected)
            check_codes(plugin.name, rejection.codes)
            diagnosis.rejections.append(rejection)
            rows = rows[~failed]
        return rows

    def step_back(self, state: CycleState, diagnosis: Diagnosis) -> tuple[Rejection, ...]:
        """Ask the filters that would rather step back than leave a pod without a node to do so for the rest of an
        attempt; returns those of the rejections that they take back. What is left is to be filtered again then."""
        back = {
            plugin.name for plugin in self._yielding if plugin.name not in state.skip_filter and plugin.step_back(state)
        }
        return tuple([rejection for rejection in diagnosis.rejections if rejection.plugin in back]) if back else ()

    def rows_passing(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, filters: Iterable[FilterPlugin]
    ) -> RowArray:
        """Return the rows that pass some filters, as `run_filters` without noting why the others do not.

        Raises:
            PluginError: a plugin raised, or gave a node something else than Success or a rejection.
        """
        for plugin in filters:
            if plugin.name in state.skip_filter:
                continue
            if not len(rows):
                break
            verdicts = call_plugin(state, plugin.name, "Filter", plugin.filter, pod, view, rows)
            if verdicts is None:
                continue
            passed = verdicts.codes == 0
            if passed.all():
                continue
            check_codes(plugin.name, verdicts.codes)
            rows = rows[passed]
        return rows

    def run_filters_with_nominated(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, diagnosis: Diagnosis
    ) -> RowArray:
        """As `run_filters`; where pods of equal or higher priority are nominated, the pod must fit with them (they may
        arrive) and without them (it must not depend on them), as in RunFilterPluginsWithNominatedPods."""
        if view.nominations:
            rows = rows_fitting_beside_nominated(self, pod, view, rows, diagnosis, lambda: state)
        return self.run_filters(state, pod, view, rows, diagnosis)

    def watches_pods(self, state: CycleState) -> bool:
        """Tell whether a plugin that takes part has to follow the pods that are moved in a what-if run."""
        return any(name not in state.skip_filter for name, _ in self._pod_watchers)

    def local_version(self, state: CycleState, pod: PodInfo, view: NodeView) -> Hashable | None:
        """Return `local_version` of the filters that take part."""
        return local_version(self.filters, state.skip_filter, pod, view)

    def looks_beyond_node(self, state: CycleState) -> bool:
        """Tell whether a Filter plugin that takes part keeps count of pods elsewhere."""
        return any(name in self._filter_names and name not in state.skip_filter for name, _ in self._pod_watchers)

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod put on a node for a what-if run."""
        for name, watcher in self._pod_watchers:
            if name not in state.skip_filter:
                watcher.add_pod(state, pod, added, view, row)

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, view: NodeView, row: int) -> None:
        """Tell PreFilter plugins of a pod taken from a node for a what-if run."""
        for name, watcher in self._pod_watchers:
            if name not in state.skip_filter:
                watcher.remove_pod(state, pod, removed, view, row)

    def run_post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender] = ()
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """Return what PostFilter plugins did: the first Success, error or unresolvable answer, else all reasons
        together and the last word on the nomination.

        Extenders are those that have a say in preemption. A plugin that let them have it is the last to be called:
        `codes` are of the cluster before.

        Raises:
            OverBudgetError: it is more work than the attempt may be.
        """
        merged = PostFilterAnswers()
        for plugin in self.post_filters:
            instance = self.plugins[plugin.name]
            asking = instance if extenders and isinstance(instance, AskingPostFilter) else None
            try:
                if asking is not None:
                    answer, status = yield from asking.post_filter_asking(state, pod, view, codes, extenders)
                else:
                    answer, status = call_plugin(state, plugin.name, "PostFilter", plugin.post_filter, pod, view, codes)
            except PluginError as error:
                return None, error.status
            except OverBudgetError as error:
                error.plugin = error.plugin or plugin.name
                raise
            except Exception as error:
                return None, PluginError(plugin.name, "PostFilter", error).status
            if merged.ends_with(plugin.name, answer, status) or asking is not None:
                break
        return merged.outcome

    # Ranking --------------------------------------------------------------------------------------------------------

    def run_scores(
        self,
        state: CycleState,
        pod: PodInfo,
        view: NodeView,
        rows: RowArray,
        pre_scores: Iterable[PreScorePlugin] | None = None,
        scores: Iterable[tuple[ScorePlugin, int]] | None = None,
    ) -> list[PluginScores]:
        """Return every score plugin's numbers for feasible rows; plugins that skip are absent.

        A score outside 0..100 is clamped and counted: one plugin's bad number must not keep pods from running.

        Args:
            pre_scores, scores: the plugins to call, if not all.

        Raises:
            PluginError: a plugin raised, or PreScore answered neither Success nor Skip.
        """
        for plugin in self.pre_scores if pre_scores is None else pre_scores:
            status = call_plugin(state, plugin.name, "PreScore", plugin.pre_score, pod, view, rows)
            if status.is_skip:
                state.skip_score.add(plugin.name)
            elif not status.is_success:
                raise PluginError(plugin.name, "PreScore", status.message)
        timing = state.timing
        if timing is not None:
            timing.lap("PreScore")
        result: list[PluginScores] = []
        for scorer, weight in self.scores if scores is None else scores:
            if scorer.name in state.skip_score:
                continue
            raw = call_plugin(state, scorer.name, "Score", scorer.score, pod, view, rows)
            if raw is not None:
                result.append(self.finish_scores(state, pod, view, rows, scorer.name, weight, raw))
        return result

    def normalizes(self, plugin: str) -> bool:
        """Tell whether a score plugin's raw scores are scaled by what all feasible rows have."""
        return plugin in self._normalizers

    def finish_scores(
        self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, plugin: str, weight: int, raw: IntArray
    ) -> PluginScores:
        """Normalise a plugin's raw scores of the feasible rows, and clamp what is out of range.

        Raises:
            PluginError: the plugin raised.
        """
        normalize = self._normalizers.get(plugin)
        normalized = raw
        if normalize is not None:
            normalized = call_plugin(state, plugin, "NormalizeScore", normalize, pod, view, rows, raw)
        # Read as unsigned, a negative score is a huge one: one pass finds both.
        if len(normalized) and np.maximum.reduce(normalized.view(np.uint64)) > MAX_SCORE:
            outside = int(np.count_nonzero((normalized < 0) | (normalized > MAX_SCORE)))
            state.count(f"clamped_scores/{plugin}", outside)
            normalized = np.clip(normalized, 0, MAX_SCORE)
        return PluginScores(plugin, weight, raw, normalized)

    # Taking the node ------------------------------------------------------------------------------------------------

    def run_reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return Success, or the first other answer; the caller unreserves then."""
        for plugin in self.reserve:
            status = timed(state, plugin.name, "Reserve", plugin.reserve, pod, node)
            if not status.is_success:
                return attributed(status, plugin.name, "Reserve")
        return SUCCESS

    def run_unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Call Unreserve of all plugins, in reverse order; what one of them raises is raised once all were called."""
        raised: Exception | None = None
        for plugin in reversed(self.reserve):
            try:
                timed(state, plugin.name, "Unreserve", plugin.unreserve, pod, node)
            except Exception as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def run_permit(self, state: CycleState, pod: PodInfo, node: str) -> PermitOutcome:
        """Return Success, Wait with the plugins that hold the pod, or the first rejection or error."""
        outcome = PermitOutcome(SUCCESS)
        for plugin in self.permit:
            status, timeout = timed(state, plugin.name, "Permit", plugin.permit, pod, node)
            if status.code is Code.WAIT:
                outcome.waits[plugin.name] = min(timeout, MAX_PERMIT_SECONDS)
                outcome.status = Status(Code.WAIT, (), plugin.name)
            elif not status.is_success:
                return PermitOutcome(attributed(status, plugin.name, "Permit"))
        return outcome

    def run_pre_bind_pre_flights(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether a PreBind plugin has work that takes long."""
        return any(plugin.pre_bind_pre_flight(state, pod, node) for plugin in self._pre_flights)

    async def run_pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return Success, or the first other answer."""
        for plugin in self.pre_bind:
            try:
                status = await timed_to_end(state, plugin.name, "PreBind", plugin.pre_bind, pod, node)
            except BindingStopped as error:
                status = failure(str(error))
            if not status.is_success:
                return attributed(status, plugin.name, "PreBind")
        return SUCCESS

    async def run_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Return the first binder's answer that is not Skip."""
        for plugin in self.bind:
            status = await timed_to_end(state, plugin.name, "Bind", plugin.bind, pod, node)
            if not status.is_skip:
                return status if status.is_success else attributed(status, plugin.name, "Bind")
        return failure("bind plugins all said Skip")

    async def run_post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Tell PostBind plugins."""
        for plugin in self.post_bind:
            await timed_to_end(state, plugin.name, "PostBind", plugin.post_bind, pod, node)


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
