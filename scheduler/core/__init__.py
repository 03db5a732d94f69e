"""`decide` and `explain`: the pure core that live scheduling, simulation, conformance tests and benchmarks all run.

May import `scheduler.framework` and `scheduler.state`; no I/O, no clock.
"""

from scheduler.core.asking import decide_asking, sample_size
from scheduler.core.comparing import ComparedDecision, JudgedNode, compare_decisions
from scheduler.core.decide import decide
from scheduler.core.detail import (
    DecisionDetail,
    LoadInput,
    RejectedNodes,
    ScoredNode,
    detail_of,
    load_of_node,
    rejected_nodes,
)
from scheduler.core.explain import Explanation, NodeExplanation, Score, explain
from scheduler.core.feasible import BUDGET_REJECTOR
from scheduler.core.gang import (
    GangDecision,
    Interested,
    decide_gang_asking,
    gang_message,
    gang_plugins,
    nobody,
    place_gang,
)
from scheduler.core.onenode import NodeVerdict, PluginVerdict, judge_node, without_own_use
from scheduler.core.placement import Placement
from scheduler.core.postfilter import PostFilterOutcome, post_filters_asking, run_post_filters
from scheduler.core.shortage import NodeShortage, Shortage, find_shortage

__all__ = [
    "BUDGET_REJECTOR",
    "ComparedDecision",
    "DecisionDetail",
    "Explanation",
    "GangDecision",
    "Interested",
    "JudgedNode",
    "LoadInput",
    "NodeExplanation",
    "NodeShortage",
    "NodeVerdict",
    "Placement",
    "PluginVerdict",
    "PostFilterOutcome",
    "RejectedNodes",
    "Score",
    "ScoredNode",
    "Shortage",
    "compare_decisions",
    "decide",
    "decide_asking",
    "decide_gang_asking",
    "detail_of",
    "explain",
    "find_shortage",
    "gang_message",
    "gang_plugins",
    "judge_node",
    "load_of_node",
    "nobody",
    "place_gang",
    "post_filters_asking",
    "rejected_nodes",
    "run_post_filters",
    "sample_size",
    "without_own_use",
]
