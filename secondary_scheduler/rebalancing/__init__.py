"""Moving pods off overloaded nodes: which ones, where the scheduler itself would put them, and what forbids it.

Pure: no I/O, no clock, no cluster. It gets the scheduler's state and plugins, the load, and what happened before, and
returns a plan. `rules` holds the safety rules, which docs/rebalancing.md lists. Who uses this reads the cluster.
"""

from secondary_scheduler.rebalancing.history import History, Outcome, PastMove
from secondary_scheduler.rebalancing.loads import unevenness
from secondary_scheduler.rebalancing.objects import (
    MOVABLE_PODS,
    POD_METRICS,
    WORKLOADS,
    ClusterFacts,
    MovablePod,
    PodFacts,
    PodMetrics,
    Usage,
    Workload,
    facts_of_pod,
)
from secondary_scheduler.rebalancing.observed import ObservedScheduler, scheduler_health
from secondary_scheduler.rebalancing.oracle import Gain, Oracle
from secondary_scheduler.rebalancing.planning import MOST_ROUNDS, Situation, make_plan
from secondary_scheduler.rebalancing.plans import Move, NodeChange, PlanSummary, RebalancePlan
from secondary_scheduler.rebalancing.rules.health import SchedulerHealth
from secondary_scheduler.rebalancing.rules.reasons import Reason, Refusal
from secondary_scheduler.rebalancing.settings import RESOURCES, RebalanceSettings, SettingsError, read_settings

__all__ = [
    "MOST_ROUNDS",
    "MOVABLE_PODS",
    "POD_METRICS",
    "RESOURCES",
    "WORKLOADS",
    "ClusterFacts",
    "Gain",
    "History",
    "MovablePod",
    "Move",
    "NodeChange",
    "ObservedScheduler",
    "Oracle",
    "Outcome",
    "PastMove",
    "PlanSummary",
    "PodFacts",
    "PodMetrics",
    "Reason",
    "RebalancePlan",
    "RebalanceSettings",
    "Refusal",
    "SchedulerHealth",
    "SettingsError",
    "Situation",
    "Usage",
    "Workload",
    "facts_of_pod",
    "make_plan",
    "read_settings",
    "scheduler_health",
    "unevenness",
]
