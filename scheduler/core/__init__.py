"""`decide` and `explain`: the pure core that live scheduling, simulation, conformance tests and benchmarks all run.

May import `scheduler.framework` and `scheduler.state`; no I/O, no clock.
"""

from scheduler.core.comparing import (
    Change as Change,
    ComparedDecision as ComparedDecision,
    change_of as change_of,
    compare_decisions as compare_decisions,
)
from scheduler.core.decide import (
    PostFilterOutcome as PostFilterOutcome,
    decide as decide,
    run_post_filters as run_post_filters,
    sample_size as sample_size,
)
from scheduler.core.detail import (
    detail_of as detail_of,
    load_of_node as load_of_node,
    rejected_nodes as rejected_nodes,
)
from scheduler.core.explain import (
    Explanation as Explanation,
    NodeExplanation as NodeExplanation,
    explain as explain,
)
from scheduler.core.feasible import BUDGET_REJECTOR as BUDGET_REJECTOR
from scheduler.core.gang import (
    GROUP_UNSCHEDULABLE as GROUP_UNSCHEDULABLE,
    GangDecision as GangDecision,
    decide_gang as decide_gang,
    gang_message as gang_message,
    gang_of as gang_of,
    gang_plugins as gang_plugins,
    place_gang as place_gang,
    report_gang as report_gang,
)
from scheduler.core.gangpreemption import (
    NOT_ASKED as NOT_ASKED,
    GangPostFilterOutcome as GangPostFilterOutcome,
    run_gang_post_filters as run_gang_post_filters,
)
from scheduler.core.onenode import (
    judge_node as judge_node,
    without_own_use as without_own_use,
)
from scheduler.core.placement import Placement as Placement
from scheduler.core.shortage import find_shortage as find_shortage
