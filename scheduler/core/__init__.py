"""`decide` and `explain`: the pure core that live scheduling, simulation, conformance tests and benchmarks all run.

May import `scheduler.framework` and `scheduler.state`; no I/O, no clock.
"""

from scheduler.core.asking import decide_asking, sample_size
from scheduler.core.budget import PREEMPTION_OVER_BUDGET
from scheduler.core.decide import decide
from scheduler.core.explain import Explanation, NodeExplanation, Score, explain
from scheduler.core.gang import (
    GangDecision,
    Interested,
    decide_gang_asking,
    gang_message,
    gang_plugins,
    nobody,
    place_gang,
)
from scheduler.core.placement import Placement
from scheduler.core.postfilter import PostFilterOutcome, post_filters_asking, run_post_filters

__all__ = [
    "PREEMPTION_OVER_BUDGET",
    "Explanation",
    "GangDecision",
    "Interested",
    "NodeExplanation",
    "Placement",
    "PostFilterOutcome",
    "Score",
    "decide",
    "decide_asking",
    "decide_gang_asking",
    "explain",
    "gang_message",
    "gang_plugins",
    "nobody",
    "place_gang",
    "post_filters_asking",
    "run_post_filters",
    "sample_size",
]
