"""PreemptionToleration: preemption as by default, except that a PriorityClass can protect its pods for a time.

pkg/preemptiontoleration of scheduler-plugins 0.34.7; it takes the place of DefaultPreemption.
"""

from collections.abc import Sequence

from scheduler.catalog import PreemptionTolerationArgs
from scheduler.framework import (
    Asking,
    AskingPostFilter,
    CycleState,
    Extender,
    NodeCodes,
    NodeView,
    PluginContext,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    Status,
)
from scheduler.plugins.preemptiontoleration.rules import TolerationRules
from scheduler.plugins.preemptiontoleration.upstream import UpstreamTolerationRules
from scheduler.preemption import Evaluator, wanted_candidates

NAME = "PreemptionToleration"


class PreemptionToleration(PostFilterPlugin, AskingPostFilter):
    """PostFilter chooses node and victims."""

    name = NAME

    def __init__(self, args: PreemptionTolerationArgs, context: PluginContext) -> None:
        """Without a handle (simulation) no pod is evicted."""
        self._args = args
        rules = (UpstreamTolerationRules if context.upstream else TolerationRules)(context.kubernetes)
        self._evaluator = Evaluator(self.name, context, rules, self._candidates_wanted)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes
    ) -> tuple[PostFilterResult | None, Status]:
        """Nominate the node where preemption hurts least and start evicting, or say why it does not help."""
        return self._evaluator.post_filter(state, pod, view, codes)

    def post_filter_asking(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: NodeCodes, extenders: Sequence[Extender]
    ) -> Asking[tuple[PostFilterResult | None, Status]]:
        """As `post_filter`, with extenders that have a say."""
        return self._evaluator.post_filter_asking(state, pod, view, codes, extenders)

    def _candidates_wanted(self, nodes: int) -> int:
        return wanted_candidates(
            nodes, self._args.min_candidate_nodes_percentage, self._args.min_candidate_nodes_absolute
        )
