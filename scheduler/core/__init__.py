"""`decide` and `explain`: the pure core that live scheduling, simulation, conformance tests and benchmarks all run.

May import `scheduler.framework` and `scheduler.state`; no I/O, no clock.
"""

from scheduler.core.budget import PREEMPTION_OVER_BUDGET
from scheduler.core.decide import Placement, decide
from scheduler.core.explain import Explanation, NodeExplanation, Score, explain
from scheduler.core.gang import GangDecision, decide_gang, gang_message, gang_plugin, place_gang
from scheduler.core.postfilter import PostFilterOutcome, run_post_filters

__all__ = [
    "PREEMPTION_OVER_BUDGET",
    "Explanation",
    "GangDecision",
    "NodeExplanation",
    "Placement",
    "PostFilterOutcome",
    "Score",
    "decide",
    "decide_gang",
    "explain",
    "gang_message",
    "gang_plugin",
    "place_gang",
    "run_post_filters",
]
